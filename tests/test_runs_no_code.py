"""Nothing in the program unpickles, evaluates, or follows links out of a folder: read from its syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import spice

SOURCE = Path(spice.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "code", "runpy"}
CALLS = {
    *("eval", "exec", "compile", "__import__", "import_module", "run_path"),
    *(
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "pickle.load",
        "pickle.loads",
        "read_pickle",
        "os.system",
        "os.popen",
    ),
    *("extractall", "unpack_archive"),  # members of archives are never unpacked under their own paths
}
OPTIONS = {
    "allow_pickle": False,
    "trust_remote_code": False,
    "weights_only": True,
    "shell": False,
    "followlinks": False,
}
# Where a name above is used all the same, and why that is no danger.
ALLOWED = {
    ("benchmark/datasets/readers.py", "pickle"): "an unpickler that takes arrays and nothing else",
    ("__init__.py", "import_module"): "a module of our own, from a table beside it",
    ("data/decode.py", "import_module"): "a package by its fixed name",
    ("benchmark/howmany/criteria.py", "import_module"): "packages by their fixed names",
    (
        "models/efficientnet.py",
        "import_module",
    ): "a package of weights that is installed, by the name of an encoder of ours",
    ("models/efficientnet.py", "torch.load"): "weights of an installed package, with weights_only=True",
}


def name_of(node: ast.expr) -> str:
    return ast.unparse(node)


def dangers(tree: ast.AST) -> Iterator[str]:
    """Everything that must not be there, by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            called = name_of(node.func)
            if called in CALLS or (called.rpartition(".")[2] in CALLS - {"compile", "eval"} and "." in called):
                yield called
            for option in node.keywords:
                if option.arg in OPTIONS and not (
                    isinstance(option.value, ast.Constant) and option.value.value is OPTIONS[option.arg]
                ):
                    yield f"{called}({option.arg}=...)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_runs_what_it_reads(path: Path) -> None:
    inside = path.relative_to(SOURCE).as_posix()
    found = [name for name in dangers(ast.parse(path.read_text())) if (inside, name) not in ALLOWED]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "read(name, trust_remote_code=remote)",
        "archive.extractall(folder)",
        "os.walk(folder, followlinks=True)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_check_sees(text: str) -> None:
    assert list(dangers(ast.parse(text)))


def test_the_check_lets_ordinary_code_pass() -> None:
    text = "import re\nre.compile('a')\nmodel.eval()\nnp.load(path, allow_pickle=False)\nload_file(path)"
    assert list(dangers(ast.parse(text))) == []


def test_what_writes_into_a_run_looks_for_links_first() -> None:
    """Whoever locks a run folder is about to write into it."""
    for path in FILES:
        names = {name_of(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        assert "locked" not in names or names & {"refuse_links_outside", "writing"}, path

"""The package as a stranger first meets it."""

import ast
import subprocess
import sys
from pathlib import Path

import spice


def test_importing_the_package_does_not_load_torch() -> None:
    heavy = ("torch", "sklearn", "onnxruntime", "pyarrow")
    code = f"import sys, spice, spice.cli; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_is_there_without_a_path_to_it() -> None:
    said = subprocess.run([sys.executable, "-m", "spice", "--version"], capture_output=True, text=True, check=True)
    assert spice.__version__ in said.stdout


def test_the_core_imports_torch_and_nothing_else() -> None:
    allowed = {"torch", *sys.stdlib_module_names}
    for file in (Path(spice.__file__).parent / "core").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            foreign = [
                name for name in names if name.split(".")[0] not in allowed and not name.startswith("spice.core")
            ]
            assert foreign == [], file

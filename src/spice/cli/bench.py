"""`spice bench`: reproduce the paper's tables, one command each, and write the docs page from the saved results."""

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from spice.benchmark.tables.catalog import TABLES, SizeName, Table
from spice.cli.help import Command, Group, examples
from spice.cli.options import Device, SettingsFile
from spice.cli.running import stoppable
from spice.errors import UserError

EXAMPLES = examples(
    "spice bench whole --size smoke  # a quick test, takes seconds",
    "spice bench ablation --size cpu --seeds 0-4",
    "spice bench all --size cpu  # all tables; run again to resume",
    "spice bench whole --size cpu --settings mine.toml  # override settings",
    "spice bench split --size full --estimate  # how long it would take here",
)
HOWMANY_EXAMPLES = examples(
    "spice bench howmany digits --seeds 0-1",
    "spice bench howmany imagenette.npz fruits.npz imagenette.npz+fruits.npz",
)
KEPT = "finished cells are kept. Run the same command again to resume"
PAGE_EXAMPLES = examples("spice bench page docs/tables --to docs/tables.md")
app = typer.Typer(
    no_args_is_help=True,
    cls=Group,
    epilog=EXAMPLES,
    help="Reproduce the paper's tables: run one, print it and save it.",
)

Size = Annotated[
    SizeName,
    typer.Option(help="smoke (seconds), cpu (subsets, small networks) or full (as in the paper; needs a GPU)."),
]
Seeds = Annotated[
    str | None, typer.Option(help="Seeds, such as 0-4 or 0,3. The default depends on --size.", show_default=False)
]
Only = Annotated[
    list[str] | None, typer.Option(help="Run only this method (as named in the table); repeatable.", show_default=False)
]
OnlyData = Annotated[
    list[str] | None, typer.Option("--data", help="Run only this data set; repeatable.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Folder for the results. Run the same command again to resume.")]


def _command(table: Table) -> Callable[..., None]:
    def command(
        *,
        size: Size = "cpu",
        seeds: Seeds = None,
        only: Only = None,
        data: OnlyData = None,
        out: Out = Path("bench"),
        settings_file: SettingsFile = None,
        show: Annotated[bool, typer.Option("--show", help="Show saved results without running anything.")] = False,
        estimate: Annotated[
            bool, typer.Option("--estimate", help="Estimate the running time by timing a few steps of each training.")
        ] = False,
        device: Device = "auto",
    ) -> None:
        if estimate:
            from spice.benchmark.tables.estimate import estimate as estimated

            print(estimated(table, size, device=device))
            return
        _run(
            table, size, seeds, out / size, only=only or [], data=data or [], settings_file=settings_file, show=show,
            device=device,
        )  # fmt: skip

    paper = f" (the paper's Table {table.paper})" if table.paper else ""
    command.__doc__ = f"{table.title}{paper}."
    return command


for _table in TABLES.values():
    app.command(_table.name, cls=Command, epilog=EXAMPLES)(_command(_table))


@app.command("all", cls=Command, epilog=EXAMPLES)
def every_table(*, size: Size = "cpu", seeds: Seeds = None, out: Out = Path("bench"), device: Device = "auto") -> None:
    """Run all tables; shared results are computed once."""
    for table in TABLES.values():
        _run(table, size, seeds, out / size, device=device)


@app.command("howmany", cls=Command, epilog=HOWMANY_EXAMPLES)
def howmany(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCES",
            help=".npz files with `features` (N, D) and `truth` (N,); A.npz+B.npz joins two; or `digits`.",
        ),
    ],
    *,
    seeds: Annotated[str, typer.Option(help="Seeds, such as 0-4 or 0,3.")] = "0-4",
    images: Annotated[int, typer.Option(metavar="N", min=100, help="Images sampled from each collection.")] = 3000,
    criteria: Annotated[
        list[str] | None, typer.Option(help="Compare only this criterion, such as spice; repeatable.")
    ] = None,
    out: Out = Path("bench"),
    show: Annotated[bool, typer.Option("--show", help="Show saved results without running anything.")] = False,
) -> None:
    """Compare ways to choose the number of groups, also on collections with 10:1 uneven sizes."""
    from spice.benchmark.howmany.run import read_cells, run, save_table, table

    path = out / "howmany.jsonl"
    if not show:
        with stoppable(KEPT) as progress:
            run(sources, out, seeds=_seed_numbers(seeds), images=images, criteria=criteria or (), progress=progress)
    saved = read_cells(path, images=images)
    if not saved:
        raise UserError(f"no saved results in {path}; run the command without --show first")
    save_table(saved, out / "howmany.json")
    print(table(saved))


@app.command("page", cls=Command, epilog=PAGE_EXAMPLES)
def page(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with the tables' JSON files and remarks.toml.")
    ],
    to: Annotated[Path, typer.Option(help="Markdown file to write.")] = Path("docs/tables.md"),
) -> None:
    """Write a Markdown page of all tables from their saved JSON files."""
    from spice.benchmark.tables.render import page as page_of
    from spice.files import write_text

    write_text(to, page_of(folder))
    print(f"wrote      {to}")


def _run(
    table: Table,
    size: SizeName,
    seeds: str | None,
    out: Path,
    *,
    only: Sequence[str] = (),
    data: Sequence[str] = (),
    settings_file: Path | None = None,
    show: bool = False,
    device: str = "auto",
) -> None:
    from spice.benchmark.choice import SEEDS
    from spice.benchmark.tables.render import comma_separated, markdown
    from spice.benchmark.tables.result import result
    from spice.benchmark.tables.run import Selection, run, saved
    from spice.engine.processes import processes_from_environment

    selection = Selection(table, size, _seed_numbers(seeds) if seeds else list(SEEDS[size]), only, data, settings_file)
    command = " ".join(["spice bench", table.name, "--size", size, *(["--seeds", seeds] if seeds else [])])
    if settings_file is not None:
        command += f" --settings {settings_file}"
    if not show:
        with stoppable(KEPT) as progress:
            run(selection, out, device=device, progress=progress)
    cells = saved(selection, out)
    if not cells and not show and processes_from_environment().count > 1:
        return  # the other processes measure all cells of this table
    if not cells:
        raise UserError(f"no saved results for table {table.name} in {out}; run the command without --show first")
    finished = result(table, size, selection.choices(), cells, command=command)
    finished.save(out / f"{table.name}.json")
    (out / f"{table.name}.csv").write_text(comma_separated(finished), encoding="utf-8")
    (out / f"{table.name}.md").write_text(markdown(finished), encoding="utf-8")
    print(markdown(finished))
    print(f"wrote      {out / table.name}.json, .csv, .md")


def _seed_numbers(seeds: str) -> list[int]:
    """`0-2,7` -> [0, 1, 2, 7]."""
    parts = [re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part) for part in seeds.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part]
    if not all(parts) or not all(ranges):
        raise UserError(f"--seeds takes numbers such as 0-4 or 0,3; got {seeds!r}")
    return list(dict.fromkeys(itertools.chain(*ranges)))

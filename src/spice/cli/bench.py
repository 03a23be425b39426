"""`spice bench`: the paper's tables, one command each; and the page of the docs that is made from what they saved."""

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from spice.benchmark.tables.catalog import TABLES, SizeName, Table
from spice.cli.display import shown_progress
from spice.cli.help import examples
from spice.cli.running import STOPPED, Device, SettingsFile
from spice.errors import UserError

EXAMPLES = examples(
    "spice bench whole --size smoke  # seconds, to see that it runs",
    "spice bench ablation --size cpu --seeds 0-4",
    "spice bench all --size cpu  # every table; run it again to resume",
    "spice bench whole --size cpu --settings mine.toml  # [heads] heads = 50, for every data set",
    "spice bench split --size full --estimate  # what the paper's size would take here",
    "spice bench howmany imagenette.npz fruits.npz imagenette.npz+fruits.npz digits --seeds 0-1",
    "spice bench page docs/tables --to docs/tables.md",
)
app = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="The paper's tables: run one, print and save it.")

Size = Annotated[
    SizeName, typer.Option(help="smoke: seconds; cpu: subsets, small networks; full: the paper's, on a GPU.")
]
Seeds = Annotated[
    str | None, typer.Option(help="Such as 0-4 or 0,3. Each size has its own default.", show_default=False)
]
Only = Annotated[
    list[str] | None, typer.Option(help="A method, as the table calls it; may be repeated.", show_default=False)
]
OnlyData = Annotated[list[str] | None, typer.Option("--data", help="A data set; may be repeated.", show_default=False)]
Out = Annotated[
    Path, typer.Option(help="Where cells, features and the table are kept; run the same command to resume.")
]


def _command(table: Table) -> Callable[..., None]:
    def command(
        *,
        size: Size = "cpu",
        seeds: Seeds = None,
        only: Only = None,
        data: OnlyData = None,
        out: Out = Path("bench"),
        settings_file: SettingsFile = None,
        show: Annotated[bool, typer.Option("--show", help="Show what is saved so far; run nothing.")] = False,
        estimate: Annotated[bool, typer.Option("--estimate", help="Time one step of everything; run nothing.")] = False,
        device: Device = "auto",
    ) -> None:
        if estimate:
            from spice.benchmark.tables.estimate import estimate as estimated

            print(estimated(table, size, device=device))
            return
        _run(
            table,
            size,
            seeds,
            out / size,
            only=only or [],
            data=data or [],
            settings_file=settings_file,
            show=show,
            device=device,
        )

    paper = f" (the paper's Table {table.paper})" if table.paper else ""
    command.__doc__ = f"{table.title}{paper}."
    return command


for _table in TABLES.values():
    app.command(_table.name, epilog=EXAMPLES)(_command(_table))


@app.command("all", epilog=EXAMPLES)
def every_table(*, size: Size = "cpu", seeds: Seeds = None, out: Out = Path("bench"), device: Device = "auto") -> None:
    """Every table in turn; what tables have in common is computed once."""
    for table in TABLES.values():
        _run(table, size, seeds, out / size, device=device)


@app.command("howmany", epilog=EXAMPLES)
def howmany(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files .npz with `features` (N, D) and `truth` (N,); A.npz+B.npz for both; or: digits."),
    ],
    *,
    seeds: Annotated[str, typer.Option(help="Such as 0-4 or 0,3.")] = "0-4",
    images: Annotated[int, typer.Option(min=100, help="Images drawn of each collection.")] = 3000,
    out: Out = Path("bench"),
    show: Annotated[bool, typer.Option("--show", help="Show what is saved so far; run nothing.")] = False,
) -> None:
    """How well the number of groups is found, beside other criteria; also on 10:1 draws of every collection."""
    from spice.benchmark.howmany.run import read_cells, run, save_table, table

    path = out / "howmany.jsonl"
    if not show:
        with shown_progress() as progress:
            run(sources, out, seeds=_numbers(seeds), images=images, progress=progress)
    saved = read_cells(path)
    if not saved:
        raise UserError(f"nothing is saved in {path}: run it without --show")
    save_table(saved, out / "howmany.json")
    print(table(saved))


@app.command("page", epilog=EXAMPLES)
def page(
    folder: Annotated[Path, typer.Argument(help="Where the json files of tables lie, and remarks.toml.")],
    to: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/tables.md"),
) -> None:
    """Make the page of all tables from their saved json files."""
    from spice.benchmark.tables.render import page as page_of
    from spice.files import written_atomically

    text = page_of(folder)
    with written_atomically(to) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(f"written    {to}")


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

    selection = Selection(table, size, _numbers(seeds) if seeds else list(SEEDS[size]), only, data, settings_file)
    command = " ".join(["spice bench", table.name, "--size", size, *(["--seeds", seeds] if seeds else [])])
    if settings_file is not None:
        command += f" --settings {settings_file}"
    try:
        with shown_progress() as progress:
            if not show:
                run(selection, out, device=device, progress=progress)
    except KeyboardInterrupt:
        print("\nspice: stopped; finished cells are kept. Run the same command again to resume", file=sys.stderr)
        raise typer.Exit(STOPPED) from None
    cells = saved(selection, out)
    if not cells:
        raise UserError(f"no cell of table {table.name} is saved in {out}: run it without --show")
    finished = result(table, size, selection.choices(), cells, command=command)
    finished.save(out / f"{table.name}.json")
    (out / f"{table.name}.csv").write_text(comma_separated(finished), encoding="utf-8")
    (out / f"{table.name}.md").write_text(markdown(finished), encoding="utf-8")
    print(markdown(finished))
    print(f"written    {out / table.name}.json, .csv, .md")


def _numbers(seeds: str) -> list[int]:
    """`0-2,7` -> [0, 1, 2, 7]."""
    parts = [re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part) for part in seeds.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part]
    if not all(parts) or not all(ranges):
        raise UserError(f"seeds are numbers from 0, such as 0-4 or 0,3; found {seeds!r}")
    return list(dict.fromkeys(itertools.chain(*ranges)))

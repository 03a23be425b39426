"""`spice export`: write the groups in formats that other programs read."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from spice.cli.help import examples
from spice.cli.options import RunArgument
from spice.errors import UserError
from spice.wording import counted, quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spice.runs.export import Shape

EXAMPLES = examples(
    "spice export photos.spice groups --as folders  # with links to your images",
    "spice export photos.spice training --as imagefolder --copy --reliable",
    "spice export photos.spice kept --as folders --kept  # after: spice check",
    "spice export photos.spice labels.csv --as csv",
    "spice export photos.spice mountains --as folders --group mountains",
    "spice export photos.spice tasks --as labelstudio  # or fiftyone, cvat",
    "spice export photos.spice sidecars --as xmp  # for digiKam, darktable, ...",
    "spice export photos.spice model --as model --embed  # all that predict needs",
    "spice export photos.spice groups.onnx --as onnx  # encoder and head",
)

As = Literal[
    "folders", "imagefolder", "csv", "parquet", "labelstudio", "fiftyone", "cvat", "xmp", "model", "onnx"
]  # fmt: skip


def command(
    run: RunArgument,
    destination: Annotated[Path, typer.Argument(metavar="DESTINATION", help="New folder or file to write.")],
    *,
    shape: Annotated[As, typer.Option("--as", metavar="FORMAT", help=f"Output format: {', '.join(get_args(As))}.")],
    copy: Annotated[bool, typer.Option("--copy/--link", help="Copy the images, or link to them.")] = False,
    reliable: Annotated[bool, typer.Option("--reliable", help="Export only reliable images.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Export only images kept by `spice check`.")] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.5,
            max=0.999,
            help="With --kept: accuracy that these images should have (default 0.95).",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Export only this group (number or name).", show_default=False)
    ] = None,
    embed: Annotated[bool, typer.Option("--embed", help="With --as model: include the encoder's weights.")] = False,
) -> None:
    """Export the groups as folders, tables or files for other programs. Your images are never moved or changed."""
    from spice.runs.export import HOLDING
    from spice.trust.check import KEEP

    filters = {"--reliable": reliable, "--kept": kept, "--group": group is not None}
    chosen = [option for option, given in filters.items() if given]
    if keep is not None and not kept:
        raise UserError("--keep sets the accuracy for --kept; add --kept")
    if embed and shape != "model":
        raise UserError(f"--embed works with --as model only, not with --as {shape}")
    if copy and shape not in HOLDING:
        raise UserError(f"--copy works with --as {', '.join(HOLDING)} only, not with --as {shape}")
    if chosen and shape in ("model", "onnx"):
        raise UserError(f"--as {shape} exports no images; leave out {' and '.join(chosen)}")
    if shape == "onnx" or shape == "model":  # noqa: PLR1714 - mypy does not know `in`
        _export_model(run, destination, shape, embed=embed)
    else:
        rows = chosen_rows(run, group=group, reliable=reliable, keep=(keep or KEEP) if kept else None)
        print(export_images(run, destination, shape, rows=rows, copy=copy) + ("" if chosen else _set_aside(run)))


def _set_aside(run: Path) -> str:
    """How many images are not exported because their groups are set aside, in words."""
    from spice.runs import open_result

    groups = open_result(run).groups
    count = int(((groups.group >= 0) & (groups.shown < 0)).sum())
    return f"; left out {count:,} in groups that are set aside" if count else ""


def _export_model(run: Path, destination: Path, shape: Literal["model", "onnx"], *, embed: bool) -> None:
    from spice.runs import explain_output_errors
    from spice.runs.result import model_folder
    from spice.stages.model import TrainedModel
    from spice.stages.onnx_export import export_onnx

    if os.path.lexists(destination):
        raise UserError(f"{destination} already exists; choose another name")
    model = TrainedModel.load(model_folder(run), device="cpu")  # the export is compared with ONNX Runtime on the CPU
    with explain_output_errors(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        if shape == "model":
            model.save(destination, embed=embed)
            print(f"wrote the model{' and its encoder' if embed else ''} to {destination}")
            return
        difference = export_onnx(model, destination)
    print(f"wrote encoder and head to {destination}; probabilities differ from torch by at most {difference:.0e}")


def chosen_rows(
    run: Path, *, group: str | None = None, reliable: bool = False, keep: float | None = None
) -> "NDArray[np.int64]":
    """The rows of the images to export: images in a group that pass the given filters."""
    import numpy as np

    from spice.cli.edit import group_number
    from spice.runs import open_result

    result = open_result(run)
    groups = result.groups
    chosen = groups.shown >= 0
    if group is not None:
        number = group_number(groups, group)
        if number not in groups.existing:
            raise UserError(f"there is no group {number}; list them with: spice groups {quoted(run)}")
        if number in groups.set_aside:
            restore = f"spice set-aside {quoted(run)} {quoted(group)} --back"
            raise UserError(f"group {group} is set aside; restore it with: {restore}")
        chosen &= groups.shown == number
    if reliable:
        chosen &= result.labels.reliable | groups.by_person
    rows = np.flatnonzero(chosen)
    if keep is not None:
        from spice.runs.checks import kept_rows

        rows = np.intersect1d(rows, kept_rows(result, target=keep))
    if len(rows) == 0:
        raise UserError(f"no images match; list the groups with: spice groups {quoted(run)}")
    return rows


def export_images(run: Path, destination: Path, shape: "Shape", *, rows: "NDArray[np.int64]", copy: bool) -> str:
    """Write these rows; return a sentence that says what was written."""
    from spice.runs import explain_output_errors, open_result
    from spice.runs.export import REFERRING, export, images_of

    result, chosen = open_result(run), len(rows)
    if shape == "xmp":  # its keywords are the names of groups
        rows = rows[[int(group) in result.groups.names for group in result.groups.shown[rows]]]
        if len(rows) == 0:
            raise UserError(
                f"keywords are group names, and no group has one yet; example: spice name {quoted(run)} 3 mountains"
            )
    with TemporaryDirectory(prefix="spice-") as scratch, explain_output_errors(destination):
        files: list[Path] = []
        if shape not in ("csv", "parquet"):
            from spice.data.originals import originals

            names = [result.labels.path[row] for row in rows]
            files = originals(result.manifest.source, names, run=run, extract_to=Path(scratch))
        extracted = bool(files) and files[0].is_relative_to(scratch)
        if extracted and shape in REFERRING:
            raise UserError(f"--as {shape} needs image files, but these images are in an archive; unpack it first")
        images = images_of(result.labels, result.groups, rows, files)
        written = export(images, destination, shape=shape, copy=copy or extracted)
    left_out = f"; left out {chosen - len(rows):,} in groups without a name" if chosen > len(rows) else ""
    return f"exported {counted(len(rows), 'image')} to {written}{left_out}"

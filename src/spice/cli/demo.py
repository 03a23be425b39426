"""`spice demo`: all three stages on the digits that come with scikit-learn."""

from pathlib import Path
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Device
from spice.cli.running import interruptible
from spice.cli.summary import finish
from spice.wording import quoted

EXAMPLES = examples("spice demo", "spice demo my-demo --seed 1")


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for images and results.")] = Path(
        "spice-demo"
    ),
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Random seed. The same seed gives the same groups.")
    ] = 0,
    *,
    device: Device = "auto",
) -> None:
    """Try spice on 1,797 handwritten digits: train all three stages from scratch, then compare with the true labels."""
    from spice.cli import evaluate, export
    from spice.pipeline import cluster
    from spice.presets import demo
    from spice.runs.artifacts import REPORT

    images, run, groups = folder / "digits", folder / "digits.spice", folder / f"groups-{seed}"
    write_digits(images)
    print(f"Wrote 1,797 digits to {images}. Training features, then clustering heads, then both together.")
    with interruptible(run) as progress:
        # redo: the demo owns this folder, so another seed or another version may reuse it.
        summary = cluster(str(images), demo(seed=seed), run, redo=True, device=device, progress=progress)
    finish(summary, as_json=False)
    print("\nCompared with the true digits (not used above):")
    evaluate.command(run, truth="folders")
    print(f"k-means on pixels: ACC {_kmeans_on_pixels(seed):.3f}")
    if not groups.exists():
        export.command(run, groups, shape="folders")
    print(
        f"\nOne folder per group: {groups}\nReport: {run / REPORT.name}\n"
        f"Name and correct the groups: spice open {quoted(run)}"
    )


def write_digits(folder: Path) -> None:
    """Write every digit as a PNG file into a folder named after its class, which only `evaluate` reads."""
    from PIL import Image
    from sklearn.datasets import load_digits

    bunch = load_digits()
    for number, (pixels, digit) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        path = folder / str(digit) / f"{number:04d}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((pixels * (255 / 16)).round().astype("uint8")).save(path)


def _kmeans_on_pixels(seed: int) -> float:
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits

    from spice.evaluate import accuracy

    bunch = load_digits()
    return accuracy(KMeans(10, n_init=10, random_state=seed).fit_predict(bunch.data), bunch.target)

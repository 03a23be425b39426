"""Every method of the tables by name: a function from a workbench to labels of the images to score."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spice.augment import geometry
from spice.benchmark import semi
from spice.benchmark.choice import LARGER, AutoencoderSettings
from spice.benchmark.deep.cc import CC
from spice.benchmark.deep.iic import IIC
from spice.benchmark.deep.pica import PICA
from spice.benchmark.methods import deep, spice
from spice.benchmark.methods.autoencoders import Autoencoder, StackedAutoencoder, VariationalAutoencoder, fit_dec
from spice.benchmark.methods.autoencoders import fit as fit_autoencoder
from spice.benchmark.rivals import RIVALS, scan
from spice.benchmark.rivals.classic import Labels, Rival, nearest_means, nmf
from spice.benchmark.workbench import Workbench
from spice.data.images import Images
from spice.engine.run import Run
from spice.stages.joint.sampling import Labeled

Fit = Callable[[Workbench], Labels]
# These methods get the true labels of some images: Table V and the supervised reference.
LabeledFit = Callable[[Workbench, Labeled], Labels]


class Method(NamedTuple):
    """A method, and the parts of a `Choice` that its result depends on in addition to the images."""

    fit: Fit
    uses: tuple[str, ...]


def on_pixels(rival: Rival) -> Fit:
    """The rival on raw pixels."""

    def fit(bench: Workbench) -> Labels:
        return rival(bare_pixels(bench.learn, bench.choice.bare_pixels), bench.clusters, seed=bench.run.seed)

    return fit


def bare_pixels(images: Images, side: int) -> NDArray[np.float32]:
    """Pixels in (0, 1] of images resized to `side`, if they are larger: (N, C * S * S)."""
    rows = []
    for part in torch.arange(len(images)).split(512):  # type: ignore[no-untyped-call]
        pixels = images.take(part)
        if pixels.shape[2] > side:
            pixels = geometry.central_square(pixels, side)
        rows.append((pixels.float() + 1.0) / 256.0)  # never zero, because a black image would have no direction
    flat: NDArray[np.float32] = torch.cat(rows).flatten(start_dim=1).numpy()
    return flat


def on_features(rival: Rival) -> Fit:
    """The rival on the frozen feature model's features."""

    def fit(bench: Workbench) -> Labels:
        labels = rival(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
        if not bench.split:
            return labels
        return nearest_means(bench.features.numpy(), labels, bench.scored_features.numpy())

    return fit


def scan_on_features(bench: Workbench) -> Labels:
    """SCAN's loss on frozen features. Its head also predicts the clusters of new images."""
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
    with torch.no_grad():
        labels: Labels = head(bench.scored_features).argmax(dim=1).numpy()
    return labels


def on_images(method: Callable[[Images, int, AutoencoderSettings, Run], Labels]) -> Fit:
    """An autoencoder, which learns codes from the images."""

    def fit(bench: Workbench) -> Labels:
        run = Run(bench.run.seed, device=bench.run.device, progress=bench.run.progress)
        return method(bench.learn, bench.clusters, bench.choice.autoencoder, run)

    return fit


FEATURES = ("encoder", "one_encoder", "features", "views")
STAGE_2 = (*FEATURES, "heads")
ABLATED = (*FEATURES, "paper_heads")
STAGE_3 = (*STAGE_2, "reliability", "joint")
LABELS = (*FEATURES, "semi")
SCRATCH = ("features", "joint", "rivals")  # the untrained network of stage 1, and the views of stage 3
TUNED = (*FEATURES, "joint", "rivals")

METHODS: dict[str, Method] = {
    "k-means": Method(on_pixels(RIVALS["k-means"]), ("bare_pixels",)),
    "spectral": Method(on_pixels(RIVALS["spectral"]), ("bare_pixels",)),
    "agglomerative": Method(on_pixels(RIVALS["agglomerative"]), ("bare_pixels",)),
    "NMF": Method(on_pixels(nmf), ("bare_pixels",)),
    "AE": Method(on_images(partial(fit_autoencoder, Autoencoder)), ("autoencoder",)),
    "SDAE": Method(on_images(partial(fit_autoencoder, StackedAutoencoder)), ("autoencoder",)),
    "VAE": Method(on_images(partial(fit_autoencoder, VariationalAutoencoder)), ("autoencoder",)),
    "DEC": Method(on_images(fit_dec), ("autoencoder",)),
    "IIC": Method(partial(deep.clusters, IIC), SCRATCH),
    "PICA": Method(partial(deep.clusters, PICA), SCRATCH),
    "CC": Method(partial(deep.clusters, CC), SCRATCH),
    "IDFD": Method(deep.idfd, SCRATCH),
    **{f"features + {name}": Method(on_features(rival), FEATURES) for name, rival in RIVALS.items()},
    "features + SCAN": Method(scan_on_features, FEATURES),
    "SCAN*": Method(deep.scan_clusters, TUNED),
    "SCAN": Method(deep.scan, TUNED),
    "RUC (SCAN)": Method(deep.ruc_after_scan, TUNED),
    "RUC (SPICE-s)": Method(deep.ruc_after_heads, (*TUNED, "heads")),
    "SPICE-s": Method(spice.stage_2, STAGE_2),
    "SPICE": Method(spice.stage_3, STAGE_3),
    LARGER: Method(spice.stage_3, STAGE_3),
    "SPICE on all labels": Method(partial(spice.stage_3, all_labels=True), STAGE_3),
    "SPICE-s of the paper": Method(spice.ablated, ABLATED),
    **{variant: Method(partial(spice.ablated, variant=variant), ABLATED) for variant in spice.VARIANTS},
    "Joint-SH": Method(partial(spice.joint_heads, heads=1), (*ABLATED, "joint_heads")),
    "Joint-MH": Method(
        lambda bench: spice.joint_heads(bench, bench.choice.joint_heads.heads), (*ABLATED, "joint_heads")
    ),
}

LABELED: dict[str, LabeledFit] = {name: partial(semi.fit, name) for name in semi.ALGORITHMS}


def uses(name: str) -> tuple[str, ...]:
    """The parts of a `Choice` that the result of the method called `name` depends on in addition to the images."""
    if name in LABELED:
        return LABELS
    return METHODS[name].uses if name in METHODS else STAGE_3  # the rows of Table VI are SPICE before and after stage 3

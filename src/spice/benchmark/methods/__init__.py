"""Every method of the tables by name: a workbench in, labels of the scored images out."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spice.augment import geometry
from spice.benchmark import semi
from spice.benchmark.choice import LARGER, AutoencoderSettings
from spice.benchmark.methods import scan, spice
from spice.benchmark.methods.autoencoders import Autoencoder, DenoisingAutoencoder, VariationalAutoencoder, fit_dec
from spice.benchmark.methods.autoencoders import fit as fit_autoencoder
from spice.benchmark.rivals import RIVALS
from spice.benchmark.rivals.classic import Labels, Rival, nmf, unit
from spice.benchmark.workbench import Workbench
from spice.data.images import Images
from spice.engine.run import Run
from spice.stages.joint.draws import Labeled

Fit = Callable[[Workbench], Labels]
# Given true labels of some images, as is the point of Table V and of the supervised reference.
LabeledFit = Callable[[Workbench, Labeled], Labels]


class Method(NamedTuple):
    """A method, and the parts of a `Choice` that its result depends on, besides the images."""

    fit: Fit
    uses: tuple[str, ...]


def on_pixels(rival: Rival) -> Fit:
    """The rival on bare pixels: no features are learned."""

    def fit(bench: Workbench) -> Labels:
        return rival(bare_pixels(bench.learn, bench.choice.bare_pixels), bench.clusters, seed=bench.run.seed)

    return fit


def bare_pixels(images: Images, side: int) -> NDArray[np.float32]:
    """Pixels in (0, 1], shrunk to `side` where they are larger: (N, C * S * S)."""
    rows = []
    for part in torch.arange(len(images)).split(512):  # type: ignore[no-untyped-call]
        pixels = images.take(part)
        if pixels.shape[2] > side:
            pixels = geometry.fitted(pixels, side)
        rows.append((pixels.float() + 1.0) / 256.0)  # not zero: a black image has no direction
    flat: NDArray[np.float32] = torch.cat(rows).flatten(start_dim=1).numpy()
    return flat


def on_features(rival: Rival) -> Fit:
    """The rival on the frozen feature model's features."""

    def fit(bench: Workbench) -> Labels:
        labels = rival(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
        return labels if not bench.split else _nearest_mean(bench, labels)

    return fit


def on_images(method: Callable[[Images, int, AutoencoderSettings, Run], Labels]) -> Fit:
    """A method that learns its own codes from images."""

    def fit(bench: Workbench) -> Labels:
        run = Run(bench.run.seed, device=bench.run.device, progress=bench.run.progress)
        return method(bench.learn, bench.clusters, bench.choice.autoencoder, run)

    return fit


def _nearest_mean(bench: Workbench, labels: Labels) -> Labels:
    """The cluster whose mean direction is nearest, for images that were not clustered."""
    points, scored = unit(bench.features.numpy()), unit(bench.scored_features.numpy())
    means = np.stack([points[labels == cluster].mean(axis=0) for cluster in np.unique(labels)])
    nearest = torch.cdist(torch.from_numpy(scored), torch.from_numpy(means)).argmin(dim=1).numpy()
    return np.unique(labels)[nearest]  # type: ignore[no-any-return]


FEATURES = ("encoder", "one_encoder", "features", "views")
SECOND = (*FEATURES, "heads")
ABLATED = (*FEATURES, "paper_heads")
THIRD = (*SECOND, "reliability", "joint")
LABELS = (*FEATURES, "semi")

METHODS: dict[str, Method] = {
    "k-means": Method(on_pixels(RIVALS["k-means"]), ("bare_pixels",)),
    "spectral": Method(on_pixels(RIVALS["spectral"]), ("bare_pixels",)),
    "agglomerative": Method(on_pixels(RIVALS["agglomerative"]), ("bare_pixels",)),
    "NMF": Method(on_pixels(nmf), ("bare_pixels",)),
    "AE": Method(on_images(partial(fit_autoencoder, Autoencoder)), ("autoencoder",)),
    "DAE": Method(on_images(partial(fit_autoencoder, DenoisingAutoencoder)), ("autoencoder",)),
    "VAE": Method(on_images(partial(fit_autoencoder, VariationalAutoencoder)), ("autoencoder",)),
    "DEC": Method(on_images(fit_dec), ("autoencoder",)),
    **{f"features + {name}": Method(on_features(rival), FEATURES) for name, rival in RIVALS.items() if name != "SCAN"},
    "SCAN*": Method(scan.objective, FEATURES),
    "SCAN": Method(scan.self_labeled, (*FEATURES, "self_labeling")),
    "SPICE-s": Method(spice.second_stage, SECOND),
    "SPICE": Method(spice.third_stage, THIRD),
    LARGER: Method(spice.third_stage, THIRD),
    "SPICE on all labels": Method(partial(spice.third_stage, all_labels=True), THIRD),
    "SPICE-s of the paper": Method(spice.ablated, ABLATED),
    **{variant: Method(partial(spice.ablated, variant=variant), ABLATED) for variant in spice.VARIANTS},
    "Joint-SH": Method(partial(spice.joint_heads, heads=1), (*ABLATED, "joint_heads")),
    "Joint-MH": Method(
        lambda bench: spice.joint_heads(bench, bench.choice.joint_heads.heads), (*ABLATED, "joint_heads")
    ),
}

LABELED: dict[str, LabeledFit] = {name: partial(semi.fit, name) for name in semi.ALGORITHMS}


def uses(name: str) -> tuple[str, ...]:
    """The parts of a `Choice` that the result of the method called `name` depends on, besides the images."""
    if name in LABELED:
        return LABELS
    return METHODS[name].uses if name in METHODS else THIRD  # Table VI's rows are SPICE before and after

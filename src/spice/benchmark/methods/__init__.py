"""Every method of the tables by name: a workbench in, labels of the images asked for out."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.methods import autoencoder, dec, denoising, nmf, scan, spice, vae
from spice.benchmark.methods.codes import Labels
from spice.benchmark.methods.pixels import bare
from spice.benchmark.rivals import RIVALS, Rival
from spice.benchmark.rivals.rival import unit
from spice.benchmark.semi import ALGORITHMS
from spice.benchmark.semi import methods as semi
from spice.benchmark.workbench import Workbench
from spice.stages.joint_draws import Labeled

Method = Callable[[Workbench], Labels]
# Given true labels of some images, as is the point of Table V and of the supervised reference.
LabeledMethod = Callable[[Workbench, Labeled], Labels]


def on_pixels(rival: Rival) -> Method:
    """The rival on bare pixels: no features are learned."""

    def fit(bench: Workbench) -> Labels:
        return rival(bare(bench.learn, bench.choice.bare_pixels), bench.clusters, seed=bench.seed)

    return fit


def on_features(rival: Rival) -> Method:
    """The rival on the frozen feature model's features."""

    def fit(bench: Workbench) -> Labels:
        labels = rival(bench.features.numpy(), bench.clusters, seed=bench.seed)
        return labels if not bench.split else _nearest_mean(bench, labels)

    return fit


def on_images(method: Callable[..., Labels]) -> Method:
    """A method that learns its own codes from images."""

    def fit(bench: Workbench) -> Labels:
        settings: AutoencoderSettings = bench.choice.autoencoder
        return method(
            bench.learn,
            bench.clusters,
            seed=bench.seed,
            settings=settings,
            device=bench.device,
            progress=bench.progress,
        )

    return fit


def _nearest_mean(bench: Workbench, labels: Labels) -> Labels:
    """The cluster whose mean direction is nearest, for images that were not clustered."""
    points, asked = unit(bench.features.numpy()), unit(bench.asked_features.numpy())
    means = np.stack([points[labels == cluster].mean(axis=0) for cluster in np.unique(labels)])
    nearest = torch.cdist(torch.from_numpy(asked), torch.from_numpy(means)).argmin(dim=1).numpy()
    found: Labels = np.unique(labels)[nearest]
    return found


METHODS: dict[str, Method] = {
    "k-means": on_pixels(RIVALS["k-means"]),
    "spectral": on_pixels(RIVALS["spectral"]),
    "agglomerative": on_pixels(RIVALS["agglomerative"]),
    "NMF": on_pixels(nmf.fit),
    "AE": on_images(autoencoder.fit),
    "DAE": on_images(denoising.fit),
    "VAE": on_images(vae.fit),
    "DEC": on_images(dec.fit),
    **{f"features + {name}": on_features(rival) for name, rival in RIVALS.items() if name != "SCAN"},
    "SCAN*": scan.objective,
    "SCAN": scan.self_labeled,
    "SPICE-s": spice.second_stage,
    "SPICE": spice.third_stage,
    "SPICE-s of the paper": spice.ablated,
    **{variant: partial(spice.ablated, variant=variant) for variant in spice.VARIANTS},
    "Joint-SH": partial(spice.joint_heads, heads=1),
    "Joint-MH": lambda bench: spice.joint_heads(bench, bench.choice.joint_heads.heads),
}

LABELED: dict[str, LabeledMethod] = {name: partial(semi.fit, name) for name in (*ALGORITHMS, "FixMatch")}

__all__ = ["LABELED", "METHODS", "LabeledMethod", "Labels", "Method"]

"""Untrained networks by name, as settings refer to them."""

from collections.abc import Callable
from functools import partial

from spice.models.backbone import Backbone
from spice.models.efficientnet import EfficientNetLite0
from spice.models.resnet import Stem, resnet
from spice.models.whitened_patches import WhitenedPatchesNet
from spice.models.wideresnet import wide_resnet

NETWORKS: dict[str, Callable[..., Backbone]] = {
    "resnet10": partial(resnet, 10),
    "resnet18": partial(resnet, 18),
    "resnet34": partial(resnet, 34),
    "wrn-28-2": partial(wide_resnet, 28, 2),
    "wrn-28-8": partial(wide_resnet, 28, 8),
    "wrn-37-2": partial(wide_resnet, 37, 2, groups=4, first_stride=2),
    "whitened-patches": WhitenedPatchesNet,
    "lite0": EfficientNetLite0,
}


def network(name: str, *, stem: Stem | None = None, width: int | None = None, channels: int = 3) -> Backbone:
    """The network called `name`; defaults are as published (stem "imagenet", width 64 or 16, 3 channels)."""
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}; choose one of {', '.join(NETWORKS)}")
    if stem is not None and not name.startswith("resnet"):
        raise ValueError(f"{name} has a fixed stem, got stem {stem!r}; only ResNets have a choice")
    if width is not None and name == "lite0":
        raise ValueError(f"{name} has a fixed width, got {width}")
    options = {"stem": stem, "width": width}
    return NETWORKS[name](channels=channels, **{key: value for key, value in options.items() if value is not None})

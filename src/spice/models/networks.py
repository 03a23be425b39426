"""Untrained networks by name, as settings refer to them."""

from collections.abc import Callable
from functools import partial

from spice.models.backbone import Backbone
from spice.models.efficientnet import EfficientNetLite0
from spice.models.resnet import Stem, resnet
from spice.models.whitened_patches import WhitenedPatchesNet
from spice.models.wideresnet import wide_resnet

_RESNETS = {"resnet10": 10, "resnet18": 18, "resnet34": 34}
_WIDE_RESNETS: dict[str, Callable[..., Backbone]] = {
    "wrn-28-2": partial(wide_resnet, 28, 2),
    "wrn-28-8": partial(wide_resnet, 28, 8),
    "wrn-37-2": partial(wide_resnet, 37, 2, groups=4, first_stride=2),
}
NETWORKS = (*_RESNETS, *_WIDE_RESNETS, "whitened-patches", "lite0")


def network(name: str, *, stem: Stem | None = None, width: int | None = None, channels: int = 3) -> Backbone:
    """The network called `name`; defaults are as published (stem "imagenet", width 64 or 16, 3 channels)."""
    if name in _RESNETS:
        return resnet(_RESNETS[name], stem=stem or "imagenet", width=width or 64, channels=channels)
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}; choose one of {', '.join(NETWORKS)}")
    if stem is not None:
        raise ValueError(f"{name} has a fixed stem, got stem {stem!r}; only ResNets have a choice")
    if name in _WIDE_RESNETS:
        return _WIDE_RESNETS[name](width=width or 16, channels=channels)
    if name == "whitened-patches":
        return WhitenedPatchesNet(width=width or 64, channels=channels)
    if width is not None:
        raise ValueError(f"{name} has a fixed width, got {width}")
    return EfficientNetLite0(channels=channels)

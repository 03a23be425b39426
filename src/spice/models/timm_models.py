"""Models of `timm` as feature models (paper III-A). timm is an extra, because it needs torchvision."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from spice.errors import UserError, one_line
from spice.models.backbone import Backbone, Pretrained, patches_as_map
from spice.models.hub import hub_access, not_downloaded
from spice.settings import Normalization


def load_timm(name: str, *, size: int | None = None, pretrained: bool = True, download: bool = False) -> Pretrained:
    """The model called `name` in timm, with its own pooling and without its classifier."""
    try:
        import timm
    # Importing a torchvision that does not match torch raises a RuntimeError.
    except (ImportError, RuntimeError) as error:
        raise UserError(f"timm: encoders need timm and a matching torchvision: pip install timm ({error})") from error
    with hub_access(f"timm:{name}", download=download):
        if pretrained and not download and _has_url(timm, name):
            raise not_downloaded(f"timm:{name}")
        model = _create(partial(timm.create_model, name, pretrained=pretrained, num_classes=0), name, size)
    wanted = timm.data.resolve_model_data_config(model)
    normalization = Normalization(mean=tuple(wanted["mean"]), std=tuple(wanted["std"]))
    return Pretrained(TimmBackbone(model), size or int(wanted["input_size"][-1]), normalization)


def _create(create: Callable[..., Any], name: str, size: int | None) -> Any:
    try:
        try:  # transformers need the image size; convolutional networks have no such argument
            return create(img_size=size) if size is not None else create()
        except TypeError:
            return create()
    # timm and the hub raise errors of many kinds for an unknown name or an unreachable file.
    except Exception as error:
        if type(error).__name__ in ("OfflineModeIsEnabled", "LocalEntryNotFoundError"):
            raise not_downloaded(f"timm:{name}") from error
        raise UserError(f"timm:{name} cannot be loaded: {one_line(error)}") from error


def _has_url(timm: Any, name: str) -> bool:
    """Whether timm would download the weights from a URL, where the offline mode of the hub's library has no effect."""
    card = timm.models.get_pretrained_cfg(name)
    return card is not None and bool(card.url) and not card.hf_hub_id


class TimmBackbone(Backbone):
    """timm's pooled features and last feature map, with channels first."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.map_width = int(model.num_features)
        # MobileNets widen the features after pooling.
        self.features = int(getattr(model, "head_hidden_size", None) or model.num_features)
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(images)
        return pooled

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.model.forward_features(images)
        if maps.ndim == 3:  # tokens of a transformer
            return patches_as_map(maps, *self.model.patch_embed.grid_size)
        return maps if maps.shape[1] == self.map_width else maps.permute(0, 3, 1, 2)  # Swin keeps channels last

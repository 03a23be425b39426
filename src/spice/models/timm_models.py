"""Models of `timm` as feature models: an extra, because timm needs torchvision (paper III-A)."""

from functools import partial
from typing import Any

from torch import Tensor

from spice.errors import UserError
from spice.models.backbone import Backbone, Pretrained, patches_as_map
from spice.settings import Normalization


def load_timm(name: str, *, size: int | None = None, pretrained: bool = True) -> Pretrained:
    """The model called `name` in timm, with its own pooling and without its classifier."""
    try:
        import timm
    # A torchvision that does not match torch fails with a RuntimeError as it is imported.
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"timm: encoders need timm and a matching torchvision: pip install 'spice-cluster[timm]' ({error})"
        ) from error
    create = partial(timm.create_model, name, pretrained=pretrained, num_classes=0)
    try:
        try:  # transformers need their image size, convolutional networks have no such argument
            model = create(img_size=size) if size is not None else create()
        except TypeError:
            model = create()
    # timm and the hub raise errors of many kinds for an unknown name or an unreachable file.
    except Exception as error:
        raise UserError(f"timm:{name} cannot be loaded: {' '.join(str(error).split())[:200]}") from error
    wanted = timm.data.resolve_model_data_config(model)
    normalization = Normalization(mean=tuple(wanted["mean"]), std=tuple(wanted["std"]))
    return Pretrained(TimmBackbone(model), size or int(wanted["input_size"][-1]), normalization)


class TimmBackbone(Backbone):
    """timm's pooled features, and its last map with channels first."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.places = int(model.num_features)
        # MobileNets pool first and widen afterwards: their feature is wider than their map.
        self.features = int(getattr(model, "head_hidden_size", None) or model.num_features)
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(images)
        return pooled

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.model.forward_features(images)
        if maps.ndim == 3:  # class and register tokens, then one per patch
            return patches_as_map(maps, *self.model.patch_embed.grid_size)
        return maps if maps.shape[1] == self.places else maps.permute(0, 3, 1, 2)  # Swin keeps channels last

"""Vision models of `transformers` as feature models: DINOv2 and other ViTs, CLIP, SigLIP, ConvNeXt (paper III-A).

Weights come from safetensors files only, and none may be missing. A folder is read without internet access.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spice.errors import NoticeWarning, UserError, one_line, warn_user
from spice.models.backbone import Backbone, Pool, Pretrained, patches_as_map
from spice.models.hub import hub_access, not_downloaded
from spice.settings import IMAGENET, Normalization


class NormalizationWarning(NoticeWarning):
    """A model does not say how its images were normalized."""


def load_huggingface(name: str, *, size: int | None = None, download: bool = False) -> Pretrained:
    """The vision model called `name` on the hub, or in the folder `name`, for images of `size` pixels."""
    try:
        import transformers
    except ImportError as error:
        raise UserError("hf: encoders need transformers; install it with: pip install transformers") from error
    transformers.utils.logging.disable_progress_bar()
    if name.startswith("~"):  # the shell does not expand it after "hf:"
        name = str(Path(name).expanduser())
    is_folder = Path(name).is_dir()
    if not is_folder and (name.startswith(("/", ".")) or name.count("/") > 1):
        raise UserError(f"there is no folder {name} to load a model from")
    with hub_access(f"hf:{name}", download=download and not is_folder):
        return _load(name, size, download=download)


def _load(name: str, size: int | None, *, download: bool) -> Pretrained:
    import transformers

    config = _fetch(transformers.AutoConfig.from_pretrained, name, download=download)
    kind = config.model_type
    if kind not in _KINDS:
        raise UserError(f"hf:{name} is of type {kind!r}, which is not supported; choose from {', '.join(_KINDS)}")
    model_class, wrap = _KINDS[kind]
    # The pooler belongs to the classifier, and most files lack it.
    options = {"add_pooling_layer": False} if kind in ("vit", "deit") else {}
    model, report = _fetch(
        getattr(transformers, model_class).from_pretrained,
        name,
        download=download,
        use_safetensors=True,
        output_loading_info=True,
        dtype=torch.float32,
        **options,
    )
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise UserError(
            f"hf:{name} is incomplete: {len(missing)} weights are missing, such as {missing[0]}; use another encoder"
        )
    preprocessing = _preprocessing(name)
    image_size = size or _size(preprocessing) or int(getattr(model.config, "image_size", 224))
    return Pretrained(
        wrap(model, image_size), image_size, _normalization(name, preprocessing, model.config.num_channels)
    )


_POSITIONS = "interpolate_pos_encoding"


class ClassToken(Backbone):
    """ViTs: the features are the class token after the last norm; the feature map consists of the patch tokens."""

    model: Any

    def __init__(self, model: Any, size: int) -> None:
        super().__init__()
        self.model = model
        self.features = model.config.hidden_size
        self.grid = size // model.config.patch_size
        # Interpolates position embeddings of another size. DINOv2 always does so and has no such option.
        interpolate = model.config.image_size != size and "dinov" not in model.config.model_type
        self.options = {_POSITIONS: True} if interpolate else {}

    def tokens(self, images: Tensor) -> Tensor:
        """Class token, register tokens and patch tokens: (B, tokens, D)."""
        tokens: Tensor = self.model(pixel_values=images, **self.options).last_hidden_state
        return tokens

    def forward(self, images: Tensor) -> Tensor:
        return self.tokens(images)[:, 0]

    def feature_map(self, images: Tensor) -> Tensor:
        return patches_as_map(self.tokens(images), self.grid, self.grid)

    def chain(self) -> list[nn.Module]:
        model = self.model
        if hasattr(model, "rope_embeddings"):  # DINOv3, whose layers also take positions
            return [self]
        return [_embed(model.embeddings, self.options), *_layers(model), _class_token(model.layernorm)]

    @contextmanager
    def exportable(self, images: Tensor) -> Iterator[None]:
        """Interpolate position embeddings once, as a constant of the trace: ONNX lacks some interpolations."""
        embeddings = next((part for part in self.model.modules() if hasattr(part, _POSITIONS)), None)
        if embeddings is None:
            yield
            return
        positions: list[Tensor] = []
        interpolate: Callable[..., Tensor] = getattr(embeddings, _POSITIONS)

        def once(*arguments: Any) -> Tensor:
            if not positions:
                positions.append(interpolate(*arguments))
            return positions[0]

        setattr(embeddings, _POSITIONS, once)
        try:
            self(images)
            yield
        finally:
            delattr(embeddings, _POSITIONS)  # restores the class's own method


class Projected(ClassToken):
    """CLIP: as ClassToken, with tokens projected into the space shared with text."""

    def __init__(self, model: Any, size: int) -> None:
        super().__init__(model, size)
        self.features = model.config.projection_dim

    def tokens(self, images: Tensor) -> Tensor:
        vision = self.model.vision_model
        tokens = vision(pixel_values=images, **self.options).last_hidden_state
        projected: Tensor = self.model.visual_projection(vision.post_layernorm(tokens))
        return projected

    def chain(self) -> list[nn.Module]:
        vision = self.model.vision_model
        embed = nn.Sequential(_embed(vision.embeddings, self.options), vision.pre_layrnorm)
        return [embed, *_layers(self.model), _class_token(vision.post_layernorm, self.model.visual_projection)]


class AttentionPooled(ClassToken):
    """SigLIP, which has no class token: attention pools the features from the patch tokens."""

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(pixel_values=images, **self.options).pooler_output
        return pooled

    def chain(self) -> list[nn.Module]:
        # Older versions of transformers wrap the same parts in one more module.
        model = getattr(self.model, "vision_model", self.model)
        last = nn.Sequential(model.post_layernorm, model.head)
        return [_embed(model.embeddings, self.options), *_layers(model), last]


class Convolutional(Backbone):
    """ConvNeXt and ResNet: the features are the model's own pooling of its last feature map."""

    model: Any

    def __init__(self, model: Any, size: int) -> None:  # noqa: ARG002  (one signature for all kinds)
        super().__init__()
        self.model = model
        self.features = model.config.hidden_sizes[-1]

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(pixel_values=images).pooler_output
        return pooled.flatten(start_dim=1)

    def feature_map(self, images: Tensor) -> Tensor:
        maps: Tensor = self.model(pixel_values=images).last_hidden_state
        return maps

    def chain(self) -> list[nn.Module]:
        model = self.model
        if not hasattr(model, "embeddings"):  # ResNet
            return [model.embedder, *model.encoder.stages, model.pooler, nn.Flatten()]
        return [model.embeddings, *model.encoder.stages, Pool(), model.layernorm]


class _Apply(nn.Module):
    """A part of a model behind a function from tensor to tensor."""

    def __init__(self, part: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.part, self.call = part, call

    def forward(self, values: Tensor) -> Tensor:
        return self.call(self.part, values)


def _embed(embeddings: nn.Module, options: dict[str, bool]) -> nn.Module:
    """Images -> tokens (B, tokens, D)."""
    return _Apply(embeddings, lambda part, images: part(images, **options))


def _class_token(*layers: nn.Module) -> nn.Module:
    """Tokens (B, tokens, D) -> the first one, after these layers."""
    return _Apply(nn.Sequential(*layers), lambda part, tokens: part(tokens[:, 0]))


def _layer_output(layer: nn.Module, tokens: Tensor) -> Tensor:
    """Tokens -> tokens, which some versions of transformers return in a tuple."""
    out: Tensor | tuple[Tensor, ...] = layer(tokens, None)
    return out[0] if isinstance(out, tuple) else out


def _layers(model: Any) -> list[nn.Module]:
    """The transformer's layers: the module list whose length is the number of layers in the configuration."""
    lists = (part for part in model.modules() if isinstance(part, nn.ModuleList))
    layers = next(part for part in lists if len(part) == model.config.num_hidden_layers)
    return [_Apply(layer, _layer_output) for layer in layers]


# By model type: the class of transformers for the vision part alone, and how to read its features.
_KINDS: dict[str, tuple[str, Callable[[Any, int], Backbone]]] = {
    "dinov2": ("Dinov2Model", ClassToken),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", ClassToken),
    "dinov3_vit": ("DINOv3ViTModel", ClassToken),
    "vit": ("ViTModel", ClassToken),
    "deit": ("DeiTModel", ClassToken),
    "vit_msn": ("ViTMSNModel", ClassToken),
    "clip": ("CLIPVisionModelWithProjection", Projected),
    "clip_vision_model": ("CLIPVisionModelWithProjection", Projected),
    "siglip": ("SiglipVisionModel", AttentionPooled),
    "siglip_vision_model": ("SiglipVisionModel", AttentionPooled),
    "convnext": ("ConvNextModel", Convolutional),
    "convnextv2": ("ConvNextV2Model", Convolutional),
    "resnet": ("ResNetModel", Convolutional),
}


def _fetch(read: Callable[..., Any], name: str, *, download: bool, **options: Any) -> Any:
    """Read from a folder or the local cache. With `download`, try the hub first, then the cache."""
    is_folder = Path(name).is_dir()
    failure: Exception | None = None
    for local in [False, True] if download and not is_folder else [True]:
        try:
            return read(name, local_files_only=local, trust_remote_code=False, **options)
        except (OSError, ValueError, RuntimeError) as error:
            failure = failure or error
    if not download and not is_folder:
        raise not_downloaded(f"hf:{name}") from failure
    assert failure is not None
    advice = "" if is_folder else "; offline, give the folder of a downloaded model"
    raise UserError(f"hf:{name} cannot be loaded: {one_line(failure)}{advice}") from failure


def _preprocessing(name: str) -> dict[str, Any]:
    """The content of `preprocessor_config.json`; transformers' own class may need torchvision to read it."""
    from transformers.utils import cached_file

    path = cached_file(
        name,
        "preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    preprocessing: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return preprocessing


def _size(preprocessing: dict[str, Any]) -> int | None:
    for key in ("crop_size", "size"):
        value = preprocessing.get(key)
        if isinstance(value, dict):
            value = value.get("height") or value.get("shortest_edge")
        if value:
            return int(value)
    return None


def _normalization(name: str, preprocessing: dict[str, Any], channels: int) -> Normalization:
    if preprocessing.get("do_normalize") is False:
        return Normalization(mean=(0.0,) * channels, std=(1.0,) * channels)
    if "image_mean" in preprocessing and "image_std" in preprocessing:
        return Normalization(mean=tuple(preprocessing["image_mean"]), std=tuple(preprocessing["image_std"]))
    usual = IMAGENET if channels == 3 else Normalization(mean=(0.5,) * channels, std=(0.5,) * channels)
    message = f"hf:{name} does not say how its images were normalized (no preprocessor_config.json); assuming {usual}"
    warn_user(message, NormalizationWarning)
    return usual

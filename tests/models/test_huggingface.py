"""Vision models of transformers, made here from small configurations and opened from a folder without the network."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from spice.errors import UserError
from spice.models.encoders import Encoder, load_encoder
from spice.models.huggingface import NormalizationWarning
from spice.settings import IMAGENET

transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
VISION = SMALL | {"image_size": 32, "patch_size": 8}
DINO = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 70, "patch_size": 14}
TEXT = SMALL | {"vocab_size": 99, "max_position_embeddings": 8, "eos_token_id": 2}
STAGES = {"hidden_sizes": [8, 12, 16, 24], "depths": [1, 1, 1, 1]}

# The class people download, and a small configuration: classifiers, both towers, whatever is published.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "dinov2": ("Dinov2Model", DINO),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", DINO | {"num_register_tokens": 4}),
    "dinov3_vit": ("DINOv3ViTModel", SMALL | {"image_size": 64, "patch_size": 16, "num_register_tokens": 4}),
    "vit": ("ViTForImageClassification", VISION),
    "deit": ("DeiTForImageClassification", VISION),
    "vit_msn": ("ViTMSNModel", VISION),
    "clip": (
        "CLIPModel",
        {"text_config": TEXT, "vision_config": VISION | {"projection_dim": 16}, "projection_dim": 16},
    ),
    "siglip": ("SiglipModel", {"text_config": TEXT, "vision_config": VISION}),
    "convnext": ("ConvNextModel", STAGES | {"image_size": 64}),
    "convnextv2": ("ConvNextV2Model", STAGES | {"image_size": 64}),
    "resnet": ("ResNetModel", STAGES | {"embedding_size": 8, "layer_type": "basic"}),
}


def make(kind: str) -> Any:
    """A model with random weights."""
    torch.manual_seed(0)
    name, config = MODELS[kind]
    model_class = getattr(transformers, name)
    return model_class(model_class.config_class(**config))


def saved(kind: str, folder: Path, **preprocessing: Any) -> Any:
    model = make(kind).eval()
    model.save_pretrained(folder)
    said = preprocessing or {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    return model


def images_for(encoder: Encoder) -> torch.Tensor:
    return torch.randn(3, encoder.channels, encoder.size, encoder.size, generator=torch.Generator().manual_seed(1))


def reference(kind: str, model: Any, images: torch.Tensor) -> torch.Tensor:
    """The feature as each model's own documentation takes it."""
    with torch.no_grad():
        if kind == "clip":
            return model.visual_projection(model.vision_model(images).pooler_output)  # type: ignore[no-any-return]
        if kind == "siglip":
            return model.vision_model(images).pooler_output  # type: ignore[no-any-return]
        if kind in ("vit", "deit", "vit_msn"):
            base = model if kind == "vit_msn" else getattr(model, kind)
            return base(images).last_hidden_state[:, 0]  # type: ignore[no-any-return]
        return model(images).pooler_output.flatten(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "size", "features", "side"),
    [
        ("dinov2", 70, 24, 5),
        ("dinov2_with_registers", 70, 24, 5),
        ("dinov3_vit", 64, 24, 4),
        ("vit", 32, 24, 4),
        ("deit", 32, 24, 4),
        ("vit_msn", 32, 24, 4),
        ("clip", 32, 16, 4),
        ("siglip", 32, 24, 4),
        ("convnext", 64, 24, 2),
        ("convnextv2", 64, 24, 2),
        ("resnet", 64, 24, 2),
    ],
)
def test_features_are_those_the_model_documents(kind: str, size: int, features: int, side: int, tmp_path: Path) -> None:
    model = saved(kind, tmp_path / kind)
    encoder = load_encoder(f"hf:{tmp_path / kind}", size=None if kind != "resnet" else 64)
    assert (encoder.size, encoder.features, encoder.channels) == (size, features, 3)
    images = images_for(encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no falling back to torch
        found = encoder.encode(images)
    assert found.std() > 1e-3
    torch.testing.assert_close(found, reference(kind, model, images), atol=1e-4, rtol=1e-4)
    assert encoder.feature_map(images).shape == (3, features, side, side)


@pytest.mark.parametrize("kind", ["vit", "dinov2_with_registers"])
def test_another_size_than_the_trained_one_interpolates_positions(kind: str, tmp_path: Path) -> None:
    saved(kind, tmp_path)
    patch = 8 if kind == "vit" else 14
    encoder = load_encoder(f"hf:{tmp_path}", size=6 * patch)
    images = images_for(encoder)
    assert encoder.module is not None
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode(images), encoder.module(images), atol=1e-4, rtol=1e-4)
    assert encoder.feature_map(images).shape[2:] == (6, 6)


def test_a_feature_map_is_laid_out_as_the_image_is(tmp_path: Path) -> None:
    saved("vit", tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    plain = torch.zeros(1, 3, 32, 32)
    spot = plain.clone()
    spot[:, :, 0:8, 24:32] = 3.0  # the patch in the top right
    moved = (encoder.feature_map(spot) - encoder.feature_map(plain)).norm(dim=1)[0]
    assert divmod(int(moved.argmax()), 4) == (0, 3)


def test_the_models_own_preprocessing_is_taken_over(tmp_path: Path) -> None:
    saved(
        "vit",
        tmp_path,
        size={"shortest_edge": 40},
        crop_size={"height": 32, "width": 32},
        image_mean=[0.1, 0.2, 0.3],
        image_std=[0.4, 0.5, 0.6],
    )
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.size == 32
    assert encoder.normalization.mean == (0.1, 0.2, 0.3)
    assert encoder.normalization.std == (0.4, 0.5, 0.6)


def test_a_model_that_does_not_say_its_normalization_is_warned_of(tmp_path: Path) -> None:
    saved("dinov2", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.warns(NormalizationWarning, match="does not say how its images were normalized"):
        assert load_encoder(f"hf:{tmp_path}").normalization == IMAGENET


def test_missing_weights_are_an_error_and_not_random_numbers(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    saved("dinov2", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["layernorm.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"is incomplete: 1 weights are missing, such as layernorm.weight"):
        load_encoder(f"hf:{tmp_path}")


def test_pickled_weights_are_not_opened(tmp_path: Path) -> None:
    model = saved("dinov2", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"cannot be loaded: .*safetensors"):
        load_encoder(f"hf:{tmp_path}")


def test_a_model_that_is_not_for_images_is_refused(tmp_path: Path) -> None:
    transformers.BertConfig(**SMALL).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"is of type 'bert', which is not supported; choose from dinov2"):
        load_encoder(f"hf:{tmp_path}")


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_network(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        load_encoder(f"hf:{tmp_path / 'nowhere'}")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="empty cannot be loaded"):
        load_encoder(f"hf:{empty}")


def test_no_network_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"hf:facebook/none cannot be loaded: .*give the folder") as caught:
        load_encoder("hf:facebook/none", download=True)
    assert "\n" not in str(caught.value)

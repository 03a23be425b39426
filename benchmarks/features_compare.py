"""Which recipe of stage 1 learns most in the same processor time, measured without labels.

    python benchmarks/features_compare.py cifar10 '{}' '{"view_size": 16}' --seconds 200

Each recipe is JSON of settings to change in `presets.features_on_cpu`, and trains for about as many processor seconds
as the others, on all images but 3,000. These are then asked, by the features of the frozen network:

- rotation: accuracy of a linear probe that tells by how many quarter turns an image was turned, whose rank correlation
  with supervised accuracy is 0.94 (Reed et al. 2021, "SelfAugment"); chance is 0.25
- retrieval: share of 2,000 images whose other view is the nearest among the other views of all; chance is 0.0005
- alignment and uniformity (Wang and Isola 2020) of these views

The views are the same for all recipes: MoCo's, without blur, of three quarters of the images' side.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from features_quality import Pixels, encode, loaded
from spice.augment import Contrastive
from spice.engine.run import Run
from spice.evaluate.probe import Labeled, linear_accuracy
from spice.models.backbone import Backbone
from spice.randomness import generator
from spice.settings import IMAGENET, IMAGENET_GRAY, AugmentSettings, FeatureSettings
from spice.stages.features.health import alignment, uniformity
from spice.stages.features.train import train_features

ASKED, RETRIEVED, TURNED_KNOWN, TURNED_ASKED = 3000, 2000, 1500, 750
TIMED_STEPS = 3


class EnoughError(Exception):
    """The steps to be timed are done."""


class Stopwatch:
    """Processor time of a few steps after the first, which is slower."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        del task, done, total, figures
        self.marks.append(time.process_time())
        if len(self.marks) > TIMED_STEPS:
            raise EnoughError

    def seconds_per_step(self) -> float:
        return (self.marks[-1] - self.marks[0]) / (len(self.marks) - 1)


def affordable(images: Pixels, settings: FeatureSettings, seconds: float, *, seed: int) -> tuple[Pixels, int]:
    """As many images and epochs as `seconds` of the processor allow."""
    watch = Stopwatch()
    with contextlib.suppress(EnoughError):
        few = settings.model_copy(update={"epochs": TIMED_STEPS + 1})
        train_features(images, few, Run(seed=seed, progress=watch))
    count = round(seconds / watch.seconds_per_step()) * settings.batch
    epochs = max(1, round(count / len(images)))
    return Pixels(images.pixels[: count // epochs].numpy()), epochs


def measured(network: Backbone, asked: Pixels) -> dict[str, float]:
    normalization = IMAGENET_GRAY if asked.channels == 1 else IMAGENET
    recipe = Contrastive(AugmentSettings(blur=False), asked.size * 3 // 4, normalization)
    some = asked.pixels[:RETRIEVED]
    with torch.no_grad():
        first, second = (centered(network(recipe(some, generator(0, "compare", view)))) for view in range(2))
    nearest = (first @ second.T).argmax(dim=1)
    return {
        "rotation": rotation_accuracy(network, asked),
        "retrieval": (nearest == torch.arange(len(nearest))).float().mean().item(),
        "alignment": alignment(first, second),
        "uniformity": uniformity(first),
    }


def centered(features: Tensor) -> Tensor:
    """Of unit length, without what all have in common."""
    return F.normalize(features - features.mean(dim=0), dim=1)


def rotation_accuracy(network: Backbone, asked: Pixels) -> float:
    def turned(images: Tensor) -> Labeled:
        parts = [encode(network, Pixels(images.rot90(turns, (2, 3)).contiguous().numpy())) for turns in range(4)]
        labels = torch.arange(4).repeat_interleave(len(images))
        return Labeled(torch.cat([torch.from_numpy(part) for part in parts]).numpy(), labels.numpy())

    known, others = asked.pixels[:TURNED_KNOWN], asked.pixels[TURNED_KNOWN : TURNED_KNOWN + TURNED_ASKED]
    return linear_accuracy(turned(known), turned(others))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("fashion", "cifar10"))
    parser.add_argument("recipes", nargs="+", type=json.loads, help="JSON of feature settings to change")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = loaded(arguments.dataset, arguments.data)
    order = torch.randperm(len(data.train), generator=generator(0, "compare"))
    asked, learned = (Pixels(data.train.pixels[part].numpy()) for part in (order[:ASKED], order[ASKED:]))
    for recipe in arguments.recipes:
        settings = FeatureSettings.model_validate(data.settings.model_dump() | recipe)
        images, epochs = affordable(learned, settings, arguments.seconds, seed=arguments.seed)
        started = time.process_time()
        model = train_features(images, settings.model_copy(update={"epochs": epochs}), Run(seed=arguments.seed))
        seconds = time.process_time() - started
        figures = {name: round(value, 4) for name, value in measured(model.network, asked).items()}
        print(json.dumps({"recipe": recipe, "images": len(images) * epochs, "seconds": round(seconds)} | figures))
        sys.stdout.flush()


if __name__ == "__main__":
    main()

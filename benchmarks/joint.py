"""The third stage on real collections: what it gains, what it costs, and how accuracy follows reliability.

    python benchmarks/stage2.py views --data ../shared/data --folder /tmp/stage2          (lite0; encode once)
    python benchmarks/joint.py gain   --folder /tmp/stage2 --collections imagenette [--settings '{"steps": 100}']
    python benchmarks/joint.py gain   --folder /tmp/own --collections cifar10-test --encoder trained.safetensors
    python benchmarks/joint.py curve  --folder /tmp/stage2
    python benchmarks/joint.py many
    python benchmarks/joint.py speed

Labels are read by the last lines of each measurement alone: nothing is trained, selected or stopped by them. Seconds
are processor seconds, so that other work on the machine disturbs them little; with OMP_NUM_THREADS=1, of one core.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spice.data.store import ImageStore, open_store
from spice.errors import SpiceWarning
from spice.evaluate import score
from spice.evaluate.probe import Labeled as Known
from spice.evaluate.probe import linear_accuracy
from spice.models.encoders import Encoder, load_encoder
from spice.neighbors import nearest
from spice.presets import joint_on_cpu, standard_heads
from spice.progress import Logged
from spice.settings import JointSettings, ReliabilitySettings
from spice.stages.heads import train_heads
from spice.stages.joint_draws import Labeled
from spice.stages.kmeans import kmeans
from spice.stages.model import probabilities
from spice.stages.refine import Answer, Refined, refine
from spice.stages.reliability import Reliability, judge, neighbors_to_ask
from spice.stages.views import open_views

Truth = NDArray[np.int64]
RULE = ReliabilitySettings()


def judged(answer: Answer) -> Reliability:
    clusters = answer.probs.shape[1]
    asked = neighbors_to_ask(len(answer.features), clusters, RULE)
    near = nearest(answer.features, asked).index
    return judge(answer.probs.argmax(dim=1), near, RULE, clusters=clusters)


def second_stage(folder: Path, clusters: int, seed: int) -> tuple[Any, Answer]:
    """The head that `spice cluster` would select, and its answer."""
    views = open_views(folder)
    head = train_heads(views, standard_heads(clusters), seed=seed).head
    features = torch.from_numpy(np.array(views.plain, dtype=np.float32))
    return head, Answer(features, probabilities(head, features))


def third_stage(
    images: ImageStore, encoder: Encoder, head: Any, answer: Answer, *, settings: JointSettings, seed: int
) -> Refined:
    trusted = judged(answer).reliable.nonzero().flatten()
    return refine(
        images,
        encoder,
        head,
        answer,
        Labeled(trusted, answer.probs.argmax(dim=1)[trusted]),
        settings=settings,
        neighbors=neighbors_to_ask(len(images), head.clusters, RULE),
        seed=seed,
        progress=Logged(every_seconds=30.0),
    )


def scores_of(answer: Answer, truth: Truth) -> dict[str, float]:
    """Of all images, and of the reliable ones."""
    labels, kept = answer.probs.argmax(dim=1).numpy(), judged(answer).reliable.numpy()
    every = score(labels, truth)
    return {
        "acc": every.acc,
        "nmi": every.nmi,
        "ari": every.ari,
        "kept": float(kept.mean()),
        "acc_kept": score(labels[kept], truth[kept]).acc if kept.any() else float("nan"),
    }


def gain(folder: Path, encoder: Encoder, settings: JointSettings, seed: int, *, probe: bool) -> dict[str, Any]:
    """One collection and seed, all stages; a stage's scores are looked at when all is done."""
    truth: Truth = np.load(folder / "truth.npy").astype(np.int64)
    images = open_store(folder / "images")
    clusters = int(truth.max()) + 1
    started = time.process_time()
    head, answer = second_stage(folder, clusters, seed)
    between = time.process_time()
    found = third_stage(images, encoder, head, answer, settings=settings, seed=seed)
    ended = time.process_time()
    line: dict[str, Any] = {
        "collection": folder.name,
        "encoder": encoder.name,
        "seed": seed,
        "settings": settings.model_dump(mode="json", exclude_defaults=True),
        "seconds": {"stage 2": between - started, "stage 3": ended - between},
        "signs": {"before": found.before._asdict(), "after": found.after._asdict(), "doubts": found.doubts},
        "loss": [step.loss for step in found.history[:: max(1, len(found.history) // 20)]],
        "taught": [step.taught for step in found.history[:: max(1, len(found.history) // 20)]],
    }
    print(json.dumps(line), flush=True)
    line["k-means"] = score(kmeans(answer.features.numpy(), clusters, seed=seed), truth)._asdict()
    line["stage 2"], line["stage 3"] = scores_of(answer, truth), scores_of(found.answer, truth)
    if probe:
        line["probe"] = [linear_accuracy(Known(part.features.numpy(), truth)) for part in (answer, found.answer)]
    return line


def on_gain(arguments: argparse.Namespace) -> None:
    encoder_of = {name: load_encoder(arguments.encoder, size=arguments.size) for name in arguments.collections}
    for name, encoder in encoder_of.items():
        pretrained = not arguments.encoder.endswith(".safetensors")
        usual = joint_on_cpu(pretrained=pretrained, flip=not arguments.no_flip)
        settings = JointSettings.model_validate(usual.model_dump() | json.loads(arguments.settings))
        for seed in arguments.seeds:
            line = gain(arguments.folder / name, encoder, settings, seed, probe=arguments.probe)
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            shown = {key: line[key] for key in ("collection", "seed", "seconds", "k-means", "stage 2", "stage 3")}
            print(json.dumps(shown | {"probe": line.get("probe")}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("gain")
    one.add_argument("--folder", type=Path, required=True, help="with a folder per collection, as stage2.py makes them")
    one.add_argument("--collections", nargs="+", default=["imagenette"])
    one.add_argument("--encoder", default="lite0")
    one.add_argument("--size", type=int)
    one.add_argument("--no-flip", action="store_true")
    one.add_argument("--settings", default="{}", help="JSON of joint settings to change")
    one.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    one.add_argument("--probe", action="store_true", help="linear probe of the features before and after")
    one.add_argument("--results", type=Path, default=Path("joint.jsonl"))
    one.set_defaults(do=on_gain)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        arguments.do(arguments)


if __name__ == "__main__":
    main()

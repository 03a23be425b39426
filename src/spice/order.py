"""The steps of a run in order, and what the result of each depends on."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import JsonValue

from spice import steps
from spice.data import ImageStore
from spice.models.encoders import Encoder
from spice.models.fingerprint import fingerprint
from spice.runs import RunFolder, key_of
from spice.runs.artifacts import (
    FEATURES,
    HEAD,
    HEAD_LABELS,
    HEADS,
    KMEANS,
    LABELS,
    LABELS_CSV,
    MAP,
    MODEL,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    REFINED,
    REPORT,
    SCORES,
    SIMILARITIES,
    VIEWS,
    Artifact,
)
from spice.settings import RunSettings
from spice.steps import Figures, Work
from spice.version import __version__


class Step(NamedTuple):
    """One arrow of the pipeline."""

    name: str
    do: Callable[[Work], Figures]  # returns what is worth telling
    after: tuple[str, ...]  # the steps whose results it reads
    depends: Callable[[RunSettings], JsonValue]  # the settings that its result depends on
    makes: tuple[Artifact, ...]
    lends: tuple[tuple[Artifact, str], ...] = ()  # made for one other step, and not missed when that is done
    spoils: tuple[Artifact, ...] = ()  # what others made of its result: gone when the result is
    wanted: Callable[[RunSettings], bool] = lambda _: True
    needed: bool = True  # whether the run has failed where this step fails


def keys_of(run: RunFolder, encoder: Encoder, images: ImageStore, settings: RunSettings) -> dict[Step, str]:
    """Every step with its key: a hash of all that its result depends on."""
    # The names of images go into the labels alone: files that were moved are not encoded again.
    keys = {
        "encoder": key_of(encoder.name, fingerprint(encoder)),
        "images": key_of(images.collection.identity, images.size),
        "names": run.manifest.steps["scan"].key,
    }
    found = {}
    for step in STEPS:
        found[step] = keys[step.name] = key_of(step.name, step.depends(settings), *(keys[name] for name in step.after))
    return found


def _clusters_and_seed(settings: RunSettings) -> JsonValue:
    return [settings.heads.clusters, settings.seed]


def _heads_and_seed(settings: RunSettings) -> JsonValue:
    return [settings.heads.model_dump(mode="json"), settings.seed]


def _joint_and_seed(settings: RunSettings) -> JsonValue:
    if settings.joint is None:
        return None
    depends = (settings.joint, settings.reliability)
    return [*(part.model_dump(mode="json") for part in depends), dict(settings.given), settings.seed]


STEPS = (
    Step(
        "views",
        steps.views,
        after=("encoder", "images"),
        depends=lambda settings: [settings.views.model_dump(mode="json"), settings.seed],
        makes=(FEATURES,),
        lends=((VIEWS, "heads"),),
    ),
    Step("kmeans", steps.kmeans, after=("views",), depends=_clusters_and_seed, makes=(KMEANS,)),
    Step("heads", steps.heads, after=("views",), depends=_heads_and_seed, makes=(HEADS, HEAD, HEAD_LABELS)),
    Step(
        "joint",
        steps.joint,
        after=("views", "heads"),
        depends=_joint_and_seed,
        makes=(REFINED,),
        wanted=lambda settings: settings.joint is not None,
    ),
    Step(
        "neighbors",
        steps.neighbors,
        after=("views", "joint"),
        depends=lambda settings: [settings.reliability.neighbors, settings.heads.clusters],
        makes=(NEIGHBORS, SIMILARITIES),
    ),
    Step(
        "labels",
        steps.labels,
        after=("names", "neighbors", "kmeans", "heads", "joint"),
        depends=lambda settings: settings.reliability.model_dump(mode="json"),
        makes=(PROBABILITIES, LABELS, LABELS_CSV),
        spoils=(SCORES,),
    ),
    Step("model", steps.model, after=("labels",), depends=lambda settings: settings.seed, makes=(MODEL,)),
    Step("pictures", steps.pictures, after=("labels",), depends=lambda _: None, makes=(MAP, PICTURES), needed=False),
    # A page of another version is written anew: that takes a moment.
    Step(
        "report",
        steps.report,
        after=("model", "pictures"),
        depends=lambda _: __version__,
        makes=(REPORT,),
        needed=False,
    ),
)

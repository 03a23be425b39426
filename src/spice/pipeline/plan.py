"""The steps of a run in order, and what the result of each depends on.

A step reads files of the run folder and writes others. Its key is a hash of everything that its result depends on, and
part of its folder's name, so other settings use other folders, and existing ones stay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from spice.data.decode import DECODING
from spice.engine.run import Run
from spice.models.efficientnet import SCALES
from spice.models.encoders import SCRATCH, Encoder, precision_of
from spice.pipeline.steps.encode import encode
from spice.pipeline.steps.features import features
from spice.pipeline.steps.heads import heads
from spice.pipeline.steps.howmany import howmany, tree
from spice.pipeline.steps.joint import joint
from spice.pipeline.steps.kmeans import kmeans
from spice.pipeline.steps.labels import labels
from spice.pipeline.steps.map import map_images
from spice.pipeline.steps.model import model
from spice.pipeline.steps.neighbors import neighbors, neighbors_kept
from spice.pipeline.steps.pictures import pictures
from spice.pipeline.steps.report import report
from spice.pipeline.steps.scan import scan
from spice.pipeline.steps.views import views
from spice.pipeline.steps.words import words
from spice.pipeline.work import Inputs, Work
from spice.runs import key_of
from spice.runs.artifacts import ARTIFACTS, PICTURES, VIEWS, Artifact
from spice.runs.folder import RESULTS, STEPS
from spice.runs.records import StepResult
from spice.settings import RunSettings
from spice.version import __version__


@dataclass(frozen=True)
class Step:
    """One step of the pipeline."""

    name: str
    do: Callable[[Work, Run], StepResult]
    after: tuple[str, ...]  # the steps and inputs (see MADE_BY) that its result depends on, besides settings
    depends: Callable[[RunSettings, Inputs], JsonValue] = lambda _settings, _inputs: None
    wanted: Callable[[RunSettings], bool] = lambda _settings: True
    needs: tuple[Artifact, ...] = ()  # inputs that may have been deleted
    in_result: bool = False  # whether it belongs to a single result, and writes to its folder
    in_all_processes: bool = False  # otherwise only in the first
    optional: bool = False  # whether the run continues if this step fails

    @property
    def makes(self) -> tuple[Artifact, ...]:
        """The files that it writes."""
        return tuple(artifact for artifact in ARTIFACTS if artifact.step == self.name)


# Inputs that are not steps, but are made by one.
MADE_BY = {"encoder": "features", "names": "scan", "cut": "tree"}


class Plan(NamedTuple):
    """The steps that are wanted, in order, with their keys and folders (relative to the run folder)."""

    name: str  # of the result
    keys: dict[str, str]
    folders: dict[str, str]


def plan(settings: RunSettings, inputs: Inputs, encoder: Encoder | None) -> Plan:
    """The plan for resolved settings. `encoder` is None if stage 1 trains it."""
    pixels: JsonValue = None if inputs.store is None else [inputs.store.size, DECODING]
    identity = inputs.collection.identity
    keys = {
        "images": key_of(identity, pixels),
        "extra": "" if inputs.extra is None else key_of(inputs.extra.collection.identity, DECODING),
        # Only the labels depend on the images' names: files that were renamed are not encoded again.
        "names": key_of(identity, pixels, *inputs.collection.paths),
        "encoder": key_of("vectors") if inputs.vectors is not None else "",
    }
    if encoder is not None and inputs.vectors is None:
        integers = ["int8"] if precision_of(encoder) == "int8" else []
        keys["encoder"] = key_of(encoder.name, encoder.fingerprint(), *integers)
    for step in STEPS_IN_ORDER:
        depends = key_of(step.name, step.depends(settings, inputs), *(keys[name] for name in step.after))
        keys[step.name] = depends if step.wanted(settings) else ""
        if step.name == "features" and settings.encoder == SCRATCH:
            keys["encoder"] = keys["features"]
        if step.name == "tree":
            keys["cut"] = keys["tree"] if settings.heads.start == "cut" else ""
    refined = "-refined" if settings.joint is not None else ""
    name = f"k{settings.heads.clusters}{refined}-{keys['labels'][:6]}"
    folders = {
        step.name: f"{RESULTS}/{name}" if step.in_result else f"{STEPS}/{step.name}-{keys[step.name]}"
        for step in STEPS_IN_ORDER
        if step.wanted(settings)
    }
    return Plan(name, keys, folders)


def _dump(*parts: object) -> JsonValue:
    dumped: JsonValue = to_jsonable_python(parts)
    return dumped


STEPS_IN_ORDER = (
    Step("scan", scan, after=("names",)),
    Step(
        "features",
        features,
        after=("images", "extra"),
        depends=lambda settings, _: _dump(settings.features, settings.encoder_seed),
        wanted=lambda settings: settings.encoder == SCRATCH,
        in_all_processes=True,
    ),
    Step("encode", encode, after=("encoder", "images"), in_all_processes=True),
    Step(
        "views",
        views,
        after=("encode",),
        depends=lambda settings, _: _dump(settings.views, settings.encoder_seed),
        in_all_processes=True,
    ),
    Step(
        "neighbors",
        neighbors,
        after=("encode",),
        depends=lambda settings, inputs: neighbors_kept(len(inputs.collection), settings),
    ),
    Step(
        "howmany",
        howmany,
        after=("encode",),
        depends=lambda settings, inputs: _dump(
            settings.how_many, settings.seed, settings.given, inputs.collection.paths if settings.given else ()
        ),
        wanted=lambda settings: settings.how_many is not None,
    ),
    Step(
        "tree",
        tree,
        after=("encode", "neighbors"),
        depends=lambda settings, _: settings.seed,
        wanted=lambda settings: settings.how_many is not None or settings.heads.start == "cut",
    ),
    Step(
        "heads",
        heads,
        after=("encode", "views", "neighbors", "cut"),
        depends=lambda settings, _: _dump(settings.heads, settings.seed),
        needs=(VIEWS,),
        in_all_processes=True,
    ),
    Step(
        "kmeans",
        kmeans,
        after=("encode",),
        depends=lambda settings, _: [settings.heads.clusters, settings.seed],
    ),
    Step(
        "joint",
        joint,
        after=("heads", "neighbors", "extra"),
        depends=lambda settings, _: _dump(settings.joint, settings.reliability, settings.placed, settings.seed),
        wanted=lambda settings: settings.joint is not None,
        in_all_processes=True,
    ),
    Step(
        "labels",
        labels,
        after=("names", "neighbors", "kmeans", "heads", "joint"),
        depends=lambda settings, _: _dump(settings.reliability),
        in_result=True,
    ),
    Step("model", model, after=("labels",), depends=lambda settings, _: settings.seed, in_result=True),
    Step("map", map_images, after=("encode", "joint"), optional=True),
    Step("words", words, after=("encode",), wanted=lambda settings: settings.encoder in SCALES, optional=True),
    Step("pictures", pictures, after=("labels",), in_result=True, optional=True),
    # The report of another version is written again, which is quick.
    Step(
        "report",
        report,
        after=("model", "map", "words", "pictures", "howmany", "tree"),
        depends=lambda _settings, _inputs: __version__,
        needs=(PICTURES,),
        in_result=True,
        optional=True,
    ),
)

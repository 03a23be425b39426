"""Time, memory and disk space of each step of a run, before it begins (`spice cluster --plan`).

Reading, decoding, embedding and comparing are timed on this machine, with a few of the user's images. So is one part of
the search for the number of groups, with random points.

Shapes: N images, D feature width.
"""

import math
import time
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from spice.augment import Plain
from spice.data import SourceLike
from spice.data.decode import available_cores
from spice.data.ingest import examine
from spice.data.recognize import open_source
from spice.data.sources import Entry, Source
from spice.errors import NothingReadableError, UserError
from spice.models.encoders import SCRATCH, Encoder, load_encoder, with_precision
from spice.models.precision import faster_precision
from spice.neighbors.exact import exact_nearest
from spice.neighbors.search import APPROXIMATE_FROM
from spice.runs.resource_needs import BASE_BYTES, Needs, needs
from spice.settings import AugmentSettings, HowManySettings, RunSettings
from spice.stages.groups.curve import information_by_count, nearest_points, neighbor_count, numbers_to_try
from spice.stages.groups.howmany import (
    COMPONENTS,
    DRAWS,
    MAX_IMAGES,
    MIN_IMAGES,
    NULL_DRAWS,
    SHARE,
    highest_count,
    principal_components,
)
from spice.stages.groups.merge_tree import MAX_IMAGES_FOR_LEAVES, merge_tree, small_groups

TRIED = 32  # images that are read, decoded and embedded, to time it
COMPARED = 16_384, 512  # images and queries whose comparison is timed
NEIGHBORS = 100
# The approximate search takes as long as comparing every image with this many lists of sqrt(N) images. Measured on
# 200,000 photos with lite0 (benchmarks/scale.py); well-separated groups take a third of it.
LISTS = 80
# Seconds of one core, measured by benchmarks/scale.py with 50 groups: per image that heads learn from, and per image,
# most of it to compare the pixels of similar images. Both need at least a fixed time.
HEADS_PER_IMAGE, REST_PER_IMAGE = 1.2e-3, 8e-4
HEADS_AT_LEAST, REST_AT_LEAST = 0.8, 0.5
TREE_TIMED = 2_500  # points for which the tree is timed


class StepForecast(NamedTuple):
    """One line of the plan."""

    name: str
    seconds: float
    memory: float  # bytes at most, without mapped files


class Forecast(NamedTuple):
    """The plan."""

    images: int  # files; some may turn out not to be images
    bytes: int
    tried: int  # images that were timed
    steps: list[StepForecast]
    needs: Needs

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


def forecast(source: SourceLike, settings: RunSettings) -> Forecast:
    """Time a few images of `source` and extrapolate."""
    if settings.encoder == SCRATCH or settings.joint is not None:
        raise UserError("--plan cannot predict training times; use it with a pretrained encoder and without --refine")
    opened = open_source(source)
    entries = opened.listing()[0]
    if not entries:
        raise NothingReadableError(f"{opened.label} contains no files; is the path right?")
    encoder = load_encoder(settings.encoder, size=settings.size)
    per_image, tried = _seconds_per_image(opened, entries, encoder, settings)
    count, width, clusters = len(entries), encoder.features, settings.heads.clusters
    learned = min(count, settings.views.sample or count)
    views = settings.views.weak + settings.views.strong
    found = needs(count, clusters=clusters, width=width, size=encoder.size, views=views, sample=learned)
    lists = count if count < APPROXIMATE_FROM else LISTS * math.sqrt(count)
    row = 4.0 * width
    steps = [
        StepForecast("read and embed", count * per_image / available_cores(), BASE_BYTES),
        StepForecast("neighbors", count * lists / _pairs_per_second(width), BASE_BYTES + count * (2 * row + 2400)),
        *_search(count, encoder.features, settings),
        StepForecast(
            "heads and k-means",
            HEADS_AT_LEAST + learned * HEADS_PER_IMAGE,
            BASE_BYTES + learned * (views + 1) * row,
        ),
        StepForecast("labels, map and report", REST_AT_LEAST + count * REST_PER_IMAGE, found.memory),
    ]
    return Forecast(count, sum(entry.length for entry in entries), tried, steps, found)


def _seconds_per_image(
    source: Source, entries: list[Entry], encoder: Encoder, settings: RunSettings
) -> tuple[float, int]:
    """Seconds of one core to read, decode and embed an image, and how many images were tried."""
    rows = np.unique(np.linspace(0, len(entries) - 1, min(TRIED, len(entries))).astype(np.int64))
    some = [entries[row] for row in rows] if source.random_access else entries[: len(rows)]
    started = time.monotonic()
    found = examine(list(source.contents(some)), size=encoder.size)
    reading = time.monotonic() - started
    pixels = [torch.from_numpy(one.pixels).expand(encoder.channels, -1, -1) for _, one in found if one is not None]
    if not pixels:
        raise NothingReadableError(f"none of the {len(found)} files tried in {source.label} is a readable image")
    images = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)(torch.stack(pixels))
    precision = settings.precision if settings.precision != "auto" else faster_precision(encoder, images[:16])
    chosen, threads = with_precision(encoder, precision), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        chosen.encode(images[:1])  # warm up
        started = time.monotonic()
        chosen.encode(images)
        embedding = time.monotonic() - started
    finally:
        torch.set_num_threads(threads)
    return reading / len(found) + embedding / len(pixels), len(pixels)


def _search(count: int, width: int, settings: RunSettings) -> list[StepForecast]:
    """The search for the number of groups, and the tree of groups within groups, if the run has them."""
    memory, asked = BASE_BYTES + count * 4.0 * width, settings.how_many
    if count < MIN_IMAGES:
        return []
    search = [] if asked is None else [StepForecast("number of groups", _search_seconds(count, width, asked), memory)]
    if asked is None and settings.heads.start != "cut":
        return []
    return [*search, StepForecast("tree of groups", _tree_seconds(count), memory)]


def _search_seconds(count: int, width: int, asked: HowManySettings) -> float:
    """Every draw is clustered into each number of groups, and so is a Gaussian cloud like it: one cloud is timed."""
    random = np.random.default_rng(0)
    drawn = min(MAX_IMAGES, round(SHARE * count))
    counts = numbers_to_try(asked.least, highest_count(count, asked.least, asked.most))
    points = random.standard_normal((drawn, width), dtype=np.float32)
    information_by_count(points[:MIN_IMAGES, :COMPONENTS], [2])  # warm up
    principal_components(points[:MIN_IMAGES], random)
    started = time.monotonic()
    cloud = principal_components(points, random)
    components = time.monotonic() - started
    information_by_count(cloud, counts)
    clustering = time.monotonic() - started - components
    return 2 * (DRAWS + NULL_DRAWS) * clustering + (1 + NULL_DRAWS) * components


def _tree_seconds(count: int) -> float:
    timed = min(count, TREE_TIMED)
    points = np.random.default_rng(0).standard_normal((timed, COMPONENTS), dtype=np.float32)
    neighbors = nearest_points(points, neighbor_count(timed))
    small_groups(points[:MIN_IMAGES], seed=0)  # warm up
    started = time.monotonic()
    merge_tree(points, neighbors, seed=0)
    return (time.monotonic() - started) * min(count, MAX_IMAGES_FOR_LEAVES) / timed


def _pairs_per_second(width: int) -> float:
    base = F.normalize(torch.randn(COMPARED[0], width, generator=torch.Generator().manual_seed(0)), dim=1)
    started = time.monotonic()
    exact_nearest(base, base[: COMPARED[1]], NEIGHBORS)
    return COMPARED[0] * COMPARED[1] / (time.monotonic() - started)

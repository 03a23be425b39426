"""Reading, decoding and embedding images on all machines of a Ray cluster (`--engine ray`).

Every worker takes small batches of entries, and returns one outcome per entry and the features of those that are
images. The first machine saves them: features in shards, then the outcomes in the journal of the store. If any machine
is killed at any moment, only the batches that it was working on are lost, and other machines redo them.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spice.augment import Plain
from spice.data.decode import Decoded, available_cores
from spice.data.ingest import Examined, examine
from spice.data.sources import Entry, Source
from spice.data.writer import Outcome
from spice.errors import UserError
from spice.models.encoders import Encoder, load_encoder, precision_of, with_precision
from spice.pipeline.shards import FeatureShards
from spice.progress import log
from spice.settings import AugmentSettings, FixedPrecision
from spice.stages.encode import BATCH

# A worker is one thread, but asks Ray for half a processor. If workers held all processors, nothing else could start,
# and no machine could take over the workers of a lost one.
CPUS_PER_WORKER = 0.5
AHEAD = 2  # batches that a worker has at once: one in work, one waiting
MOST_TRIES = 10  # how often a batch is tried if its worker is lost
SHARD_IMAGES, SHARD_SECONDS = 8192, 10.0  # the most that is lost if this process is killed

Waiting = deque[tuple[list[Entry], int]]  # entries, and how often they were tried
Answer = tuple[list[Outcome], NDArray[np.float32]]


class Recipe(NamedTuple):
    """What a worker needs to load the encoder."""

    encoder: str
    fingerprint: str
    size: int
    precision: FixedPrecision
    device: str

    @classmethod
    def of(cls, encoder: Encoder) -> "Recipe":
        return cls(encoder.name, encoder.fingerprint(), encoder.size, precision_of(encoder), "cpu")


class Worker:
    """Reads, decodes and embeds; one lives on each processor, or on each GPU."""

    def __init__(self, source: Source, recipe: Recipe) -> None:
        torch.set_num_threads(1)
        loaded = load_encoder(recipe.encoder, size=recipe.size, device=recipe.device)
        self.source, self.encoder = source, with_precision(loaded, recipe.precision)
        if self.encoder.fingerprint() != recipe.fingerprint:
            raise UserError(
                f"machines have different weights of {recipe.encoder}; install the same version on all of them"
            )
        self.plain = Plain(AugmentSettings(), size=loaded.size, normalization=loaded.normalization)

    def work(self, entries: list[Entry]) -> Answer:
        """One outcome per entry, and the features of those that are images, in their order."""
        found = examine(list(self.source.contents(entries)), size=self.encoder.size)
        pixels = [self._pixels(decoded) for _, decoded in found if decoded is not None]
        if not pixels:
            return [outcome for outcome, _ in found], np.empty((0, self.encoder.features), dtype=np.float32)
        features = self.encoder.encode(self.plain(torch.stack(pixels))).cpu().numpy()
        return [outcome for outcome, _ in found], features

    def is_there(self) -> bool:
        """Returns once the encoder is loaded."""
        return True

    def _pixels(self, decoded: Decoded) -> torch.Tensor:
        """As `InColor` and the store give them: a gray image's one channel serves as three."""
        return torch.from_numpy(decoded.pixels).expand(self.encoder.channels, -1, -1)


class RayEngine:
    """Examines the entries of a source on a cluster, and keeps the features."""

    def __init__(self, address: str | None, encoder: Encoder, shards: FeatureShards) -> None:
        self.address, self.recipe, self.shards = address, Recipe.of(encoder), shards

    def examine_all(self, source: Source, entries: list[Entry]) -> Iterator[list[Examined]]:
        """The outcomes of all entries, in any order, after their features are on disk."""
        if not entries:
            return
        if not source.random_access:
            raise UserError(f"{source.label} is compressed, so machines cannot share it; unpack it, or repack as .tar")
        with _connected(self.address) as ray:
            outcomes, features, since = list[Outcome](), list[NDArray[np.float32]](), time.monotonic()
            for found, computed in _answers(ray, _workers(ray, source, self.recipe), _batches(entries)):
                outcomes += found
                features.append(computed)
                if len(outcomes) >= SHARD_IMAGES or time.monotonic() - since > SHARD_SECONDS:
                    yield self._saved(outcomes, features)
                    outcomes, features, since = [], [], time.monotonic()
            if outcomes:
                yield self._saved(outcomes, features)

    def _saved(self, outcomes: list[Outcome], features: list[NDArray[np.float32]]) -> list[Examined]:
        """The outcomes, after their features are saved as a shard."""
        hashes = [outcome.digest for outcome in outcomes if outcome.digest is not None]
        if hashes:
            self.shards.add(hashes, np.concatenate(features))
        return [(outcome, None) for outcome in outcomes]


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`, or to one of this machine alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage report is sent
    os.environ.setdefault("RAY_worker_niceness", "0")  # not Ray's 15, with which every other program comes first
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs Ray on every machine: pip install ray") from None
    ours = not ray.is_initialized()
    if ours:
        where = address or os.environ.get("RAY_ADDRESS") or "local"
        alone: dict[str, Any] = {"num_cpus": available_cores(), "include_dashboard": False} if where == "local" else {}
        try:
            ray.init(address=where, logging_level=logging.ERROR, log_to_driver=False, **alone)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"no Ray cluster at {where} ({str(error).splitlines()[0]}); start one: ray start") from None
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def _workers(ray: Any, source: Source, recipe: Recipe) -> list[Any]:
    """One worker per processor of the cluster, or per GPU if there are any."""
    have = ray.cluster_resources()
    processors, gpus = int(have.get("CPU", 1)), int(have.get("GPU", 0))
    wants: dict[str, float] = {"num_cpus": CPUS_PER_WORKER}
    if gpus:
        wants, recipe = wants | {"num_gpus": 1}, recipe._replace(device="cuda")
    remote = ray.remote(Worker).options(**wants, max_restarts=-1, scheduling_strategy="SPREAD")
    count = max(1, gpus or processors)
    log.info("embedding on %d workers of %d machines", count, sum(node["Alive"] for node in ray.nodes()))
    return [remote.remote(source, recipe) for _ in range(count)]


def _batches(entries: list[Entry]) -> Waiting:
    """The entries in batches, each with its number of tries so far."""
    return deque((entries[start : start + BATCH], 0) for start in range(0, len(entries), BATCH))


def _answers(ray: Any, workers: list[Any], waiting: Waiting) -> Iterator[Answer]:
    """The workers' answers as they arrive; the batches of a lost worker go to others."""
    running: dict[Any, tuple[int, list[Entry], int]] = {}
    restarting: dict[Any, int] = {}  # by the call that returns when they are back
    load = dict.fromkeys(range(len(workers)), 0)  # batches of each worker that is there
    while waiting or running:
        while waiting and load and min(load.values()) < AHEAD:
            entries, tries = waiting.popleft()
            number = min(load, key=lambda worker: load[worker])
            load[number] += 1
            running[workers[number].work.remote(entries)] = (number, entries, tries)
        ready = ray.wait([*running, *restarting], num_returns=1)[0][0]
        if ready in restarting:
            load[_restarted(ray, ready, restarting)] = 0
            continue
        number, entries, tries = running.pop(ready)
        if number in load:
            load[number] -= 1
        try:
            yield ray.get(ready)
        except ray.exceptions.RayTaskError as error:  # the worker's own error
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except ray.exceptions.RayError as error:  # the worker or its machine is gone
            if tries + 1 >= MOST_TRIES:
                raise UserError(f"workers were lost {MOST_TRIES} times ({_reason(error)}); see: ray status") from None
            waiting.append((entries, tries + 1))
            if load.pop(number, None) is not None:
                log.info("a worker was lost (%s); other workers will redo its batches", type(error).__name__)
                restarting[workers[number].is_there.options(max_task_retries=-1).remote()] = number


def _restarted(ray: Any, ready: Any, restarting: dict[Any, int]) -> int:
    """The number of the worker that is back; UserError if it cannot be restarted."""
    try:
        ray.get(ready)
    except ray.exceptions.RayError as error:
        raise UserError(f"cannot restart a worker ({_reason(error)}); see: ray status") from None
    return restarting.pop(ready)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

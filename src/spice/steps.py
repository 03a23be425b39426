"""The steps of a run: each reads files of the run folder, calls one stage, and writes files of the run folder.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import JsonValue
from safetensors.torch import save
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from spice.core import consistency_ratio, reliable
from spice.data import ImageStore
from spice.engine.run import Run
from spice.files import written_atomically
from spice.models.encoders import Encoder
from spice.models.given_features import GivenFeatures
from spice.neighbors import nearest, warn_of_blank
from spice.progress import Progress
from spice.report import write_report
from spice.report.chosen import choose, with_attention
from spice.report.embedding import embed
from spice.report.pictures import Attention, write_pictures
from spice.runs import Labels, RunFolder, read_labels, write_labels
from spice.runs.artifacts import (
    FEATURES,
    HEAD,
    HEAD_LABELS,
    HEADS,
    KMEANS,
    MAP,
    MODEL,
    NEIGHBORS,
    PICTURES,
    PROBABILITIES,
    SIMILARITIES,
)
from spice.runs.why import SHOWN_NEIGHBORS
from spice.settings import HeadSettings, RunSettings
from spice.stages.answers import answers
from spice.stages.attention import attention_of
from spice.stages.bank import remember
from spice.stages.heads.select import cluster_agreement, good_heads
from spice.stages.heads.train import TrainedHeads, train_heads
from spice.stages.kmeans import kmeans as kmeans_labels
from spice.stages.model import TrainedModel, hash_of, probabilities
from spice.stages.reliability import neighbors_to_ask
from spice.stages.views import encode_views, open_views, perturb_features
from spice.training import Believed, believed, train_on

Figures = dict[str, JsonValue]


class Work(NamedTuple):
    """What a step is given."""

    run: RunFolder
    encoder: Encoder
    images: ImageStore
    settings: RunSettings
    unfinished: Path  # a folder for checkpoints, removed when the step is done
    progress: Progress

    @property
    def features(self) -> Tensor:  # (N, D)
        """The frozen encoder's. Mapped, not read: a million images have 5 GB of them."""
        return torch.from_numpy(np.load(self.run / FEATURES, mmap_mode="c"))

    @property
    def believed(self) -> Believed:
        """Encoder, head and features that the answer comes from."""
        return believed(self.run, self.encoder, self.settings)

    @property
    def asked(self) -> int:
        """N_s, the neighbors whose labels tell how far to trust an image's own."""
        return neighbors_to_ask(len(self.images), self.settings.heads.clusters, self.settings.reliability)


def views(work: Work) -> Figures:
    """Features of plain, weak and strong views by the frozen encoder (III-A, III-B)."""
    encoder, settings = work.encoder, work.settings
    run = Run(seed=settings.seed, folder=work.run.path, progress=work.progress)
    identity = f"{work.images.collection.identity} {hash_of(encoder)}"
    if isinstance(encoder, GivenFeatures):
        vectors = encoder.vectors_of(work.images.collection.paths).numpy()
        found = perturb_features(vectors, settings.views, run, identity=identity)
    else:
        found = encode_views(work.images, encoder, settings.views, run, identity=identity)
    return {"encoder": encoder.name, "size": encoder.size, "width": found.plain.shape[1], "space": found.space}


def neighbors(work: Work) -> Figures:
    """The nearest images of every image (III-C)."""
    features = work.believed.features
    warn_of_blank(features)
    count = min(max(SHOWN_NEIGHBORS, work.asked), len(features) - 1)
    found = nearest(features, count)
    _save(work.run / SIMILARITIES, found.similarity.numpy())
    _save(work.run / NEIGHBORS, found.index.numpy())
    return {"neighbors": count}


def kmeans(work: Work) -> Figures:
    """k-means on the same features, to hold the result against."""
    found = kmeans_labels(work.features.numpy(), work.settings.heads.clusters, seed=work.settings.seed)
    _save(work.run / KMEANS, found)
    return {}


def heads(work: Work) -> Figures:
    """Clustering heads, and the best of them (III-B, Algorithm 1)."""
    settings = work.settings
    trained = train_heads(
        open_views(work.run.path),
        settings.heads,
        seed=settings.seed,
        folder=work.unfinished,
        progress=work.progress,
    )
    _write_heads(work.run / HEADS, trained, settings.heads)
    with written_atomically(work.run / HEAD_LABELS) as temporary, temporary.open("wb") as file:
        rows = np.arange(len(work.images))[trained.compared]  # (n,)
        np.savez_compressed(file, rows=rows, labels=np.stack([seen.labels.numpy() for seen in trained.looks]))
    with written_atomically(work.run / HEAD) as temporary:
        # Not save_file, which makes files that only their owner can read.
        temporary.write_bytes(save({name: value.contiguous() for name, value in trained.head.state_dict().items()}))
    return {
        "heads": settings.heads.heads,
        "epoch": trained.best.epoch,
        "head": trained.best.number,
        "loss": trained.best.loss,
        "agreement": _agreement(trained),
        "distinct": trained.signs.distinct,
    }


def joint(work: Work) -> Figures:
    """Encoder and head trained together on reliable labels (III-C)."""
    return train_on(work.run, work.encoder, work.images, work.settings, work.unfinished, progress=work.progress)


def labels(work: Work) -> Figures:
    """The answer for every image, and how far to trust it (III-C)."""
    source, near = work.believed, torch.from_numpy(np.load(work.run / NEIGHBORS))
    probs = probabilities(source.head, source.features)  # (N, K)
    found = answers(work.images.collection.paths, source.features, probs, near, work.settings.reliability)
    _save(work.run / PROBABILITIES, probs.numpy())
    write_labels(work.run.path, found)
    return {
        "neighbors": work.asked,
        "threshold": work.settings.reliability.threshold,
        "kmeans": _beside(work, found, near[:, : work.asked]),
        "agreement": _agreement_of_heads(work, found),
    }


def model(work: Work) -> Figures:
    """What puts tomorrow's images into the same groups."""
    settings, source = work.settings, work.believed
    cluster = torch.from_numpy(read_labels(work.run.path).cluster).long()
    bank = remember(
        source.features, cluster, clusters=settings.heads.clusters, neighbors=work.asked, seed=settings.seed
    )
    trained = TrainedModel(source.encoder, source.head, bank, threshold=settings.reliability.threshold)
    trained.save(work.run / MODEL, embed=source.refined)
    return {}


def pictures(work: Work) -> Figures:
    """What the report shows of images: points on a plane, thumbnails, attention overlays."""
    found, clusters = read_labels(work.run.path), work.settings.heads.clusters
    features = work.believed.features
    _save(work.run / MAP, embed(features.numpy()))
    chosen = choose(found, clusters)
    write_pictures(
        work.run / PICTURES,
        lambda rows: work.images.take(rows).numpy(),
        images=len(found.path),
        side=work.images.size,
        on_cards=np.concatenate([rows for kinds in chosen for rows in kinds]),
        attention=_attention(work, features, np.concatenate(with_attention(chosen))),
        progress=work.progress,
    )
    return {}


def report(work: Work) -> Figures:
    """The page to look at."""
    write_report(work.run.path)
    return {}


def _attention(work: Work, features: Tensor, rows: NDArray[np.int64]) -> Iterator[Attention]:
    probs = torch.from_numpy(np.load(work.run / PROBABILITIES))
    seen = attention_of(rows, images=work.images, encoder=work.believed.encoder, features=features, probs=probs)
    return (Attention(one.image, one.attention.numpy()) for one in seen)


def _beside(work: Work, found: Labels, near: Tensor) -> Figures:
    """How far the labels of k-means would be trusted by the same rule, and how far they agree with the answer."""
    other = np.load(work.run / KMEANS)
    ratio = consistency_ratio(torch.from_numpy(other).long(), near)
    trusted = reliable(ratio, threshold=work.settings.reliability.threshold)
    return {"reliable": int(trusted.sum()), "agreement": float(adjusted_rand_score(other, found.cluster))}


def _agreement_of_heads(work: Work, found: Labels) -> list[JsonValue] | None:
    """How far the other good heads have each cluster of the answer too: K numbers; None where there is one head."""
    good = json.loads((work.run / HEADS).read_text(encoding="utf-8"))["good"]
    if not good:
        return None
    with np.load(work.run / HEAD_LABELS) as kept:
        rows, last = kept["rows"], kept["labels"][-1, good]  # (n,), (good heads, n)
    cluster = torch.from_numpy(found.cluster[rows])
    agreed = cluster_agreement(cluster, torch.from_numpy(last), work.settings.heads.clusters)  # (K,)
    return [round(value, 4) for value in agreed.tolist()]


def _write_heads(path: Path, trained: TrainedHeads, settings: HeadSettings) -> None:
    """Every head's loss after every epoch looked at, which one was taken, and the signs it was judged by."""
    content = {
        "epochs": [seen.epoch for seen in trained.looks],
        "loss": [seen.loss.tolist() for seen in trained.looks],
        "score": [seen.score(settings).tolist() for seen in trained.looks],
        "distinct": [seen.distinct.tolist() for seen in trained.looks],
        "selected": {"epoch": trained.best.epoch, "head": trained.best.number, "loss": trained.best.loss},
        "good": good_heads(trained.looks[-1], settings, apart_from=trained.best.number),
        "signs": {**trained.signs._asdict(), "agreement": _agreement(trained)},
    }
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def _agreement(trained: TrainedHeads) -> float | None:
    """Between the heads; one head alone agrees with nobody, and JSON knows no nan."""
    return None if math.isnan(trained.signs.agreement) else trained.signs.agreement


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)

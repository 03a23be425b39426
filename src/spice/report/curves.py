"""How the trained stages went, and how they compare with true labels where `spice evaluate` was run: charts."""

from typing import NamedTuple

from spice.report.charts import LineChart, Mark, Series, curve, head_chart, line_chart
from spice.report.content import Content
from spice.runs.records import HeadsResult, JointResult
from spice.runs.scores import HeadScores, Kept, Scores


class Curve(NamedTuple):
    """A chart with its caption."""

    title: str
    caption: str
    chart: LineChart
    legend: tuple[tuple[str, str], ...] = ()  # style and name of the lines, where they differ


class CheckRow(NamedTuple):
    """What can be measured of the clustering without labels, before and after joint training."""

    name: str
    meaning: str
    before: str
    after: str
    better: bool | None  # None: the same


def curves(content: Content) -> list[Curve]:
    """The stages that were trained, in their order."""
    return [*_features(content), _heads(content.heads), *(_joint(content.joint) if content.joint else [])]


def check_rows(joint: JointResult) -> list[CheckRow]:
    """The checks that decide whether the result of joint training is used."""
    before, after = joint.before, joint.after
    if before is None or after is None:
        return []

    def row(name: str, meaning: str, old: float, new: float, form: str, *, high: bool) -> CheckRow:
        texts = format(old, form), format(new, form)
        return CheckRow(name, meaning, *texts, None if texts[0] == texts[1] else (new > old) == high)

    return [
        row("Neighbor agreement", "share of an image's neighbors that are in the same cluster, on average",
            before.neighbor_agreement, after.neighbor_agreement, ".1%", high=True),
        row("Agreement with earlier neighbors", "the same among the neighbors before joint training",
            before.prior_neighbor_agreement, after.prior_neighbor_agreement, ".1%", high=True),
        row("Confident predictions", "images with a probability of at least 0.95",
            before.confident, after.confident, ".1%", high=True),
        row("Loss over all images", "the loss that heads are selected by", before.loss, after.loss, ".4f", high=False),
        row("Empty clusters", "clusters without an image", before.empty, after.empty, "d", high=False),
    ]  # fmt: skip


def score_curves(scores: Scores, heads: HeadsResult) -> list[Curve]:
    """Charts that use true labels."""
    found = [_kept(scores)]
    if scores.heads is not None:
        found.append(_head_scores(heads, scores.heads))
    return found


def point_at(kept: Kept, share: float) -> tuple[float, float]:
    """The point of the curve that is nearest to a share."""
    return min(zip(kept.share, kept.acc, strict=True), key=lambda point: abs(point[0] - share))


def _features(content: Content) -> list[Curve]:
    trained = content.result.features
    if trained is None:
        return []
    return [
        Curve(f"Feature model: {name}", caption, curve(values, x_title="epoch", y_title=name))
        for name, values, caption in (
            ("alignment", trained.alignment, "of two views of an image: 0 is perfect, 2 is chance"),
            ("uniformity", trained.uniformity, "of the features: 0 is collapse, about -4 is a whole sphere"),
        )
        if values
    ]


def _heads(heads: HeadsResult) -> Curve:
    best = heads.selected
    why = "its loss is the lowest" if heads.score == heads.loss else "its loss is low and its clusters are compact"
    caption = f"over the whole collection. Head {best.head} was selected at epoch {best.epoch}: {why}"
    chart = head_chart(heads.epochs, heads.loss, head=best.head, epoch=best.epoch, y_title="loss")
    return Curve("Loss of every head", caption, chart, (("selected", "selected"), ("plain", "the others")))


def _joint(joint: JointResult) -> list[Curve]:
    if not joint.loss:
        return []
    loss = curve(joint.loss, x_title="step", y_title="loss")
    taught = curve(joint.taught, x_title="step", y_title="share")
    return [
        Curve("Joint training: loss", "on reliable labels and on its own confident predictions", loss),
        Curve("Joint training: confident images", "the share whose own prediction was used as a label", taught),
    ]


def _kept(scores: Scores) -> Curve:
    reliability, probability = scores.by_reliability, scores.by_probability
    share = scores.reliable.images / scores.images
    lines = [
        Series("kept by probability", probability.share, probability.acc, "other"),
        Series("kept by reliability", reliability.share, reliability.acc),
    ]
    marks = []
    if scores.reliable.images:
        marks.append(Mark(*point_at(reliability, share), f"the {share:.0%} that the run calls reliable"))
    chart = line_chart(lines, x_title="share of the images kept", y_title="accuracy", marks=marks, share=True, top=1)
    caption = "if only the most trusted images are kept. The dot is where the run draws the line"
    legend = (("selected", "by reliability"), ("other", "by probability"))
    return Curve("Accuracy against share kept", caption, chart, legend)


def _head_scores(heads: HeadsResult, scores: HeadScores) -> Curve:
    best = heads.selected
    chart = head_chart(heads.epochs, scores.acc, head=best.head, epoch=best.epoch, y_title="accuracy", top=1)
    top = max(max(row) for row in scores.acc)
    taken = scores.acc[heads.epochs.index(best.epoch)][best.head]
    caption = f"on {scores.images:,} images. The selected head has {taken:.3f} (no labels used), the best {top:.3f}"
    return Curve("Accuracy of every head", caption, chart, (("selected", "selected"), ("plain", "the others")))

"""Charts of training, and of accuracy against true labels if `spice evaluate` was run."""

from typing import NamedTuple

from spice.report.charts import LineChart, Mark, Series, curve, head_chart, line_chart
from spice.runs import Result
from spice.runs.records import HeadsResult, JointResult
from spice.runs.scores import AccuracyCurve, HeadScores, Scores

_SELECTED = (("selected", "selected"), ("plain", "the others"))


class Curve(NamedTuple):
    """A chart with its caption."""

    title: str
    caption: str
    chart: LineChart
    legend: tuple[tuple[str, str], ...] = ()  # style and name of the lines, if they differ


class CheckRow(NamedTuple):
    """A measure of the clustering that needs no labels, before and after joint training."""

    name: str
    meaning: str
    before: str
    after: str
    better: bool | None  # None: the same


def curves(result: Result) -> list[Curve]:
    """The stages that were trained, in their order."""
    features, joint = result.features, result.joint
    drawn = [_heads(result.heads)]
    if features is not None and features.alignment:
        alignment = curve(features.alignment, x_title="epoch", y_title="alignment")
        uniformity = curve(features.uniformity, x_title="epoch", y_title="uniformity")
        drawn[:0] = [
            Curve("Feature model: alignment", "of two views of an image: 0 is perfect, 2 is chance", alignment),
            Curve(
                "Feature model: uniformity", "of the features: 0 is collapse, about -4 is a whole sphere", uniformity
            ),
        ]
    if joint is not None and joint.loss:
        loss = curve(joint.loss, x_title="step", y_title="loss")
        taught = curve(joint.taught, x_title="step", y_title="share")
        drawn += [
            Curve("Joint training: loss", "on reliable labels and on confident predictions of its own", loss),
            Curve("Joint training: confident images", "share whose own prediction was used as a label", taught),
        ]
    return drawn


def check_rows(joint: JointResult) -> list[CheckRow]:
    """The measures that decide whether the result of joint training is used."""
    before, after = joint.before, joint.after
    if before is None or after is None:
        return []

    def row(name: str, meaning: str, old: float, new: float, form: str, *, high: bool) -> CheckRow:
        texts = format(old, form), format(new, form)
        return CheckRow(name, meaning, *texts, None if texts[0] == texts[1] else (new > old) == high)

    return [
        row("Neighbor agreement", "mean share of an image's neighbors that are in the same group",
            before.neighbor_agreement, after.neighbor_agreement, ".1%", high=True),
        row("Agreement with earlier neighbors", "the same for the neighbors before joint training",
            before.prior_neighbor_agreement, after.prior_neighbor_agreement, ".1%", high=True),
        row("Confident predictions", "share of images with a probability of at least 0.95",
            before.confident, after.confident, ".1%", high=True),
        row("Loss over all images", "the loss that heads are selected by", before.loss, after.loss, ".4f", high=False),
        row("Empty groups", "groups without an image", before.empty, after.empty, "d", high=False),
    ]  # fmt: skip


def score_curves(scores: Scores, heads: HeadsResult) -> list[Curve]:
    """Charts that use true labels."""
    return [_accuracy_by_share(scores), *([_head_scores(heads, scores.heads)] if scores.heads is not None else [])]


def point_at(curve: AccuracyCurve, share: float) -> tuple[float, float]:
    """The point of the curve whose share is nearest."""
    return min(zip(curve.share, curve.acc, strict=True), key=lambda point: abs(point[0] - share))


def _heads(heads: HeadsResult) -> Curve:
    best = heads.selected
    why = "its loss is the lowest" if heads.score == heads.loss else "its groups are the most compact"
    caption = f"over the whole collection. Head {best.head} was selected at epoch {best.epoch}: {why}"
    return Curve("Loss of every head", caption, head_chart(heads, heads.loss, y_title="loss"), _SELECTED)


def _accuracy_by_share(scores: Scores) -> Curve:
    chance, confidence = scores.by_chance, scores.by_confidence
    share = scores.reliable.images / scores.images
    lines = [
        Series("kept by confidence", confidence.share, confidence.acc, "other"),
        Series("kept by chance", chance.share, chance.acc),
    ]
    marks = [Mark(*point_at(chance, share), f"reliable images ({share:.0%})")] if share else []
    chart = line_chart(
        lines, x_title="share of the images kept", y_title="accuracy", marks=marks, percent=True, maximum=1
    )
    caption = "if only the images with the highest chance are kept. The dot marks the reliable images"
    legend = (("selected", "by chance"), ("other", "by confidence"))
    return Curve("Accuracy against share kept", caption, chart, legend)


def _head_scores(heads: HeadsResult, scores: HeadScores) -> Curve:
    selected = scores.acc[heads.epochs.index(heads.selected.epoch)][heads.selected.head]
    best = max(max(row) for row in scores.acc)
    caption = f"on {scores.images:,} images. The selected head has {selected:.3f} (no labels used), the best {best:.3f}"
    chart = head_chart(heads, scores.acc, y_title="accuracy", maximum=1)
    return Curve("Accuracy of every head", caption, chart, _SELECTED)

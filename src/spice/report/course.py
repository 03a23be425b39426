"""How the trained stages went, and how they compare with true labels where `spice evaluate` was asked: charts."""

from typing import NamedTuple

from spice.report.charts import LineChart, Mark, Series, curve, head_chart, line_chart
from spice.report.content import Content
from spice.runs.outcomes import HeadScores, HeadsOutcome, JointOutcome, Kept, Scores


class Course(NamedTuple):
    """A chart with its words."""

    title: str
    words: str
    chart: LineChart
    legend: tuple[tuple[str, str], ...] = ()  # look and name of the lines, where they differ


class Sign(NamedTuple):
    """What can be seen of the clustering without labels, before and after joint training."""

    name: str
    meaning: str
    before: str
    after: str
    better: bool | None  # None: the same


def courses(content: Content) -> list[Course]:
    """The stages that were trained, in their order."""
    found = _features(content)
    if content.heads:
        found.append(_heads(content.heads))
    if content.joint:
        found += _joint(content.joint)
    return found


def signs(joint: JointOutcome) -> list[Sign]:
    """The checks by which joint training's result is used or not."""
    before, after = joint.before, joint.after

    def sign(name: str, meaning: str, old: float, new: float, form: str, *, high: bool) -> Sign:
        texts = format(old, form), format(new, form)
        return Sign(name, meaning, *texts, None if texts[0] == texts[1] else (new > old) == high)

    found = [
        sign("Agreement with neighbors", "share of the neighbors that are in the same cluster, on average",
             before.agreement, after.agreement, ".1%", high=True),
        sign("Confident predictions", "images with a probability of at least 0.95",
             before.confident, after.confident, ".1%", high=True),
        sign("Loss over all images", "the loss that heads are selected by", before.loss, after.loss, ".4f", high=False),
        sign("Empty clusters", "clusters without an image", before.empty, after.empty, "d", high=False),
    ]  # fmt: skip
    if before.common is not None and after.common is not None:
        earlier = "the same among the neighbors before joint training"
        found.insert(
            1, sign("Agreement with earlier neighbors", earlier, before.common, after.common, ".1%", high=True)
        )
    return found


def scored(scores: Scores, heads: HeadsOutcome | None) -> list[Course]:
    """Charts that use true labels."""
    found = [_kept(scores)]
    if heads is not None and scores.heads is not None:
        found.append(_head_scores(heads, scores.heads))
    return found


def point_at(kept: Kept, share: float) -> tuple[float, float]:
    """The point of the curve that is nearest to a share."""
    return min(zip(kept.share, kept.acc, strict=True), key=lambda point: abs(point[0] - share))


def _features(content: Content) -> list[Course]:
    found = []
    for name, words in (
        ("alignment", "of two views of an image: 0 is perfect, 2 is chance"),
        ("uniformity", "of the features: 0 is collapse, about -4 is a whole sphere"),
    ):
        values = content.figure("features", name)
        if isinstance(values, list) and values:
            chart = curve([float(str(value)) for value in values], x_title="epoch", y_title=name)
            found.append(Course(f"Feature model: {name}", words, chart))
    return found


def _heads(heads: HeadsOutcome) -> Course:
    best = heads.selected
    why = "its loss is the lowest" if heads.score == heads.loss else "its loss is low and its clusters are compact"
    words = f"over the whole collection. Head {best.head} after epoch {best.epoch} was taken: {why}"
    chart = head_chart(heads.epochs, heads.loss, head=best.head, epoch=best.epoch, y_title="loss")
    return Course("Loss of every head", words, chart, (("selected", "taken"), ("plain", "the others")))


def _joint(joint: JointOutcome) -> list[Course]:
    loss = curve(joint.loss, x_title="step", y_title="loss")
    taught = curve(joint.taught, x_title="step", y_title="share")
    return [
        Course("Joint training: loss", "on reliable labels and on its own sure predictions", loss),
        Course("Joint training: sure images", "the share whose own prediction was sure enough to teach", taught),
    ]


def _kept(scores: Scores) -> Course:
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
    words = "if only the images trusted most are kept. The dot is where the run draws the line"
    legend = (("selected", "by reliability"), ("other", "by probability"))
    return Course("Accuracy against share kept", words, chart, legend)


def _head_scores(heads: HeadsOutcome, scores: HeadScores) -> Course:
    best = heads.selected
    chart = head_chart(heads.epochs, scores.acc, head=best.head, epoch=best.epoch, y_title="accuracy", top=1)
    top = max(max(look) for look in scores.acc)
    taken = scores.acc[heads.epochs.index(best.epoch)][best.head]
    words = f"on {scores.images:,} images. The head taken without labels has {taken:.3f}; the best of all has {top:.3f}"
    return Course("Accuracy of every head", words, chart, (("selected", "taken"), ("plain", "the others")))

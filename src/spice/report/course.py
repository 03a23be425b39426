"""How the trained stages went: a chart for each."""

from typing import NamedTuple

from spice.report.charts import LineChart, curve, loss_chart
from spice.report.content import Content


class Course(NamedTuple):
    """A chart of how a stage went, with its words."""

    title: str
    words: str
    chart: LineChart


def courses(content: Content) -> list[Course]:
    """The stages that were trained, in their order."""
    found = []
    for name, words in (
        ("alignment", "of two views of an image, per epoch: 0 is perfect, 2 is chance"),
        ("uniformity", "of the features, per epoch: 0 is collapse, about -4 is a whole sphere"),
    ):
        values = content.figure("features", name)
        if isinstance(values, list) and values:
            found.append(Course(f"Feature model: {name}", words, curve([float(str(value)) for value in values])))
    if content.heads:
        epochs, loss, best = content.heads.epochs, content.heads.loss, content.heads.selected
        words = (
            "over the whole collection, per epoch; the lowest is selected: "
            f"head {best.head} after epoch {best.epoch}, loss {best.loss:.4f}"
        )
        found.append(Course("Loss of every head", words, loss_chart(epochs, loss, head=best.head, epoch=best.epoch)))
    if content.joint:
        believed = f"not believed: {'; '.join(content.joint.doubts)}" if content.joint.doubts else "believed"
        found.append(Course("Joint training: loss", f"per step; its result is {believed}", curve(content.joint.loss)))
        words = "of the images whose own prediction was sure enough to teach, per step"
        found.append(Course("Joint training: share", words, curve(content.joint.taught)))
    return found

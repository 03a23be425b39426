"""A check by hand: images drawn at random, a person's answers, and what they mean for all images.

Shared by the terminal and the explorer: `Checks.questions` draws the images, `record` and `undo_answer` keep the
answers as edits of the run, and `Checks.summary` estimates accuracy from the answers so far.

Shapes: N images, A answered images.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.runs.editor import Editor
from spice.runs.edits import Answer, Check, Undo, append_locked, editing, read_edits
from spice.runs.groups import NONE
from spice.runs.labels import Labels
from spice.runs.result import Result
from spice.trust import check
from spice.trust.chance import agreement, chance
from spice.trust.check import Estimate, Keep
from spice.wording import quoted

IMAGES = 50  # to ask about
LOWER_TARGETS = (0.9, 0.8, 0.7, 0.6, 0.5)  # suggested if the answers do not allow the requested accuracy
CENTER_IMAGES = 8  # typical images of the group, shown next to each question


class Question(NamedTuple):
    """Is this image in the right group?"""

    row: int
    path: str
    group: int
    name: str  # of the group
    centers: list[int]  # rows of the images nearest to the group's center


class Summary(NamedTuple):
    """What the answers say."""

    yes: int
    no: int
    unsure: int
    accuracy: Estimate | None  # of all images; None: fewer than two answers
    reliable: Estimate | None  # of the images that the run calls reliable
    groups: dict[int, Estimate]  # of the groups with enough answers
    keep: Keep
    lower: float | None  # if no image is kept: a lower accuracy for which some would be

    @property
    def answers(self) -> int:
        """The answers that count: yes and no."""
        return self.yes + self.no

    @property
    def promise(self) -> str:
        """Which images are kept and how accurate they are, or why none are kept."""
        keep = self.keep
        if keep.threshold is not None:
            sure = f"({keep.confidence:.0%} confidence)"
            return f"{keep.images:,} images are kept; at least {keep.target:.0%} of them are right {sure}"
        if self.answers < keep.needed:
            return (
                f"no images are kept yet: an accuracy of {keep.target:.0%} needs at least {keep.needed} answers, "
                f"and there are {self.answers}"
            )
        advice = "" if self.lower is None else f"; {self.lower:.0%} would work"
        return (
            "no images are kept: too many images with a high chance are wrong for an accuracy of "
            f"{keep.target:.0%}{advice}"
        )


class Checks:
    """The answers for a result, as they are on disk now."""

    def __init__(self, result: Result) -> None:
        self.result = result.with_current_edits()
        self.labels: Labels = self.result.labels
        self.group: NDArray[np.int32] = self.result.groups.shown  # (N,)

    @cached_property
    def prior_chance(self) -> NDArray[np.float32]:
        """(N,) from neighbors, in the groups as edited, before any answer; 0 for an image in no group."""
        groups = self.result.groups
        if not groups.touched and (self.group == self.labels.cluster).all():
            return self.labels.chance
        count = self.result.answer.neighbors
        ratio = agreement(self.group, self.result.neighbors[:, :count])
        found = chance(ratio, count, max(1, len(groups.active)))
        found[groups.by_person] = check.HIGHEST  # a person has seen these
        return np.where(self.group == NONE, np.float32(0), found)

    @cached_property
    def answered(self) -> dict[int, Answer]:
        """The last answer by row; an image that has moved to another group since counts as unanswered."""
        found: dict[int, Answer] = {}
        for edit in read_edits(self.result.run).of_result(self.result.name):
            if isinstance(edit.operation, Check):
                for row in self.result.base.rows([edit.operation.image]).tolist()[:1]:  # of exact copies, one
                    if self.group[row] == edit.operation.group:
                        found[row] = edit.operation.answer
        return found

    @property
    def rows(self) -> NDArray[np.int64]:
        """(A,) the images with a clear answer."""
        return np.array([row for row, answer in self.answered.items() if answer != "unsure"], dtype=np.int64)

    @property
    def right(self) -> NDArray[np.bool_]:
        """(A,) whether the answer was yes."""
        return np.array([self.answered[row] == "yes" for row in self.rows.tolist()], dtype=np.bool_)

    @cached_property
    def chances(self) -> NDArray[np.float32]:
        """(N,) the prior chances recalibrated by the answers; unchanged if there are too few."""
        inside = self._inside
        found = self.prior_chance.copy()
        if len(self.rows) >= check.MIN_ANSWERS:
            found[inside] = check.recalibrate(self.prior_chance[inside], self._places, self.right)
        return found

    def questions(self, count: int = IMAGES) -> list[Question]:
        """The images to ask about, without those that have an answer. A longer list starts with the shorter one."""
        groups, inside = self.result.groups, self._inside
        seed = int.from_bytes(self.result.name.encode()[-4:], "little")
        drawn = inside[check.draw(self.group[inside], self.prior_chance[inside], count, seed=seed)]
        centers: dict[int, list[int]] = {}
        for group in np.unique(self.group[drawn]).tolist():
            members = np.flatnonzero(self.group == group)
            nearest = np.argsort(self.labels.prototype_rank[members], kind="stable")[:CENTER_IMAGES]
            centers[group] = members[nearest].tolist()
        path = self.labels.path
        return [
            Question(row, path[row], group, groups.name(group), [other for other in centers[group] if other != row])
            for row, group in zip(drawn.tolist(), self.group[drawn].tolist(), strict=True)
            if row not in self.answered
        ]

    def summary(self, *, target: float = check.KEEP) -> Summary:
        """What the answers show so far: accuracy of all images, the reliable ones and each group; what to keep."""
        inside, places, right = self._inside, self._places, self.right
        group, before = self.group[inside], self.prior_chance[inside]
        found = check.purities(group, places, right, int(group.max(initial=-1)) + 1)
        keep = check.keep(before, places, right, target=target)
        lower = [share for share in LOWER_TARGETS if share < target and keep.threshold is None]
        works = (share for share in lower if check.keep(before, places, right, target=share).threshold is not None)
        return Summary(
            yes=int(right.sum()),
            no=int((~right).sum()),
            unsure=sum(answer == "unsure" for answer in self.answered.values()),
            accuracy=check.accuracy(before, places, right),
            reliable=check.accuracy(before, places, right, among=self.labels.reliable[inside]),
            groups={number: purity for number, purity in enumerate(found) if purity is not None},
            keep=keep,
            lower=next(works, None),
        )

    def kept(self, keep: Keep) -> NDArray[np.bool_]:
        """(N,) whether `keep` keeps each image; images that a person found wrong are left out."""
        if keep.threshold is None:
            return np.zeros(len(self.group), dtype=np.bool_)
        found: NDArray[np.bool_] = (self.prior_chance >= keep.threshold) & (self.group != NONE)
        found[self.rows[~self.right]] = False
        return found

    @property
    def _inside(self) -> NDArray[np.int64]:
        """The images that are in a group."""
        return np.flatnonzero(self.group != NONE)

    @property
    def _places(self) -> NDArray[np.int64]:
        """(A,) the answered images among those that are in a group."""
        return np.searchsorted(self._inside, self.rows)


def record(run: Path, row: int, answer: Answer) -> None:
    """Save the answer for the image in `row` and its current group."""
    if answer not in get_args(Answer):
        raise UserError(f"an answer is yes, no or unsure, not {answer!r}")
    editor = Editor(run)
    group = int(editor.groups.shown[row])
    editor.do(Check(image=editor.base.image(row), group=group, answer=answer))


def undo_answer(run: Path) -> Check | None:
    """Undo the last answer; None if the last edit of the run is not an answer."""
    with editing(run) as edits:
        last = edits.undoable
        if last is None or not isinstance(last.operation, Check):
            return None
        append_locked(run, edits, Undo(edit=last.id), result=last.result)
        return last.operation


def kept_rows(result: Result, *, target: float = check.KEEP) -> NDArray[np.int64]:
    """The rows of the kept images; UserError if the answers do not allow any."""
    checks = Checks(result)
    found = checks.summary(target=target)
    if found.keep.threshold is None:
        enough = found.answers >= found.keep.needed
        images = found.keep.needed + found.unsure
        more = f" --images {images}" if images > IMAGES else ""
        advice = "" if enough else f"; continue with: spice check {quoted(result.run)}{more}"
        if found.lower is not None and enough:
            advice = f": --keep {found.lower:g}"
        raise UserError(f"{found.promise}{advice}")
    return np.flatnonzero(checks.kept(found.keep))

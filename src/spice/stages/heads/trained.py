"""The result of the second stage."""

from typing import NamedTuple

from spice.models.heads import Head, Heads
from spice.stages.heads.diagnostics import HeadDiagnostics
from spice.stages.heads.inputs import Components
from spice.stages.heads.select import BestHead, HeadSnapshot


class TrainedHeads(NamedTuple):
    """The selected head, and all that training recorded."""

    head: Head  # the selected one, on the encoder's features
    best: BestHead
    snapshots: tuple[HeadSnapshot, ...]
    sample: slice  # the images whose labels the snapshots keep
    diagnostics: HeadDiagnostics
    heads: Heads  # all of them after the last epoch, on their inputs
    components: Components | None  # which map features to the heads' inputs; None: inputs are the features
    even_sizes: bool  # whether clusters were held to even sizes

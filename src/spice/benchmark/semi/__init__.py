"""The semi-supervised rivals of Table V: one file each, which is a loss, in one training loop."""

from spice.benchmark.semi.loop import Algorithm
from spice.benchmark.semi.mean_teacher import MeanTeacher
from spice.benchmark.semi.mixmatch import MixMatch
from spice.benchmark.semi.pi_model import PiModel
from spice.benchmark.semi.pseudo_labeling import PseudoLabeling
from spice.benchmark.semi.supervised import Supervised
from spice.benchmark.semi.uda import UDA

# FixMatch is not among them: it is the third stage itself (see `spice.stages.joint.train`), given true labels.
ALGORITHMS: dict[str, Algorithm] = {
    "Pi-model": PiModel(),
    "Pseudo-Labeling": PseudoLabeling(),
    "Mean Teacher": MeanTeacher(),
    "MixMatch": MixMatch(),
    "UDA": UDA(),
    "supervised": Supervised(),
}

__all__ = ["ALGORITHMS", "Algorithm"]

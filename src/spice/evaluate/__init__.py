"""Scores against true labels, after everything else is done. Only this package and benchmarks read true labels."""

from spice.evaluate.run import accuracy_curve, evaluate_run, true_classes
from spice.evaluate.scores import UNMATCHED, accuracy, confusion, match, matched_labels, score
from spice.evaluate.truth import Truth, from_csv, from_folders

__all__ = [
    "UNMATCHED",
    "Truth",
    "accuracy",
    "accuracy_curve",
    "confusion",
    "evaluate_run",
    "from_csv",
    "from_folders",
    "match",
    "matched_labels",
    "score",
    "true_classes",
]

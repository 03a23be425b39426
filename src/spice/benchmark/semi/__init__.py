"""The semi-supervised algorithms of Table V: each is one file with a loss, trained by the loop of stage 3."""

from spice.benchmark.semi import mean_teacher, mixmatch, pi_model, pseudo_labeling, supervised, uda

# As the table calls them: the names that they are registered under. FixMatch is the algorithm of stage 3 itself.
ALGORITHMS = {
    "Pi-model": "pi-model",
    "Pseudo-Labeling": "pseudo-labeling",
    "Mean Teacher": "mean-teacher",
    "MixMatch": "mixmatch",
    "UDA": "uda",
    "supervised": "supervised",
    "FixMatch": "fixmatch",
}

__all__ = ["ALGORITHMS", "mean_teacher", "mixmatch", "pi_model", "pseudo_labeling", "supervised", "uda"]

"""One rule finds both even and uneven groups."""

import numpy as np
from sklearn.metrics import adjusted_rand_score
from test_heads_training import groups, labels_of, quick  # type: ignore[import-not-found]  # a test beside this

from spice.engine.run import Run
from spice.stages.heads.train import train_heads


def test_uneven_groups_are_found_without_known_sizes_although_even_sizes_cut_the_largest() -> None:
    sizes = [240, 20, 20, 20]
    uneven = groups(sizes, noise=0.5)  # wide enough for even sizes to cut through the large group
    settings = quick(
        4, heads=8, batch=None, epochs=40, components=6, start="kmeans", start_runs=3, select_by="compactness"
    )

    def agreement(rule: str) -> float:
        trained = train_heads(uneven, settings.model_copy(update={"sizes": rule}), Run())
        return float(adjusted_rand_score(np.repeat(range(4), sizes), labels_of(trained, uneven)))

    assert agreement("found") > 0.95
    assert agreement("even") < 0.9

"""The account of a run: counts, figures and warnings, read from its files alone."""

from spice.runs import RunFolder, account


def test_the_account_counts_what_the_labels_say(finished: RunFolder) -> None:
    found = account(finished.path)
    assert (found.images, found.reliable) == (6, 3)
    assert [cluster.images for cluster in found.clusters] == [3, 0, 3]
    assert [cluster.reliable for cluster in found.clusters] == [1, 0, 2]
    assert found.clusters[0].reliability == 0.666667
    assert found.clusters[0].nearest_other_cluster == 2


def test_an_empty_cluster_is_listed_without_made_up_figures(finished: RunFolder) -> None:
    empty = account(finished.path).clusters[1]
    assert (empty.images, empty.reliability, empty.probability, empty.nearest_other_cluster) == (0, None, None, None)


def test_figures_warnings_and_times_come_from_the_steps(finished: RunFolder) -> None:
    found = account(finished.path)
    assert found.figures["scan"] == {"problems": 2}
    assert [(warned.name, warned.text) for warned in found.warnings] == [("SomeWarning", "try this")]
    assert found.seconds == {"scan": 1.5, "labels": 0.5}

"""The summary of a run: counts, results of the steps and warnings, read from its files alone."""

from made_run import record_of

from spice.runs import Result, summarize
from spice.runs.editor import Editor
from spice.runs.edits import Name, SetAside
from spice.runs.records import write_record
from spice.trust.grade import Grade, grades


def test_the_summary_counts_what_the_labels_say(finished: Result) -> None:
    found = summarize(finished)
    assert (found.images, found.reliable) == (6, 3)
    assert [cluster.images for cluster in found.clusters] == [3, 0, 3]
    assert [cluster.reliable for cluster in found.clusters] == [1, 0, 2]
    assert found.clusters[0].reliability == 0.666667
    assert found.clusters[0].nearest_other_cluster == 2


def test_an_empty_cluster_is_listed_without_made_up_figures(finished: Result) -> None:
    empty = summarize(finished).clusters[1]
    assert (empty.images, empty.reliability, empty.confidence, empty.nearest_other_cluster) == (0, None, None, None)


def test_results_warnings_and_times_come_from_the_steps(finished: Result) -> None:
    write_record(finished.folder, record_of("labels", finished.answer, seconds=0.5))
    found = summarize(finished.reread())
    assert found.scan.images == 6
    assert [(warning.name, warning.text) for warning in found.warnings] == [("SomeWarning", "try this")]
    assert list(found.seconds) == ["scan", "encode", "views", "neighbors", "kmeans", "heads", "labels", "model"]
    assert (found.seconds["scan"], found.seconds["labels"]) == (1.0, 0.5)


def test_a_step_that_is_not_finished_or_not_wanted_is_left_out(finished: Result) -> None:
    (finished.folder / "labels.json").unlink()
    found = summarize(finished.reread(), stopped_before="the labels")
    assert (found.labels, found.reliable, found.clusters, found.joint) == (None, None, [], None)
    assert found.heads == finished.heads
    assert "labels" not in found.seconds
    assert found.stopped_before == "the labels"


def test_every_group_has_the_grade_of_its_nearest_neighbors_and_its_name(finished: Result) -> None:
    neighbors = finished.neighbors[:, : finished.answer.neighbors]
    expected = grades(finished.labels.cluster, neighbors, finished.answer.clusters)
    found = summarize(finished).clusters
    assert [cluster.grade for cluster in found] == expected
    assert found[1].grade == Grade.WEAK, "a group without images"
    Editor(finished.run).do(Name(group=2, name="cats"))
    assert [cluster.name for cluster in summarize(finished.reread()).clusters] == ["", "", "cats"]


def test_the_summary_knows_whether_edits_changed_groups_and_not_only_names(finished: Result) -> None:
    editor = Editor(finished.run)
    editor.do(Name(group=2, name="cats"))
    assert not summarize(finished.reread()).edited
    editor.do(SetAside(group=2))
    assert summarize(finished.reread()).edited

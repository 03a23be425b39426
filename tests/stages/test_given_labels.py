"""Labels from the user: found by path, matched to clusters, and merged with those that joint training learns."""

import pytest
import torch

from spice.errors import UserError
from spice.stages.joint.draws import Labeled
from spice.stages.joint.given import find_given, match_labels, merge_labels

PATHS = ["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg", "5.jpg", "6.jpg"]
#                 cluster of image  0  1  2  3  4  5
PREDICTED = torch.tensor([2, 2, 0, 0, 1, 0])
RELIABLE = Labeled(torch.tensor([0, 3, 5]), torch.tensor([2, 0, 0]))


def test_a_name_belongs_to_the_cluster_that_holds_most_of_its_images() -> None:
    given = find_given({"a/1.jpg": "cat", "a/2.jpg": "cat", "b/3.jpg": "dog", "6.jpg": "cat"}, PATHS)
    matched = match_labels(given, PREDICTED, clusters=3)
    assert matched == {"cat": 2, "dog": 0}
    # Given labels override the predicted ones; the other reliable labels stay.
    merged = merge_labels(RELIABLE, given, matched)
    assert merged.image.tolist() == [0, 1, 2, 3, 5]
    assert merged.cluster.tolist() == [2, 2, 0, 0, 2]


def test_names_are_matched_one_to_one_so_that_most_labels_agree() -> None:
    # Both names have images in cluster 0; "cat" has them in cluster 2 too, and so leaves 0 to "dog".
    given = find_given({"b/3.jpg": "cat", "b/4.jpg": "cat", "a/1.jpg": "cat", "6.jpg": "dog"}, PATHS)
    assert match_labels(given, PREDICTED, clusters=3) == {"cat": 2, "dog": 0}


def test_a_path_may_be_spelled_in_another_way() -> None:
    assert find_given({"./a//1.jpg": "x", "b\\3.jpg": "y"}, PATHS).image.tolist() == [0, 2]


def test_no_labels_are_no_labels() -> None:
    given = find_given({}, PATHS)
    assert match_labels(given, PREDICTED, clusters=3) == {}
    assert merge_labels(RELIABLE, given, {}).image.tolist() == [0, 3, 5]


def test_a_label_of_no_image_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"no image c/9\.jpg and 1 more for the given label; paths look like this: a/1\.jpg"
    ):
        find_given({"a/1.jpg": "cat", "c/9.jpg": "cat", "c/8.jpg": "cat"}, PATHS)


def test_more_names_than_clusters_are_refused() -> None:
    given = find_given({path: str(number) for number, path in enumerate(PATHS)}, PATHS)
    with pytest.raises(UserError, match=r"the labels have 6 names, but there are only 3 clusters; use more"):
        match_labels(given, PREDICTED, clusters=3)


def test_two_names_in_one_cluster_are_refused_before_any_training() -> None:
    given = find_given({"b/3.jpg": "cat", "b/4.jpg": "dog", "6.jpg": "dog"}, PATHS)
    with pytest.raises(UserError, match="images labeled 'cat' and 'dog' are both in cluster 0: use more clusters"):
        match_labels(given, PREDICTED, clusters=3)

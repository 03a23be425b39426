"""Labels that the user gives: found by path, matched to clusters, and put among those that joint training learns."""

import pytest
import torch

from spice.errors import UserError
from spice.stages.joint.draws import Labeled
from spice.stages.joint.given import find, join

PATHS = ["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg", "5.jpg", "6.jpg"]
#                 cluster of image  0  1  2  3  4  5
PREDICTED = torch.tensor([2, 2, 0, 0, 1, 0])
RELIABLE = Labeled(torch.tensor([0, 3, 5]), torch.tensor([2, 0, 0]))


def test_a_name_means_the_cluster_that_most_of_its_images_lie_in() -> None:
    given = find({"a/1.jpg": "cat", "a/2.jpg": "cat", "b/3.jpg": "dog", "6.jpg": "cat"}, PATHS)
    found = join(RELIABLE, given, PREDICTED, clusters=3)
    assert found.clusters == {"cat": 2, "dog": 0}
    # Given labels take the place of what was thought, and the other reliable ones stay.
    assert found.labeled.image.tolist() == [0, 1, 2, 3, 5]
    assert found.labeled.cluster.tolist() == [2, 2, 0, 0, 2]


def test_names_are_matched_one_to_one_so_that_most_labels_agree() -> None:
    # Both names have images in cluster 0; "cat" has them in cluster 2 too, and so leaves 0 to "dog".
    given = find({"b/3.jpg": "cat", "b/4.jpg": "cat", "a/1.jpg": "cat", "6.jpg": "dog"}, PATHS)
    found = join(RELIABLE, given, PREDICTED, clusters=3)
    assert found.clusters == {"cat": 2, "dog": 0}


def test_a_path_may_be_spelled_in_another_way() -> None:
    assert find({"./a//1.jpg": "x", "b\\3.jpg": "y"}, PATHS).image.tolist() == [0, 2]


def test_no_labels_are_no_labels() -> None:
    given = find({}, PATHS)
    assert join(RELIABLE, given, PREDICTED, clusters=3).labeled.image.tolist() == [0, 3, 5]


def test_a_label_of_no_image_is_refused() -> None:
    with pytest.raises(UserError, match=r"given for c/9\.jpg and 1 more, which is none of the images; .* a/1\.jpg"):
        find({"a/1.jpg": "cat", "c/9.jpg": "cat", "c/8.jpg": "cat"}, PATHS)


def test_more_names_than_clusters_are_refused() -> None:
    given = find({path: str(number) for number, path in enumerate(PATHS)}, PATHS)
    with pytest.raises(UserError, match=r"the labels have 6 names, and there are only 3 clusters; ask for more"):
        join(RELIABLE, given, PREDICTED, clusters=3)


def test_names_that_the_clusters_do_not_tell_apart_are_refused() -> None:
    given = find({"b/3.jpg": "cat", "b/4.jpg": "dog", "6.jpg": "dog"}, PATHS)
    with pytest.raises(UserError, match="images labeled 'cat' lie in cluster 0, which is 'dog': the clusters do not"):
        join(RELIABLE, given, PREDICTED, clusters=3)

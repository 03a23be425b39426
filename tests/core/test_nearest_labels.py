"""Labels for clusters of unequal size, in plain loops."""

import torch
from test_prototypes import cosine, mean_of, most, random_batch, toy  # type: ignore[import-not-found]  # beside this one

from spice.core.fast_prototypes import nearest_labels, nearest_table


def test_labels_by_the_nearest_prototype_are_those_of_plain_loops() -> None:
    features, probs = random_batch(5, images=26, heads=2)
    probs[1, :, 2] *= 1e-3  # no image of the second head is likeliest of the last cluster: its surest one serves
    probs = probs / probs.sum(dim=-1, keepdim=True)
    labels = nearest_labels(features, probs)
    assert labels.image.shape == labels.cluster.shape == (2, 26 + 3 * 2)  # 26 // (4 * 3) = 2 more for each cluster
    rows = features.tolist()
    for image, cluster, prob in zip(labels.image.tolist(), labels.cluster.tolist(), probs.tolist(), strict=True):
        likeliest = [row.index(max(row)) for row in prob]
        members = [[i for i in range(26) if likeliest[i] == k] or most([row[k] for row in prob], 1) for k in range(3)]
        centers = [mean_of([rows[i] for i in some]) for some in members]
        near = [[cosine(row, center) for row in rows] for center in centers]
        assert image[:26] == list(range(26))
        columns = [[row[i] for row in near] for i in range(26)]
        assert cluster[:26] == [column.index(max(column)) for column in columns]
        assert cluster[26:] == [0, 0, 1, 1, 2, 2]
        assert [set(image[26 + 2 * k : 28 + 2 * k]) for k in range(3)] == [set(most(near[k], 2)) for k in range(3)]


def test_a_cluster_that_no_image_is_likeliest_of_rests_on_its_surest_image() -> None:
    features, probs = toy()
    spare = torch.zeros(10, 1, dtype=probs.dtype)
    spare[8] = 0.05
    probs = torch.cat([probs * (1 - spare), spare], dim=1)
    labels = nearest_labels(features, probs)
    assert labels.cluster[8] == 3  # at 110 degrees, where its only image lies
    assert labels.image[10:].tolist()[3] == 8


def test_labels_by_the_nearest_prototype_of_one_head_are_those_of_all() -> None:
    features, probs = random_batch(7, heads=3)
    together = nearest_labels(features, probs)
    for number in range(3):
        alone = nearest_labels(features, probs[number])
        assert torch.equal(alone.image, together.image[number])
        assert torch.equal(alone.cluster, together.cluster[number])


def test_every_image_has_a_label_and_the_most_central_images_have_two() -> None:
    features, probs = random_batch(1, images=60, clusters=5, heads=2)
    table = nearest_table(features, probs)
    assert table.sum(dim=2).min() == 1
    assert table.sum(dim=(1, 2)).eq(60 + 5 * 3).all()  # 60 // (4 * 5) more for each cluster
    assert table.max() == 2

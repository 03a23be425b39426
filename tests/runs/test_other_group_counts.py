"""What another number of groups changes, in numbers and in words."""

import numpy as np

from spice.runs.other_group_counts import OtherCount, compare, counts_in_words, parts_of

ANSWER = np.repeat([0, 1, 2, 3], 10).astype("i4")


def test_a_coarser_partition_joins_and_a_finer_one_splits() -> None:
    coarse = np.repeat([1, 0, 1, 2], 10).astype("i4")
    assert compare(3, ANSWER, coarse) == OtherCount(clusters=3, joins=[[0, 2]], splits=[])
    fine = np.concatenate([ANSWER[:30], np.repeat([3, 4], 5)]).astype("i4")
    assert compare(5, ANSWER, fine) == OtherCount(clusters=5, joins=[], splits=[3])


def test_a_group_belongs_where_at_least_half_of_it_lies() -> None:
    whole = np.array([0] * 6 + [1] * 4, "i4")
    assert parts_of(whole, np.zeros(10, "i4")) == [[0], []]
    assert parts_of(np.array([0, 0, 1, 1], "i4"), np.zeros(4, "i4")) == [[0], []]  # two halves: the first
    assert parts_of(np.array([0, 1, 2], "i4"), np.zeros(3, "i4")) == [[], [], []]  # thirds: nowhere


def test_the_list_reads_as_a_sentence_and_says_what_the_nearest_number_changes() -> None:
    four = OtherCount(clusters=4, joins=[[1, 3]], splits=[])
    eleven = OtherCount(clusters=11, joins=[], splits=[3, 4, 5])
    assert counts_in_words(6, [four, eleven]) == "6, but 4 or 11 would also fit (4 would merge groups 1+3)"
    assert counts_in_words(6, [eleven]) == "6, but 11 would also fit (11 would split groups 3, 4, 5)"
    assert counts_in_words(6, []) == "6"
    many = OtherCount(clusters=2, joins=[[0, 1, 2, 3, 4, 5], [6, 7], [8, 9, 10]], splits=[])
    assert counts_in_words(11, [many]) == "11, but 2 would also fit (2 would merge groups 6+7, 8+9+10, ...)"
    large = OtherCount(clusters=6, joins=[[0, 1, 2, 3, 4, 5]], splits=[])
    assert counts_in_words(11, [large]) == "11, but 6 would also fit (6 would merge groups 0+1+2 and 3 more)"
    assert counts_in_words(6, [eleven], reason=" (fits your labels best)").startswith(
        "6 (fits your labels best), but 11 would"
    )
    assert counts_in_words(11, [large], width=20) == "11, but 6 would also fit"
    assert counts_in_words(11, [many], width=60) == "11, but 2 would also fit (2 would merge groups 6+7, ...)"
    assert counts_in_words(6, [OtherCount(clusters=7, joins=[], splits=[])]) == "6, but 7 would also fit"

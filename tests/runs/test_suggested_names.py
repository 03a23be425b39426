"""Suggested names: words that fit one group and not the others, and none where none fits."""

from pathlib import Path

import numpy as np
from explored_runs import make_explored_run

from spice.runs import Groups, Result
from spice.runs.artifacts import WORDS
from spice.runs.groups import unedited
from spice.runs.suggested_names import CLASSES_KEPT, ImageWords, read_words, suggest_names, vocabulary

# Classes by their number in ILSVRC 2012.
TENCH, GOLDFISH, GOLDEN_RETRIEVER, BEAGLE, POODLE, LEMON, GAS_PUMP = 0, 1, 207, 162, 266, 951, 571


def groups(sizes: list[int]) -> Groups:
    cluster = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Groups(
        cluster, np.zeros(len(cluster), dtype=np.bool_), {}, list(range(len(sizes))), frozenset(),
        np.arange(len(sizes), dtype=np.int32), {}, frozenset(),
    )  # fmt: skip


def seen(*images: dict[int, float]) -> ImageWords:
    """Every image's classes with their probabilities."""
    index = np.full((len(images), CLASSES_KEPT), 999, dtype=np.uint16)
    share = np.zeros((len(images), CLASSES_KEPT), dtype=np.float16)
    for row, image in enumerate(images):
        for place, (number, probability) in enumerate(image.items()):
            index[row, place], share[row, place] = number, probability
    return ImageWords(index, share)


def test_words_are_in_the_order_of_the_classifier() -> None:
    known = vocabulary()
    name = {number: known.words[int(place)] for number, place in zip(*np.nonzero(known.holds), strict=True)
            if known.holds[:, place].sum() == 1}  # fmt: skip
    assert known.holds.shape == (1000, len(known.words))
    found = [name[number] for number in (TENCH, GOLDFISH, GOLDEN_RETRIEVER, BEAGLE, LEMON, GAS_PUMP, 999)]
    assert found == ["tench", "goldfish", "golden retriever", "beagle", "lemon", "gas pump", "toilet tissue"]
    dogs = known.holds[:, known.words.index("dog")]
    assert dogs.sum() == 118
    assert dogs[[GOLDEN_RETRIEVER, BEAGLE, POODLE]].all()
    assert not dogs[LEMON]


def test_a_group_of_one_thing_gets_its_word_and_a_group_of_kinds_the_wider_one() -> None:
    breeds = [{GOLDEN_RETRIEVER: 0.9}, {BEAGLE: 0.9}, {POODLE: 0.9}]
    found = suggest_names(seen({LEMON: 0.8}, {LEMON: 0.7}, *breeds, {GAS_PUMP: 0.9}), groups([2, 3, 1]))
    assert found == {0: "lemon", 1: "dog", 2: "gas pump"}


def test_a_word_that_fits_all_groups_names_none() -> None:
    assert suggest_names(seen(*[{LEMON: 0.9}] * 4), groups([2, 2])) == {}


def test_where_the_classifier_is_unsure_there_is_no_word() -> None:
    assert suggest_names(seen({LEMON: 0.29}, {GAS_PUMP: 0.9}), groups([1, 1])) == {1: "gas pump"}


def test_no_word_comes_twice_and_named_groups_are_left_alone() -> None:
    images = seen({LEMON: 0.9}, {LEMON: 0.6}, {GAS_PUMP: 0.9}, {TENCH: 0.9}, {TENCH: 0.9}, {TENCH: 0.9})
    assert suggest_names(images, groups([1, 1, 1, 3]))[0] == "lemon"
    assert list(suggest_names(images, groups([1, 1, 1, 3])).values()).count("lemon") == 1
    assert 0 not in suggest_names(images, groups([1, 1, 1, 3])._replace(names={0: "sour"}))
    assert "lemon" not in suggest_names(images, groups([1, 1, 1, 3])._replace(names={2: "lemon"})).values()


def test_a_group_that_was_set_aside_or_emptied_has_no_word() -> None:
    images = seen({LEMON: 0.9}, {GAS_PUMP: 0.9}, {TENCH: 0.9})
    assert set(suggest_names(images, groups([1, 1, 1])._replace(set_aside=frozenset({1})))) == {0, 2}
    merged = groups([1, 1, 1])._replace(group=np.array([0, 0, 2], dtype=np.int32))
    assert set(suggest_names(images, merged)) == {0, 2}


def test_a_run_without_words_suggests_nothing(tmp_path: Path) -> None:
    run: Result = make_explored_run(tmp_path / "run")
    assert read_words(run) is None
    assert suggest_names(None, unedited(run.base)) == {}
    kept = seen({LEMON: 0.9}, {GAS_PUMP: 0.9})
    np.savez(run / WORDS, **kept._asdict())
    found = read_words(run)
    assert found is not None
    assert (found.best == kept.best).all()

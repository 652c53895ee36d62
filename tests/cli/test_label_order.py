import numpy as np
import pytest
from helpers.commands import call, call_json
from hypothesis import given, settings
from hypothesis import strategies as st

import marc
from marc.cli._label_order import (
    _at_least_distinct,
    _best_one_to_one,
    _in_words,
    _usual_mistakes,
    chance_notes,
    check_label_order,
)


def honest(accuracy, n_classes, per_class, seed=0):
    """Answers of a predictor that is right so often, else anything; and the labels."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), per_class)
    right = draw.random(len(labels)) < accuracy
    return np.where(right, labels, draw.integers(n_classes, size=len(labels))), labels


def text_order(n_classes):
    return np.array(sorted(range(n_classes), key=str))


@pytest.mark.parametrize(("n_classes", "per_class"), [(20, 10), (200, 10), (1000, 10), (1000, 1)])
@pytest.mark.parametrize("accuracy", [0.95, 0.3])
@pytest.mark.parametrize("side", ["labels", "class names"])
def test_text_order_of_numbers_is_caught_on_either_side(n_classes, per_class, accuracy, side):
    answers, labels = honest(accuracy, n_classes, per_class)
    stands_for = text_order(n_classes)  # the first folder is 0, the second 1, the third 10
    given_as = np.argsort(stands_for)
    if side == "labels":
        found = check_label_order(answers, given_as[labels], n_classes)
        assert np.array_equal(np.array(found.order), stands_for)
    else:
        found = check_label_order(given_as[answers], labels, n_classes)
        assert np.array_equal(np.array(found.order), given_as)
    assert found.status == "permuted"
    assert "text order" in found.best
    assert "imagenet-v2" in found.fix
    assert found.best_accuracy == np.mean(answers == labels)
    assert found.accuracy < 0.2
    assert "in the text order" in found.message


@pytest.mark.parametrize("n_classes", [12, 100, 1000])
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("shifted by one", lambda n: np.roll(np.arange(n), 1)),
        ("shifted by one", lambda n: np.roll(np.arange(n), -1)),
        ("reversed", lambda n: np.arange(n)[::-1]),
        ("numbers 1, 10", lambda n: np.argsort(sorted(range(n), key=lambda each: str(each + 1)))),
        ("another order", lambda n: np.random.default_rng(5).permutation(n)),
    ],
)
def test_other_permutations_are_caught_and_the_labels_can_be_mended(n_classes, name, mistake):
    answers, labels = honest(0.6, n_classes, 10)
    given_labels = mistake(n_classes)[labels]
    found = check_label_order(answers, given_labels, n_classes)
    assert found.status == "permuted"
    assert name in found.best
    assert "np.array(order)" in found.fix or "text order" in found.best
    mended = np.array(found.order)[given_labels]
    assert np.mean(mended == labels) > 0.97
    assert abs(found.best_accuracy - np.mean(answers == labels)) < 0.04


def test_labels_in_the_order_of_sorted_names_are_caught():
    names = ["zebra", "Ant", "bee", "yak", "cat", "Wasp", "dog", "viper"]
    answers, labels = honest(0.7, 8, 10)
    by_name = np.array(sorted(range(8), key=lambda place: names[place]))
    found = check_label_order(answers, np.argsort(by_name)[labels], 8, names)
    assert (found.status, found.best) == ("permuted", "order of the sorted class names")
    no_case = np.array(sorted(range(8), key=lambda place: names[place].lower()))
    found = check_label_order(answers, np.argsort(no_case)[labels], 8, names)
    assert found.status == "permuted"
    assert found.best.endswith("without regard to case")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_classes", "per_class"), [(2, 200), (12, 50), (200, 3), (1000, 10)])
def test_answers_at_random_tell_nothing(n_classes, per_class, seed):
    answers, labels = honest(0.0, n_classes, per_class, seed)
    found = check_label_order(answers, labels, n_classes)
    assert found.status == "cannot tell"
    assert found.order == ()
    assert "too close to tell" in found.message
    assert found.fix


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("accuracy", [0.3, 0.9])
@pytest.mark.parametrize(("n_classes", "per_class"), [(12, 50), (20, 10), (200, 3), (1000, 1)])
def test_a_weak_but_honest_predictor_is_not_accused(n_classes, per_class, accuracy, seed):
    answers, labels = honest(accuracy, n_classes, per_class, seed)
    found = check_label_order(answers, labels, n_classes)
    assert (found.status, found.fix, found.moved, found.order) == ("fine", "", (), ())
    assert found.accuracy == np.mean(answers == labels)


def test_a_predictor_that_answers_half_its_classes_is_not_accused():
    answers, labels = honest(0.7, 40, 20)
    answers = answers // 2 * 2  # the odd classes are never answered
    found = check_label_order(answers, labels, 40)
    assert found.status == "fine"
    assert check_label_order(np.zeros_like(labels), labels, 40).status == "cannot tell"


def test_two_exchanged_names_are_named_and_no_more():
    answers, labels = honest(0.8, 12, 40)
    swap = np.arange(12)
    swap[[3, 7]] = [7, 3]
    found = check_label_order(swap[answers], labels, 12, list("lkjihgfedcba"))
    assert found.status == "fine"
    assert found.moved == (("i", "e"), ("e", "i"))
    assert "'i' is answered 'e'" in found.message
    assert "names of these classes" in found.fix


def test_a_handful_of_images_tells_nothing():
    answers = np.array([1, 2, 0])
    found = check_label_order(answers, np.array([0, 1, 2]), 3)
    assert found.status == "cannot tell"


def test_chance_is_what_shuffled_answers_have():
    draw = np.random.default_rng(0)
    answers, labels = draw.integers(3, size=200) ** 2 % 3, draw.integers(3, size=200) // 2
    shuffled = [np.mean(draw.permutation(answers) == labels) for _ in range(2000)]
    found = check_label_order(answers, labels, 3)
    assert abs(found.chance - np.mean(shuffled)) < 0.005


def test_a_fit_does_not_flatter_a_small_set():
    """With two images a class much can be fitted; on held-out images nothing of it is left."""
    draw = np.random.default_rng(0)
    answers, labels = draw.integers(50, size=100), np.repeat(np.arange(50), 2)
    assert np.mean(_best_one_to_one(answers, labels, 50)[labels] == answers) > 0.3
    found = check_label_order(answers, labels, 50)
    assert found.status == "cannot tell"
    assert found.best_accuracy < 0.1


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**16))
def test_the_best_one_to_one_is_the_best_of_all(n_classes, seed):
    from itertools import permutations

    draw = np.random.default_rng(seed)
    said, true = draw.integers(n_classes, size=(2, 30))
    found = _best_one_to_one(said, true, n_classes)
    assert sorted(found) == list(range(n_classes))
    hits = [int((np.array(each)[true] == said).sum()) for each in permutations(range(n_classes))]
    assert int((found[true] == said).sum()) == max(hits)


def test_usual_mistakes_are_distinct_permutations_and_not_the_given_order():
    orders = [order for _, order in _usual_mistakes(30, [f"n{number}" for number in range(30)])]
    assert len({tuple(order) for order in orders}) == len(orders) > 5
    for order in orders:
        assert sorted(order) == list(range(30))
        assert not np.array_equal(order, np.arange(30))
    assert [name for name, _ in _usual_mistakes(2, ["a", "b"])] == ["reversed order"]


@pytest.mark.parametrize("n_classes", [5, 10, 20])
@pytest.mark.parametrize("tight", [0.4, 0.9])
def test_one_answer_at_random_for_each_class_is_hardly_ever_a_permutation(n_classes, tight):
    claims = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        labels = np.repeat(np.arange(n_classes), 500 // n_classes)
        alike = draw.random(len(labels)) < tight
        answers = draw.integers(n_classes, size=n_classes)[labels]
        answers = np.where(alike, answers, draw.integers(n_classes, size=len(labels)))
        claims += check_label_order(answers, labels, n_classes).status == "permuted"
    assert claims <= 2


def test_numbers_are_no_explanation_where_folders_have_names():
    names = [name for name, _ in _usual_mistakes(30, [f"n{n}" for n in range(30)], numbered=False)]
    assert names
    assert not [name for name in names if "numbers" in name]
    assert _in_words(["cat/1.png", "dog/2.png"])
    assert not _in_words(["cat/1.png", "7/2.png"])
    assert not _in_words(["1.png"])
    assert not _in_words([])


def test_the_luck_of_distinct_answers_is_exact():
    assert _at_least_distinct(3, 3, 1 / 3) == pytest.approx(6 / 27)
    assert _at_least_distinct(2, 3, 1 / 3) == pytest.approx(24 / 27)
    assert _at_least_distinct(1, 3, 1 / 3) == pytest.approx(1)


def test_an_accuracy_that_chance_gives_is_noted_and_no_other():
    answers, labels = honest(0.0, 10, 30)
    [note] = chance_notes(answers, labels, (), "folder/my photos")
    assert "chance is 10." in note
    assert "class names, the order of the labels" in note
    assert note.endswith("try: marc check 'folder/my photos'")
    assert chance_notes(*honest(0.3, 10, 30), (), "x") == []
    assert chance_notes(*honest(0.0, 10, 30, seed=1), (), "x") != []
    constant = np.zeros(300, dtype=np.int64)
    assert chance_notes(constant, labels, (), "x") != []
    tiny = np.array([0, 1, 2])
    assert chance_notes(tiny, tiny, (), "x") == []  # nobody could be told from chance
    assert chance_notes(tiny, np.array([1, 2, 0]), (), "x") == []


@pytest.mark.parametrize("n_classes", [2, 7, 1000])
def test_a_few_wrong_answers_are_no_sign_of_wrong_names(n_classes):
    labels = np.full(300, n_classes - 1)
    wrong = np.zeros(300, dtype=np.int64)
    for n in range(1, 7):  # a predictor that is right half of the time has 1.6 % of six wrong ones
        assert chance_notes(wrong[:n], labels[:n], (), "x") == []
    assert chance_notes(wrong[:7], labels[:7], (), "x") != []


def test_without_labels_only_one_answer_for_all_is_noted():
    same = np.full(30, 2)
    [note] = chance_notes(same, None, ("a", "b", "cat"), "x")
    assert note.startswith("without memory every image is answered 'cat'")
    assert chance_notes(same[:5], None, (), "x") == []
    assert chance_notes(np.arange(30) % 2, None, (), "x") == []


@pytest.fixture
def blind(tmp_path):
    """A pack whose predictor knows nothing of its classes."""
    draw = np.random.default_rng(0)
    arrays = {
        "views": draw.standard_normal((300, 16)),
        "prototypes": draw.standard_normal((10, 16)),
        "spaces": {"classes": draw.standard_normal((300, 8))},
    }
    labels = np.arange(300) % 10
    marc.write_pack(marc.Stream.from_arrays(**arrays, labels=labels), tmp_path / "blind.npz")
    return f"arrays/{tmp_path / 'blind.npz'}"


@pytest.mark.parametrize("words", [["run", "--seed", "0"], ["select", "--replicates", "5"]])
def test_a_predictor_at_chance_is_noted_with_what_to_do(
    blind, sources, tmp_path, words, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command, *options = words
    outcome = call(command, blind, *options)
    assert outcome.status == 0, outcome.err
    assert "note: without memory " in outcome.err
    assert f"try: marc check {blind}" in outcome.err
    [note] = call_json(command, blind, *options)["notes"]
    assert "chance is" in note
    assert call_json(command, sources["labelled"], *options)["notes"] == []
    assert "note: without" not in call(command, sources["labelled"], *options).err


def test_a_predictor_at_chance_is_noted_beside_all_methods(blind, tmp_path):
    outcome = call("run", blind, "--method", "all", "--seed", "0", "-o", tmp_path / "all")
    assert "note: without memory " in outcome.err

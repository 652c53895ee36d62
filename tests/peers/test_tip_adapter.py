import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.gold import PACKS, gold, gold_stream, near_ties
from helpers.making import make_stream
from helpers.reference import argmax, unit, view_logits
from helpers.tied_streams import SIZES, assert_order_does_not_matter, tied_stream

from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers import contract
from marc.peers.registry import METHODS, create_method
from marc.peers.tip_adapter import TipAdapter, _mean_keys
from marc.pictures import NAMED_SETS
from marc.sources.pack import write_pack
from marc.stream import Stream

CARD = METHODS["tip-adapter"]


@pytest.fixture
def shots(tmp_path):
    """Labelled images of five classes, of the kind of `make_stream`."""
    return written(make_stream(5, n_images=20, n_views=3), tmp_path / "shots.npz")


def written(stream, path):
    write_pack(stream, path)
    return str(path)


def labelled(like, rows, labels, path, n_views=None):
    """A pack of some images of a stream as shots."""
    features = like.features
    views = np.asarray(features.views)[rows][:, :n_views]
    scale = features.predictor.logit_scale
    prototypes = features.predictor.prototypes
    stream = Stream.from_arrays(views, prototypes, logit_scale=scale, labels=labels)
    return written(stream, path)


def literal_logits(plain, prototypes, scale, shots, method):
    """The formula over lists; shots are (views as stored, label)."""
    logits = view_logits([plain], prototypes, scale)[0].tolist()
    for views, label in shots:
        mean = [sum(view[d] for view in views) / len(views) for d in range(len(plain))]
        cosine = float(np.dot(unit(plain), unit(mean)))
        logits[label] += method.shots_weight * math.exp(-method.beta * (1 - cosine))
    return logits


def test_it_keeps_the_contract_of_methods(shots, tmp_path, monkeypatch):
    two = written(make_stream(5, n_images=20, n_classes=2), tmp_path / "two.npz")
    bounded = contract.CHECKS["memory is bounded"]
    of_two_classes = lambda make, stream: bounded(lambda: TipAdapter(two), stream)  # noqa: E731
    monkeypatch.setitem(contract.CHECKS, "memory is bounded", of_two_classes)
    contract.check_method(lambda: TipAdapter(shots))


@pytest.mark.parametrize(("n_classes", "n_views"), SIZES)
def test_it_follows_the_formula(n_classes, n_views, tmp_path):
    train, stream = tied_stream(1, n_classes, n_views), tied_stream(2, n_classes, n_views)
    method = TipAdapter(written(train, tmp_path / "shots.npz"), shots_weight=3.0, beta=5.5)
    prototypes = stream.features.predictor.prototypes
    rows = list(zip(train.features.views, train.row_labels, strict=True))
    for step in iter_steps(method, stream):
        plain = stream.features.views[step.item, 0]
        expected = literal_logits(plain, prototypes, 10.0, rows, method)
        np.testing.assert_allclose(step.logits, expected, atol=2e-5)
        if not near_ties(expected, 1e-4):
            assert step.prediction == argmax(expected)
        assert step.base_prediction == argmax(view_logits([plain], prototypes, 10.0)[0])


def test_features_are_averaged_at_the_length_at_which_they_are_stored():
    views = np.array([[[3.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 5.0]]])
    expected = [[3 / math.sqrt(10), 1 / math.sqrt(10)], [0.0, 1.0]]
    np.testing.assert_allclose(_mean_keys(views), expected, atol=1e-7)


def test_views_that_cancel_each_other_are_refused(tmp_path):
    views = np.ones((2, 2, 4))
    views[1, 1] = -1.0
    path = written(Stream.from_arrays(views, np.eye(4), labels=[0, 1]), tmp_path / "none.npz")
    with pytest.raises(MarcError, match="mean views of the shots"):
        TipAdapter(path)


def test_a_class_without_shots_gets_exactly_nothing(tmp_path):
    stream = tied_stream(3, 5, 1)
    path = labelled(stream, [0, 1, 2], [1, 1, 3], tmp_path / "few.npz")
    for step in iter_steps(TipAdapter(path), stream):
        assert step.evidence["shots"][[0, 2, 4]].tolist() == [0, 0, 0]
        assert (step.evidence["shots"][[1, 3]] > 0).all()
        assert step.weights == {"shots": 1.17}


def test_weight_0_is_the_plain_image_and_order_does_not_matter(shots):
    stream = make_stream(1, n_views=2)
    result = run(TipAdapter(shots, shots_weight=0.0), stream)
    assert np.array_equal(result.predictions, result.base_predictions)
    assert_order_does_not_matter(lambda: TipAdapter(shots), stream)


def test_labelled_images_help(shots, tmp_path):
    stream = make_stream(1, n_images=300)
    train = labelled(stream, np.arange(100), stream.row_labels[:100], tmp_path / "train.npz")
    assert run(TipAdapter(train), stream.subset(np.arange(100, 300))).gain > 0


def test_the_settings_name_the_content_and_a_changed_file_is_refused(shots, tmp_path):
    config = TipAdapter(shots).config()
    assert len(config["digest"]) == 16
    state = TipAdapter(shots).state()
    assert state["arrays"] == {}
    assert TipAdapter.from_state(state).config() == config
    stream = make_stream(5, n_images=20, n_views=3)
    labels = stream.row_labels.copy()
    labels[0] = (labels[0] + 1) % 5
    labelled(stream, np.arange(20), labels, shots)
    assert TipAdapter(shots).digest != config["digest"]
    with pytest.raises(MarcError, match="the file was changed"):
        TipAdapter.from_state(state)
    again = str(tmp_path / "again.npz")
    assert TipAdapter(written(stream, again)).digest == config["digest"]  # wherever it lies


def test_a_feature_store_can_be_the_shots(tmp_path):
    folder = draw_lab_folder(tmp_path / "pictures", count=9)
    embed_plan(make_plan(folder, tmp_path / "store", spaces=(), n_views=2))
    stream = FeatureStore(tmp_path / "store").stream()
    method = TipAdapter(str(tmp_path / "store"))
    copy = TipAdapter(written(stream, tmp_path / "copy.npz"))
    for step, expected in zip(iter_steps(method, stream), iter_steps(copy, stream), strict=True):
        assert np.array_equal(step.logits, expected.logits)
        assert step.evidence["shots"].sum() > 0


def test_what_is_no_shots_is_refused(tmp_path):
    unknown = make_stream()
    unknown = Stream(unknown.features, unknown.order)
    with pytest.raises(MarcError, match="these shots have no labels"):
        TipAdapter(written(unknown, tmp_path / "unknown.npz"))
    with pytest.raises(MarcError, match="no such feature pack"):
        TipAdapter(str(tmp_path / "nothing.npz"))
    for bad in (None, 3, ""):
        with pytest.raises(MarcError, match="shots must be a path"):
            TipAdapter(bad)
    with pytest.raises(MarcError, match="tip-adapter needs shots"):
        create_method("tip-adapter")


@pytest.mark.parametrize("other", [{"n_classes": 4}, {"dim": 7}])
def test_shots_of_other_classes_or_dimensions_are_refused(shots, other):
    with pytest.raises(MarcError) as refused:
        run(TipAdapter(shots), make_stream(**other))
    assert "5 classes, 8 dimensions" in refused.value.got
    assert "do not fit this stream" in str(refused.value)


@pytest.mark.parametrize("bad", [{"shots_weight": -1}, {"beta": math.nan}, {"beta": "5"}], ids=str)
def test_bad_settings_are_refused(shots, bad):
    with pytest.raises(MarcError, match=next(iter(bad))):
        TipAdapter(shots, **bad)


def test_published_settings_are_those_of_known_sets(shots):
    assert set(CARD.published) <= set(NAMED_SETS)
    method = create_method("tip-adapter", published="flowers102", shots=shots)
    assert (method.shots_weight, method.beta) == (10.0, 1.0)


def test_shots_of_the_evaluated_stream_are_refused(tmp_path):
    stream = make_stream(3, n_images=20)
    path = labelled(stream, np.arange(5), stream.row_labels[:5], tmp_path / "own.npz", n_views=1)
    method = TipAdapter(path)
    with pytest.raises(MarcError, match="images of the stream") as refused:
        method.check(stream)
    assert refused.value.got == "5 of 5 shots are in it"
    method.check(make_stream(4, n_images=20))


@pytest.mark.parametrize("pack", PACKS)
def test_logits_are_those_of_the_released_code(pack, tmp_path):
    expected = gold(f"tipadapter_{pack}")
    stream, rows = gold_stream(pack), expected["cache_rows"]
    assert np.array_equal(stream.row_labels[rows], expected["cache_labels"])
    path = labelled(stream, rows, expected["cache_labels"], tmp_path / "shots.npz", n_views=1)
    method = TipAdapter(path, shots_weight=1.0, beta=5.5)
    assert np.array_equal(stream.order[~np.isin(stream.order, rows)], expected["order"])
    logits = np.array([method.step(stream.query(int(row))).logits for row in expected["order"]])
    # Rows within a millionth of unit length stay as they are here, so 32.3 cosines differ by 6e-5.
    np.testing.assert_allclose(logits, expected["logits"], rtol=0, atol=1e-4)
    assert np.array_equal(logits.argmax(axis=1), expected["pred"])


def test_shots_of_classes_in_another_order_are_refused_where_names_are_known(tmp_path):
    names = ["a_cat", "dog", "Owl", "bee", "eel"]

    def named(stream, names):
        return replace(stream, features=replace(stream.features, class_names=tuple(names)))

    stream, train = named(make_stream(1), names), make_stream(5, n_images=20)
    other = TipAdapter(written(named(train, names[::-1]), tmp_path / "other.npz"))
    with pytest.raises(MarcError, match="or in another order") as refused:
        run(other, stream)
    assert "class 0 is 'eel'" in refused.value.got
    assert "'a_cat'" in refused.value.allowed
    run(other, make_stream(1))  # whose names are not known
    run(TipAdapter(written(train, tmp_path / "unnamed.npz")), stream)
    alike = ["A cat", *names[1:]]
    run(TipAdapter(written(named(train, alike), tmp_path / "alike.npz")), stream)

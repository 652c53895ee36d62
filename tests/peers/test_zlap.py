import numpy as np
import pytest
from helpers.gold import PACKS, gold_stream
from helpers.gold import gold as released
from helpers.making import make_stream
from helpers.tied_streams import assert_order_does_not_matter, awkward_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.registry import create_method
from marc.peers.zlap import InductiveZLaP, ZLaP
from marc.sources.pack import write_pack
from marc.stream import Stream

SETTINGS = [
    {},
    {"n_neighbors": 1},
    {"n_neighbors": 2, "gamma": 1.0, "alpha": 0.9},
    {"n_neighbors": 40, "gamma": 0.5, "alpha": 0.05},
    {"alpha": 0.0},
]


@pytest.fixture
def file(tmp_path):
    """Unlabelled images of the kind of `make_stream`."""
    return written(make_stream(5, n_images=40, n_views=2), tmp_path / "unlabelled.npz")


def written(stream, path, rows=slice(None)):
    """A pack of some images of a stream, without their labels."""
    features = stream.features
    views, predictor = np.asarray(features.views)[rows], features.predictor
    scale = predictor.logit_scale
    write_pack(Stream.from_arrays(views, predictor.prototypes, logit_scale=scale), path)
    return str(path)


def features_of(stream):
    """Plain images, then texts, in float64."""
    features = stream.features
    return features.clip_keys.astype(float), features.predictor.prototypes.astype(float)


def nearest(rows, feature, n):
    """The first n of the nearest rows, and what they weigh."""
    cosines = [float(np.sum(row * feature)) for row in rows]
    near = sorted(range(len(rows)), key=lambda j: -cosines[j])[:n]
    return near, np.array([max(cosines[j], 0) for j in near])


def literal_inverse(images, texts, method):
    """(I - alpha W~)^-1 (C + N, C + N), dense, the texts first."""
    N, C, k = len(images), len(texts), method.n_neighbors
    W = np.zeros((C + N, C + N))
    for i, image in enumerate(images):
        near, weights = nearest(images, image, k)
        W[C + i, [C + j for j in near]] = weights
        near, weights = nearest(texts, image, k)
        W[C + i, near] = weights**method.gamma * (weights > 0)
    W = W + W.T
    W[np.diag_indices(C + N)] = 0
    S = W.sum(axis=1)
    S[S == 0] = 1
    return np.linalg.inv(np.eye(C + N) - method.alpha * W / np.sqrt(np.outer(S, S)))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("n_classes", "n_images"), [(2, 1), (3, 2), (3, 30), (9, 30), (70, 12)])
def test_zlap_equals_a_dense_inverse(n_classes, n_images, settings):
    stream = awkward_stream(n_classes, n_classes, 2, n_images=n_images, twins=False).shuffled(1)
    method = ZLaP(**settings)
    images, texts = features_of(stream)
    inverse = literal_inverse(images[stream.order], texts, method)
    steps = list(iter_steps(method, stream))
    assert [step.item for step in steps] == stream.order.tolist()
    for position, (step, query) in enumerate(zip(steps, stream, strict=True)):
        expected = inverse[n_classes + position, :n_classes]
        np.testing.assert_allclose(step.logits, expected, atol=1e-6)
        np.testing.assert_allclose(step.base, query.view_logits[0], atol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("n_classes", "n_images"), [(2, 1), (3, 2), (3, 30), (9, 30), (70, 12)])
@pytest.mark.parametrize("sparse", [False, True])
def test_inductive_zlap_equals_a_dense_inverse(n_classes, n_images, settings, sparse, tmp_path):
    stream = awkward_stream(n_classes, n_classes, 2, n_images=n_images + 15, twins=False)
    path = written(stream, tmp_path / "unlabelled.npz", slice(0, n_images))
    method = InductiveZLaP(path, sparse=sparse, **settings)
    images, texts = features_of(stream)
    inverse = literal_inverse(images[:n_images], texts, method)
    for row in range(n_images, n_images + 15):
        y, k = np.zeros(n_classes + n_images), method.n_neighbors
        near, weights = nearest(images[:n_images], images[row], k)
        y[[n_classes + j for j in near]] = weights
        near, weights = nearest(texts, images[row], k)
        y[near] = weights**method.gamma * (weights > 0)
        if sparse:
            expected = np.zeros(n_classes)
            for node, weight in enumerate(y):
                c = inverse[node, :n_classes].argmax()
                expected[c] += weight * inverse[node, c]
        else:
            expected = (inverse @ y)[:n_classes]
        step = method.step(stream.query(row))
        np.testing.assert_allclose(step.logits, expected, atol=2e-6)


@pytest.mark.parametrize("pack", PACKS)
def test_the_released_transduction_gave_the_same(pack):
    gold, stream = released(f"zlap_transductive_{pack}"), gold_stream(pack)
    found = np.array([step.logits for step in iter_steps(ZLaP(), stream)])
    assert np.array_equal(found.argmax(axis=1), gold["pred"])
    np.testing.assert_allclose(found, gold["logits"], atol=2e-5)  # copies tie at the last place
    assert (np.abs(found - gold["logits"]).max(axis=1) > 1e-6).mean() < 0.02


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("variant", ["inductive", "sparse-inductive"])
def test_the_released_induction_gave_the_same(pack, variant, tmp_path):
    gold, stream = released(f"zlap_{variant}_{pack}"), gold_stream(pack)
    given, rest = np.split(stream.order, [len(stream) // 2])
    assert np.array_equal(rest, gold["order"])
    method = InductiveZLaP(
        written(stream, tmp_path / "half.npz", given), sparse=variant != "inductive"
    )
    found = np.array([method.step(stream.query(int(row))).logits for row in rest])
    assert np.array_equal(found.argmax(axis=1), gold["pred"])
    np.testing.assert_allclose(found, gold["logits"], atol=1e-6)


@pytest.mark.parametrize("n_classes", [3, 5, 37])
def test_classes_with_the_same_text_stay_tied(n_classes, tmp_path):
    stream = awkward_stream(1, n_classes, 1, n_images=60, dim=19)
    path = written(awkward_stream(2, n_classes, 1, dim=19), tmp_path / "unlabelled.npz")
    for method in (ZLaP(), InductiveZLaP(path), InductiveZLaP(path, sparse=True)):
        for step in iter_steps(method, stream):
            assert step.logits[0] == step.logits[-1]
            assert n_classes - 1 not in (step.prediction, step.base_prediction)


def test_without_spreading_an_image_keeps_nothing_and_neighbours_are_texts_alone(file):
    stream = make_stream(1)
    assert not run(ZLaP(alpha=0), stream).predictions.any()
    for step in iter_steps(InductiveZLaP(file, alpha=0, n_neighbors=5), stream):
        found = np.maximum(step.base / 20, 0).astype(float) ** 5
        np.testing.assert_allclose(step.logits, found, atol=1e-6)


def test_copies_of_one_image_are_answered_alike():
    stream = make_stream(3, n_images=2)
    views = np.repeat(np.asarray(stream.features.views)[:1], 30, axis=0)
    copies = Stream.from_arrays(views, stream.features.predictor.prototypes, logit_scale=5.0)
    assert len(set(run(ZLaP(), copies).predictions)) == 1


def test_an_image_that_nothing_is_like_gets_nothing():
    texts = np.array([[1.0, 0, 0], [0, 1, 0]])
    views = np.array([[0, 0, 1.0], [-1, -1, -1], [1, 0.2, 0]])
    steps = list(iter_steps(ZLaP(), Stream.from_arrays(views, texts, logit_scale=5.0)))
    assert [step.logits.any() for step in steps] == [False, False, True]


def test_an_image_is_answered_alone(file):
    for sparse in (False, True):
        assert_order_does_not_matter(lambda s=sparse: InductiveZLaP(file, sparse=s), make_stream(1))


def test_other_texts_make_other_answers_without_a_reset(file):
    method, first, second = InductiveZLaP(file), make_stream(1), make_stream(2, n_classes=7)
    answers = run(method, first).predictions
    assert np.array_equal(
        run(method, second).predictions, run(InductiveZLaP(file), second).predictions
    )
    assert np.array_equal(run(method, first).predictions, answers)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_zlap_keeps_the_contract_of_methods(settings, file):
    check_method(lambda: ZLaP(**settings))
    for sparse in (False, True):
        check_method(lambda s=sparse: InductiveZLaP(file, sparse=s, **settings))


def test_the_settings_name_the_content_and_a_changed_file_is_refused(file, tmp_path):
    method = InductiveZLaP(file)
    assert len(method.config()["digest"]) == 16
    state = method.state()
    assert state["arrays"] == {}
    assert InductiveZLaP.from_state(state).config() == method.config()
    stream = make_stream(5, n_images=40, n_views=2)
    assert InductiveZLaP(written(stream, tmp_path / "again.npz")).digest == method.digest
    written(stream, file, slice(1, None))
    with pytest.raises(MarcError, match="unlabelled images are not those that the digest names"):
        InductiveZLaP.from_state(state)


def test_images_of_the_evaluated_stream_are_refused(tmp_path):
    stream = make_stream(3, n_images=20)
    path = written(stream, tmp_path / "own.npz", slice(0, 5))
    method = InductiveZLaP(path)
    with pytest.raises(MarcError, match="must not be images of the stream") as refused:
        run(method, stream)
    assert refused.value.got == "5 of 5 unlabelled images are in it"
    assert "zlap" in refused.value.hint
    method.check(stream.subset(np.arange(5, 20)))


def test_images_of_other_dimensions_are_refused(file):
    with pytest.raises(MarcError, match="do not fit this stream") as refused:
        run(InductiveZLaP(file), make_stream(dim=7))
    assert "8 dimensions" in refused.value.got


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(MarcError, match="no such feature pack"):
        InductiveZLaP(str(tmp_path / "nothing.npz"))
    for bad in (None, 3, ""):
        with pytest.raises(MarcError, match="unlabelled must be a path"):
            InductiveZLaP(bad)
    with pytest.raises(MarcError, match="zlap-inductive needs unlabelled"):
        create_method("zlap-inductive")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"gamma": -1}, "gamma must be"),
        ({"alpha": 1.0}, "alpha must be"),
    ],
)
def test_bad_settings_are_refused(settings, message, file):
    with pytest.raises(MarcError, match=message):
        ZLaP(**settings)
    with pytest.raises(MarcError, match=message):
        InductiveZLaP(file, **settings)
    with pytest.raises(MarcError, match="sparse must be true or false"):
        InductiveZLaP(file, sparse="yes")

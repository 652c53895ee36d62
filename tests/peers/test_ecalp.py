import numpy as np
import pytest
from helpers.gold import PACKS, gold_stream
from helpers.gold import gold as released
from helpers.making import make_stream
from helpers.tied_streams import awkward_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.ecalp import ECALP
from marc.stream import Stream


class Literal:
    """The released steps in float64: lists of (similarity, node), a dense graph for each image."""

    def __init__(self, texts, settings):
        variance = np.array([np.var(column, ddof=1) for column in texts.T])
        self.w = variance / np.linalg.norm(variance)
        self.texts, self.settings = texts, settings
        self.images, self.lists, self.best = [], [], []

    def similarity(self, a, b):
        weighted = self.w * self.images[a]
        return float(np.sum(weighted * self.images[b]) / np.linalg.norm(weighted))

    def join(self, feature):
        older = len(self.images)
        self.images.append(feature)
        k = min(self.settings.n_neighbors, older + 2)
        length = k if older <= k else k + 1 if older == k + 1 else k + 2
        for a in range(older):
            s = self.similarity(a, older)
            kept = [entry for entry in self.lists[a] if entry[1] != "second"]
            kept = sorted([*kept, (s, "second"), (s, older)], key=lambda entry: -entry[0])
            self.lists[a] = kept[:length]
        own = [(self.similarity(j, older), j) for j in range(older + 1)]
        own = sorted([*own, (own[-1][0], "second")], key=lambda entry: -entry[0])
        self.lists.append(own[:length])
        return k

    def step(self, feature):
        s, C, k = self.settings, len(self.texts), self.join(feature)
        n = len(self.images) + 1  # with the second node of the last
        W = np.zeros((C + n, C + n))
        for row, image in enumerate([*range(n - 1), n - 2]):
            for value, node in self.lists[image][:k]:
                W[C + row, C + (n - 1 if node == "second" else node)] = abs(value) ** s.gamma
            cosines = [float(np.sum(text * self.images[image])) for text in self.texts]
            for c in sorted(range(C), key=lambda c: -cosines[c])[: s.n_texts]:
                W[C + row, c] = abs(cosines[c]) ** s.gamma
        W = W + W.T
        D = np.diag(1 / (np.sqrt(W.sum(axis=1)) + 1e-6))
        W = D @ W @ D
        start = np.zeros((n, C))
        for row, (c, score) in enumerate(self.best[:-1]):  # both nodes of the last start at 0
            start[row, c] = score
        Y = start
        for _ in range(s.rounds):
            Y = s.alpha * W[C:] @ np.concatenate([np.eye(C), Y]) + (1 - s.alpha) * start
        self.best = [(int(row.argmax()), row.max() / 5) for row in Y]
        return Y[-1]


SETTINGS = [
    {},
    {"n_neighbors": 1, "n_texts": 1},
    {"n_neighbors": 2, "n_texts": 2, "gamma": 3.0},
    {"n_neighbors": 5, "alpha": 0.7, "rounds": 4},
    {"n_neighbors": 4, "gamma": 2.0, "rounds": 1, "alpha": 0.5},
    {"n_neighbors": 60},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_ecalp_equals_its_published_steps(n_classes, settings):
    stream = awkward_stream(n_classes, n_classes, 2, n_images=45, twins=False)
    method = ECALP(**settings)
    twin = Literal(stream.features.predictor.prototypes.astype(float), method)
    for query in stream:
        step, expected = method.step(query), twin.step(query.clip_key.astype(float))
        np.testing.assert_allclose(step.logits, expected, atol=3e-6)
        np.testing.assert_allclose(step.base, query.view_logits[0], atol=1e-5)
    arrays, n = method.state()["arrays"], len(stream)
    for listed, entries in zip(arrays["neighbors"], twin.lists, strict=True):
        assert listed.tolist() == [n if node == "second" else node for _, node in entries]
    assert arrays["labels"].tolist() == [label for label, _ in twin.best[:-1]]
    np.testing.assert_allclose(arrays["scores"], [top for _, top in twin.best[:-1]], atol=1e-6)


@pytest.mark.parametrize("pack", PACKS)
def test_the_released_functions_gave_the_same(pack):
    """Scores differ where copies of an image tie for a place in a list."""
    gold, stream = released(f"ecalp_{pack}"), gold_stream(pack)
    method = ECALP()
    found = np.array([step.logits for step in iter_steps(method, stream)])
    assert np.array_equal(found.argmax(axis=1), gold["pred"])
    np.testing.assert_allclose(found, gold["logits"], atol=1e-5)
    assert (np.abs(found - gold["logits"]).max(axis=1) > 1e-7).sum() <= 30
    arrays = method.state()["arrays"]
    similarity, listed = arrays["similarity"][:, :8], np.sort(arrays["neighbors"][:, :8], axis=1)
    np.testing.assert_allclose(similarity, gold["last_sim_image"][:-1], atol=2e-6)
    other = (listed != np.sort(gold["last_knn_image"][:-1], axis=1)).any(axis=1)
    assert other.sum() <= 15


def test_the_first_image_is_answered_from_the_texts():
    step = ECALP(n_texts=5).step(make_stream(1, n_classes=5).query(0))
    assert step.prediction == step.base_prediction
    assert np.count_nonzero(step.logits) == 5


@pytest.mark.parametrize("n_classes", [3, 5, 37])
def test_classes_with_the_same_text_stay_tied(n_classes):
    stream = awkward_stream(1, n_classes, 1, n_images=60, dim=19)
    for step in iter_steps(ECALP(), stream):
        assert step.logits[0] == step.logits[-1]
        assert n_classes - 1 not in (step.prediction, step.base_prediction)


def test_texts_that_are_all_the_same_tie():
    texts = np.ones((4, 6))
    stream = make_stream(0, dim=6, n_images=20)
    stream = Stream.from_arrays(stream.features.views, texts, logit_scale=5.0)
    for step in iter_steps(ECALP(), stream):
        assert step.prediction == 0
        assert len(set(step.logits)) == 1
        assert np.isfinite(step.logits).all()


def test_copies_of_one_image_are_answered_alike():
    stream = make_stream(3, n_images=2)
    views = np.repeat(np.asarray(stream.features.views)[:1], 30, axis=0)
    prototypes = stream.features.predictor.prototypes
    copies = Stream.from_arrays(views, prototypes, logit_scale=5.0)
    assert len(set(run(ECALP(), copies).predictions)) == 1


def test_an_image_does_not_depend_on_those_after_it():
    stream = make_stream(2, n_images=50)
    long = run(ECALP(), stream).predictions
    short = run(ECALP(), Stream(stream.features, stream.order[:30])).predictions
    assert np.array_equal(long[:30], short)


@pytest.mark.parametrize("settings", [*SETTINGS[:3], {"alpha": 0.0, "gamma": 0.0}], ids=str)
def test_ecalp_keeps_the_contract_of_methods(settings):
    check_method(lambda: ECALP(**settings))


@pytest.mark.parametrize("n_seen", range(1, 13))
def test_it_goes_on_while_its_lists_still_grow(n_seen):
    stream = make_stream(4, n_images=30)
    method = ECALP(n_neighbors=6)
    for row in range(n_seen):
        method.step(stream.query(row))
    restored = ECALP.from_state(method.state())
    for row in range(n_seen, 30):
        mine, theirs = method.step(stream.query(row)), restored.step(stream.query(row))
        assert np.array_equal(mine.logits, theirs.logits)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("keys", lambda a: a[:-1], "do not fit"),
        ("keys", lambda a: 2 * a, "unit length"),
        ("prototypes", lambda a: 2 * a, "unit length"),
        ("similarity", lambda a: a.astype("f8"), "do not fit"),
        ("similarity", lambda a: a[:, ::-1], "similarity is not in order"),
        ("similarity", lambda a: 3 + 0 * a, "similarity is out of range"),
        ("cosines", lambda a: np.nan * a, "not finite"),
        ("cosines", lambda a: a - 3, "cosines is out of range"),
        ("neighbors", lambda a: 0 * a, "neighbors name something twice"),
        ("neighbors", lambda a: a + 2, "neighbors name what is not there"),
        ("texts", lambda a: a - 1, "texts name what is not there"),
        ("labels", lambda a: a + 5, "labels name what is not there"),
        ("scores", lambda a: -1 - a, "scores are negative"),
    ],
)
def test_a_damaged_state_is_refused(name, damage, message):
    method = ECALP()
    run(method, make_stream(0))
    state = method.state()
    state["arrays"][name] = damage(state["arrays"][name])
    with pytest.raises(MarcError, match=message):
        ECALP.from_state(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_texts": 0}, "n_texts must be"),
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"gamma": -1}, "gamma must be"),
        ({"alpha": 1.5}, "alpha must be"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        ECALP(**settings)

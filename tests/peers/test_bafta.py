import math

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.tied_streams import awkward_stream, softmax_list

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.bafta import _UPDATES, _WEIGHTINGS, BaFTA, _projection, _renyi_entropy
from marc.peers.contract import check_method
from marc.peers.registry import METHODS
from marc.stream import Stream

CARD = METHODS["bafta"]


def first_largest(values):
    return min(range(len(values)), key=lambda c: (-round(values[c], 9), c))


class Literal:
    """The steps of the reconstruction, one by one, with the D x D projection."""

    def __init__(self, stream, order, prior, weighting, update, writes_first, project):
        self.__dict__.update(locals())
        self.t = stream.features.predictor.prototypes.astype(np.float64)
        self.scale = stream.features.predictor.logit_scale
        C = len(self.t)
        U, lengths, _ = np.linalg.svd(self.t.T, full_matrices=False)
        U = U[:, lengths > 1e-6 * lengths[0]][:, 1 : 250 if C > 500 else C]
        self.P = U @ U.T if project else np.eye(self.t.shape[1])
        self.sums = [prior * self.turned(t_c) for t_c in self.t]

    def turned(self, x):
        return self.P @ x / math.sqrt((self.P @ x) @ (self.P @ x))

    def count(self, posterior):
        R = math.log(sum(p**self.order for p in posterior if p > 0)) / (1 - self.order)
        return math.exp(-R) if self.weighting == "exponential" else 1 / (max(R, 0) + 1e-6)

    def over_views(self, posteriors):
        counts = [self.count(p) for p in posteriors]
        pairs = list(zip(counts, posteriors, strict=True))
        return [sum(w * p[c] for w, p in pairs) / sum(counts) for c in range(len(self.t))]

    def write(self, x, posterior):
        for c in range(len(self.t)):
            if self.update == "soft":
                self.sums[c] = self.sums[c] + posterior[c] * x
            elif c == first_largest(posterior):
                self.sums[c] = self.sums[c] + x

    def step(self, query):
        views = [self.turned(f.astype(np.float64)) for f in query.views]
        text = self.over_views([softmax_list(row) for row in query.view_logits.tolist()])
        if self.writes_first:
            self.write(views[0], text)
        centroids = [s / math.sqrt(s @ s) for s in self.sums]
        rows = [[self.scale * float(x @ c) for c in centroids] for x in views]
        near = self.over_views([softmax_list(row) for row in rows])
        a, b = self.count(text), self.count(near)
        fused = [(a * t + b * n) / (a + b) for t, n in zip(text, near, strict=True)]
        if not self.writes_first:
            self.write(views[0], fused)
        return text, near, fused


DEFAULTS = {
    "order": 0.5,
    "prior": 1.0,
    "weighting": "exponential",
    "update": "hard",
    "writes_first": False,
    "project": True,
}


def check_against_the_literal(stream, **settings):
    settings = {**DEFAULTS, **settings}
    method, twin = BaFTA(**settings), Literal(stream, **settings)
    for query in stream:
        step, (text, near, fused) = method.step(query), twin.step(query)
        np.testing.assert_allclose(step.base, text, atol=1e-6)
        np.testing.assert_allclose(step.evidence["centroids"], near, atol=1e-6)
        np.testing.assert_allclose(step.logits, fused, atol=1e-6)
        assert fused[step.prediction] > max(fused) - 1e-6
        assert step.label == first_largest(text if settings["writes_first"] else fused)


@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize("n_views", [1, 2, 8, 64])
def test_bafta_equals_its_steps(n_classes, n_views):
    check_against_the_literal(awkward_stream(n_classes + n_views, n_classes, n_views, 20, dim=24))


@pytest.mark.parametrize("weighting", _WEIGHTINGS)
@pytest.mark.parametrize("update", _UPDATES)
@pytest.mark.parametrize("writes_first", [False, True])
@pytest.mark.parametrize("project", [False, True])
def test_every_choice_equals_its_steps(weighting, update, writes_first, project):
    choices = {"weighting": weighting, "update": update, "writes_first": writes_first}
    stream = awkward_stream(3, 6, 3)
    check_against_the_literal(stream, **choices, project=project, order=0.25, prior=3.0)
    check_against_the_literal(stream, **choices, project=project, order=2.0, prior=0.5)


def test_the_defaults_are_the_documented_choices():
    assert BaFTA().config() == {"method": "bafta", **DEFAULTS}
    assert CARD.reconstruction
    assert not CARD.published


def test_the_projection_removes_the_shared_direction():
    draw = np.random.default_rng(0)
    shared = draw.standard_normal(30)
    shared /= np.linalg.norm(shared)
    own = np.linalg.qr(draw.standard_normal((30, 6)))[0].T
    own -= np.outer(own @ shared, shared)
    basis = _projection(5 * shared + own)
    assert basis.shape == (30, 5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    assert np.linalg.norm(shared @ basis) < 0.05


def test_many_classes_keep_249_directions():
    draw = np.random.default_rng(0)
    assert _projection(draw.standard_normal((501, 300))).shape == (300, 249)
    assert _projection(draw.standard_normal((500, 300))).shape == (300, 299)
    assert _projection(draw.standard_normal((200, 300))).shape == (300, 199)


def test_classes_that_do_not_differ_are_refused():
    with pytest.raises(MarcError, match="there is none"):
        _projection(np.ones((3, 4)))


def test_renyi_entropy():
    assert _renyi_entropy(np.array([1.0, 0.0, 0.0]), 0.5) == 0
    assert _renyi_entropy(np.array([0.5, 0.5, 0.0]), 0.0) == pytest.approx(math.log(2))
    p = np.array([0.7, 0.2, 0.1])
    assert _renyi_entropy(p, 2.0) == pytest.approx(-math.log(0.54))
    shannon = -(p * np.log(p)).sum()
    assert _renyi_entropy(p, 1 + 1e-7) == pytest.approx(shannon, abs=1e-5)


def test_an_image_is_read_before_it_is_written_unless_told():
    stream = make_stream(4)
    query, prototypes = stream.query(0), stream.features.predictor.prototypes
    basis = _projection(prototypes)
    cosines = [x @ basis / np.linalg.norm(x @ basis) for x in (query.views[0], *prototypes)]
    expected = softmax_list([20.0 * float(cosines[0] @ t) for t in cosines[1:]])
    near = BaFTA().step(query).evidence["centroids"]
    np.testing.assert_allclose(near, expected, atol=1e-6)
    after = BaFTA(writes_first=True).step(query)
    assert after.evidence["centroids"][after.label] > near[after.label]


@pytest.mark.parametrize("update", _UPDATES)
@pytest.mark.parametrize("n_classes", [3, 5, 37])
def test_of_two_classes_with_the_same_text_the_lower_answers_first(n_classes, update):
    stream = awkward_stream(1, n_classes, 2, n_images=200, dim=19)
    method, parted = BaFTA(update=update), False
    for step in iter_steps(method, stream):
        assert step.base_prediction != n_classes - 1
        if not parted:
            assert step.logits[0] == step.logits[-1]
            assert step.prediction != n_classes - 1
        parted = parted or (update == "hard" and step.label == 0)
    assert parted == (update == "hard")


def test_three_equal_classes_part_one_by_one():
    prototypes = np.array([[1.0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    memory = BaFTA()
    memory.step(Stream.from_arrays(prototypes[3:4], prototypes).query(0))
    centroids = memory._memory
    assert centroids.place.tolist() == [0, 0, 0, 3, 4]
    for label, place in ((0, [0, 1, 1, 3, 4]), (1, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 3, 4])):
        centroids.write(centroids.sums[3].copy(), np.eye(5)[label], "hard")
        assert centroids.place.tolist() == place


def test_order_matters():
    stream = make_stream(5, n_images=120)
    here, there = run(BaFTA(), stream), run(BaFTA(), stream.shuffled(1))
    assert (here.predictions[there.order] != there.predictions).any()


@pytest.mark.parametrize(
    "settings", [{}, {"update": "soft", "weighting": "inverse"}, {"writes_first": True}], ids=str
)
def test_bafta_keeps_the_contract_of_methods(settings):
    check_method(lambda: BaFTA(**settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 1}, "order 1"),
        ({"order": -1}, "order must be"),
        ({"prior": 0}, "prior must be above 0"),
        ({"weighting": "equal"}, "unknown weighting"),
        ({"update": "none"}, "unknown update"),
        ({"project": "yes"}, "project must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        BaFTA(**settings)

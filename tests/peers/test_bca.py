import math

import numpy as np
import pytest
from helpers.gold import PACKS, gold_stream, near_ties
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.bca import BCA
from marc.peers.contract import check_method
from marc.scores import softmax, softmax_entropy
from marc.stream import Stream

QUICK = {"mean_count": 3.0, "prior_threshold": 0.3}
"""Settings under which a short stream moves embeddings and priors."""


def awkward_stream(n_classes, n_views=1, n_images=60, dim=7):
    """Copies of images, and classes with the same text."""
    draw = np.random.default_rng(n_classes + n_views)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[[n_classes // 2, -1]] = prototypes[0]
    images = prototypes[draw.integers(n_classes, size=n_images)]
    views = images[:, np.newaxis] + draw.standard_normal((n_images, n_views, dim))
    views[6:15:2] = views[5]
    return Stream.from_arrays(views, prototypes, logit_scale=8.0)


def softmax_list(row):
    powers = [math.exp(x - max(row)) for x in row]
    return [p / sum(powers) for p in powers]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def entropy(row):
    return -sum(p * math.log(p) for p in row if p)


def literal(stream, c1=20_000.0, c2=1.0, low=0.05, high=0.65, fraction=0.1):
    """One embedding for each class and a matrix of priors; classes with one text move together."""
    predictor = stream.features.predictor
    text = [[float(v) for v in row] for row in predictor.prototypes]
    C, tau = len(text), predictor.logit_scale
    mu = [list(row) for row in text]
    prior = [[float(text[c] == text[k]) / text.count(text[c]) for k in range(C)] for c in range(C)]
    n1, n2, answers = [c1] * C, [c2] * C, []
    for query in stream:
        views = [[float(v) for v in view] for view in query.views]
        logits = [[tau * dot(view, mu[c]) for c in range(C)] for view in views]
        n_kept = 1 if len(views) == 1 else int(fraction * len(views))
        surest = sorted(range(len(views)), key=lambda j: (entropy(softmax_list(logits[j])), j))
        kept = surest[:n_kept]
        x = [sum(views[j][d] for j in kept) / n_kept for d in range(len(views[0]))]
        near = softmax_list([sum(logits[j][c] for j in kept) / n_kept for c in range(C)])
        p = [sum(near[m] * prior[m][c] for m in range(C)) for c in range(C)]
        answers.append(p)
        top = max(p)
        best = next(c for c in range(C) if p[c] > top - 1e-9)
        for c in [c for c in range(C) if text[c] == text[best]]:
            if top > low:
                moved = [(n1[c] * a + b) / (n1[c] + 1) for a, b in zip(mu[c], x, strict=True)]
                mu[c], n1[c] = [a / math.sqrt(dot(moved, moved)) for a in moved], n1[c] + 1
            if top > high:
                prior[c] = [(n2[c] * a + b) / (n2[c] + 1) for a, b in zip(prior[c], p, strict=True)]
                n2[c] += 1
    return np.array(answers)


@pytest.mark.parametrize("n_classes", [2, 5, 40])
@pytest.mark.parametrize("n_views", [1, 12])
@pytest.mark.parametrize("settings", [{}, QUICK, {**QUICK, "fraction": 0.5}], ids=str)
def test_bca_equals_its_literal_steps(n_classes, n_views, settings):
    stream = awkward_stream(n_classes, n_views).shuffled(0)
    named = {"mean_count": "c1", "prior_threshold": "high", "fraction": "fraction"}
    answers = literal(stream, **{named[name]: value for name, value in settings.items()})
    for step, expected in zip(iter_steps(BCA(**settings), stream), answers, strict=True):
        np.testing.assert_allclose(softmax(step.logits), expected, atol=2e-5)
        assert expected[step.prediction] > expected.max() - 1e-5


def test_the_first_answer_is_that_of_the_text_alone():
    stream = awkward_stream(5, n_views=12)
    step = next(iter_steps(BCA(), stream))
    np.testing.assert_allclose(softmax(step.logits), softmax(step.base), atol=1e-6)


def test_without_images_sure_enough_nothing_changes():
    stream = awkward_stream(9)
    method = BCA(mean_threshold=1, prior_threshold=1)
    for step in iter_steps(method, stream):
        np.testing.assert_allclose(softmax(step.logits), softmax(step.base), atol=1e-6)
    assert method.state()["arrays"]["texts"].size == 0


def test_an_embedding_that_is_near_another_says_so():
    prototypes = np.eye(3)
    between = np.array([0.8, 0.6, 0.0])
    stream = Stream.from_arrays(np.tile(between, (20, 1)), prototypes, logit_scale=8.0)
    steps = list(iter_steps(BCA(mean_threshold=1), stream))
    first, last = softmax(steps[0].logits), softmax(steps[-1].logits)
    assert first[0] > last[0] > last[1] > first[1]


def test_classes_with_the_same_text_stay_tied():
    for n_classes in (5, 43):
        stream = awkward_stream(n_classes, n_images=80, dim=19)
        for step in iter_steps(BCA(**QUICK), stream):
            assert step.logits[0] == step.logits[n_classes // 2] == step.logits[-1]


def test_slots_are_made_as_priors_change():
    stream = awkward_stream(40, n_images=150, dim=30)
    method = BCA(prior_threshold=0)
    run(method, stream)
    arrays = method.state()["arrays"]
    assert 16 < len(arrays["texts"]) < 39
    assert arrays["counts"].sum(axis=0).tolist() == [150, 150]
    restored = BCA.from_state(method.state())
    answers = [[s.prediction for s in iter_steps(m, stream)] for m in (method, restored)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("settings", [{}, QUICK, {"mean_threshold": 0.9}], ids=str)
def test_bca_keeps_the_contract_of_methods(settings):
    check_method(lambda: BCA(**settings))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"mean_threshold": 1.5}, "mean_threshold"),
        ({"prior_threshold": -1}, "prior_threshold"),
        ({"mean_count": -1}, "mean_count"),
        ({"prior_count": "one"}, "prior_count"),
        ({"fraction": 2}, "fraction"),
    ],
)
def test_bad_settings_are_refused(settings, problem):
    with pytest.raises(MarcError, match=problem):
        BCA(**settings)


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("priors", lambda a: 2 * a, "add up to 1"),
        ("means", lambda a: 2 * a, "unit length"),
        ("texts", lambda a: a + 99, "texts"),
        ("texts", lambda a: 0 * a, "texts"),
        ("counts", lambda a: 0 * a, "texts"),
        ("counts", lambda a: -a, "counts what cannot be"),
        ("counts", lambda a: a.astype(np.float32), "fit"),
    ],
)
def test_a_damaged_state_is_refused(name, damage, problem):
    method = BCA(**QUICK)
    run(method, make_stream())
    state = method.state()
    state["arrays"][name] = damage(state["arrays"][name])
    with pytest.raises(MarcError, match=problem):
        BCA.from_state(state)


def test_views_of_which_none_is_kept_are_refused():
    with pytest.raises(MarcError, match="none of 8"):
        run(BCA(), awkward_stream(5, n_views=8))


@pytest.mark.parametrize("n_views", [1, 8])
@pytest.mark.parametrize("pack", PACKS)
def test_on_real_features_the_plain_loop_gives_the_same_predictions(pack, n_views):
    stream = gold_stream(pack, views=n_views)
    predictor = stream.features.predictor
    mu, tau = predictor.prototypes.astype(np.float64), predictor.logit_scale
    C, answers = len(mu), []
    prior, n1, n2 = np.eye(C), np.full(C, 20_000.0), np.ones(C)
    for query in stream:
        logits = tau * query.views.astype(np.float64) @ mu.T
        kept = np.argsort(softmax_entropy(logits), kind="stable")[: max(1, n_views // 4)]
        x, p = query.views[kept].mean(axis=0), softmax(logits[kept].mean(axis=0)) @ prior
        answers.append(p)
        best = p.argmax()
        if p[best] > 0.05:
            moved = n1[best] * mu[best] + x
            mu[best], n1[best] = moved / np.linalg.norm(moved), n1[best] + 1
        if p[best] > 0.65:
            prior[best] = (n2[best] * prior[best] + p) / (n2[best] + 1)
            n2[best] += 1
    found = run(BCA(fraction=0.25), stream).predictions
    differ = found != np.argmax(answers, axis=1)
    assert not (differ & ~near_ties(answers, 1e-5)).any()

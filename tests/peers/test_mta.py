import math

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.mta import MTA
from marc.stream import Stream


def awkward_stream(seed, n_classes, n_views, n_images=15, dim=6):
    """Rounded features, a view twice, two classes with the same text."""
    draw = np.random.default_rng(seed)
    prototypes = draw.standard_normal((n_classes, dim))
    prototypes[-1] = prototypes[0]
    views = prototypes[draw.integers(n_classes, size=n_images)][:, np.newaxis]
    views = np.round(views + draw.standard_normal((n_images, n_views, dim)), 1) + 0.01
    if n_views > 8:
        views[:, -1] = views[:, 1]
    return Stream.from_arrays(views, prototypes, logit_scale=8.0)


def softmax(values):
    powers = [math.exp(v - max(values)) for v in values]
    return [p / sum(powers) for p in powers]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def squared(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def literal(query, entropic=0.2, quadratic=4.0, neighbors=0.3, most=5):
    """The released steps, in lists and on the features themselves."""
    views, texts = query.views.tolist(), query.predictor.prototypes.tolist()
    scale, M = query.predictor.logit_scale, len(views)
    k = int(neighbors * (M - 1))
    bandwidth = []
    for f in views:
        nearest = sorted(squared(f, g) for g in views)[1 : k + 1]
        bandwidth.append(math.sqrt(0.5 * sum(nearest) / k))
    posteriors = [softmax([scale * dot(f, t) for t in texts]) for f in views]
    W = [[dot(p, q) for q in posteriors] for p in posteriors]
    y, mode = [1 / M] * M, views[0]

    def densities():
        exponents = [-squared(f, mode) / (2 * h * h) for f, h in zip(views, bandwidth, strict=True)]
        return [math.exp(e) for e in exponents]

    for _ in range(most):
        density = densities()
        for _ in range(most):
            old = y
            y = softmax([(density[p] + quadratic * dot(W[p], y)) / entropic for p in range(M)])
            if math.sqrt(squared(old, y)) < 1e-6:
                break
        for _ in range(most):
            old, weights = mode, [d * s for d, s in zip(densities(), y, strict=True)]
            mode = [dot(weights, column) / sum(weights) for column in zip(*views, strict=True)]
            mode = [m / math.sqrt(dot(mode, mode)) for m in mode]
            if math.sqrt(squared(old, mode)) < 1e-6:
                break
    return [scale * dot(mode, t) for t in texts]


@pytest.mark.parametrize("n_classes", [2, 3, 12])
@pytest.mark.parametrize("n_views", [5, 8, 20, 64])
def test_mta_equals_the_released_steps(n_classes, n_views):
    stream = awkward_stream(n_classes + n_views, n_classes, n_views, 15 if n_views < 60 else 3)
    for query in stream:
        step = MTA().step(query)
        np.testing.assert_allclose(step.logits, literal(query), atol=2e-5)
        np.testing.assert_allclose(step.base, query.view_logits[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"entropic": 0.02},
        {"quadratic": 0.0},
        {"neighbors": 1.0},
        {"iterations": 1},
        {"iterations": 40},
    ],
)
def test_its_settings_are_those_of_the_released_steps(settings):
    names = {"iterations": "most"}
    for query in awkward_stream(3, 4, 9):
        found = MTA(**settings).step(query).logits
        expected = literal(query, **{names.get(name, name): v for name, v in settings.items()})
        np.testing.assert_allclose(found, expected, atol=5e-5)


def test_one_view_is_answered_as_it_is():
    for step in iter_steps(MTA(), make_stream(0)):
        np.testing.assert_allclose(step.logits, step.base, rtol=1e-6)


def test_views_that_are_copies_are_answered_as_one():
    one = make_stream(0).features
    views = np.repeat(one.views, 9, axis=1)
    stream = Stream.from_arrays(views, one.predictor.prototypes, logit_scale=20.0)
    for step in iter_steps(MTA(), stream):
        np.testing.assert_allclose(step.logits, step.base, atol=1e-4)


def test_a_view_far_from_all_others_counts_little():
    draw = np.random.default_rng(2)
    texts = np.eye(4)
    views = texts[1] + 0.2 * draw.standard_normal((1, 10, 4))
    views[0, 3] = texts[1] + 2 * texts[2]
    query = Stream.from_arrays(views, texts, logit_scale=20.0).query(0)
    weights = MTA()._mode(query.views, query.view_logits)
    assert weights[3] < 0.02 * np.median(weights)
    mode = weights @ query.views
    assert mode @ mode == pytest.approx(1, abs=1e-6)


def test_of_two_classes_with_the_same_text_the_lower_answers():
    for n_classes in (2, 5, 37):
        for step in iter_steps(MTA(), awkward_stream(1, n_classes, 8, n_images=40, dim=19)):
            assert step.logits[0] == step.logits[-1]
            assert n_classes - 1 not in (step.prediction, step.base_prediction)


@pytest.mark.parametrize("n_views", [2, 3, 4])
def test_too_few_views_for_a_bandwidth_are_refused(n_views):
    stream = make_stream(0, n_views=n_views)
    with pytest.raises(MarcError, match=f"none of {n_views - 1}") as caught:
        run(MTA(), stream)
    neighbors = float(caught.value.hint.partition("neighbors=")[2].split()[0])
    run(MTA(neighbors=neighbors), stream)  # what the hint says works


def test_mta_keeps_the_contract_of_methods():
    check_method(MTA)
    check_method(lambda: MTA(quadratic=0.5, entropic=1.0, neighbors=0.9, iterations=2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quadratic": -1}, "quadratic must be"),
        ({"entropic": 0}, "entropic must be"),
        ({"neighbors": 1.5}, "neighbors is a fraction"),
        ({"iterations": 0}, "iterations must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        MTA(**settings)

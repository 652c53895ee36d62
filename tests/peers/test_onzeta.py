import math

import numpy as np
import pytest
from helpers.gold import PACKS, gold_stream
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.onzeta import OnZeta, _next_duals, descend
from marc.scores import softmax
from marc.stream import Stream


def awkward_stream(n_classes, n_views=1, n_images=40, dim=7):
    """Copies of images, and classes with the same text."""
    draw = np.random.default_rng(n_classes + n_views)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[[n_classes // 2, -1]] = prototypes[0]
    views = draw.standard_normal((n_images, n_views, dim))
    views[:, 0] += prototypes[draw.integers(n_classes, size=n_images)]
    views[6:15:2] = views[5]
    return Stream.from_arrays(views, prototypes, logit_scale=20.0)


def softmax_list(row):
    powers = [math.exp(x - max(row)) for x in row]
    return [p / sum(powers) for p in powers]


def literal(stream, rate=20.0, step=0.5, alpha=1.0, beta=0.8, sharp=0.25, T=None):
    """The released loop, one number after the other."""
    predictor = stream.features.predictor
    text = [[float(v) for v in row] for row in predictor.prototypes]
    C, D, tau = len(text), len(text[0]), predictor.logit_scale
    w, rho, answers = [list(row) for row in text], [0.0] * C, []
    for i, query in enumerate(stream, 1):
        x = [float(v) for v in query.views[0]]
        cosines = [sum(x[d] * text[c][d] for d in range(D)) for c in range(C)]
        p = softmax_list([tau * cosine for cosine in cosines])
        p = [p[c] * math.exp(rho[c]) for c in range(C)]
        p = [each / sum(p) for each in p]
        for c in range(C):
            rho[c] = max(rho[c] - rate / math.sqrt(i) * (p[c] - alpha / C), 0.0)
        seen = [sum(x[d] * w[c][d] for d in range(D)) for c in range(C)]
        q = softmax_list([sharp * tau * each for each in seen])
        mix = beta if T is None else beta * math.sqrt(min(i / T, 1))
        answers.append([mix * q[c] + (1 - mix) * p[c] for c in range(C)])
        for c in range(C):
            moved = [
                w[c][d] - step / math.sqrt(i) * sharp * tau * (q[c] - p[c]) * x[d] for d in range(D)
            ]
            length = math.sqrt(sum(v * v for v in moved))
            w[c] = [v / length for v in moved]
    return np.array(answers), np.array(rho), np.array(w)


@pytest.mark.parametrize("n_classes", [2, 5, 40])
@pytest.mark.parametrize("n_views", [1, 8])
@pytest.mark.parametrize("T", [None, 17, 40])
def test_onzeta_equals_its_numbered_steps(n_classes, n_views, T):
    stream = awkward_stream(n_classes, n_views).shuffled(0)
    method = OnZeta(horizon=T)
    answers, rho, w = literal(stream, T=T)
    for step, expected in zip(iter_steps(method, stream), answers, strict=True):
        np.testing.assert_allclose(softmax(step.logits), expected, atol=2e-4)
        assert expected[step.prediction] > expected.max() - 2e-4
    arrays = method.state()["arrays"]
    which = np.unique(stream.features.predictor.prototypes, axis=0, return_inverse=True)[1]
    first = [np.flatnonzero(which == which[c])[0] for c in range(n_classes)]
    place = {c: row for row, c in enumerate(sorted(set(first)))}
    np.testing.assert_allclose(arrays["duals"], rho, atol=1e-3)
    np.testing.assert_allclose(arrays["proxies"][[place[c] for c in first]], w, atol=1e-3)


def test_the_step_follows_the_gradient_of_the_cross_entropy():
    draw = np.random.default_rng(0)
    w, x, p = draw.standard_normal((4, 6)), draw.standard_normal(6), softmax(draw.random(4))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    scale = 7.0

    def loss(proxies):
        return -(p * np.log(softmax(scale * proxies @ x))).sum()

    found = scale * np.multiply.outer(softmax(scale * w @ x) - p, x)
    for c in range(4):
        for d in range(6):
            nudge = np.zeros((4, 6))
            nudge[c, d] = 1e-6
            slope = (loss(w + nudge) - loss(w - nudge)) / 2e-6
            assert abs(slope - found[c, d]) < 1e-6
    moved, expected = w.copy(), w - 0.1 * found
    descend(moved, x, 0.1 * scale * (softmax(scale * w @ x) - p))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_duals_are_never_below_0_and_grow_for_classes_that_get_little():
    duals = _next_duals(np.array([0.0, 0.5, 2.0]), np.array([0.8, 0.2, 0.0]), 2.0, 0.9)
    np.testing.assert_allclose(duals, [0.0, 0.7, 2.6])


def test_without_either_learner_the_answer_is_that_of_zero_shot():
    stream = make_stream(4, n_images=50)
    result = run(OnZeta(label_rate=0, beta=0), stream)
    assert np.array_equal(result.predictions, result.base_predictions)


def test_classes_with_the_same_text_stay_tied():
    for n_classes in (5, 43):
        stream = awkward_stream(n_classes, n_images=60, dim=19)
        for step in iter_steps(OnZeta(), stream):
            assert step.logits[0] == step.logits[n_classes // 2] == step.logits[-1]


def test_past_its_horizon_the_mixture_stays():
    stream = make_stream(1, n_images=30)
    short = [step.logits for step in iter_steps(OnZeta(horizon=1), stream)]
    constant = [step.logits for step in iter_steps(OnZeta(), stream)]
    np.testing.assert_array_equal(short, constant)


@pytest.mark.parametrize(
    "settings", [{}, {"horizon": 50}, {"alpha": 0.5, "proxy_rate": 0}], ids=str
)
def test_onzeta_keeps_the_contract_of_methods(settings):
    check_method(lambda: OnZeta(**settings))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"alpha": 1.5}, "alpha"),
        ({"beta": 2}, "beta"),
        ({"label_rate": -1}, "label_rate"),
        ({"proxy_rate": "fast"}, "proxy_rate"),
        ({"vision_scale": 0}, "vision_scale"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_bad_settings_are_refused(settings, problem):
    with pytest.raises(MarcError, match=problem):
        OnZeta(**settings)


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("duals", lambda a: a - 1e3, "below 0"),
        ("proxies", lambda a: 2 * a, "unit length"),
        ("proxies", lambda a: a[:, 0], "damaged|unpack"),
        ("duals", lambda a: a.astype(np.float32), "fit"),
        ("n_seen", lambda a: 0 * a, "n_seen"),
    ],
)
def test_a_damaged_state_is_refused(name, damage, problem):
    method = OnZeta()
    run(method, make_stream())
    state = method.state()
    state["arrays"][name] = damage(state["arrays"][name])
    with pytest.raises((MarcError, ValueError), match=problem):
        OnZeta.from_state(state)


@pytest.mark.parametrize("pack", PACKS)
def test_on_real_features_the_released_loop_gives_the_same_predictions(pack):
    stream = gold_stream(pack, views=1)
    stream = stream.reordered(stream.order)
    predictor, T = stream.features.predictor, len(stream)
    text, tau = predictor.prototypes.astype(np.float64), predictor.logit_scale
    w, rho, answers = text.copy(), np.zeros(len(text)), []
    for i, query in enumerate(stream, 1):
        x = query.views[0].astype(np.float64)
        p = softmax(tau * text @ x) * np.exp(rho)
        p /= p.sum()
        rho = np.maximum(rho - 20 / math.sqrt(i) * (p - 1 / len(text)), 0)
        q, mix = softmax(tau / 4 * w @ x), 0.8 * math.sqrt(i / T)
        answers.append(mix * q + (1 - mix) * p)
        w -= 0.5 / math.sqrt(i) * tau / 4 * np.outer(q - p, x)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    found = run(OnZeta(horizon=T), stream).predictions
    differ = found != np.argmax(answers, axis=1)
    assert not (differ & ~near_ties_of(answers)).any()


def near_ties_of(answers):
    best = np.sort(answers, axis=1)[:, -2:]
    return best[:, 1] - best[:, 0] < 1e-5

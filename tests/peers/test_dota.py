import math
from itertools import islice

import numpy as np
import pytest
from helpers.gold import gold_stream
from helpers.making import make_stream
from helpers.tied_streams import awkward_stream, softmax_list

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers import dota
from marc.peers.contract import check_method
from marc.peers.dota import DOTA, _SharedPrecision


def literal(stream, fraction=0.1, start="text", sigma=2e-3, epsilon=1e-4, eta=0.3, rho=0.02):
    """The numbered steps, one by one, in float64, with an inverse for every image."""
    t = stream.features.predictor.prototypes.astype(np.float64)
    C, D = t.shape
    mu = [np.full(D, 0.001) if start == "constant" else t[c].copy() for c in range(C)]
    count, cov = [1.0] * C, [sigma * np.eye(D) for _ in range(C)]
    precision = np.linalg.inv((1 - epsilon) * sum(cov) / C + epsilon * np.eye(D))
    answers = []
    for query in stream:
        views = query.views.astype(np.float64)
        logits = query.view_logits.tolist()
        posteriors = [softmax_list(row) for row in logits]
        h = [-sum(p * math.log(p) for p in ps if p > 0) for ps in posteriors]
        k = 1 if len(views) == 1 else int(fraction * len(views))
        kept = sorted(range(len(views)), key=lambda j: (h[j], j))[:k]
        x = sum(views[j] for j in kept) / k
        z = [sum(logits[j][c] for j in kept) / k for c in range(C)]
        s = [float(x @ precision @ m - 0.5 * m @ precision @ m) for m in mu]
        weight = min(rho * (sum(count) / C) / k, eta)
        answers.append((z, s, weight))
        for c in range(C):
            mass = sum(posteriors[j][c] for j in kept)
            spread = sum(
                posteriors[j][c] * np.outer(views[j] - mu[c], views[j] - mu[c]) for j in kept
            )
            cov[c] = (count[c] * cov[c] + spread) / (count[c] + mass)
            pulled = sum(posteriors[j][c] * views[j] for j in kept)
            mu[c] = (pulled + count[c] * mu[c]) / (count[c] + mass)
            count[c] += mass
        precision = np.linalg.inv((1 - epsilon) * sum(cov) / C + epsilon * np.eye(D))
    return answers, mu, count, cov


def check_against_the_literal(steps, expected, rtol=1e-4):
    for step, (z, s, weight) in zip(steps, expected, strict=True):
        np.testing.assert_allclose(step.base, z, atol=2e-5)
        scores = step.evidence["gaussians"]
        np.testing.assert_allclose(scores, s, atol=rtol * max(1.0, np.abs(s).max()))
        assert step.weights["gaussians"] == pytest.approx(weight, rel=1e-6)
        fused = np.array(z) + weight * np.array(s)
        assert fused[step.prediction] > fused.max() - 1e-3


@pytest.mark.parametrize("start", ["text", "constant"])
@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize(("n_views", "fraction"), [(1, 0.1), (2, 0.5), (8, 0.25), (64, 0.1)])
def test_dota_equals_its_numbered_steps(start, n_classes, n_views, fraction):
    stream = awkward_stream(n_classes + n_views, n_classes, n_views, n_images=20, twins=True)
    method = DOTA(fraction=fraction, start=start)
    expected, means, counts, covariances = literal(stream, fraction, start)
    check_against_the_literal(iter_steps(method, stream), expected)
    arrays = method.state()["arrays"]
    np.testing.assert_allclose(arrays["means"], means, atol=2e-6)
    np.testing.assert_allclose(arrays["counts"], counts, rtol=1e-6)
    shared = method._memory.covariance(sigma=2e-3, epsilon=0.0)
    np.testing.assert_allclose(shared, np.tril(sum(covariances) / n_classes), atol=1e-6)


def test_a_solve_gives_what_an_inverse_gives_where_dimensions_are_many():
    stream = make_stream(1, n_images=150, n_classes=6, dim=96, logit_scale=30.0)
    check_against_the_literal(iter_steps(DOTA(floor=0), stream), literal(stream)[0], rtol=2e-5)


def test_small_posteriors_do_not_matter():
    stream = make_stream(2, n_images=150, n_classes=20, dim=32, logit_scale=60.0)
    exact = [step.logits for step in iter_steps(DOTA(floor=0), stream)]
    default = [step.logits for step in iter_steps(DOTA(), stream)]
    np.testing.assert_allclose(default, exact, atol=1e-3)
    query, method = stream.query(0), DOTA(floor=0.01)
    method.step(query)
    posterior = np.array(softmax_list(query.view_logits[0].tolist()))
    kept = np.where(posterior > 0.01, posterior, 0)
    assert 0 < np.count_nonzero(kept) < 20
    arrays = method.state()["arrays"]
    np.testing.assert_allclose(arrays["counts"], 1 + kept, rtol=1e-6)
    assert np.array_equal(arrays["scatters"].any(axis=1), kept > 0)


def test_the_first_answer_is_the_predictors():
    stream = make_stream(3, n_images=50, n_classes=12, dim=24, n_views=10)
    for query in stream:
        step = DOTA().step(query)
        assert np.array_equal(np.argsort(step.evidence["gaussians"]), np.argsort(step.base))
        assert step.prediction == step.base_prediction
        constant = DOTA(start="constant").step(query).evidence["gaussians"]
        assert np.ptp(constant) < 1e-9


def test_an_image_is_read_before_it_is_written():
    query = make_stream(4).query(0)
    method = DOTA()
    first, second = method.step(query), method.step(query)
    fresh = DOTA().step(query)
    assert np.array_equal(first.logits, fresh.logits)
    assert not np.array_equal(second.evidence["gaussians"], first.evidence["gaussians"])


def test_the_weight_grows_to_its_limit():
    stream = make_stream(5, n_images=100, n_classes=5)
    weights = [step.weights["gaussians"] for step in iter_steps(DOTA(), stream)]
    expected = np.minimum(0.02 * (1 + np.arange(100) / 5), 0.3)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_the_precision_is_refreshed_every_few_images():
    stream = make_stream(6, n_images=23, n_classes=4, dim=10)
    each, some = DOTA(floor=0), DOTA(floor=0, refresh=4)
    run(each, stream), run(some, stream)
    ahead, behind = each.state()["arrays"], some.state()["arrays"]
    np.testing.assert_allclose(ahead["means"], behind["means"], atol=1e-7)
    assert len(behind["waiting_features"]) == 3
    for query in list(stream)[:1]:
        each.step(query), some.step(query)
    for name in ("scatters", "total", "counted"):  # 24 images: nothing waits
        first, second = each.state()["arrays"][name], some.state()["arrays"][name]
        np.testing.assert_allclose(first, second, atol=1e-5)
    query = stream.query(2)
    np.testing.assert_allclose(each.step(query).logits, some.step(query).logits, atol=1e-3)


def test_views_of_other_numbers_may_wait_together():
    method = DOTA(refresh=3)
    for n_views in (1, 30):
        method.step(make_stream(0, n_views=n_views).query(1))
    assert len(method.state()["arrays"]["waiting_features"]) == 1


def test_float16_precision_as_released():
    stream = make_stream(7, n_images=60, n_classes=5, dim=12)
    exact = [step.evidence["gaussians"] for step in iter_steps(DOTA(), stream)]
    half = [step.evidence["gaussians"] for step in iter_steps(DOTA(half_precision=True), stream)]
    largest = np.abs(exact).max()
    assert 1e-7 * largest < np.abs(np.subtract(exact, half)).max() < 5e-3 * largest
    with pytest.raises(MarcError, match="float16"):
        DOTA(half_precision=True, sigma=1e-6, epsilon=0).step(stream.query(0))


def test_a_badly_conditioned_covariance_is_solved_in_float64():
    stream = make_stream(8, n_images=40, n_classes=3, dim=60)
    method = DOTA(sigma=1e-7, epsilon=0.0)
    default = DOTA()
    run(method, stream), run(default, stream)
    check_against_an_inverse(method, stream.query(0), rtol=1e-8)
    assert (method._memory._solver_type(1e-7, 0.0), default._memory._solver_type(2e-3, 1e-4)) == (
        np.float64,
        np.float32,
    )


@pytest.mark.parametrize(("n_classes", "dim"), [(2, 19), (5, 19), (18, 64), (66, 64)])
def test_of_two_classes_with_the_same_text_the_lower_answers(n_classes, dim):
    stream = awkward_stream(1, n_classes, 1, n_images=60, dim=dim, twins=True)
    for step in iter_steps(DOTA(), stream):
        assert step.logits[0] == step.logits[-1]
        assert step.prediction != n_classes - 1


@pytest.mark.parametrize("n_views", range(2, 10))
def test_two_to_nine_views_are_refused(n_views):
    with pytest.raises(MarcError, match=f"none of {n_views}"):
        run(DOTA(), make_stream(0, n_views=n_views))


def test_order_matters():
    stream = make_stream(5, n_images=120)
    here, there = run(DOTA(), stream), run(DOTA(), stream.shuffled(1))
    assert (here.predictions[there.order] != there.predictions).any()


@pytest.mark.parametrize("settings", [{}, {"start": "constant"}, {"half_precision": True}], ids=str)
def test_dota_keeps_the_contract_of_methods(settings):
    check_method(lambda: DOTA(**settings))


def test_a_state_with_waiting_images_goes_on():
    queries = list(make_stream(9, n_images=40))
    method = DOTA(refresh=8)
    for query in queries[:21]:
        method.step(query)
    again = DOTA.from_state(method.state())
    for query in queries[21:]:
        assert np.array_equal(method.step(query).logits, again.step(query).logits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": -1}, "sigma must be"),
        ({"epsilon": 1.5}, "epsilon is a fraction"),
        ({"sigma": 0, "epsilon": 0}, "no inverse"),
        ({"start": "zero"}, "unknown start of the means"),
        ({"refresh": 0}, "refresh must be an integer"),
        ({"fraction": 2}, "fraction of the views"),
        ({"half_precision": 1}, "half_precision must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        DOTA(**settings)


def test_too_large_a_memory_is_refused(monkeypatch):
    monkeypatch.setattr(dota, "_MOST_BYTES", 4 * 5 * 36 - 1)
    with pytest.raises(MarcError, match="does not fit into memory"):
        _SharedPrecision.fresh(np.ones((5, 8)))
    monkeypatch.setattr(dota, "_MOST_BYTES", 4 * 5 * 36)
    assert _SharedPrecision.fresh(np.ones((5, 8))).scatters.shape == (5, 36)


def test_another_stream_needs_a_reset():
    method = DOTA()
    method.step(make_stream(0).query(0))
    with pytest.raises(MarcError, match="does not fit"):
        method.step(make_stream(0, n_classes=4).query(0))


def check_against_an_inverse(method, query, rtol):
    lower = method._memory.covariance(method.sigma, method.epsilon)
    precision = np.linalg.inv(lower + np.tril(lower, -1).T)
    means, x = method._memory.means.astype(np.float64), query.views[0].astype(np.float64)
    turned = means @ precision
    expected = turned @ x - 0.5 * (turned * means).sum(axis=1)
    scores = method.step(query).evidence["gaussians"]
    assert np.abs(scores - expected).max() < rtol * np.abs(expected).max()


def test_a_solve_gives_what_an_inverse_gives_on_real_features():
    queries = list(islice(gold_stream("office_caltech", views=1), 60))
    method = DOTA()
    for query in queries[:-1]:
        method.step(query)
    check_against_an_inverse(method, queries[-1], rtol=2e-5)

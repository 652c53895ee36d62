import math

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.etta import ETTA, _largest
from marc.scores import unit
from marc.stream import Stream


def awkward_stream(seed, n_classes, n_views, n_images=30, dim=8, n_prompts=7):
    """Rounded features, the same image twice, two classes with the same prompts."""
    draw = np.random.default_rng(seed)
    prototypes = draw.standard_normal((n_classes, dim))
    prompts = prototypes[:, np.newaxis] + 0.3 * draw.standard_normal((n_classes, n_prompts, dim))
    prompts[-1], prototypes[-1] = prompts[0], prototypes[0]
    prompts[:, 1] = prompts[:, 0]
    views = prototypes[draw.integers(n_classes, size=n_images)][:, np.newaxis]
    views = np.round(views + draw.standard_normal((n_images, n_views, dim)), 1) + 0.01
    views[5:10] = views[0]
    return Stream.from_arrays(views, prototypes, logit_scale=20.0, prompts=prompts)


def softmax_list(values):
    powers = [math.exp(v - max(values)) for v in values]
    return [p / sum(powers) for p in powers]


def ridged(values, scale):
    return -sum((p + 1e-6) * math.log(p + 1e-6) for p in softmax_list([scale * v for v in values]))


def literal(stream, share=0.2, fraction=0.1):
    """The numbered steps, one by one, in float64."""
    prompts = stream.features.predictor.prompts.by_class.astype(np.float64)
    scale = stream.features.predictor.logit_scale
    C, P, D = prompts.shape
    s, w = [0.0] * C, [np.zeros(D) for _ in range(C)]
    answers = []
    for query in stream:
        views = query.views.astype(np.float64)
        t = []
        for c in range(C):
            near = [float(np.float32(query.views[0] @ prompts[c, i])) for i in range(P)]
            best = sorted(range(P), key=lambda i: (-near[i], i))[: int(share * P)]
            mean = sum(prompts[c, i] for i in best) / len(best)
            t.append(mean / math.sqrt(mean @ mean))
        rows = [[float(f @ t_c) for t_c in t] for f in views]
        kept = [0]
        if len(views) > 1:
            posteriors = [softmax_list([scale * v for v in row]) for row in rows]
            h = [-sum(p * math.log(p) for p in ps if p > 0) for ps in posteriors]
            kept = sorted(range(len(views)), key=lambda j: (round(h[j], 6), j))
            kept = kept[: int(fraction * len(views))]
        cosines = [sum(rows[j][c] for j in kept) / len(kept) for c in range(C)]
        g = sum(views[j] for j in kept) / len(kept)
        y = min(range(C), key=lambda c: (-round(cosines[c], 6), c))
        a = math.exp(t[y] @ g)
        w[y] = (s[y] * w[y] + a * g) / (s[y] + a)
        s[y] += a
        m = [float(g @ w_c) / (math.sqrt(w_c @ w_c) + 1e-6) for w_c in w]
        text, memory = ridged(cosines, scale), ridged(m, scale)
        mix = text / (text + memory)
        answers.append((y, [mix * m[c] + (1 - mix) * cosines[c] for c in range(C)], cosines))
    return answers, s, w


@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize(("n_views", "fraction"), [(1, 0.1), (2, 0.5), (8, 0.25), (64, 0.1)])
def test_etta_equals_its_numbered_steps(n_classes, n_views, fraction):
    stream = awkward_stream(n_classes + n_views, n_classes, n_views)
    method = ETTA(fraction=fraction)
    expected, sums, means = literal(stream, fraction=fraction)
    for step, (label, fused, cosines) in zip(iter_steps(method, stream), expected, strict=True):
        assert step.label == label
        np.testing.assert_allclose(step.logits, fused, atol=5e-6)
        np.testing.assert_allclose(step.base, cosines, atol=1e-6)
        near = np.flatnonzero(np.array(fused) > max(fused) - 1e-5)
        assert step.prediction in near
    arrays = method.state()["arrays"]
    np.testing.assert_allclose(arrays["sums"], sums, rtol=1e-6)
    np.testing.assert_allclose(arrays["means"], means, atol=1e-6)


def test_five_prompts_at_a_fifth_use_exactly_one_for_each_class():
    stream = make_stream(0, n_prompts=5)
    rows = stream.features.predictor.prompts.by_class
    query = stream.query(0)
    step = ETTA().step(query)
    np.testing.assert_allclose(step.base, (rows @ query.views[0]).max(axis=1), atol=1e-6)


@pytest.mark.parametrize("n_prompts", [1, 2, 3, 4])
def test_too_few_prompts_are_refused(n_prompts):
    with pytest.raises(MarcError, match=f"none of {n_prompts}") as caught:
        run(ETTA(), make_stream(0, n_prompts=n_prompts))
    assert caught.value.allowed == "at least 5"
    share = float(caught.value.hint.partition("share=")[2].split()[0])
    run(ETTA(share=share), make_stream(0, n_prompts=n_prompts))  # what the hint says works


def test_a_source_without_prompts_is_told_what_is_missing():
    with pytest.raises(MarcError, match="chooses among the prompts") as caught:
        run(ETTA(), make_stream(0))
    assert "predictor/prompts" in str(caught.value)


@pytest.mark.parametrize("n_views", range(2, 10))
def test_two_to_nine_views_are_refused(n_views):
    with pytest.raises(MarcError, match=f"none of {n_views}"):
        run(ETTA(), make_stream(0, n_views=n_views, n_prompts=5))


def test_the_first_image_votes_for_itself_and_unseen_classes_get_nothing():
    stream = make_stream(3, n_prompts=5)
    step = ETTA().step(stream.query(0))
    expected = np.zeros(stream.n_classes)
    expected[step.label] = 1.0
    np.testing.assert_allclose(step.evidence["memory"], expected, atol=2e-6)
    assert not step.evidence["memory"][np.arange(stream.n_classes) != step.label].any()


def test_of_two_classes_with_the_same_prompts_the_lower_answers():
    for n_classes in (2, 5, 37):
        stream = awkward_stream(1, n_classes, 1, n_images=60, dim=19)
        for step in iter_steps(ETTA(), stream):
            assert step.base[0] == step.base[-1]
            assert n_classes - 1 not in (step.label, step.base_prediction)
            if step.evidence["memory"][0] >= 0:  # the higher class is never written: it has 0
                assert step.prediction != n_classes - 1


def test_order_matters():
    stream = make_stream(5, n_images=120, n_prompts=5)
    here, there = run(ETTA(), stream), run(ETTA(), stream.shuffled(1))
    assert (here.predictions[there.order] != there.predictions).any()


def test_the_largest_values_of_equals_are_the_first():
    values = np.array([[1.0, 3, 3, 3, 0], [5, 4, 3, 2, 1]])
    assert _largest(values, 2).tolist() == [[1, 2], [0, 1]]


def test_etta_keeps_the_contract_of_methods():
    check_method(ETTA)
    check_method(lambda: ETTA(share=0.5, fraction=0.3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 1.5}, "fraction of the prompts"),
        ({"share": -1}, "share must be"),
        ({"fraction": 2}, "fraction of the views"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        ETTA(**settings)


def prompted_stream(pack, variant):
    """The prompts of the released runs: copies of the prototype, or the seeded jitter."""
    stored = gold_stream(pack, None if variant.startswith("views") else 1)
    predictor = stored.features.predictor
    prototypes, scale = predictor.prototypes, predictor.logit_scale
    prompts = np.repeat(prototypes[:, np.newaxis], 5, axis=1)
    if variant != "copies5":
        shape = len(prototypes), 20, prototypes.shape[1]
        jitter = unit(np.random.default_rng(1).standard_normal(shape).astype(np.float32))
        prompts = unit(prototypes[:, np.newaxis] + np.float32(0.5) * jitter)
    stream = Stream.from_arrays(
        stored.features.views, prototypes, logit_scale=scale, prompts=prompts
    )
    return stream.reordered(stored.order)


@pytest.mark.parametrize("pack", ["office_caltech", "caltech101_test"])
@pytest.mark.parametrize("variant", ["copies5", "jitter20", "views_jitter20"])
def test_the_released_functions_gave_the_same(pack, variant):
    gold = released(f"etta_{variant}_{pack}")
    method = ETTA(fraction=0.25 if variant.startswith("views") else 0.1)
    steps = list(iter_steps(method, prompted_stream(pack, variant)))
    assert np.array_equal([step.prediction for step in steps], gold["pred"])
    np.testing.assert_allclose([step.logits for step in steps], gold["logits"], atol=2e-5)
    np.testing.assert_allclose([step.base for step in steps], gold["clip_logits"], atol=1e-6)
    arrays = method.state()["arrays"]
    np.testing.assert_allclose(arrays["sums"], gold["state_sum"], rtol=1e-5)
    np.testing.assert_allclose(arrays["means"], gold["state_weight"], atol=1e-6)

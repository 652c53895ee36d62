from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from marc.errors import MarcError
from marc.loop import iter_steps
from marc.peers.contract import _stream, check_method
from marc.peers.difftpt import DiffTPT, _similar_views
from marc.peers.tpt import TPT
from marc.scores import softmax_entropy
from marc.stream import Stream


def test_without_generated_views_it_is_tpt():
    stream = _stream(1, 20, 10)
    twin = TPT(steps=4, fraction=0.3)
    for mine, theirs in zip(iter_steps(DiffTPT(), stream), iter_steps(twin, stream), strict=True):
        assert np.array_equal(mine.logits, theirs.logits)


@pytest.mark.parametrize(("n_generated", "similar"), [(4, 0.5), (9, 0.8), (1, 0.1), (3, 1.0)])
def test_the_answers_are_those_of_tpt_on_the_views_that_both_filters_leave(n_generated, similar):
    stream, dim = _stream(2, 15, 10), 8
    features, n_views = stream.features, 10 - n_generated
    views, generated = np.split(features.views, [n_views], axis=1)
    parted = replace(stream, features=replace(features, views=views, generated=generated))
    method = DiffTPT(similar=similar, fraction=0.5, steps=2)
    for query, step in zip(stream, iter_steps(method, parted), strict=True):
        generated = range(n_views, 10)
        by_cosine = sorted(generated, key=lambda j: (-float(query.views[j] @ query.views[0]), j))
        like = [*range(n_views), *by_cosine[: max(1, int(similar * n_generated))]]
        entropy = softmax_entropy(method._start.logits(query.views))
        kept = sorted(like, key=lambda j: (entropy[j], j))[: int(0.5 * len(like))]
        # TPT keeps all of its views here, and its plain image is made the same one
        twin = TPT(fraction=1.0, steps=2)
        views = np.zeros((1, len(kept), dim), dtype=np.float32)
        views[0] = query.views[kept]
        features = stream.features.predictor
        small = Stream.from_arrays(
            views, features.prototypes, logit_scale=20.0, towers=features.towers
        )
        twin.step(small.query(0))
        context = twin._tuning.context(twin._start, small.query(0).views)
        prompts = method._start.prompts
        expected = prompts.logits(query.views[:1], prompts.features(context), 20.0)[0]
        np.testing.assert_allclose(step.logits, expected, atol=2e-3)


def test_equally_like_ones_keep_the_earlier():
    views = np.array([[1.0, 0], [0, 1], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8]])
    assert _similar_views(views, 3, 0.7).tolist() == [0, 1, 2, 3]
    assert _similar_views(views, 0, 0.7).tolist() == [0, 1, 2, 3, 4]


def test_difftpt_keeps_the_contract_of_methods():
    check_method(DiffTPT)
    check_method(lambda: DiffTPT(similar=0.5, steps=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similar": 2}, "similar is a fraction"),
        ({"fraction": 2}, "fraction of the views"),
        ({"steps": 0}, "steps must be"),
        ({"rate": "fast"}, "rate must be"),
        ({"prompt": "{}"}, "a prompt needs words"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        DiffTPT(**settings)

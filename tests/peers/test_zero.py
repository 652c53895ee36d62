import json

import numpy as np
import pytest
from helpers.gold import PACKS, gold, gold_stream
from helpers.reference import argmax, entropy, softmax
from helpers.tied_streams import SIZES, assert_order_does_not_matter, query_of, tied_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.zero import _FLOAT16_EPSILON, _FLOAT32_EPSILON, Zero

AS_RELEASED = {"votes": "released", "temperature": _FLOAT32_EPSILON, "fallback": "released"}
SETTINGS = [
    {},
    {"gamma": 0.5, "fallback": "released"},
    {"votes": "released"},
    {"gamma": 1.0, "fallback": "released"},
    AS_RELEASED,
]


class Literal:
    """The numbered steps of the method over lists; counts ties and undecided ties."""

    def __init__(self, method, scale):
        self.method, self.scale, self.n_ties, self.n_undecided = method, scale, 0, 0

    def votes(self, logits):
        n_views, n_classes = logits.shape
        ranked = sorted(range(n_views), key=lambda view: entropy(softmax(logits[view])))
        n_kept = 1 if n_views == 1 else int(self.method.gamma * n_views)
        kept, discarded = ranked[:n_kept], ranked[n_kept:]
        votes = [np.float32(0)] * n_classes
        for view in kept:
            for c, share in enumerate(self.shares(logits[view])):
                votes[c] += np.float32(share)
        tied = [c for c in range(n_classes) if votes[c] == max(votes)]
        if len(tied) > 1:
            self.n_ties += 1
            winner = self.winner(tied, logits, kept, discarded)
            if winner is not None:
                votes[winner] += np.float32(1)
        return votes

    def shares(self, row):
        if self.method.votes == "released":
            return softmax(row.astype(float) / self.scale / self.method.temperature)
        best = argmax(row)
        return [float(c == best) for c in range(len(row))]

    def winner(self, tied, logits, kept, discarded):
        for view in discarded:
            if argmax(logits[view]) in tied:
                return argmax(logits[view])
        self.n_undecided += 1
        if self.method.fallback == "cosine":
            sums = [sum(float(logits[view][c]) for view in kept) for c in tied]
            return tied[argmax(sums)]
        if not discarded:
            return None
        scores = [float(value) for value in logits[discarded[0]]]
        for c in tied:
            scores[~c] = -np.inf  # from the end: the released mistake
        return argmax(scores)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_keeps_the_contract_of_methods(settings):
    check_method(lambda: Zero(**settings))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_follows_the_numbered_steps(settings):
    n_ties = n_undecided = 0
    for n_classes, n_views in SIZES:
        method = Zero(**settings)
        if n_views == 2 and int(2 * method.gamma) == 0:
            continue
        literal = Literal(method, 10.0)
        stream = tied_stream(0, n_classes, n_views, n_images=6 if n_views == 64 else 30)
        for query, step in zip(stream, iter_steps(method, stream), strict=True):
            expected = literal.votes(query.view_logits)
            np.testing.assert_allclose(step.logits, expected, atol=1e-5)
            assert step.prediction == step.base_prediction == argmax(expected)
            assert not step.evidence
        n_ties, n_undecided = n_ties + literal.n_ties, n_undecided + literal.n_undecided
    assert n_ties >= n_undecided > 0


@pytest.mark.parametrize(("gamma", "n_views", "n_votes"), [(0.3, 64, 19), (0.3, 8, 2), (0.5, 8, 4)])
def test_as_many_votes_as_views_and_one_more_for_a_broken_tie(gamma, n_views, n_votes):
    stream = tied_stream(1, 40, n_views, n_images=60)
    totals = [step.logits.sum() for step in iter_steps(Zero(gamma=gamma), stream)]
    assert set(totals) == {n_votes, n_votes + 1}
    soft = Zero(gamma=gamma, votes="released")
    totals = {round(step.logits.sum(), 4) for step in iter_steps(soft, stream)}
    assert totals <= {n_votes, n_votes + 1}


def test_a_small_temperature_splits_votes_and_a_tiny_one_does_not():
    query = query_of([[1.0, 0.9999, 0.0]])
    assert Zero().step(query).logits.tolist() == [1, 0, 0]
    split = Zero(votes="released", temperature=_FLOAT16_EPSILON).step(query).logits
    assert 0.4 < split[1] < 0.5
    sharp = Zero(votes="released", temperature=_FLOAT32_EPSILON).step(query).logits
    assert sharp.tolist() == [1, 0, 0]


# Eight views of five classes: the two surest are for 1 and for 2, most of the others for 4.
FIRST, SECOND = [0.0, 1.0, 0.02, 0.0, 0.0], [0.0, 0.01, 1.0, 0.0, 0.0]
OTHERS = [[0.1 * view, 0.0, 0.0, 0.2, 1.0] for view in range(1, 7)]


def test_the_surest_discarded_view_for_a_tied_class_breaks_the_tie():
    late = [0.6, 0.0, 0.8, 0.0, 0.0]
    query = query_of([FIRST, *OTHERS[:5], late, SECOND])
    assert Zero().step(query).logits.tolist() == [0, 1, 2, 0, 0]


def test_a_tie_that_no_discarded_view_decides_goes_to_the_largest_summed_cosine():
    query = query_of([FIRST, SECOND, *OTHERS])  # class 2 has 0.02 of the first view
    assert Zero().step(query).logits.tolist() == [0, 1, 2, 0, 0]


def test_the_released_fallback_votes_for_a_class_that_is_not_tied():
    query = query_of([FIRST, SECOND, *OTHERS])
    step = Zero(fallback="released").step(query)
    assert step.logits.tolist() == [0, 1, 1, 0, 1]  # the tie stays
    assert step.prediction == 1


def test_the_released_fallback_leaves_out_classes_counted_from_the_end():
    # 1 and 2 are tied, so 3 and 2 are left out; the first discarded view is for 3, then for 0.
    others = [[0.2 + 0.1 * view, 0.0, 0.0, 1.0, 0.0] for view in range(6)]
    step = Zero(fallback="released").step(query_of([FIRST, SECOND, *others]))
    assert step.logits.tolist() == [1, 1, 1, 0, 0]


def test_the_lower_of_two_classes_with_one_text_is_answered():
    stream = tied_stream(2, 5, 8, n_images=60)
    for settings in SETTINGS:
        predictions = run(Zero(**settings), stream).predictions
        assert (predictions == 0).any()
        assert not (predictions == 4).any()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_order_of_the_stream_does_not_matter(settings):
    assert_order_does_not_matter(lambda: Zero(**settings), tied_stream(3, 5, 8))


@pytest.mark.parametrize("n_views", [2, 3])
def test_two_and_three_views_are_refused(n_views):
    stream = tied_stream(0, 5, n_views)
    with pytest.raises(MarcError) as refused:
        run(Zero(), stream)
    assert "zero keeps the fraction 0.3 of the views, which is none" in str(refused.value)
    assert "1 view, or at least 4" in str(refused.value)
    assert "--set gamma=" in str(refused.value)


def test_one_view_is_the_plain_image():
    stream = tied_stream(4, 40, 1)
    for query, step in zip(stream, iter_steps(Zero(), stream), strict=True):
        assert step.logits.sum() == 1
        assert step.prediction == argmax(query.view_logits[0])


@pytest.mark.parametrize(
    "bad",
    [
        {"gamma": 1.5},
        {"gamma": -0.1},
        {"votes": "soft"},
        {"temperature": 0.0},
        {"temperature": "float16"},
        {"fallback": "none"},
    ],
    ids=str,
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(MarcError, match=next(iter(bad))):
        Zero(**bad)


@pytest.mark.parametrize("gamma", [0.3, 0.5])
@pytest.mark.parametrize("pack", PACKS)
def test_votes_and_ties_are_those_of_the_released_code(pack, gamma):
    expected = gold(f"zero_g{gamma}_{pack}")
    told = json.loads(str(expected["description"]))
    stream = gold_stream(pack)
    assert np.array_equal(stream.order, expected["order"])
    votes = np.array([step.base for step in iter_steps(Zero(gamma, **AS_RELEASED), stream)])
    np.testing.assert_allclose(votes, expected["logits"], rtol=0, atol=1e-6)
    assert np.array_equal(votes.argmax(axis=1), expected["pred"])
    broken = np.round(votes.sum(axis=1)) > int(gamma * 8)
    assert np.array_equal(broken, expected["tie_break_called"] > 0)
    assert broken.sum() == told["ties"]
    exact = run(Zero(gamma), stream).predictions
    undecided = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert np.array_equal(undecided, expected["fallback_called"] > 0)
    assert undecided.sum() == told["fallback_ties"]
    assert np.array_equal(exact[~undecided], expected["pred"][~undecided])

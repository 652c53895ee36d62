import numpy as np
import pytest
from helpers.gold import gold_stream
from helpers.making import make_stream
from helpers.reference import argmax, entropy, softmax
from helpers.tied_streams import SIZES, assert_order_does_not_matter, query_of, tied_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.view_ensembles import ProbabilityEnsemble, ViewEnsemble
from marc.peers.zero_shot import NoMemory

BOTH = (ViewEnsemble, ProbabilityEnsemble)


def literal_scores(method, logits):
    """The mean over the kept views, of logits or of posteriors, written out."""
    by_entropy = sorted(range(len(logits)), key=lambda view: entropy(softmax(logits[view])))
    kept = by_entropy[: max(method.at_least, int(method.fraction * len(logits)))]
    rows = [logits[view].astype(float) for view in kept]
    if method.name == "probability-ensemble":
        rows = [softmax(row) for row in rows]
    return [sum(row[c] for row in rows) / len(rows) for c in range(len(logits[0]))]


@pytest.mark.parametrize("cls", BOTH)
def test_they_keep_the_contract_of_methods(cls):
    check_method(cls)
    check_method(lambda: cls(fraction=0.3, at_least=0))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(("n_classes", "n_views"), SIZES)
def test_they_are_means_over_the_kept_views(cls, n_classes, n_views):
    for method in (cls(), cls(fraction=0.5), cls(fraction=0.0, at_least=3)):
        stream = tied_stream(0, n_classes, n_views)
        for query, step in zip(stream, iter_steps(method, stream), strict=True):
            expected = literal_scores(method, query.view_logits)
            np.testing.assert_allclose(step.logits, expected, rtol=1e-6, atol=1e-7)
            assert step.prediction == step.base_prediction == argmax(expected)
            assert not step.evidence


@pytest.mark.parametrize("n_views", [1, 2, 8, 30, 64, 100])
def test_the_mean_of_logits_is_no_memory_to_the_bit(n_views):
    for stream in (tied_stream(1, 40, n_views), make_stream(2, n_images=30, n_views=n_views)):
        steps = zip(iter_steps(ViewEnsemble(), stream), iter_steps(NoMemory(), stream), strict=True)
        for step, expected in steps:
            assert np.array_equal(step.base, expected.base)
            assert (step.label, step.priority) == (expected.label, expected.priority)


def test_the_mean_of_logits_is_the_logit_of_the_mean_feature():
    for query in tied_stream(2, 5, 64):
        kept = np.argsort([entropy(softmax(row)) for row in query.view_logits], kind="stable")[:6]
        feature = query.views[kept].astype(np.float64).mean(axis=0)
        expected = 10.0 * query.predictor.prototypes @ feature
        np.testing.assert_allclose(ViewEnsemble().step(query).logits, expected, atol=1e-5)


def test_the_two_means_can_answer_otherwise():
    # One view is sure of class 0; two lean to class 1. Logits add up, posteriors saturate.
    query = query_of([[1.0, -0.3, 0.1], [0.3, 0.6, 0.0], [0.3, 0.6, 0.0]])
    assert ViewEnsemble(fraction=1.0).step(query).prediction == 0
    assert ProbabilityEnsemble(fraction=1.0).step(query).prediction == 1


def test_the_ridge_of_the_released_entropies_can_change_which_view_is_kept():
    stream = tied_stream(4, 40, 8, n_images=80)
    plain, ridged = (run(ProbabilityEnsemble(ridge=ridge), stream) for ridge in (0.0, 0.05))
    assert (plain.predictions != ridged.predictions).any()


@pytest.mark.parametrize("cls", BOTH)
def test_the_lower_of_two_classes_with_one_text_is_answered(cls):
    predictions = run(cls(), tied_stream(2, 5, 8, n_images=60)).predictions
    assert (predictions == 0).any()
    assert not (predictions == 4).any()


@pytest.mark.parametrize("cls", BOTH)
def test_the_order_of_the_stream_does_not_matter(cls):
    assert_order_does_not_matter(cls, tied_stream(3, 5, 8))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("n_views", range(2, 10))
def test_few_views_are_refused_where_none_would_be_kept(cls, n_views):
    stream = tied_stream(0, 5, n_views)
    with pytest.raises(MarcError, match=f"which is none of {n_views}"):
        run(cls(at_least=0), stream)
    assert len(run(cls(), stream).predictions) == len(stream)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("bad", [{"fraction": 1.5}, {"fraction": -1}, {"at_least": -1}])
def test_bad_settings_are_refused(cls, bad):
    with pytest.raises(MarcError, match=next(iter(bad))):
        cls(**bad)


def test_a_bad_ridge_is_refused():
    with pytest.raises(MarcError, match="ridge"):
        ProbabilityEnsemble(ridge=-1e-6)


def test_real_features_give_no_memory_to_the_bit():
    stream = gold_stream("office_caltech")
    steps = zip(iter_steps(ViewEnsemble(), stream), iter_steps(NoMemory(), stream), strict=True)
    assert all(np.array_equal(step.base, expected.base) for step, expected in steps)

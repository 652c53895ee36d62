import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.method import MARC
from marc.stream import Stream
from marc_paper.analysis.interaction import Margins, RepairSets, WarmUp, substitution

STREAM = make_stream(0, n_images=200, n_views=8).shuffled(0)
FEW, MANY = (run(MARC("good", capacity=4), STREAM.with_views(m)) for m in (1, 8))


def test_substitution_is_a_difference_in_differences_both_ways_round():
    by_gain = substitution(FEW, MANY)
    by_views = (MANY.accuracy - FEW.accuracy) - (MANY.base_accuracy - FEW.base_accuracy)
    assert by_gain == pytest.approx(by_views)


def test_substitution_needs_one_order():
    with pytest.raises(MarcError, match="one stream order"):
        substitution(FEW, run(MARC("good"), STREAM.shuffled(1)))


def test_repair_sets_account_for_every_change():
    sets = RepairSets.of(FEW.base_correct, {"views": MANY.base_correct, "memory": FEW.correct})
    views_change = MANY.base_accuracy - FEW.base_accuracy
    assert sets.accuracy_change("views") == pytest.approx(views_change)
    assert sets.accuracy_change("memory") == pytest.approx(FEW.gain)
    assert not (sets.repairs["views"] & sets.regressions["memory"]).any()
    assert not (sets.repairs["memory"] & sets.regressions["views"]).any()
    assert sets.coverage == (MANY.base_correct | FEW.correct).mean()
    shared = MANY.base_correct & FEW.correct & ~FEW.base_correct
    assert sets.shared_repairs("views", "memory") == shared.sum()
    broken = ~MANY.base_correct & ~FEW.correct & FEW.base_correct
    assert sets.shared_regressions("views", "memory") == broken.sum()
    assert set(FEW.order[sets.repairs["memory"]]) == set(FEW.repairs)


def test_repair_sets_refuse_other_images():
    with pytest.raises(MarcError, match="'short' is not over the images"):
        RepairSets.of(np.ones(3), {"short": np.ones(2)})


def test_warm_up_parts_average_to_the_whole():
    parts = WarmUp.of(FEW, 10)
    assert parts.gain.shape == (10,)
    assert parts.gain.mean() == pytest.approx(FEW.gain)
    assert parts.accuracy[0] == FEW.correct[:20].mean()
    with pytest.raises(MarcError, match="more parts than images"):
        WarmUp.of(FEW, 201)


def test_margins_equal_those_of_the_steps_and_imply_right_answers():
    method = MARC("good", capacity=4)
    found = Margins.of(method, STREAM)
    for t, step in enumerate(iter_steps(MARC("good", capacity=4), STREAM)):
        label = STREAM.labels[t]
        for margin, scores in (
            (found.base[t], step.base.astype(np.float64)),
            (found.memory[t], step.evidence["retrieval"]),
        ):
            assert margin == pytest.approx(scores[label] - np.delete(scores, label).max(), abs=1e-4)
        if found.base[t] + method.weight * found.memory[t] > 1e-3:
            assert step.prediction == label


def test_margins_need_labels():
    unlabelled = Stream.from_arrays(STREAM.features.views, STREAM.features.predictor.prototypes)
    with pytest.raises(MarcError, match="need labels"):
        Margins.of(MARC("predictor"), unlabelled)

import numpy as np
import pytest

from marc import MarcError
from marc_lab.classes import HELD_BACK
from marc_lab.streams import list_lab_streams, plan_stream
from marc_lab.world import SHIFTS, render
from training.pictures import TRAINING_SEED, VALIDATION_SEED

NAMES = list_lab_streams()


def test_there_is_a_long_and_a_short_stream_of_every_kind():
    assert {name.removesuffix("-12") for name in NAMES} == {*SHIFTS, "mixed", "drift"}
    assert len(NAMES) == 2 * (len(SHIFTS) + 2)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_classes(name):
    plan = plan_stream(name)
    short = name.endswith("-12")
    assert len(plan) == len(plan.shifts) == len(plan.ids) == (500 if short else 2000)
    assert len(plan.classes) == (12 if short else 48)
    assert set(plan.labels) == set(range(len(plan.classes)))
    assert len(set(plan.ids)) == len(plan)


def test_short_streams_show_the_classes_that_were_held_back():
    assert plan_stream("fog-12").classes == HELD_BACK


def test_no_two_streams_share_a_seed_with_each_other_or_with_training():
    seeds = [plan_stream(name).seed for name in NAMES]
    assert len({*seeds, TRAINING_SEED, VALIDATION_SEED}) == len(NAMES) + 2


def test_a_picture_is_the_one_that_the_plan_says():
    plan = plan_stream("neon-12")
    label = plan.classes[int(plan.labels[7])]
    assert np.array_equal(plan.picture(7), render(plan.seed, 14, "neon", label).image)


def test_mixed_shows_one_shift_after_another():
    shifts = plan_stream("mixed").shifts
    changes = [row for row in range(1, len(shifts)) if shifts[row] != shifts[row - 1]]
    assert len(changes) == len(SHIFTS) - 1
    assert set(shifts) == set(SHIFTS)


def test_drift_slides_from_clean_to_neon():
    late = np.array([shift == "neon" for shift in plan_stream("drift").shifts])
    assert set(plan_stream("drift").shifts) == {"clean", "neon"}
    assert late[:400].mean() < 0.2
    assert late[-400:].mean() > 0.8


def test_an_unknown_stream_is_refused_with_the_names():
    with pytest.raises(MarcError, match="sketch-12"):
        plan_stream("rain")

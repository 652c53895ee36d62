"""A folder of runs is never silently another's: other answers, unknown methods, odd policies."""

import numpy as np
import pytest
from helpers.making import make_stream

import marc
from marc import MARC, MarcError, Policy


def newest(arrivals):
    return arrivals.position.astype(np.float64)


def test_other_answers_under_the_same_settings_are_refused(tmp_path):
    stream = make_stream()
    run = marc.run(MARC("good"), stream)
    path = marc.save_run(run, tmp_path / "a", stream)
    assert marc.save_run(run, path, stream) == path
    other = marc.run(MARC("bad"), stream)
    forged = type(run)(**{**vars(run), "predictions": other.predictions})
    with pytest.raises(MarcError, match="other answers"):
        marc.save_run(forged, path, stream)


def test_a_run_of_a_policy_that_is_not_known_is_loaded(tmp_path):
    stream = make_stream()
    run = marc.run(MARC("good", policy=Policy("newest", "the newest", newest)), stream)
    [loaded] = marc.load_run(marc.save_run(run, tmp_path / "a", stream))
    assert np.array_equal(loaded.predictions, run.predictions)


def test_a_policy_does_not_take_the_name_of_ours():
    with pytest.raises(MarcError, match="another policy of this name"):
        MARC("good", policy=Policy("entropy", "mine", newest))
    MARC("good", policy=marc.admission.POLICIES["entropy"])


def test_a_folder_and_its_own_run_have_the_same_protocol(tmp_path):
    stream = make_stream()
    run = marc.run(MARC("good"), stream)
    path = marc.save_run(run, tmp_path / "a", stream)
    comparison = marc.compare(path, run)
    assert comparison.runs[0]["difference"] == 0
    assert comparison.runs[0]["protocol_differences"] == []

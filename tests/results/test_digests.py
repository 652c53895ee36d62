"""A result is read as it was written, or not at all."""

import contextlib

import numpy as np
import pytest
from helpers.commands import arrays_in, reseal

import marc
from marc.errors import MarcError
from marc.sources.synthetic import synthetic_stream


def damaged_run(tmp_path):
    stream = synthetic_stream(n_images=24, n_classes=4)
    runs = [marc.run(marc.MARC("classes"), stream.in_order(seed)) for seed in (0, 1)]
    return marc.save_run(runs, tmp_path / "run", stream)


@pytest.mark.parametrize("change", ["nan", "text", "thousand"])
def test_other_answers_than_were_written_are_never_compared(tmp_path, change):
    path = damaged_run(tmp_path)
    arrays = arrays_in(path / "predictions.npz")
    answers = arrays["prediction"]
    others = {
        "nan": np.full(answers.shape, np.nan),
        "text": answers.astype(str),
        "thousand": answers + 1000,
    }
    np.savez(path / "predictions.npz", **{**arrays, "prediction": others[change]})
    with pytest.raises(MarcError, match=r"(?s)this run is damaged.*predictions\.npz"):
        marc.compare(path, path)
    reseal(path)  # and if somebody meant it
    with pytest.raises(MarcError, match=r"(?s)this run is damaged.*the array prediction"):
        marc.compare(path, path)


EDITS = {
    "no such space": {"method": {"method": 3}},
    "more images": {"n_images": 10**12},
    "a class less": {"n_classes": 1},
    "no seeds": {"seeds": []},
    "seeds as text": {"seeds": ["0", "1"]},
    "fingerprint": {"fingerprint": None},
}


@pytest.mark.parametrize("name", EDITS)
def test_a_configuration_that_does_not_fit_is_refused_even_where_the_digests_do(tmp_path, name):
    path = damaged_run(tmp_path)
    reseal(path, **EDITS[name])
    with pytest.raises(MarcError, match="this run is damaged"):
        marc.load_run(path)


@pytest.mark.parametrize("file", ["config.json", "metrics.json", "timing.json", "digests.json"])
def test_every_file_of_a_result_is_read_as_it_was_written(tmp_path, file):
    path = damaged_run(tmp_path)
    whole = (path / file).read_text()
    for before, after in (('"', "'"), ("0", "1"), ("\n", "")):
        (path / file).write_text(whole.replace(before, after, 1))
        with contextlib.suppress(MarcError):  # new lines of the digests mean nothing
            assert (file, before) == ("digests.json", "\n") or marc.load_run(path) is None
    (path / file).unlink()
    with pytest.raises(MarcError):
        marc.load_run(path)

from pathlib import Path

import numpy as np
import pytest
from commands import call

import marc
from marc.lab import embedding
from marc.lab.streams import plan_stream

NAME = "drift-12"


@pytest.fixture(scope="module")
def stream():
    return marc.load_stream(f"lab/{NAME}")


@pytest.fixture
def files(stream):
    return sorted(next((embedding.cache_folder() / "lab-1").glob(f"{NAME}-*")).iterdir())


def test_a_stream_of_the_lab_has_every_encoder_as_a_space(stream):
    names = [name.removeprefix("mini:") for name in marc.list_encoders("mini:*")]
    assert list(stream.features.spaces) == names
    assert len(stream) == 500
    assert stream.name == f"lab/{NAME}"
    plan = plan_stream(NAME)
    assert np.array_equal(stream.row_labels, plan.labels)
    assert list(stream.features.class_names) == plan.class_names
    assert list(stream.features.ids) == plan.ids


def test_features_are_those_of_the_pictures(stream):
    rows = [0, 17, 499]
    pictures = np.stack([plan_stream(NAME).picture(row) for row in rows])
    for space in ("captions", "pixels"):
        expected = marc.create_encoder(f"mini:{space}").encode(pictures)
        assert np.allclose(stream.features.spaces[space][rows], expected, atol=1e-5)
    assert np.allclose(stream.features.views[rows, 0], stream.features.spaces["captions"][rows])


def test_a_second_call_reads_what_the_first_has_kept(stream, monkeypatch):
    monkeypatch.setattr(embedding, "create_encoder", None)  # nothing may be embedded again
    monkeypatch.setattr("marc.lab.streams.render", None)  # or drawn
    again = marc.load_stream(f"lab/{NAME}")
    assert again.fingerprint == stream.fingerprint


def test_what_is_damaged_is_made_again(stream, files):
    for path in files[:3]:
        path.write_bytes(path.read_bytes()[:100])
    files[3].unlink()
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint


def test_an_array_of_another_shape_is_not_taken(stream, files):
    for path in files[:2]:
        np.savez(path, array=np.zeros((3, 3), dtype=np.float32))
    np.savez(files[2], something=np.zeros(3))
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint


def test_a_cache_that_cannot_be_written_costs_time_only(stream, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="not kept"):
        again = marc.load_stream(f"lab/{NAME}")
    assert again.fingerprint == stream.fingerprint
    outcome = call("geometry", f"lab/{NAME}", "--space", "pixels")
    assert outcome.status == 0
    assert outcome.err.count("not kept in") == 1
    assert "Not a directory" in outcome.err


def test_progress_is_reported_until_everything_is_done(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path))
    told = []
    embedding.lab_stream("clean-12", lambda *report: told.append(report))
    last = {what: (done, total) for what, done, total in told}
    assert set(last.values()) == {(500, 500)}
    assert len(last) == 1 + len(marc.list_encoders("mini:*"))


def test_the_folder_is_the_one_that_was_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "here"))
    assert embedding.cache_folder() == tmp_path / "here"
    monkeypatch.setenv("MARC_CACHE", "~/there")
    assert embedding.cache_folder() == Path("~/there").expanduser()
    monkeypatch.delenv("MARC_CACHE")
    assert embedding.cache_folder().name == "marc"

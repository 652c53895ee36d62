"""The page of all methods is made of what was run, and runs nothing twice."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

from benchmarks.peers import blocks, results
from marc.peers.registry import METHODS, absent_methods
from marc.sources.pack import write_pack


def small(seed=5, **options):
    """A stream with the spaces that the packs and the lab have."""
    stream = make_stream(seed, n_images=48, n_views=8, n_prompts=5, **options)
    good, bad = stream.features.spaces["good"], stream.features.spaces["bad"]
    spaces = {"resnet50": good, "pairs-large": bad}
    return replace(stream, features=replace(stream.features, spaces=spaces))


@pytest.fixture
def packs(tmp_path, monkeypatch):
    """One small pack in place of the packs, and small streams in place of the lab."""
    monkeypatch.setattr(blocks, "_lab", lambda name: small(7))
    monkeypatch.setattr(blocks, "_lab_shots", lambda folder: write(folder / "lab-shots.npz", 9))
    return [write(tmp_path / "photos_small.npz", 5)]


def write(path, seed):
    path.parent.mkdir(exist_ok=True)
    write_pack(small(seed), path)
    return path


@pytest.fixture
def found(packs, tmp_path):
    return results.outcomes_of(packs, tmp_path / "runs")


def test_every_method_has_a_row_or_a_reason(found):
    of_features = {
        n for n, card in METHODS.items() if not {*card.needs} & {"text-tower", "image-tower"}
    }
    ran = {name for outcome in found.values() for name in outcome.rows}
    assert of_features <= ran
    left_out = found["photos_small one view"].left_out
    assert "labelled few-shot features" in left_out["tip-adapter"]
    assert not set(left_out) & set(found["photos_small one view"].rows)


def test_the_page_has_what_was_measured(found, packs, tmp_path, monkeypatch):
    page = "\n\n".join(results.document(found, ["photos_small"]))
    row = found["photos_small one view"].rows["tda"]
    gain = f"{round(100 * row['gain'], 1) + 0.0:+.1f}"
    lines = [each.split("|") for each in page.splitlines() if each.startswith("| tda ")]
    assert lines[0][2].strip() == gain
    assert lines[1][3].strip() == f"{100 * row['accuracy']:.1f} ({gain})"
    assert all(f"| {name} " in page for name in absent_methods())
    monkeypatch.setattr("marc.results.run.run_online", None)  # nothing may be run again
    again = results.outcomes_of(packs, tmp_path / "runs")
    assert "\n\n".join(results.document(again, ["photos_small"])) == page


def test_shots_and_unlabelled_images_are_none_of_the_stream(packs, tmp_path):
    block = next(each for each in blocks.blocks(packs, tmp_path / "runs") if "second" in each.name)
    with (
        np.load(block.settings["unlabelled"]) as unlabelled,
        np.load(block.settings["shots"]) as shots,
    ):
        assert "labels" not in unlabelled
        assert np.bincount(shots["labels"]).max() <= blocks.SHOTS
        given = {row.astype(np.float32).tobytes() for row in unlabelled["predictor/views"][:, 0]}
    stream = block.open()
    assert len(given) + len(stream) == 48
    kept = {row.astype(np.float32).tobytes() for row in stream.features.views[:, 0]}
    assert not given & kept

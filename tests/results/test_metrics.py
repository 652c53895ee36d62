"""How sure answers are, in run folders and in comparisons."""

import json

import numpy as np
import pytest
from helpers.commands import PAPER, call, call_json

import marc
from marc.scores import Certainty
from marc.stats import paired_difference

MEASURES = ("ece", "brier", "log_loss")


@pytest.fixture(scope="module")
def stream(sources):
    return marc.load_stream(sources["labelled"])


@pytest.fixture(scope="module")
def runs(stream):
    return [marc.run(marc.MARC("classes"), stream.shuffled(seed)) for seed in (0, 1)]


@pytest.fixture(scope="module")
def folder(runs, stream, tmp_path_factory):
    return marc.save_run(runs, tmp_path_factory.mktemp("metrics") / "run", stream)


def numbers(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_a_folder_keeps_how_sure_its_answers_are(runs, folder):
    for before, after in zip(runs, marc.load_run(folder), strict=True):
        for which in ("certainty", "base_certainty"):
            for name, values in vars(getattr(before, which)).items():
                assert np.array_equal(values, getattr(getattr(after, which), name))
        assert after.calibration() == before.calibration()


def test_the_numbers_are_means_over_orders(runs, folder):
    found = numbers(folder)["calibration"]
    assert found["bins"] == 15
    each = [run.calibration() for run in runs]
    for name in (*MEASURES, *(f"base_{measure}" for measure in MEASURES)):
        assert found[name] == pytest.approx(np.mean([one[name] for one in each]), abs=1e-7)
    for name in MEASURES:
        assert found["difference"][name] == pytest.approx(
            found[name] - found[f"base_{name}"], abs=1e-6
        )
    assert set(found["interval"]) == {"brier", "log_loss"}


def test_the_interval_is_paired_over_images(runs, folder):
    pairs = [(run.by_image().certainty, run.by_image().base_certainty) for run in runs]
    expected = paired_difference(*([c.brier for c in side] for side in zip(*pairs, strict=True)))
    found = numbers(folder)["calibration"]
    assert found["interval"]["brier"] == pytest.approx(expected[1:], abs=1e-7)


def test_a_comparison_pairs_the_runs(runs, stream):
    others = [marc.run(marc.MARC("noise"), stream.shuffled(seed)) for seed in (0, 1)]
    [row] = marc.compare(runs, others).runs
    found = row["calibration_vs"]
    for name in MEASURES:
        own = np.mean([run.calibration()[name] for run in others])
        reference = np.mean([run.calibration()[name] for run in runs])
        assert found["difference"][name] == pytest.approx(own - reference, abs=1e-6)
        assert row["calibration"][name] == pytest.approx(own, abs=1e-6)
    low, high = found["interval"]["log_loss"]
    assert low < found["difference"]["log_loss"] < high


def test_only_shared_orders_are_paired(runs, stream):
    other = marc.run(marc.MARC("noise"), stream.shuffled(1))
    [row] = marc.compare(runs, other).runs
    expected = other.calibration()["ece"] - runs[1].calibration()["ece"]
    assert row["calibration_vs"]["difference"]["ece"] == pytest.approx(expected, abs=1e-9)


def test_a_run_shows_its_calibration(sources, tmp_path):
    words = [
        "run",
        sources["labelled"],
        *PAPER,
        "-o",
        tmp_path / "run",
    ]
    shown = call(*words).out
    for word in ("ECE, 15 bins", "Brier score", "log-loss", "less is better"):
        assert word in shown
    found = call_json(*words)["metrics"]["calibration"]
    assert f"{found['brier']:.4f}" in shown
    assert max(len(line) for line in shown.splitlines() if "written" not in line) <= 80


def test_votes_have_no_calibration(sources, tmp_path):
    shown = call("run", sources["labelled"], "--method", "shot-pl", "-o", tmp_path / "votes")
    assert shown.status == 0
    assert "calibration not known" in shown.out
    assert "calibration" not in numbers(tmp_path / "votes")


def test_an_oracle_has_no_probabilities_at_the_weights_it_chose(sources, tmp_path):
    words = ["run", sources["labelled"], "--method", "dmn-zs", "--set", "fraction=0.5"]
    shown = call(*words, "--oracle", "-o", tmp_path / "oracle")
    assert shown.status == 0
    found = numbers(tmp_path / "oracle")["calibration"]
    assert "brier" not in found
    assert found["base_brier"] > 0
    [run, *_] = marc.load_run(tmp_path / "oracle")
    assert run.certainty is None
    assert isinstance(run.base_certainty, Certainty)


def test_without_labels_a_folder_has_the_confidence(sources, tmp_path):
    path = tmp_path / "unlabelled"
    shown = call("run", sources["unlabelled"], *PAPER, "-o", path)
    assert "mean confidence" in shown.out
    assert set(numbers(path)) >= {"confidence", "base_confidence"}
    [run, *_] = marc.load_run(path)
    assert np.isfinite(run.certainty.confidence).all()
    assert run.certainty.brier is None

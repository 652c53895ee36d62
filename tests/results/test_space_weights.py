"""The weight of each space in run folders: a method that reads several says whom it believed."""

import numpy as np
import pytest
from helpers.commands import call, json_in

import marc

NAMES = ["classes", "noise+pca:4", "predictor"]  # no name of a file


@pytest.fixture(scope="module")
def stream(sources):
    return marc.load_stream(sources["labelled"])


@pytest.fixture(scope="module")
def runs(stream):
    method = marc.create_method("class-means", spaces=["classes", "noise", "predictor"])
    return [marc.run(method, stream.shuffled(seed)) for seed in (0, 1)]


@pytest.fixture(scope="module")
def folder(runs, stream, tmp_path_factory):
    return marc.save_run(runs, tmp_path_factory.mktemp("weights") / "run", stream)


def test_the_weights_of_spaces_survive_a_folder(runs, folder):
    for run, again in zip(runs, marc.load_run(folder), strict=True):
        assert list(again.space_weights) == ["classes", "noise", "predictor"]
        for space, weights in run.space_weights.items():
            assert np.array_equal(again.space_weights[space], weights)


def test_the_command_stores_what_the_library_gives(sources, runs, tmp_path):
    words = ["--method", "class-means", "--seed", 0, 1, "-o", tmp_path / "run"]
    assert call("run", sources["labelled"], *words).status == 0
    again = marc.load_run(tmp_path / "run")
    assert set(again[0].space_weights) > {"classes", "noise", "predictor"}
    assert all(np.all(weights >= 0) for weights in again[0].space_weights.values())


def test_metrics_have_the_mean_over_the_last_tenth_of_each_order(runs, folder):
    found = json_in(folder / "metrics.json")["final_space_weights"]
    for run, weights in zip(runs, found, strict=True):
        tenth = len(run.order) // 10
        means = {space: each[-tenth:].mean() for space, each in run.space_weights.items()}
        assert weights == pytest.approx(means)


def test_one_space_has_no_weights_to_tell_apart(stream, tmp_path):
    run = marc.run(marc.create_method("class-means", spaces="classes"), stream.shuffled(0))
    folder = marc.save_run(run, tmp_path / "run", stream)
    assert "final_space_weights" not in json_in(folder / "metrics.json")
    assert np.array_equal(marc.load_run(folder)[0].space_weights["classes"], run.weights)


@pytest.mark.parametrize("space", NAMES)
def test_a_space_may_have_any_name(stream, tmp_path, space):
    run = marc.run(marc.create_method("class-means", spaces=[space]), stream.shuffled(0))
    again = marc.load_run(marc.save_run(run, tmp_path / "run", stream))[0]
    assert np.array_equal(again.space_weights[space], run.space_weights[space])

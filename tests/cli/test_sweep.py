import json

import numpy as np
import pytest
from helpers.commands import arrays_in, call, call_json, call_outside, events, json_in

import marc
from marc.replay import sweep_job
from marc.replay.sweep_job import SweepJob
from marc.results.sweep import load_sweep
from marc.stats import envelope_bootstrap

CONFIG = {
    *("kind", "source", "stream", "n_images", "n_classes", "n_views", "images", "spaces"),
    *("capacities", "weights", "seeds", "settings", "transductive", "fingerprint"),
    "versions",
}
METRICS = {"selection", "axes", "accuracy", "base_accuracy", "envelope"}
SMALL = ["--capacity", "2", "8", "--weight", "0", "1", "10", "--seed", "0", "3"]


@pytest.fixture
def sweep(sources, tmp_path, monkeypatch):
    """`marc sweep` on the labelled pack, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: call("sweep", sources["labelled"], *words)


def test_a_sweep_folder_holds_its_files(sweep, tmp_path):
    assert sweep(*SMALL, "-o", "out").status == 0
    files = {"config.json", "metrics.json", "intervals.npz", "log.jsonl", "digests.json"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == files
    assert set(json_in(tmp_path / "out/config.json")) == CONFIG
    assert set(json_in(tmp_path / "out/metrics.json")) == METRICS
    spaces = ("classes", "both", "styles", "noise")
    ends = {f"{end}/{space}" for space in spaces for end in ("lower", "upper")}
    assert set(arrays_in(tmp_path / "out/intervals.npz")) == {"ids", "base_correct", *ends}
    parts = [f"part space-{number}-0" for number in range(4)]
    assert events(tmp_path / "out") == ["started", *parts, "finished"]


def test_the_results_are_those_of_the_python_api(sweep, sources, tmp_path):
    sweep("--space", "both", "classes", *SMALL, "--policy", "fifo", "--views", "1", "-o", "out")
    stream = marc.load_stream(sources["labelled"]).with_views(1)
    expected = marc.sweep(stream, ["both", "classes"], [2, 8], [0, 1, 10], [0, 3], policy="fifo")
    metrics = json_in(tmp_path / "out/metrics.json")
    assert metrics["axes"] == ["space", "capacity", "weight", "seed"]
    np.testing.assert_array_equal(metrics["accuracy"], expected.accuracy)
    np.testing.assert_array_equal(metrics["base_accuracy"], expected.base_accuracy)
    stored = arrays_in(tmp_path / "out/intervals.npz")
    for space, (lower, upper) in expected.intervals.items():
        np.testing.assert_array_equal(stored[f"lower/{space}"], lower)
        np.testing.assert_array_equal(stored[f"upper/{space}"], upper)
    config = json_in(tmp_path / "out/config.json")
    assert config["spaces"] == ["both", "classes"]
    assert config["settings"] == dict(expected.settings)


def test_the_defaults_are_all_spaces_and_the_grids_of_the_paper(sources, tmp_path):
    config = call_json("sweep", sources["labelled"], "-o", tmp_path / "out")["config"]
    assert config["spaces"] == ["classes", "both", "styles", "noise"]
    assert config["capacities"] == list(marc.CAPACITIES)
    assert config["weights"] == list(marc.WEIGHTS)
    assert config["seeds"] == [0, 1, 2]


def test_every_score_says_how_its_settings_were_chosen(sources, tmp_path):
    result = call_json("sweep", sources["labelled"], "-o", tmp_path / "out")
    expected = marc.sweep(marc.load_stream(sources["labelled"]))
    for space, scores in result["scores"].items():
        assert [score["selection"] for score in scores] == ["fixed", "oracle", "oracle"]
        wanted = [
            expected.fixed(space, 16, 10.0),
            expected.oracle(space),
            expected.oracle(space, over="all"),
        ]
        for score, one in zip(scores, wanted, strict=True):
            assert score["accuracy"] == one.accuracy
            assert score["gain"] == one.gain
            assert score["gain_sd"] == one.spread
            assert (score["capacity"], score["weights"]) == (one.capacity, list(one.weights))


def test_every_oracle_gain_over_the_grid_has_an_interval(sweep, tmp_path):
    result = json.loads(sweep(*SMALL, "-o", "out", "--json").out)
    found = load_sweep(tmp_path / "out")
    envelope = json_in(tmp_path / "out/metrics.json")["envelope"]
    assert envelope == result["metrics"]["envelope"]
    assert (envelope["selection"], envelope["n_replicates"]) == ("oracle", 2000)
    printed = sweep(*SMALL, "-o", "out").out
    for space in found.spaces:
        oracle, row = found.oracle(space), envelope["spaces"][space]
        place = found.capacities.index(oracle.capacity)
        ends = [side[:, place] for side in found.intervals[space]]
        gain, *interval = envelope_bootstrap(*ends, found.base_correct, weights=(0, 1, 10))
        expected = {"capacity": oracle.capacity, "gain": gain, "gain_interval": interval}
        assert row == expected
        assert gain == pytest.approx(oracle.gain)
        fixed, grid, every = result["scores"][space]
        assert grid["gain_interval"] == interval
        assert fixed["gain_interval"] is every["gain_interval"] is None
        low, high = (f"{100 * end:+.2f}" for end in interval)
        line = next(line for line in printed.splitlines() if line.startswith(f"{space} "))
        assert f"[{low}, {high}]" in line


@pytest.mark.parametrize("held_out", [False, True])
def test_the_table_of_oracles_is_no_wider_than_it_was(sweep, sources, tmp_path, held_out):
    words = []
    if held_out:
        call("sweep", sources["other"], "-o", tmp_path / "other")
        words = ["--held-out", "other"]
    lines = sweep(*words, "-o", "out").out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("95 % interval" in line for line in lines) is not held_out


def test_several_values_after_one_flag_are_as_one_flag_each(sweep):
    once = json.loads(sweep("--space", "both", "noise", *SMALL, "-o", "a", "--json").out)
    flags = ["--space", "both", "--space", "noise", "--capacity", "2", "--capacity", "8"]
    flags += ["--weight", "0", "--weight", "1", "--weight", "10", "--seed", "0", "--seed", "3"]
    each = json.loads(sweep(*flags, "-o", "b", "--json").out)
    assert {**once, "folder": ""} == {**each, "folder": ""}


def test_json_is_one_object_and_nothing_else(sweep):
    for seeds in (["0"], ["0", "1"]):  # one order has no spread, which JSON must survive
        outcome = sweep("--seed", *seeds, "-o", f"out{len(seeds)}", "--json")
        assert outcome.err == ""
        parts = {"folder", "config", "metrics", "scores"}
        assert set(json.loads(outcome.out)) == {"schema", "kind", *parts}


def test_a_second_call_says_that_it_is_there_and_does_not_recompute(sweep, tmp_path):
    first = sweep(*SMALL)
    assert first.out.splitlines()[-1].startswith("written: sweeps/labelled-m2")
    times = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    second = sweep(*SMALL)
    assert second.out.splitlines()[-1].startswith("already there: sweeps/labelled-m2")
    assert second.out.splitlines()[:-1] == first.out.splitlines()[:-1]
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == times


def test_force_sweeps_again_and_replaces(sweep, tmp_path):
    sweep(*SMALL, "-o", "out")
    refused = sweep("--space", "both", *SMALL, "-o", "out")
    assert refused.status == 2
    assert "differs in spaces" in refused.err
    assert sweep("--space", "both", *SMALL, "-o", "out", "--force").status == 0
    assert json_in(tmp_path / "out/config.json")["spaces"] == ["both"]


def test_a_transformed_space_is_recorded_as_transductive(sweep, tmp_path):
    outcome = sweep("--space", "classes", "classes+pca:8", *SMALL, "-o", "out")
    assert "transductive spaces: classes+pca:8" in outcome.out
    assert json_in(tmp_path / "out/config.json")["transductive"] == ["classes+pca:8"]
    assert "lower/classes+pca:8" in arrays_in(tmp_path / "out/intervals.npz")


def test_a_held_out_score_is_chosen_only_on_the_other_stream(sweep, sources, tmp_path):
    call("sweep", sources["other"], *SMALL, "-o", tmp_path / "other")
    outcome = sweep(*SMALL, "--held-out", "other", "-o", "out")
    assert "chosen on other" in outcome.out
    printed = json.loads(sweep(*SMALL, "--held-out", "other", "-o", "out", "--json").out)
    grid = [2, 8], [0, 1, 10], [0, 3]
    chosen_on = marc.sweep(marc.load_stream(sources["other"]), None, *grid)
    applied_to = marc.sweep(marc.load_stream(sources["labelled"]), None, *grid)
    for number, space in enumerate(applied_to.spaces):
        curve = chosen_on.accuracy[number].mean(axis=-1)
        capacity, weight = np.unravel_index(curve.argmax(), curve.shape)
        score = printed["scores"][space][3]
        assert score["selection"] == "held_out"
        assert score["chosen_on"] == "other"
        assert score["capacity"] == grid[0][capacity]
        assert score["weights"] == [grid[1][weight]] * 2
        expected = applied_to.accuracy[number, capacity, weight].mean()
        assert score["accuracy"] == pytest.approx(expected)


def test_a_sweep_without_held_out_folders_has_no_held_out_score(sweep):
    assert "held-out" not in sweep(*SMALL).out


@pytest.mark.parametrize("output", ["first", "second"])
def test_settings_chosen_on_the_same_images_are_never_called_held_out(sweep, output):
    sweep(*SMALL, "-o", "first")
    outcome = sweep(*SMALL, "--held-out", "first", "-o", output)
    assert outcome.status == 2
    assert "labelled: a sweep of the same images" in outcome.err


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--capacity", "2", "4"], "same grid"), (["--space", "noise+center"], "noise+center")],
)
def test_a_held_out_sweep_that_does_not_fit_is_refused_before_anything_is_written(
    sweep, sources, tmp_path, words, named
):
    call("sweep", sources["other"], *SMALL, "-o", tmp_path / "other")
    words = [*(SMALL[3:] if "--capacity" in words else SMALL), *words]
    outcome = sweep(*words, "--held-out", "other", "-o", "out")
    assert outcome.status == 2
    assert named in outcome.err
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def test_the_best_space_stands_first(sweep):
    spaces = {"classes", "both", "styles", "noise"}
    words = [line.split(" ")[0] for line in sweep().out.splitlines()]
    rows = [word for word in words if word in spaces]
    assert rows[0] == "classes"
    assert set(rows) == spaces


def test_a_sweep_in_a_process_of_its_own_prints_plain_text(sources, tmp_path):
    outcome = call_outside("sweep", sources["labelled"], *SMALL, "-o", "out", cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.err == ""
    assert "\x1b" not in outcome.out
    assert outcome.out.endswith("written: out\n")


def test_the_stored_order_can_be_swept(sweep, sources, tmp_path):
    assert sweep("--in-order", "-o", "out").status == 0
    found = load_sweep(tmp_path / "out")
    assert found.seeds == (None,)
    expected = marc.sweep(marc.load_stream(sources["labelled"]), seeds=None)
    np.testing.assert_array_equal(found.accuracy, expected.accuracy)


def test_a_sweep_on_a_gpu_is_another_result_than_that_of_the_cpu(sweep, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(sweep_job, "choose_gpu", lambda device: None if device == "cpu" else "cpu")
    named = property(lambda job: "cuda" if job.gpu else "cpu")  # torch's CPU stands for the card
    monkeypatch.setattr(SweepJob, "device", named)
    assert sweep(*SMALL, "--device", "cuda", "-o", "gpu").status == 0
    assert sweep(*SMALL, "-o", "cpu").status == 0
    there, here = (load_sweep(tmp_path / name) for name in ("gpu", "cpu"))
    assert (there.device, here.device) == ("cuda", "cpu")
    assert there.settings == here.settings
    np.testing.assert_allclose(there.accuracy, here.accuracy, atol=1.5 / len(here.base_correct))
    refused = sweep(*SMALL, "-o", "gpu")
    assert refused.status == 2
    assert "it differs in device" in refused.err


def test_without_a_gpu_one_line_says_so(sources, tmp_path):
    said = call_outside("sweep", sources["labelled"], *SMALL, "--device", "cuda:9", cwd=tmp_path)
    assert said.status == 0
    assert said.err.count("computing on the CPU") == 1


def test_a_device_that_does_not_exist_is_refused_before_anything_is_written(sweep, tmp_path):
    refused = sweep("--device", "gpu")
    assert refused.status == 2
    assert "cpu, auto, cuda, cuda:N" in refused.err
    assert not (tmp_path / "sweeps").exists()

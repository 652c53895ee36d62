"""`marc run --method all`, and how the runs stand beside each other."""

import json

import numpy as np
import pytest
from helpers.commands import call, json_in
from helpers.making import make_stream

from marc.peers.registry import METHODS
from marc.sources.pack import write_pack

BEYOND = {"shots", "unlabelled", "text-tower", "image-tower"}
"""Needs that no feature pack meets by itself."""
NEVER = {name for name, card in METHODS.items() if BEYOND & {*card.needs}}


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    """A labelled pack that has everything but shots, and others that lack something."""
    folder = tmp_path_factory.mktemp("packs")
    whole = make_stream(5, n_images=50, n_prompts=5)
    write_pack(whole, folder / "whole.npz")
    write_pack(make_stream(5, n_images=50), folder / "bare.npz")
    write_pack(make_stream(5, n_images=50, n_views=8, n_prompts=5), folder / "views.npz")
    write_pack(make_stream(6, n_images=20), folder / "shots.npz")
    unlabelled = {name: array for name, array in np.load(folder / "whole.npz").items()}
    del unlabelled["labels"]
    np.savez(folder / "unlabelled.npz", **unlabelled)
    return folder


@pytest.fixture
def run_all(packs, tmp_path, monkeypatch):
    """`marc run --method all` on one of the packs."""
    monkeypatch.chdir(tmp_path)

    def run(pack, *words):
        source = f"arrays/{packs / pack}.npz"
        return call("run", source, "--method", "all", "--space", "good", "--seed", "0", *words)

    return run


def test_every_method_runs_that_the_features_allow(run_all, tmp_path):
    outcome = run_all("whole", "-o", "runs")
    assert outcome.status == 0, outcome.err
    done = {folder.name for folder in (tmp_path / "runs").iterdir()}
    assert done == set(METHODS) - NEVER
    for name in done:
        config = json_in(tmp_path / "runs" / name / "config.json")
        assert config["method"]["method"] == name
        assert json_in(tmp_path / "runs" / name / "timing.json")["images_per_second"] > 0
    assert "left out: tip-adapter: needs labelled few-shot features" in outcome.out


def test_the_table_is_that_of_compare(run_all, tmp_path):
    first = run_all("whole", "-o", "runs").out
    folders = sorted((tmp_path / "runs").iterdir())
    second = call("compare", *folders).out
    for name in METHODS:
        rows, others = (
            [line.split() for line in table.splitlines() if line.startswith(f"{name} ")]
            for table in (first, second)
        )
        # accuracy, cost, calibration, and that minus marc's
        n_tables = 3 if name == "marc" else 4
        assert len(rows) == (0 if name in NEVER else n_tables)
        assert rows == others
    assert "vs marc" in first
    assert "vs marc" in second


def test_a_second_call_computes_nothing(run_all, tmp_path):
    run_all("whole", "-o", "runs")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.json")}
    again = run_all("whole", "-o", "runs")
    assert again.status == 0
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.json")}


def test_without_prompts_the_method_that_needs_them_is_left_out(run_all, tmp_path):
    outcome = run_all("bare", "-o", "runs")
    assert "left out: etta: needs the embedding of every prompt" in outcome.out
    assert not (tmp_path / "runs/etta").exists()


def test_few_views_are_refused_in_the_words_of_the_method(run_all):
    outcome = run_all("views", "--dry-run")
    assert (
        "left out: tda: tda keeps the fraction 0.1 of the views, which is none of 8" in outcome.out
    )
    assert "--set tda.fraction=0.125" in outcome.out
    assert "tda" in run_all("views", "--set", "fraction=0.25", "--dry-run").out.split("left out")[0]


def test_shots_and_settings_reach_the_methods_that_have_them(run_all, packs, tmp_path):
    shots = f"shots={packs / 'shots.npz'}"
    outcome = run_all("whole", "--set", shots, "beta=4.0", "tda.alpha=1.5", "-o", "runs")
    assert outcome.status == 0, outcome.err
    settings = {
        folder.name: json_in(folder / "config.json")["method"]
        for folder in (tmp_path / "runs").iterdir()
    }
    assert "tip-adapter" in settings
    others = [s for name, s in settings.items() if name != "marc"]
    assert {s["beta"] for s in others if "beta" in s} == {4.0}
    assert settings["marc"]["beta"] == 5.0  # the reference changes only where it is named
    went = next(line for line in outcome.out.splitlines() if line.startswith("beta=4.0 went to"))
    assert {"boostadapter,", "cosmic,", "dmn-zs,", "tda,", "tip-adapter"} <= {*went.split()}
    assert "onzeta" not in went
    assert "left out: onzeta: beta must be a finite number <= 1, got 4.0" in outcome.out
    assert settings["tda"]["alpha"] == 1.5
    assert settings["marc"]["alpha"] == 2.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "no-such=1"], "unknown setting of any method"),
        (["--set", "tda.gamma=1"], "unknown setting of tda"),
        (["--set", "tdb.alpha=1"], "unknown method"),
        (["--set", "capacity=3"], "METHOD.capacity=3"),
        (["--published", "mnist"], "unknown data set with published settings"),
        (["--capacity", "-1"], "capacity must be an integer"),
        (["--set", "tda.alpha=-1"], "alpha must be"),
        (["--set", "fraction=2"], "fraction is a fraction of the views"),  # for each
        (["--set", "alpha=x"], "alpha must be"),  # one that has it is without its file
        (["--oracle"], "--oracle is of one method"),
    ],
)
def test_what_is_wrong_is_an_error_and_nothing_is_run(run_all, tmp_path, words, message):
    outcome = run_all("whole", "-o", "runs", *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "runs").exists()


def test_a_wrong_space_is_an_error(packs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = f"arrays/{packs / 'whole.npz'}"
    for words, message in ((["--space", "no"], "there is no space"), ([], "several spaces")):
        outcome = call("run", source, "--method", "all", *words, "-o", "runs")
        assert outcome.status == 2
        assert message in outcome.err
        assert not (tmp_path / "runs").exists()


def test_the_folder_of_one_run_is_no_place_for_several(run_all, packs, tmp_path):
    call("run", f"arrays/{packs / 'whole.npz'}", "--method", "marc", "--space", "good", "-o", "one")
    outcome = run_all("whole", "-o", "one")
    assert outcome.status == 2
    assert "one result" in outcome.err


def test_published_settings_go_to_the_methods_that_have_them(run_all, tmp_path):
    assert run_all("whole", "--published", "imagenet-v2", "-o", "runs").status == 0
    tda = json_in(tmp_path / "runs/tda/config.json")
    assert tda["published"] == "imagenet-v2"
    assert (tda["method"]["alpha"], tda["method"]["beta"]) == (1.0, 8.0)
    assert "published" not in json_in(tmp_path / "runs/marc/config.json")
    row = next(
        line
        for line in call("compare", *(tmp_path / "runs").iterdir()).out.splitlines()
        if line.startswith("tda ") and "fixed" in line
    )
    assert row.endswith("fixed, imagenet-v2's")
    changed = ["--published", "imagenet-v2", "--set", "tda.alpha=3", "-o", "other"]
    assert "fixed, imagenet-v2's but alpha" in run_all("whole", *changed).out


def test_json_has_the_metrics_and_the_reasons(run_all):
    told = json.loads(run_all("whole", "-o", "runs", "--json").out)
    parts = {"folder", "runs", "left_out", "failed", "comparison", "notes"}
    assert set(told) == {"schema", "kind", *parts}
    rows = {row["method"]: row for row in told["comparison"]["runs"]}
    assert rows["tda"]["images_per_second"] > 0
    assert len(rows["tda"]["interval"]) == 2
    assert told["failed"] == {}
    assert set(told["left_out"]) == NEVER
    assert 0 <= told["runs"]["tda"]["accuracy"] <= 1


def test_a_method_that_fails_does_not_stop_the_others(run_all, tmp_path):
    outcome = run_all("whole", "--set", "shot-pl.threshold=500", "-o", "runs")
    assert outcome.status == 2
    assert f"1 of {len(set(METHODS) - NEVER)} methods did not finish" in outcome.err
    assert "shot-pl: " in outcome.err
    assert (tmp_path / "runs/bafta/metrics.json").exists()  # which comes after it
    assert "bafta" in outcome.out
    again = call("compare", *sorted((tmp_path / "runs").iterdir()))
    assert again.status == 0
    assert "left out, not finished: " in again.out


def test_another_result_in_the_place_of_one_is_an_error(run_all):
    assert run_all("whole", "-o", "runs").status == 0
    outcome = run_all("whole", "--set", "tda.alpha=3", "-o", "runs")
    assert outcome.status == 2
    assert "this folder holds another result" in outcome.err
    assert run_all("whole", "--set", "tda.alpha=3", "-o", "runs", "--force").status == 0


def test_the_order_of_read_and_write_is_that_of_the_settings(run_all, tmp_path):
    swapped = ["--set", "oga.writes_first=false", "bafta.writes_first=true"]
    rows = {}
    for name, words in (("usual", []), ("other", swapped)):
        out = run_all("whole", *words, "-o", name).out
        table = out.partition("the answers as probabilities")[0]
        rows[name] = {line.split()[0]: line for line in table.splitlines() if line}
    assert "reads first" in rows["usual"]["bafta"]
    assert "writes first" in rows["other"]["bafta"]
    assert "writes first" in rows["usual"]["oga"]
    assert "reads first" in rows["other"]["oga"]


def test_the_table_says_what_was_used_and_tuned(run_all, packs):
    out = run_all("whole", "--set", f"shots={packs / 'shots.npz'}", "-o", "runs").out
    table = out.partition("the answers as probabilities")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line}
    assert "labels" in rows["tip-adapter"]
    assert "prompts" in rows["etta"]
    assert "good" in rows["cosmic"]
    assert "predictor" in rows["lame"]
    assert "reconstruction" in rows["bafta"]
    assert "what their authors tuned, and on what: marc list methods --card NAME" in out
    few = call("compare", "runs/marc", "runs/cosmic").out
    assert "tuned by its authors, cosmic: the two weights" in few


def test_shots_among_the_evaluated_images_are_refused(run_all, packs):
    outcome = run_all("whole", "--set", f"shots={packs / 'whole.npz'}", "-o", "runs")
    assert outcome.status == 2
    assert "50 of 50 shots are in it" in outcome.err


def test_without_labels_the_changed_answers_are_told(run_all):
    outcome = run_all("unlabelled", "-o", "runs")
    assert outcome.status == 0, outcome.err
    assert "% of its answers differ from those without memory" in outcome.out


def test_an_oracle_is_marked_and_at_least_as_right_as_any_fixed_weight(
    packs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    common = ["run", f"arrays/{packs / 'whole.npz'}", "--method", "cosmic", "--space", "good"]
    outcome = call(*common, "--oracle")
    assert outcome.status == 0, outcome.err
    assert "oracle" in outcome.out
    [folder] = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("oracle")
    metrics, config = json_in(folder / "metrics.json"), json_in(folder / "config.json")
    assert metrics["selection"] == config["selection"] == "oracle"
    assert set(metrics["chosen"][0]) == {"clip_weight", "dino_weight"}
    for place, chosen in enumerate(metrics["chosen"]):
        words = [f"{name}={value}" for name, value in chosen.items()]
        call(*common, "--set", *words, "--seed", str(place), "-o", f"at-{place}")
        at = json_in(tmp_path / f"at-{place}/metrics.json")
        assert at["accuracy"] == metrics["orders"][place]["accuracy"]
        for clip_weight in (0.0, 1.0, 30.0):
            call(
                *common,
                "--set",
                f"clip_weight={clip_weight}",
                "--seed",
                str(place),
                "-o",
                "x",
                "--force",
            )
            assert json_in(tmp_path / "x/metrics.json")["accuracy"] <= at["accuracy"]
    refused = call("run", common[1], "--method", "marc", "--space", "good", "--oracle")
    assert refused.status == 2
    assert "marc has no weights that were chosen on labels" in refused.err


@pytest.mark.parametrize("words", [["--method", "etta"], ["--method", "tda", "--views", "2"]])
def test_a_method_that_refuses_the_features_leaves_nothing(packs, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    pack = packs / ("bare.npz" if "etta" in words else "views.npz")
    assert call("run", f"arrays/{pack}", *words, "-o", "runs/x").status == 2
    assert not (tmp_path / "runs").exists()


def test_few_images_of_a_warm_up_refuse_nothing(packs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = f"arrays/{packs / 'whole.npz'}"
    assert call("run", source, "--method", "shot-pl", "--set", "threshold=5").status == 0


def test_json_stays_one_object_where_a_method_fails(run_all):
    outcome = run_all("whole", "--set", "shot-pl.threshold=500", "-o", "runs", "--json")
    assert outcome.status == 2
    assert set(json.loads(outcome.out)["failed"]) == {"shot-pl"}


def test_an_absent_method_is_refused_with_its_reason(packs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = call("run", f"arrays/{packs / 'whole.npz'}", "--method", "tata")
    assert outcome.status == 2
    assert "tata does not run here: its abstract is public" in outcome.err


def test_shots_may_be_a_source(packs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", "lab/sketch-12", "--method", "tip-adapter", "--seed", "0", "--set"]
    outcome = call(*words, "shots=lab/clean-12", "-o", "run")
    assert outcome.status == 0, outcome.err
    settings = json_in(tmp_path / "run/config.json")["method"]
    assert settings["shots"] == "lab/clean-12"

import numpy as np
import pytest
from helpers.commands import call, call_json

import marc


def test_select_prints_what_the_python_api_gives(sources):
    data = call_json("select", sources["labelled"], "--replicates", 40)
    expected = marc.select(marc.load_stream(sources["labelled"]), n_replicates=40)
    assert data["space"] == expected.space == "classes"
    assert data["tied"] == list(expected.tied)
    assert (data["method"], data["reason"]) == ("class-means", expected.reason)
    assert data["trust"] == expected.trust
    assert data["chance"] == expected.chance
    assert data["agreement"] == {str(n): value for n, value in expected.agreement.items()}
    for row, each in zip(data["ranking"], expected.ranking, strict=True):
        for name in ("space", "pseudo_purity", "radius", "antihub_fraction", "recall", "trust"):
            assert row[name] == getattr(each, name)
        assert row["capacity"] is row["weight"] is None
        for size, batch in each.batches.items():
            found = row["batches"][str(size)]
            assert [found["mean"], *found["interval"]] == list(batch)
    assert data["ranking"][0]["lead"] is None
    assert data["ranking"][1]["lead"] == expected.leads[expected.ranking[1].space].estimate


def test_select_says_the_same_without_labels(sources):
    words = ("--replicates", 20)
    first, second = (
        call_json("select", sources[name], *words) for name in ("labelled", "unlabelled")
    )
    for data in (first, second):
        del data["source"], data["stream"]
    assert first == second


def test_select_chooses_or_says_that_it_is_too_close(sources, tmp_path):
    lines = call("select", sources["labelled"]).out.splitlines()
    command = f"marc run {sources['labelled']}"
    paper = f"{command} --method marc --space classes --weight auto"
    commands = [f"next: {command}", f"next, the paper's system: {paper}"]
    assert lines[-3:] == ["choose classes", *commands]
    draw = np.random.default_rng(0)
    labels = draw.integers(4, size=300)
    keys = np.eye(4)[labels] + 0.4 * draw.standard_normal((300, 4))
    worse = np.where(np.arange(300)[:, np.newaxis] % 5, keys, draw.standard_normal((300, 4)))
    stream = marc.Stream.from_arrays(
        np.eye(4)[labels] + 0.5 * draw.standard_normal((300, 4)),
        np.eye(4),
        {"a": keys, "b": worse},
        logit_scale=3.0,
    )
    marc.write_pack(stream, tmp_path / "close.npz")
    source = f"arrays/{tmp_path / 'close.npz'}"
    lines = call("select", source, "--test", "radii").out.splitlines()
    assert lines[-4] == "too close to call: a, b"
    assert lines[-2].endswith("--test paired chooses it")
    assert lines[-1] == f"next: marc run {source}"
    lines = call("select", source, "--test", "paired").out.splitlines()
    assert lines[-3] == "choose a"
    only = call("select", source, "--space", "b").out.splitlines()
    assert only[-3] == "choose b: there is no other"


def test_the_predictors_own_space_is_told(sources):
    words = ("select", sources["labelled"], "--replicates", 5, "--space", "classes", "predictor")
    assert call_json(*words)["predictors_own"] == ["predictor"]
    assert "\npredictor: the predictor's own; " in call(*words).out
    assert "the predictor's own" not in call(*words[:4]).out


def test_select_takes_settings_from_a_labelled_sweep(sources, tmp_path):
    sweep = tmp_path / "sweep"
    call("sweep", sources["other"], "--capacity", 2, 8, "--seed", 0, "-o", sweep)
    words = ("select", sources["unlabelled"], "--replicates", 10, "--settings-from", sweep)
    data = call_json(*words)
    assert data["settings_from"] == str(sweep)
    assert all(row["capacity"] in (2, 8) for row in data["ranking"])
    assert "K, w: best on the labelled stream" in call(*words).out
    assert "--capacity " in call(*words).out.splitlines()[-1]
    for few in ((), ("--images", 50)):
        refused = call("select", sources["other"], "--settings-from", sweep, *few)
        assert refused.status == 2
        assert "must be made on other images" in refused.err


@pytest.mark.parametrize(
    ("folder", "message"), [("nowhere", "no finished sweep"), (".", "no finished sweep")]
)
def test_settings_from_what_is_no_sweep_are_refused(sources, folder, message, tmp_path):
    outcome = call("select", sources["single"], "--settings-from", tmp_path / folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_settings_from_a_sweep_of_other_spaces_are_refused(sources, tmp_path):
    words = ("--space", "noise", "--capacity", 2, "--seed", 0)
    call("sweep", sources["other"], *words, "-o", tmp_path / "sweep")
    outcome = call("select", sources["labelled"], "--settings-from", tmp_path / "sweep")
    assert (outcome.status, outcome.out) == (2, "")
    assert "a sweep of the same spaces" in outcome.err


def test_an_unknown_test_of_a_lead_is_refused(sources):
    outcome = call("select", sources["labelled"], "--test", "luck")
    assert outcome.status == 2
    assert "paired, radii" in outcome.err


def test_select_says_that_no_memory_is_worth_it(sources):
    words = ("select", sources["labelled"], "--space", "noise", "styles", "--replicates", 5)
    outcome = call(*words)
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    why = "no space agrees with the predictor beyond chance where it doubts"
    assert lines[-2] == f"no memory: {why}"
    assert lines[-1].startswith("trust 0.0")
    assert "next" not in outcome.out
    data = call_json(*words)
    assert data["method"] == "none"
    assert data["reason"] == f"{why}: {lines[-1]}"
    assert data["space"] in ("noise", "styles", None)
    assert max(row["trust"] for row in data["ranking"]) < 0.05


def test_trust_has_a_column_and_a_line(sources):
    lines = call("select", sources["labelled"], "--replicates", 5).out.splitlines()
    data = call_json("select", sources["labelled"], "--replicates", 5)
    assert lines[1].split()[:2] == ["space", "trust"]
    for line, row in zip(lines[2:], data["ranking"], strict=False):
        assert line.split()[:2] == [row["space"], f"{row['trust']:.2f}"]
    assert f"trust in all of them and `predictor`: {data['trust']:.2f}" in lines

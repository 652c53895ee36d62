import numpy as np
import pytest
from commands import call, call_json, call_outside

import marc
from marc import geometry


def test_geometry_prints_what_the_python_api_gives(sources):
    data = call_json(
        "geometry", sources["labelled"], "--space", "both", "noise", "--neighbors", 3, 8
    )
    stream = marc.load_stream(sources["labelled"])
    assert data["kind"] == "geometry"
    assert list(data["spaces"]) == ["both", "noise"]
    for space, found in data["spaces"].items():
        expected = geometry.measure(stream, space, (3, 8))
        assert found["n_duplicates"] == 0
        assert found["recall"] == 1
        for row, measures in zip(found["measures"], expected.measures.values(), strict=True):
            assert row["n_neighbors"] == measures.n_neighbors
            assert [row["purity"], *row["purity_interval"]] == list(measures.purity)
            pseudo = [row["pseudo_purity"], *row["pseudo_purity_interval"]]
            assert pseudo == list(measures.pseudo_purity)
            assert row["antihub_fraction"] == measures.antihub_fraction
            assert row["hub_skewness"] == measures.hub_skewness
        assert list(found["per_class_purity"].values()) == expected.per_class_purity.tolist()
        ids = [stream.features.ids[hub.item] for hub in expected.hubs]
        assert [hub["id"] for hub in found["hubs"]] == ids


def test_geometry_of_an_unlabelled_stream_has_no_purity(sources):
    data = call_json("geometry", sources["unlabelled"], "--replicates", 0)
    for found in data["spaces"].values():
        assert found["per_class_purity"] is None
        for row in found["measures"]:
            assert row["purity"] is row["purity_interval"] is row["pseudo_purity_interval"] is None
    printed = call("geometry", sources["unlabelled"], "--replicates", 0).out
    assert " purity %" not in printed.replace("pseudo-purity", "")
    assert "[" not in printed.splitlines()[2]


def test_geometry_is_shown_best_space_first(sources):
    outcome = call("geometry", sources["labelled"])
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "labelled: 200 images, 5 classes"
    assert lines[1].split()[0] == "space"
    assert [line.split()[:2] for line in lines[2:4]] == [["classes", "5"], ["classes", "10"]]
    assert "anti-hubs %" in lines[1]


def test_a_class_without_images_is_null(tmp_path):
    draw = np.random.default_rng(0)
    stream = marc.Stream.from_arrays(
        draw.standard_normal((30, 4)),
        draw.standard_normal((3, 4)),
        {"a": np.r_[draw.standard_normal((29, 4)), np.ones((1, 4))]},
        labels=np.arange(30) % 2,
    )
    marc.write_pack(stream, tmp_path / "small.npz")
    data = call_json("geometry", f"arrays/{tmp_path / 'small.npz'}")
    assert data["spaces"]["a"]["per_class_purity"]["class 2"] is None


def test_copies_are_told(tmp_path):
    keys = np.random.default_rng(0).standard_normal((30, 4))
    keys[5] = keys[6] = keys[0]
    stream = marc.Stream.from_arrays(keys, np.eye(4), {"a": keys})
    marc.write_pack(stream, tmp_path / "copies.npz")
    printed = call("geometry", f"arrays/{tmp_path / 'copies.npz'}").out
    assert "images whose features equal those of an earlier one: a 2" in printed


@pytest.mark.parametrize("verb", ["geometry", "select"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--space", "missing"], "there is no space 'missing'"),
        (["--space", "both", "both"], "a space is named twice"),
        (["--neighbors", "200"], "too few images"),
        (["--neighbors", "0"], "n_neighbors must be a whole number >= 1"),
    ],
)
def test_bad_use_is_refused(sources, verb, words, message):
    outcome = call(verb, sources["labelled"], *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_select_prints_what_the_python_api_gives(sources):
    data = call_json("select", sources["labelled"], "--replicates", 40)
    expected = marc.select(marc.load_stream(sources["labelled"]), n_replicates=40)
    assert data["space"] == expected.space == "classes"
    assert data["tied"] == list(expected.tied)
    assert data["chance"] == expected.chance
    assert data["agreement"] == {str(n): value for n, value in expected.agreement.items()}
    for row, each in zip(data["ranking"], expected.ranking, strict=True):
        for name in ("space", "pseudo_purity", "radius", "antihub_fraction"):
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
    assert call("select", sources["labelled"]).out.splitlines()[-1] == "choose classes"
    draw = np.random.default_rng(0)
    labels = draw.integers(4, size=300)
    keys = np.eye(4)[labels] + 0.4 * draw.standard_normal((300, 4))
    worse = np.where(np.arange(300)[:, np.newaxis] % 5, keys, draw.standard_normal((300, 4)))
    stream = marc.Stream.from_arrays(
        np.eye(4)[labels] + 0.5 * draw.standard_normal((300, 4)), np.eye(4), {"a": keys, "b": worse}
    )
    marc.write_pack(stream, tmp_path / "close.npz")
    source = f"arrays/{tmp_path / 'close.npz'}"
    lines = call("select", source).out.splitlines()
    assert lines[-2] == "too close to call: a, b"
    assert lines[-1].endswith("--test paired chooses it")
    assert call("select", source, "--test", "paired").out.splitlines()[-1] == "choose a"


def test_select_takes_settings_from_a_labelled_sweep(sources, tmp_path):
    sweep = tmp_path / "sweep"
    call("sweep", sources["other"], "--capacity", 2, 8, "--seed", 0, "-o", sweep)
    words = ("select", sources["unlabelled"], "--replicates", 10, "--settings-from", sweep)
    data = call_json(*words)
    assert data["settings_from"] == str(sweep)
    assert all(row["capacity"] in (2, 8) for row in data["ranking"])
    assert "K, w: best on the labelled stream" in call(*words).out
    refused = call("select", sources["other"], "--settings-from", sweep)
    assert refused.status == 2
    assert "must be made on other images" in refused.err


def test_an_unknown_test_of_a_lead_is_refused(sources):
    outcome = call("select", sources["labelled"], "--test", "luck")
    assert outcome.status == 2
    assert "paired, radii" in outcome.err


def test_the_commands_work_in_a_process_of_their_own(sources):
    for verb in ("geometry", "select"):
        outcome = call_outside(verb, sources["single"], "--replicates", "5")
        assert outcome.status == 0, outcome.err
        assert outcome.err == ""

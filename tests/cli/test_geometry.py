from unittest import mock

import numpy as np
import pytest
from helpers.commands import arrays_in, call, call_json, call_outside

import marc
from marc.cli import console, select, spaces
from marc.spaces import geometry, neighbors


def test_geometry_prints_what_the_python_api_gives(sources):
    data = call_json(
        "geometry", sources["labelled"], "--space", "both", "noise", "--neighbors", 3, 8
    )
    stream = marc.load_stream(sources["labelled"])
    assert data["n_replicates"] == 300
    assert data["chance"]["purity"] == geometry.chance(stream.row_labels)
    assert data["chance"]["pseudo_purity"] == geometry.chance(geometry.pseudo_labels(stream))
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
    assert data["chance"]["purity"] is None
    for found in data["spaces"].values():
        assert found["per_class_purity"] is None
        for row in found["measures"]:
            assert row["purity"] is row["purity_interval"] is row["pseudo_purity_interval"] is None
    printed = call("geometry", sources["unlabelled"], "--replicates", 0).out
    assert " purity %" not in printed.replace("pseudo-purity", "")
    assert "±" not in printed
    assert "no intervals" in printed


def test_geometry_is_shown_best_space_first(sources):
    outcome = call("geometry", sources["labelled"])
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "labelled: 200 images, 5 classes"
    assert lines[1].split()[0] == "space"
    assert [line.split()[:2] for line in lines[2:4]] == [["classes", "5"], ["classes", "10"]]
    assert "anti-hubs %" in lines[1]


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_lines_fit_a_terminal_of_eighty_columns(sources, verb, tmp_path):
    arrays = arrays_in(sources["labelled"].removeprefix("arrays/"))
    arrays["spaces/labels-contrastive"] = arrays["spaces/both"]
    np.savez(tmp_path / "wide.npz", **arrays)
    lines = call(verb, f"arrays/{tmp_path / 'wide.npz'}", "--replicates", 20).out.splitlines()
    lines = [line for line in lines if not line.startswith("next")]  # holds the path
    assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_details_name_hubs_and_the_least_pure_classes(sources):
    words = ("geometry", sources["labelled"], "--space", "classes", "--replicates", 0)
    lines = call(*words, "--details").out.splitlines()[-3:]
    data = call_json(*words)["spaces"]["classes"]
    assert lines[0] == "classes, 10 neighbours"
    first = data["hubs"][0]
    assert lines[1].startswith(
        f"  hubs (neighbour of so many): {first['id']} ({first['in_degree']}"
    )
    lowest = min(data["per_class_purity"], key=data["per_class_purity"].get)
    share = 100 * data["per_class_purity"][lowest]
    assert lines[2].startswith(f"  least pure classes (%): {lowest} {share:.1f}, ")
    unlabelled = call("geometry", sources["unlabelled"], "--replicates", 0, "--details").out
    assert "least pure" not in unlabelled


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_a_sample_of_the_images_will_do(sources, verb):
    words = ("--images", 120, "--replicates", 5)
    data = call_json(verb, sources["labelled"], *words)
    assert data["n_images"] == 120
    assert call(verb, sources["labelled"], *words).out.startswith("labelled: 120 images")
    refused = call(verb, sources["labelled"], "--images", 201)
    assert refused.status == 2
    assert "1 to 200" in refused.err


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
    source = f"arrays/{tmp_path / 'copies.npz'}"
    told = "images whose features equal those of an earlier one: "
    assert f"{told}a 2" in call("geometry", source).out
    assert f"{told}a 2" in call("select", source, "--neighbors", 5).out
    both = ("--space", "a", "predictor", "--neighbors", 5)
    assert f"{told}2 in each of 2 spaces" in call("select", source, *both).out
    assert call_json("select", source, "--neighbors", 5)["ranking"][0]["n_duplicates"] == 2


@pytest.mark.parametrize("verb", ["geometry", "select"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--space", "missing"], "there is no space 'missing'"),
        (["--space", "both", "both"], "a space is named twice"),
        (["--neighbors", "200"], "too few images"),
        (["--neighbors", "0"], "n_neighbors must be an integer >= 1"),
        (["--replicates", "1"], "replicates"),
        (["--replicates", "-1"], "replicates"),
        (["--images", "-1"], "images"),
    ],
)
def test_bad_use_is_refused(sources, verb, words, message):
    outcome = call(verb, sources["labelled"], *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_features_that_are_no_numbers_are_refused(sources, verb, tmp_path):
    arrays = arrays_in(sources["labelled"].removeprefix("arrays/"))
    arrays["spaces/classes"] = arrays["spaces/classes"].copy()
    arrays["spaces/classes"][7, 1] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    outcome = call(verb, f"arrays/{tmp_path / 'bad.npz'}")
    assert (outcome.status, outcome.out) == (2, "")
    assert "norm nan at [7]" in outcome.err
    empty = {name: array[:0] if len(array) == 200 else array for name, array in arrays.items()
             if array.ndim}  # fmt: skip
    np.savez(tmp_path / "empty.npz", **empty)
    outcome = call(verb, f"arrays/{tmp_path / 'empty.npz'}")
    assert (outcome.status, outcome.out) == (2, "")
    assert "non-empty" in outcome.err


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_neighbours_from_an_index_are_told_with_their_recall(sources, verb, monkeypatch):
    def three_of_four(keys, n_neighbors, on_progress):
        table = neighbors.nearest(keys, np.arange(len(keys)), n_neighbors)
        return neighbors._Measured(table, 0.75)

    monkeypatch.setattr(neighbors, "EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbors, "has_index", lambda: True)
    monkeypatch.setattr(neighbors, "_indexed", three_of_four)
    printed = call(verb, sources["single"], "--replicates", 5).out
    assert "fraction of the true neighbours that were found: classes 0.7500" in printed


def test_long_work_is_announced_once_with_what_is_faster(monkeypatch):
    clock = iter(range(0, 10**6, 40))
    monkeypatch.setattr(spaces.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(spaces, "has_index", lambda: False)

    def work(name, on_progress):
        for done in (0, 1, 2):
            on_progress("neighbours", done, 100)

    with mock.patch.object(console._err, "print") as printed:
        spaces.for_each(["a", "b"], 300_000, work)
    [(note,)] = [each.args for each in printed.call_args_list]
    assert note.startswith("note: 300,000 images, neighbours: about 67 min for each of 2 space")
    assert "--images 20000" in note
    assert "pip install faiss-cpu" in note
    assert "about 2.0 h for" in spaces._how_long("neighbours", 7200, 1000, 1)
    assert "faster" not in spaces._how_long("neighbours", 7200, 1000, 1)


def test_the_commands_work_in_a_process_of_their_own(sources):
    for verb in ("geometry", "select"):
        outcome = call_outside(verb, sources["single"], "--replicates", "5")
        assert outcome.status == 0, outcome.err
        assert outcome.err == ""


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_a_gpu_prints_what_the_cpu_does(sources, verb, monkeypatch):
    pytest.importorskip("torch")
    from marc.spaces import _gpu

    words = (verb, sources["labelled"], "--replicates", 10)
    expected = call(*words, "--json")
    for module in (geometry, spaces, select):  # torch on the CPU stands in for the GPU
        monkeypatch.setattr(module, "choose_gpu", {"cuda:1": "cpu", "cpu": "cpu"}.get)
    found, exact = [], _gpu.find
    monkeypatch.setattr(_gpu, "find", lambda *each: found.append(each[0]) or exact(*each))
    assert call(*words, "--json", "--device", "cuda:1") == expected
    assert "cpu" in found
    assert expected.status == 0


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_a_gpu_that_is_not_there_is_missed_in_one_line(sources, verb):
    words = (sources["labelled"], "--replicates", 10, "--device", "cuda:99")
    outcome = call_outside(verb, *words)
    assert outcome.status == 0
    assert outcome.err.count("computing on the CPU") == 1
    refused = call(verb, *words[:-1], "gpu")
    assert refused.status == 2
    assert "cpu, auto, cuda, cuda:N" in refused.err

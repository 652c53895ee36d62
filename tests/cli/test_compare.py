import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import (
    PAPER,
    arrays_in,
    call,
    call_json,
    call_outside,
    json_in,
    reseal,
    tree,
)

from marc.stats import (
    benjamini_hochberg,
    mcnemar_exact,
    mcnemar_log10,
    paired_difference,
    seed_interval,
)


@pytest.fixture
def run(sources, tmp_path, monkeypatch):
    """A finished run in the folder NAME."""
    monkeypatch.chdir(tmp_path)

    def finish(name, *words, source="labelled"):
        named = "--space" in words or "--method" in words
        words = words if named else (*words, "--space", "classes")
        words = words if "--method" in words else (*words, "--method", "marc")
        outcome = call("run", sources[source], *words, "-o", name)
        assert outcome.status == 0, outcome.err

    return finish


def pack_of(source):
    return arrays_in(Path(source.removeprefix("arrays/")))


def right(folder, rows=slice(None)):
    stored = arrays_in(folder / "predictions.npz")
    return stored["prediction"][rows] == stored["label"]


def test_the_difference_is_paired_over_the_stored_arrays(run, tmp_path):
    run("first", "--method", "no-memory")
    run("second", "--space", "classes")
    run("third", "--space", "styles")
    compared = call_json("compare", "first", "second", "third")
    assert compared["reference"]["run"] == "first"
    before = right(tmp_path / "first")
    for row in compared["runs"]:
        after = right(tmp_path / row["run"])
        expected = paired_difference(after, before)
        assert [row["difference"], *row["interval"]] == list(expected)
        assert row["mcnemar_p"] == [mcnemar_exact(a, b) for a, b in zip(after, before, strict=True)]
        assert row["orders"] == [0, 1, 2]
        assert row["accuracy"] == json_in(tmp_path / row["run"] / "metrics.json")["accuracy"]
        changed = (after & ~before).sum(axis=1), (~after & before).sum(axis=1)
        assert [row["repairs"], row["regressions"]] == [count.tolist() for count in changed]
        assert row["mcnemar_log10_p"] == [
            mcnemar_log10(*map(int, c)) for c in zip(*changed, strict=True)
        ]
        by_order = after.mean(axis=1) - before.mean(axis=1)
        assert row["difference_by_order"] == by_order.tolist()
        assert row["interval_over_orders"] == list(seed_interval(by_order)[1:])
    signs = [np.sign(row["difference"]) for row in compared["runs"]]
    assert signs == [1, -1]


def test_the_table_shows_the_difference_with_its_interval(run, tmp_path):
    run("first", "--space", "styles")
    run("second", "--space", "classes")
    outcome = call("compare", "first", "second")
    assert outcome.status == 0
    wanted = paired_difference(right(tmp_path / "second"), right(tmp_path / "first"))
    difference, low, high = (f"{100 * value:+.2f}" for value in wanted)
    row = next(line for line in outcome.out.splitlines() if line.startswith("second"))
    assert f"{difference}  [{low}, {high}]" in row


def test_the_second_table_has_what_each_run_costs_and_sees(run):
    run("first", "--space", "styles")
    run("second", "--space", "classes")
    rows = call_json("compare", "first", "second")["runs"]
    lines = call("compare", "first", "second").out.splitlines()
    start = lines.index("what each costs and sees") + 2
    shown = [line.split() for line in lines[start : start + 2]]
    assert [words[0] for words in shown] == ["first", "second"]
    assert all(words[-1] == "fixed" for words in shown)
    assert shown[1][2] == f"{rows[0]['memory_bytes'] / 2**20:,.1f}"
    assert float(shown[1][1]) == pytest.approx(1000 / rows[0]["images_per_second"], rel=0.01)
    assert shown[1][3:5] == ["-", "never"]  # it follows no gradient, and forgets nothing


def test_the_last_table_has_the_counts_of_each_order(run):
    run("first", "--space", "styles")
    run("second", "--space", "classes")
    row = call_json("compare", "first", "second")["runs"][0]
    lines = call("compare", "first", "second").out.splitlines()
    start = lines.index("repairs and regressions against first, order by order") + 2
    shown = [line.split() for line in lines[start : start + 3]]
    for place, words in enumerate(shown):
        counts = [str(row[name][place]) for name in ("repairs", "regressions")]
        assert words[:5] == ["second", "seed", str(place), *counts]
    low, high = (f"{100 * end:+.2f}" for end in row["interval_over_orders"])
    difference = f"{100 * row['difference']:+.2f}"
    assert f"second: {difference} points, 95 % over 3 orders [{low}, {high}] (t)" in lines


def test_one_order_has_no_interval_over_orders(run):
    run("first", "--seed", "4")
    run("second", "--space", "styles", "--seed", "4")
    row = call_json("compare", "first", "second")["runs"][0]
    assert row["interval_over_orders"] is None
    assert "(t)" not in call("compare", "first", "second").out


def test_several_comparisons_are_adjusted_as_one_family(run):
    run("first", "--method", "no-memory")
    run("second", "--seed", "0", "1")
    run("third", "--space", "both")
    compared = call_json("compare", "first", "second", "third")
    assert compared["family"] == {"adjustment": "benjamini-hochberg", "n_tests": 5}
    p_values = [p for row in compared["runs"] for p in row["mcnemar_p"]]
    adjusted = [log10 for row in compared["runs"] for log10 in row["adjusted_log10_p"]]
    np.testing.assert_allclose(10 ** np.array(adjusted), benjamini_hochberg(p_values))
    printed = call("compare", "first", "second", "third").out
    assert "adjusted p: Benjamini-Hochberg over the 5 tests of this table" in printed
    assert "adjusted" not in call("compare", "first", "second").out
    assert "family" not in call_json("compare", "first", "second")


def test_a_p_value_too_small_for_a_number_is_printed(run, tmp_path):
    run("first")
    run("second")
    for name, answer in (("first", 1), ("second", 0)):  # all wrong, and all right
        none = np.zeros((3, 3000))
        arrays = {
            **{"order": none + np.arange(3000), "prediction": none + answer, "pseudo_label": none},
            **{"label": none[0], "base_prediction": none[0], "seeds": np.arange(3)},
        }
        arrays = {name: array.astype(np.int64) for name, array in arrays.items()}
        more = {"priority": none, "weight": none, "ids": np.arange(3000).astype(str)}
        np.savez(tmp_path / name / "predictions.npz", **arrays, **more)
        reseal(tmp_path / name, n_images=3000)
    printed = call("compare", "first", "second").out
    assert printed.count("1.6e-903") == 4
    assert call_json("compare", "first", "second")["runs"][0]["mcnemar_p"] == [0, 0, 0]


def test_only_the_orders_that_both_have_are_compared(run, tmp_path):
    run("first", "--seed", "5", "0", "2")
    run("second", "--space", "both", "--seed", "2", "7", "5")
    row = call_json("compare", "first", "second")["runs"][0]
    assert row["orders"] == [5, 2]
    after, before = right(tmp_path / "second", [2, 0]), right(tmp_path / "first", [0, 2])
    assert row["difference"] == paired_difference(after, before).estimate


def test_every_difference_in_protocol_is_named(run):
    run("first")
    words = ["--capacity", "4", "--views", "1", "--set", "gamma=1", "--seed", "0"]
    run("second", "--space", "both", *words)
    lines = call_json("compare", "first", "second")["runs"][0]["protocol_differences"]
    assert "method.space: classes / both" in lines
    assert "method.capacity: 16 / 4" in lines
    assert "n_views: 2 / 1" in lines
    assert "method.gamma: 0.0 / 1.0" in lines
    assert any(line.startswith("seeds: ") for line in lines)
    assert not any("weight" in line or "versions" in line for line in lines)
    printed = call("compare", "first", "second").out
    assert all(line in printed for line in lines)


def test_two_runs_of_the_same_protocol_name_no_difference(run):
    run("first")
    run("second")
    row = call_json("compare", "first", "second")["runs"][0]
    assert row["protocol_differences"] == []
    assert row["difference"] == 0
    assert row["mcnemar_p"] == [1, 1, 1]
    assert "differs in" not in call("compare", "first", "second").out


def test_other_features_of_the_same_images_are_a_difference_in_protocol(run, sources, tmp_path):
    run("first")
    arrays = pack_of(sources["labelled"])
    arrays["predictor/prototypes"][0] *= -1
    np.savez(tmp_path / "prompts.npz", **arrays)
    call("run", "arrays/prompts.npz", *PAPER, "-o", "second")
    lines = call_json("compare", "first", "second")["runs"][0]["protocol_differences"]
    assert [line.split(":")[0] for line in lines] == ["fingerprint.prototypes"]


def test_json_is_one_object_and_nothing_else(run):
    run("first")
    run("second", "--space", "both")
    outcome = call("compare", "first", "second", "--json")
    assert outcome.err == ""
    assert set(json.loads(outcome.out)) == {"schema", "kind", "reference", "runs"}


def test_comparing_changes_nothing(run, tmp_path):
    run("first")
    run("second", "--space", "both")
    before = tree(tmp_path)
    call("compare", "first", "second")
    assert tree(tmp_path) == before


def refusal(*folders):
    outcome = call("compare", *folders)
    assert outcome.status == 2
    assert outcome.out == ""
    return outcome.err


def test_runs_over_other_images_are_refused_with_both_names(run, sources, tmp_path):
    run("first")
    arrays = pack_of(sources["labelled"])
    arrays["paths"] = np.array([f"{path}.png" for path in arrays["paths"]])
    np.savez(tmp_path / "renamed.npz", **arrays)
    call("run", "arrays/renamed.npz", *PAPER, "-o", "second")
    said = refusal("first", "second")
    assert "their ids differ" in said
    assert "labelled, 200 images" in said
    assert "renamed, 200 images" in said


def test_runs_over_other_labels_are_refused(run):
    run("first")
    run("second", source="other")
    assert "their labels differ" in refusal("first", "second")


def test_runs_without_a_common_seed_are_refused_with_both_lists(run):
    run("first", "--seed", "0", "1")
    run("second", "--seed", "2")
    run("third", "--in-order")
    assert "seed 0, seed 1 / seed 2" in refusal("first", "second")
    assert "seed 2 / as stored" in refusal("second", "third")


def test_runs_without_labels_are_refused(run):
    run("first", source="unlabelled")
    run("second", "--space", "both", source="unlabelled")
    assert "no labels" in refusal("first", "second")


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(run, tmp_path):
    run("first")
    shutil.copytree(tmp_path / "first", tmp_path / "second.partial")
    (tmp_path / "second.partial" / "metrics.json").unlink()
    for name in ("second", "second.partial"):
        assert "call marc run again to finish it" in refusal("first", name)


def test_a_missing_folder_is_refused_by_name(run):
    run("first")
    assert "nothing" in refusal("first", "nothing")


def test_a_damaged_run_is_refused_by_the_file_that_is_missing(run, tmp_path):
    run("first")
    run("second")
    (tmp_path / "second" / "predictions.npz").unlink()
    assert "second/predictions.npz" in refusal("first", "second")


def test_a_sweep_folder_is_refused_as_what_it_is(run, sources):
    run("first")
    call("sweep", sources["labelled"], "--space", "classes", "-o", "swept")
    assert "swept: sweep" in refusal("first", "swept")


def test_one_run_is_not_a_comparison(run):
    run("first")
    assert "two runs" in refusal("first")


def test_a_comparison_in_a_process_of_its_own(run, tmp_path):
    run("first", "--space", "styles")
    run("second")
    outcome = call_outside("compare", "first", "second", cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.err == ""
    assert "method.space: styles / classes" in outcome.out
    assert call_outside("compare", "first", "nothing", cwd=tmp_path).status == 2

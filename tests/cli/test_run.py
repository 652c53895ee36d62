import json

import numpy as np
import pytest
from helpers.commands import PAPER, arrays_in, call, call_json, call_outside, events, json_in, tree

import marc
from marc.results.answers import answers_of
from marc.stats import mcnemar_exact, paired_difference

CONFIG = {
    *("kind", "source", "stream", "n_images", "n_classes", "n_views", "method", "seeds"),
    *("selection", "transductive", "fingerprint", "versions"),
}
METRICS = {
    "selection",
    "final_weight",
    "accuracy",
    "base_accuracy",
    "gain",
    "gain_interval",
    "worst_tenth_gain",
    "calibration",
    "confidence",
    "base_confidence",
    "orders",
}
ARRAYS = {
    *("ids", "seeds", "order", "prediction", "base_prediction", "pseudo_label", "priority"),
    *("weight", "label", "class_names", "confidence", "base_confidence"),
    *("log_loss", "brier", "base_log_loss", "base_brier"),
}

# a small memory that counts much: answers differ where settings do
SHARP = ["--space", "both", "--capacity", "4", "--weight", "30"]


@pytest.fixture
def run(sources, tmp_path, monkeypatch):
    """`marc run` on the labelled pack, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        marc = () if "--method" in words else ("--method", "marc")
        return call("run", sources["labelled"], *marc, *words)

    return run


def answers(source, method, seeds=(0, 1, 2), views=None):
    """Predictions (orders, images) by stored row, through the Python API."""
    stream = marc.load_stream(source)
    stream = stream if views is None else stream.with_views(views)
    runs = [marc.run(method, stream.shuffled(seed)) for seed in seeds]
    return np.stack([each.predictions[np.argsort(each.order)] for each in runs])


def test_a_run_folder_holds_the_documented_files(run, tmp_path):
    assert run("--space", "classes", "-o", "out").status == 0
    files = {"config.json", "metrics.json", "predictions.npz", "log.jsonl", "timing.json"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == {*files, "digests.json"}
    assert set(json_in(tmp_path / "out/config.json")) == CONFIG
    assert set(json_in(tmp_path / "out/metrics.json")) == METRICS
    assert set(arrays_in(tmp_path / "out/predictions.npz")) == ARRAYS
    parts = [f"part order-{seed}" for seed in (0, 1, 2)]
    assert events(tmp_path / "out") == ["started", *parts, "finished"]


def test_the_metrics_are_those_of_the_python_api_for_each_seed(run, sources, tmp_path):
    run("--space", "classes", "--capacity", "4", "--weight", "7", "--seed", "3", "5", "-o", "out")
    stream = marc.load_stream(sources["labelled"])
    metrics = json_in(tmp_path / "out/metrics.json")
    assert [row["seed"] for row in metrics["orders"]] == [3, 5]
    for row in metrics["orders"]:
        one = marc.run(marc.MARC("classes", 4, 7.0), stream.shuffled(row["seed"]))
        assert row["accuracy"] == pytest.approx(one.accuracy)
        assert row["base_accuracy"] == pytest.approx(one.base_accuracy)
        assert row["gain"] == pytest.approx(one.gain)
        assert row["repairs"] == len(one.repairs) > 0
        assert row["regressions"] == len(one.regressions)
        assert row["mcnemar_p"] == mcnemar_exact(one.correct, one.base_correct)
        assert 10 ** row["mcnemar_log10_p"] == pytest.approx(row["mcnemar_p"])
        assert row["changed"] == np.mean(one.predictions != one.base_predictions)
    assert metrics["accuracy"] == pytest.approx(np.mean([r["accuracy"] for r in metrics["orders"]]))
    assert metrics["selection"] == "fixed"


def test_the_interval_is_the_paired_one_over_images(run, tmp_path):
    run("--space", "classes", "-o", "out")
    stored = arrays_in(tmp_path / "out/predictions.npz")
    right = stored["prediction"] == stored["label"]
    base = np.broadcast_to(stored["base_prediction"] == stored["label"], right.shape)
    metrics = json_in(tmp_path / "out/metrics.json")
    interval = [metrics["gain"], *metrics["gain_interval"]]
    assert interval == pytest.approx(list(paired_difference(right, base)))


def test_the_arrays_are_by_stored_row(run, sources, tmp_path):
    run("--space", "classes", "-o", "out")
    stored = arrays_in(tmp_path / "out/predictions.npz")
    stream = marc.load_stream(sources["labelled"])
    features = stream.features
    assert stored["ids"].tolist() == list(features.ids)
    assert stored["class_names"].tolist() == list(features.class_names)
    np.testing.assert_array_equal(stored["label"], stream.row_labels)
    np.testing.assert_array_equal(stored["base_prediction"], features.base.label)
    expected = answers(sources["labelled"], marc.MARC("classes"))
    np.testing.assert_array_equal(stored["prediction"], expected)
    for seed, order in zip(stored["seeds"], stored["order"], strict=True):
        np.testing.assert_array_equal(order, np.random.default_rng(seed).permutation(200))


def test_several_seeds_after_one_flag_are_as_one_flag_each(run, tmp_path):
    assert run("--space", "classes", "--seed", "0", "1", "2", "-o", "once").status == 0
    flags = ["--seed", "0", "--seed", "1", "--seed", "2"]
    assert run("--space", "classes", *flags, "-o", "each").status == 0
    once, each = tree(tmp_path / "once"), tree(tmp_path / "each")
    for timed in ("log.jsonl", "timing.json", "digests.json"):
        assert once.pop(timed)
        assert each.pop(timed)
    assert once == each


def test_json_is_one_object_and_nothing_else(run, tmp_path):
    outcome = run("--space", "classes", "-o", "out", "--json")
    assert outcome.err == ""
    printed = json.loads(outcome.out)
    assert set(printed) == {"schema", "kind", "folder", "config", "metrics", "timing", "notes"}
    assert printed["folder"] == "out"
    assert printed["metrics"] == json_in(tmp_path / "out/metrics.json")
    assert printed["config"].items() <= json_in(tmp_path / "out/config.json").items()


def test_a_second_call_says_that_it_is_there_and_does_not_recompute(run, tmp_path):
    first = run("--space", "classes", "-o", "out")
    assert "written: out" in first.out
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    second = run("--space", "classes", "-o", "out")
    assert "already there: out" in second.out
    assert second.out.splitlines()[:-1] == first.out.splitlines()[:-1]
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()} == times


def test_force_runs_again_and_replaces(run, tmp_path):
    run("--space", "classes", "-o", "out")
    refused = run("--space", "both", "-o", "out")
    assert refused.status == 2
    assert "differs in method" in refused.err
    time = (tmp_path / "out/predictions.npz").stat().st_mtime_ns
    assert "written: out" in run("--space", "classes", "-o", "out", "--force").out
    assert (tmp_path / "out/predictions.npz").stat().st_mtime_ns > time
    assert run("--space", "both", "-o", "out", "--force").status == 0
    assert json_in(tmp_path / "out/config.json")["method"]["space"] == "both"


def test_default_folders_differ_where_settings_differ(run, tmp_path):
    calls = [
        *([], ["--capacity", "4"], ["--weight", "3"], ["--views", "1"], ["--policy", "fifo"]),
        *(["--set", "gamma=1"], ["--set", "beta=2"], ["--method", "no-memory"]),
        *(["--weight", "3.5"], ["--space", "classes+center"], ["--space", "both"]),
        *(["--method", "class-means", *more] for more in ([], ["--space", "both", "styles"])),
    ]
    for words in calls:
        space = [] if "--space" in words or "--method" in words else ["--space", "classes"]
        assert run(*space, *words).status == 0
    assert len(list((tmp_path / "runs").iterdir())) == len(calls)


def test_many_spaces_make_a_short_heading_and_a_folder_that_can_be(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    many = [f"classes+random:{2 + place}" for place in range(30)]
    assert "class-means 30 spaces on" in call("run", sources["labelled"], "--space", *many).out
    call("run", sources["labelled"], "--space", *many[::-1])
    names = [each.name for each in (tmp_path / "runs").iterdir()]
    assert len(names) == 2
    assert max(map(len, names)) < 120


def test_views_take_the_first_stored_views(run, sources, tmp_path):
    run("--space", "classes", "--views", "1", "-o", "out")
    assert json_in(tmp_path / "out/config.json")["n_views"] == 1
    expected = answers(sources["labelled"], marc.MARC("classes"), views=1)
    stored = arrays_in(tmp_path / "out/predictions.npz")
    np.testing.assert_array_equal(stored["prediction"], expected)


def test_the_lab_draws_the_views_that_a_run_asks_for(tmp_path):
    words = ["lab/sketch-12", "--space", "vicreg", "--seed", "0", "--views", "3"]
    assert call("run", *words, "-o", tmp_path).status == 0
    assert json_in(tmp_path / "config.json")["n_views"] == 3
    stream = marc.load_stream("lab/sketch-12", n_views=3)
    stored = arrays_in(tmp_path / "predictions.npz")
    np.testing.assert_array_equal(stored["base_prediction"], stream.features.base.label)
    assert (stored["base_prediction"] != stream.with_views(1).features.base.label).any()


@pytest.mark.parametrize(
    ("pair", "name", "value"),
    [
        ("gamma=1.0", "gamma", 1.0),
        ("refine_labels=true", "refine_labels", True),
        ("use_base=false", "use_base", False),
        ("admission_capacity=0", "admission_capacity", 0),
        ("view_entropy=posterior", "view_entropy", "posterior"),
    ],
)
def test_any_setting_of_the_method_can_be_set(run, sources, tmp_path, pair, name, value):
    assert run(*SHARP, "--set", pair, "-o", "out").status == 0
    assert json_in(tmp_path / "out/config.json")["method"][name] == value
    expected = answers(sources["labelled"], marc.MARC("both", 4, 30.0, **{name: value}))
    stored = arrays_in(tmp_path / "out/predictions.npz")
    np.testing.assert_array_equal(stored["prediction"], expected)


def test_a_setting_can_be_none(run, tmp_path):
    assert run("--method", "stata", "--set", "batch_size=none", "-o", "out").status == 0
    assert json_in(tmp_path / "out/config.json")["method"]["batch_size"] is None


@pytest.mark.parametrize(
    "pair", ["capacity=4", "weight=3.5", "space=both", "policy=fifo", "seed=4"]
)
def test_a_setting_that_has_its_own_option_is_set_or_refused_but_never_ignored(run, tmp_path, pair):
    outcome = run("--space", "classes", "--set", pair, "-o", "out")
    name, _, text = pair.partition("=")
    if outcome.status == 0:
        assert str(json_in(tmp_path / "out/config.json")["method"][name]) == text
    else:
        assert outcome.status == 2
        assert f"--{name}" in outcome.err


def test_the_baseline_runs_as_a_method(run, tmp_path):
    assert run("--method", "no-memory", "-o", "out").status == 0
    stored = arrays_in(tmp_path / "out/predictions.npz")
    assert (stored["prediction"] == stored["base_prediction"]).all()
    assert json_in(tmp_path / "out/metrics.json")["gain"] == 0


def test_a_policy_that_looks_at_fused_answers_runs_online(run, sources, tmp_path):
    run(*SHARP, "--policy", "retrieval_aware", "-o", "out")
    expected = answers(sources["labelled"], marc.MARC("both", 4, 30.0, policy="retrieval_aware"))
    stored = arrays_in(tmp_path / "out/predictions.npz")
    np.testing.assert_array_equal(stored["prediction"], expected)


def test_a_reservoir_draws_from_the_seed_of_the_order(run, sources, tmp_path):
    run(*SHARP, "--policy", "reservoir", "--seed", "0", "4", "-o", "out")
    stored = arrays_in(tmp_path / "out/predictions.npz")
    for row, seed in zip(stored["prediction"], (0, 4), strict=True):
        method = marc.MARC("both", 4, 30.0, policy="reservoir", seed=seed)
        np.testing.assert_array_equal(row, answers(sources["labelled"], method, [seed])[0])


def test_a_transformed_space_is_recorded_as_transductive(run, tmp_path):
    assert "transductive" in run("--space", "classes+pca:8", "-o", "out").out
    assert json_in(tmp_path / "out/config.json")["transductive"] is True
    assert "transductive" not in run("--space", "classes", "-o", "plain").out
    assert json_in(tmp_path / "plain/config.json")["transductive"] is False


def test_the_only_space_needs_no_name(sources, tmp_path):
    result = call_json("run", sources["single"], "--method", "marc", "-o", tmp_path / "out")
    assert result["config"]["method"]["space"] == "classes"


def test_class_means_in_all_spaces_are_the_default(sources, tmp_path):
    result = call_json("run", sources["labelled"], "-o", tmp_path / "out")
    assert result["config"]["method"] == {"method": "class-means", "spaces": "all"}
    several = ["--space", "classes", "styles", "-o", tmp_path / "several"]
    named = call_json("run", sources["labelled"], *several)["config"]
    assert named["method"] == {"method": "class-means", "spaces": ["classes", "styles"]}
    shown = call("run", sources["labelled"], *several).out
    assert shown.startswith("class-means classes, styles on labelled")


@pytest.mark.parametrize("setting", ["--capacity 8", "--weight auto", "--policy fifo"])
def test_a_setting_of_the_papers_system_asks_for_it(sources, tmp_path, setting):
    words = ["--space", "classes", *setting.split(), "-o", tmp_path / "out"]
    assert call_json("run", sources["labelled"], *words)["config"]["method"]["method"] == "marc"


def test_without_labels_the_stored_order_is_run_unless_seeds_are_given(sources, tmp_path):
    words = ["run", sources["unlabelled"], *PAPER, "-o"]
    assert call_json(*words, tmp_path / "one")["config"]["seeds"] == [None]
    seeds = ["--seed", "0", "1"]
    assert call_json(*words, tmp_path / "two", *seeds)["config"]["seeds"] == [0, 1]
    labelled = call_json("run", sources["labelled"], *PAPER, "-o", tmp_path / "three")
    assert labelled["config"]["seeds"] == [0, 1, 2]


def test_a_run_of_one_order_has_a_table_of_its_answers(sources, tmp_path):
    call_json("run", sources["unlabelled"], *PAPER, "-o", tmp_path / "out")
    [run] = marc.load_run(tmp_path / "out")
    stream = marc.load_stream(sources["unlabelled"])
    expected = answers_of(run, stream).csv()
    assert (tmp_path / "out/answers.csv").read_bytes() == expected
    header = expected.decode().splitlines()[0]
    assert header == "file,base_answer,answer,base_confidence,confidence,changed"
    call_json("run", sources["labelled"], *PAPER, "-o", tmp_path / "three")
    assert not (tmp_path / "three/answers.csv").exists()


def test_an_unlabelled_pack_reports_the_share_of_changed_answers(sources, tmp_path):
    words = [
        "run",
        sources["unlabelled"],
        *PAPER,
        "-o",
        tmp_path / "out",
    ]
    outcome = call(*words)
    assert outcome.status == 0
    stored = arrays_in(tmp_path / "out/predictions.npz")
    needs_labels = {"label", "log_loss", "brier", "base_log_loss", "base_brier"}
    assert set(stored) == ARRAYS - needs_labels
    changed = (stored["prediction"] != stored["base_prediction"]).mean(axis=1)
    assert call_json(*words)["metrics"] == {
        "selection": "fixed",
        "final_weight": [10.0],  # one answer per image, in the stored order
        "changed": changed.tolist(),
        **{name: pytest.approx(stored[name].mean()) for name in ("confidence", "base_confidence")},
    }
    assert ", ".join(f"{100 * share:.2f}" for share in changed) in outcome.out
    assert "accuracy" not in outcome.out


def test_a_run_in_a_process_of_its_own_prints_plain_text(sources, tmp_path):
    words = ["run", sources["labelled"], *PAPER, "-o", "out"]
    outcome = call_outside(*words, cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.err == ""
    assert "\x1b" not in outcome.out
    assert outcome.out.endswith("written: out\n")
    metrics = json.loads(call_outside(*words, "--json", cwd=tmp_path).out)["metrics"]
    assert f"gain {100 * metrics['gain']:+.2f} points" in outcome.out


def test_options_that_the_method_does_not_have_are_refused_not_ignored(run, tmp_path):
    outcome = run("--method", "no-memory", "--space", "classes")
    assert outcome.status == 2
    assert "no-memory takes no --space" in outcome.err
    assert "got:  --space classes" in outcome.err
    outcome = run("--method", "tda", "--weight", "3")
    assert "tda takes no --weight" in outcome.err
    outcome = run("--method", "class-means", "--set", "space=x")
    assert "try:  --space x" in outcome.err
    assert not list(tmp_path.iterdir())


def test_a_setting_may_name_the_method_that_runs(run, tmp_path):
    words = ["--views", "1", "--method", "tda", "--set"]
    assert run(*words, "tda.alpha=1.5", "-o", "named").status == 0
    assert json_in(tmp_path / "named/config.json")["method"]["alpha"] == 1.5
    assert run("--set", "marc.beta=4.0", "--space", "classes", "-o", "marc").status == 0
    assert json_in(tmp_path / "marc/config.json")["method"]["beta"] == 4.0
    for settings, problem in (
        (["tda.alpha=1", "alpha=2"], "a setting is given twice"),
        (["dota.alpha=1"], "unknown setting of tda"),
        (["tda.capacity=1"], "try:  --capacity 1"),
    ):
        outcome = run(*words, *settings)
        assert outcome.status == 2
        assert problem in outcome.err


def test_the_stored_order_can_be_run(run, sources, tmp_path):
    out = run(*SHARP, "--in-order", "-o", "out").out
    assert "as stored" in out
    stored = arrays_in(tmp_path / "out/predictions.npz")
    np.testing.assert_array_equal(stored["order"], [np.arange(200)])
    assert stored["seeds"].tolist() == [-1]
    one = marc.run(marc.MARC("both", 4, 30.0), marc.load_stream(sources["labelled"]))
    np.testing.assert_array_equal(stored["prediction"][0], one.predictions)
    metrics = json_in(tmp_path / "out/metrics.json")
    assert metrics["orders"][0]["seed"] is None
    assert metrics["gain"] == pytest.approx(one.gain)
    assert json_in(tmp_path / "out/config.json")["seeds"] == [None]
    assert "in-order" in run(*SHARP, "--in-order").out.splitlines()[-1]


def test_a_dry_run_may_print_json(run, tmp_path):
    outcome = run("--space", "classes", "--dry-run", "--json")
    assert json.loads(outcome.out)["would_run"] == ["marc"]
    assert not (tmp_path / "runs").exists()

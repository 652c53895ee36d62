"""What a person sees of a run, and the weight that it may have learned."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import arrays_in, call, json_in

import marc
from marc.cli.run import _show
from marc.results.metrics import metrics_of


@pytest.fixture
def run(sources, tmp_path, monkeypatch):
    """`marc run` on the labelled pack, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: call("run", sources["labelled"], *words)


def test_a_p_value_is_never_printed_as_zero():
    answers = {
        "seeds": np.array([0]),
        "prediction": np.zeros((1, 3000), dtype=np.int64),
        "base_prediction": np.ones(3000, dtype=np.int64),
        "label": np.zeros(3000, dtype=np.int64),
        "order": np.arange(3000)[np.newaxis],
        "weight": np.full((1, 3000), 10.0),
    }
    metrics = metrics_of(answers, ())
    assert metrics["orders"][0]["mcnemar_p"] == 0
    assert metrics["orders"][0]["mcnemar_log10_p"] == pytest.approx(-2999 * np.log10(2))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        config = {"method": {"method": "marc"}, "stream": "s", "n_images": 3000, "n_classes": 2}
        _show(Path("out"), config | {"n_views": 1, "transductive": False}, metrics, was_done=False)
    assert "1.6e-903" in out.getvalue()


def test_a_weight_that_is_learned_is_told_and_stored(run, sources, tmp_path):
    outcome = run("--space", "classes", "--weight", "auto")
    assert outcome.status == 0
    assert "weight learned without labels" in outcome.out
    [folder] = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-wauto")
    stored, metrics = arrays_in(folder / "predictions.npz"), json_in(folder / "metrics.json")
    stream = marc.load_stream(sources["labelled"]).shuffled(1)
    expected = marc.run(marc.MARC("classes", weight="auto"), stream)
    assert np.array_equal(stored["weight"][1][stream.order], expected.weights)
    assert metrics["final_weight"][1] == expected.weights[-1] > 0


def test_a_weight_that_is_neither_a_number_nor_auto_is_refused(run, tmp_path):
    outcome = run("--space", "classes", "--weight", "automatic")
    assert outcome.status == 2
    assert "'automatic'" in outcome.err
    assert "'auto'" in outcome.err
    assert not list(tmp_path.iterdir())


def test_a_learned_weight_has_a_page(run, tmp_path):
    run("--space", "classes", "--weight", "auto", "-o", "out")
    outcome = call("report", tmp_path / "out", "-o", tmp_path / "page.html")
    assert outcome.status == 0
    assert "Whom it believed" in (tmp_path / "page.html").read_text("utf-8")


def test_the_spaces_that_were_believed_are_told(run, tmp_path):
    outcome = run("--method", "class-means", "--seed", 0, 1, "-o", "out")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    start = next(i for i, line in enumerate(lines) if line.startswith("space "))
    metrics = json_in(tmp_path / "out/metrics.json")["final_space_weights"]
    means = {space: np.mean([order[space] for order in metrics]) for space in metrics[0]}
    rows = [line.split() for line in lines[start + 1 : start + 1 + len(means)]]
    assert [row[0] for row in rows] == sorted(means, key=lambda space: -means[space])
    for space, weight, share in rows:
        assert float(weight) == pytest.approx(means[space], abs=5e-4)
        assert float(share) == pytest.approx(100 * means[space] / sum(means.values()), abs=0.05)


def test_one_space_needs_no_table_of_spaces(run):
    assert "last tenth" not in run("--space", "classes").out

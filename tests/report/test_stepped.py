"""A page of any method: what each part of its memory said, against the steps themselves."""

import numpy as np
import pytest
from helpers.commands import json_in
from helpers.report_pages import Page, make_stream

import marc
from marc.report.figures import _learned_weights
from marc.report.inputs import Inputs
from marc.report.stepped import Stepped
from marc.report.voices import explore_voices

METHODS = {
    "means": marc.create_method("class-means"),
    "learned": marc.MARC("both", weight="auto"),
    "tda": marc.create_method("tda", fraction=0.5),
}


def subject_of(folder):
    return Stepped.of(Inputs.read([folder]), lambda step: None)


@pytest.fixture(scope="module", params=METHODS)
def told(request, results):
    """What the page is about, its queries by row, and the steps of the method."""
    subject, method = subject_of(results[request.param]), METHODS[request.param]
    method.reset()
    steps = {step.item: step for step in map(method.step, make_stream().shuffled(0))}
    queries = {query["row"]: query for query in explore_voices(subject, 1000).queries}
    assert len(queries) == len(steps) == 160
    return subject, queries, steps


def test_the_sums_are_those_of_the_step(told):
    _, queries, steps = told
    for row, step in steps.items():
        query, n = queries[row], len(queries[row]["classes"])
        sums = np.array(query["constant"][:n])
        for weight, evidence in zip(query["weights"], query["evidence"], strict=True):
            sums += weight * np.array(evidence[:n])
        np.testing.assert_allclose(sums, step.logits[query["classes"]], atol=5e-4)
        assert query["adapted"] == step.prediction
        assert query["base"] == step.base_prediction
        assert {step.prediction, step.base_prediction, query["truth"]} <= set(query["classes"])


def test_every_voice_has_its_weight_and_its_leading_classes(told):
    subject, queries, steps = told
    for row, step in steps.items():
        query = queries[row]
        for place, voice in enumerate(subject.voices):
            weight = step.weights.get(voice, 0.0)
            assert query["weights"][place] == pytest.approx(weight, abs=1e-5)
            if voice in step.evidence:
                said = step.evidence[voice] * (-1 if weight < 0 else 1)
                assert set(np.argsort(-said, kind="stable")[:5]) <= set(query["classes"])
                assert abs(query["evidence"][place][-1]) == pytest.approx(abs(said.min()), abs=1e-5)


def test_disagreement_is_the_weight_that_speaks_for_another_class(told):
    subject, queries, steps = told
    for row, step in steps.items():
        names = [voice for voice in subject.spaces if voice in step.evidence] or step.evidence
        said = {name: step.weights[name] * step.evidence[name] for name in names}
        weights = {n: abs(step.weights[n]) for n, s in said.items() if s.max() > s.min()}
        against = sum(w for n, w in weights.items() if said[n].argmax() != step.prediction)
        expected = against / sum(weights.values()) if weights else 0.0
        assert queries[row]["disagreement"] == pytest.approx(expected, abs=1e-3)


def test_the_pictures_are_the_nearest_of_what_is_remembered(told):
    subject, queries, steps = told
    stream, time, base = subject.stream, subject.time, subject.stream.features.base
    entropy = base.entropy_as("posterior")
    offered = [(base.label[row], -entropy[row]) for row in stream.order]
    if subject.name == "marc":  # what its own memory held
        offered = [(steps[row].label, steps[row].priority) for row in stream.order]
    trajectory = marc.Trajectory(stream.order, *map(np.array, zip(*offered, strict=True)))
    for voice, space in subject.spaces.items():
        keys = stream.features.keys(space)
        for row in (3, 77, int(stream.order[0]), int(stream.order[2])):
            held = trajectory.retained(time[row], 16).values()
            earlier = [other for rows in held for other in rows]
            expected = sorted(earlier, key=lambda other: (-float(keys[other] @ keys[row]), other))
            shown = queries[row]["entries"][subject.voices.index(voice)]
            found = [entry["similarity"] for entry in shown]
            best = [float(keys[other] @ keys[row]) for other in expected[:4]]
            assert found == pytest.approx(best, abs=1e-3)
            assert all(time[entry["row"]] < time[row] for entry in shown)


def test_voices_are_ordered_by_weight_and_know_their_spaces(results):
    means = subject_of(results["means"])
    weights = [means.weights(voice).sum() for voice in means.voices]
    assert weights == sorted(weights, reverse=True)
    assert set(means.spaces) == {*make_stream().spaces, "predictor"}
    assert set(means.voices) - set(means.spaces) == {"class marginals"}
    assert subject_of(results["learned"]).spaces == {"retrieval": "both"}
    assert subject_of(results["tda"]).spaces == {}


def test_the_figure_of_weights_is_that_of_the_run(results):
    curves = _learned_weights(subject_of(results["means"]))
    run = marc.load_run(results["means"])[0]
    assert set(curves.curves) == set(run.space_weights)
    for space, weights in run.space_weights.items():
        parts = [part.mean() for part in np.array_split(weights, 50)]
        np.testing.assert_allclose(curves.curves[space], parts, atol=1e-9)
    assert curves.x[-1] == 160
    assert len(curves.table.columns) == 11


def test_weights_that_never_change_have_no_figure(results):
    assert _learned_weights(subject_of(results["tda"])) is None


def test_a_page_says_what_the_run_found_and_whom_it_believed(results, tmp_path):
    page = marc.report(results["means"], output=tmp_path / "page.html")
    metrics, text = json_in(results["means"] / "metrics.json"), page.story.text
    assert f"The gain is {100 * metrics['gain']:+.2f} points".replace("-", "−") in text
    weights = metrics["final_space_weights"]
    heaviest = max(weights[0], key=lambda space: sum(order[space] for order in weights))
    assert f"the weight goes to “{heaviest}” (" in text
    words = Page(page.path.read_text("utf-8")).words
    for title in ("Whom it believed", "Along the stream", "Confidence and accuracy"):
        assert title in words
    assert "class means remember no single images" in words
    assert "w = 0" not in words


def test_a_page_of_a_peer_has_no_earlier_images(results, tmp_path):
    page = marc.report(results["tda"], output=tmp_path / "page.html")
    words = Page(page.path.read_text("utf-8")).words
    assert page.story.title.startswith("The memory of “tda”")
    assert "nearest earlier images" not in words
    assert "Whom it believed" not in words


def test_without_labels_a_page_of_class_means_says_only_what_changed(results, tmp_path):
    stream = make_stream(row_labels=None)
    marc.write_pack(stream, tmp_path / "pack.npz")
    stream = marc.load_stream(f"arrays/{tmp_path}/pack.npz")
    run = marc.run(marc.create_method("class-means"), stream.shuffled(0))
    page = marc.report(marc.save_run(run, tmp_path / "run", stream), output=tmp_path / "page.html")
    read = Page(page.path.read_text("utf-8"))
    for word in ("accuracy", "repaired", "broken", "correctly"):
        assert word not in read.words, word
    assert {query["truth"] for query in read.data["queries"]} == {None}
    assert len(read.data["images"]) == 2


def test_weights_that_an_oracle_chose_are_those_of_the_page(results, tmp_path):
    from helpers.commands import call

    source = f"arrays/{results['run'].parent}/small.npz"
    words = ["--method", "cosmic", "--space", "both", "--oracle", "--seed", "0"]
    assert call("run", source, *words, "-o", tmp_path / "run").status == 0
    subject = subject_of(tmp_path / "run")
    [chosen] = json_in(tmp_path / "run/metrics.json")["chosen"]
    for setting, weight in chosen.items():
        if weight:
            assert np.all(subject.weights(setting.removesuffix("_weight")) == weight)
    for said, row in zip(subject.said, subject.stream.order, strict=True):
        sums = said.base[:-1] + sum(said.weights[v] * e[:-1] for v, e in said.evidence.items())
        assert sums.max() - sums[said.classes.index(subject.prediction[row])] < 1e-9


def test_a_method_without_memory_is_not_said_to_have_one(tmp_path):
    stream = marc.load_stream("lab/sketch-12")
    run = marc.run(marc.create_method("zero-shot"), stream)
    marc.save_run(run, tmp_path / "run", stream)
    page = marc.report(tmp_path / "run", output=tmp_path / "page.html")
    assert page.story.title == "“zero-shot” has no memory: it makes no difference"

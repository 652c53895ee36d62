"""The picture of the first screen: chosen by the rule that it states, and what the memory read."""

import numpy as np
import pytest
from helpers.report_pages import Page

import marc
from marc.report.explorer import explore
from marc.report.finding import find
from marc.report.inputs import Inputs
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.voices import explore_voices


def told(folder):
    """The finding of a run, and the queries that it was chosen from."""
    inputs = Inputs.read([folder])
    kind, queries = (Subject, explore) if inputs.at_one_weight else (Stepped, explore_voices)
    args = [None] if inputs.at_one_weight else []
    subject = kind.of(inputs, *args, lambda step: None)
    explored = queries(subject, 80).queries
    return subject, explored, find(subject, explored, {})


def votes(subject, query, place):
    """How many of the four nearest pictures of a space speak for the answer."""
    base = subject.base_prediction
    labels = [e.get("label", base[e["row"]]) for e in query["entries"][place][:4]]
    return labels.count(query["adapted"])


@pytest.mark.parametrize("name", ["run", "means", "unlabelled", "learned"])
def test_it_is_the_clearest_of_its_kind(results, name):
    subject, queries, finding = told(results[name])
    kind = "changed" if name == "unlabelled" else "repaired"
    gains = name != "unlabelled" and subject.right.mean() >= np.mean(
        subject.base_prediction == subject.labels
    )
    kind = kind if gains or name == "unlabelled" else "broken"
    found = [query for query in queries if kind in query["kinds"]]
    [query] = [query for query in queries if query["row"] == finding["row"]]
    assert query in found
    places = [0, 1]
    if name in ("means", "learned"):
        heard = [subject.voices.index(voice) for voice in subject.spaces]
        places = [min(heard), max(heard)][: len(heard)]

    def ahead(each):
        first, *other = [votes(subject, each, place) for place in places]
        return first - sum(other)

    assert ahead(query) == max(map(ahead, found))
    assert f"Of {len(found)} {kind} images" in finding["rule"]
    for space, place in zip(finding["spaces"], places, strict=True):
        assert space["agreeing"] == votes(subject, query, place)
        assert [p["row"] for p in space["pictures"]] == [
            entry["row"] for entry in query["entries"][place][:4]
        ]


def test_the_answers_beside_the_pictures_are_those_of_the_two_memories(results):
    subject, _, finding = told(results["run"])
    names = subject.stream.features.class_names
    for space in finding["spaces"]:
        run = marc.replay(marc.MARC(space["name"], 4, 7.0), subject.stream)
        answer = int(run.predictions[run.order == finding["row"]][0])
        assert space["said"] == names[answer]
        assert space["right"] == (answer == subject.labels[finding["row"]])


def test_a_method_that_reads_no_space_shows_its_answer_alone(results, tmp_path):
    _, _, finding = told(results["tda"])
    assert finding["spaces"] == []
    page = Page(marc.report(results["tda"], output=tmp_path / "p.html").path.read_text("utf-8"))
    assert finding["rule"] in page.words
    assert f"#q-{finding['row']}" in [a["href"] for a in page.all("a")]


def test_it_stands_before_the_numbers_and_needs_no_script(results, tmp_path):
    text = marc.report(results["run"], output=tmp_path / "p.html").path.read_text("utf-8")
    assert text.index('id="finding"') < text.index('class="facts"') < text.index("<script")
    assert text.count("Nearest in <span") == 2


def test_numbers_of_outcomes_are_the_same_wherever_they_stand(results, tmp_path):
    made = marc.report(results["run"], output=tmp_path / "p.html")
    words = Page(made.path.read_text("utf-8")).words
    facts = {name: value for name, value, _ in made.story.facts}
    with np.load(results["run"] / "predictions.npz") as arrays:
        right = arrays["prediction"] == arrays["label"]
        base = arrays["base_prediction"] == arrays["label"]
    assert facts["repaired"] == f"{(right & ~base).sum(axis=1).mean():,.0f}"
    assert f"Repaired {facts['repaired']}" in words
    assert f"Broken {facts['broken']}" in words

"""`marc judge`: from a run without labels to a verdict."""

import csv
from pathlib import Path

import pytest
from helpers.commands import PAPER, arrays_in, call, call_json, tree

import marc


@pytest.fixture
def place(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for space in ("classes", "noise"):
        words = ["--space", space, "--weight", 100, "--seed", 2, 0, "-o", space]
        call("run", sources["unlabelled"], *words)
    return tmp_path


def fill(path, sources):
    arrays = arrays_in(sources["labelled"].removeprefix("arrays/"))
    truth = dict(zip(arrays["paths"], arrays["class_names"][arrays["labels"]], strict=True))
    with Path(path).open(newline="") as file:
        header, *rows = csv.reader(file)
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([header, *([*row[:-1], truth[row[0]]] for row in rows)])


@pytest.mark.parametrize(("space", "verdict"), [("classes", "helps"), ("noise", "harms")])
def test_an_audit_is_filled_in_and_judged(place, sources, space, verdict):
    outcome = call("judge", space, "--audit", 20, "-o", "audit.csv")
    assert outcome.status == 0
    assert "not shown: without labels nothing is proven" in outcome.out
    assert "written: audit.csv (20 rows to label)\nno page" in outcome.out
    assert "marc judge" in call("judge", space, "--labels", "audit.csv").out  # what to do next
    fill("audit.csv", sources)
    call("judge", space, "--labels", "audit.csv", "--audit", 25, "-o", "next.csv")
    fill("next.csv", sources)
    words = ["judge", space, "--labels", "audit.csv", "next.csv"]
    outcome = call(*words)
    assert f"\n{verdict}: adapted answers are right" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    data = call_json(*words)
    assert data.pop("audit") is None
    assert data == marc.judge(space, ["audit.csv", "next.csv"]).to_dict()
    assert data["run"]["order"] == 2  # the first
    other = call("judge", space, "--labels", "audit.csv", "next.csv", "--order", 0)
    assert "another\nrun or order is no random draw" in other.out


def test_little_is_not_shown_and_says_how_much_more(place, sources):
    call("judge", "classes", "--audit", 3)
    fill("audit.csv", sources)
    outcome = call("judge", "classes", "--labels", "audit.csv")
    assert "not shown: the labels do not say yet" in outcome.out
    assert "labels still needed: " in outcome.out
    assert "next: marc judge classes --labels audit.csv --audit " in outcome.out


def test_a_stream_with_labels_needs_no_judge_but_may_have_one(place, sources):
    call("run", sources["labelled"], *PAPER, "-o", "known")
    assert "marc compare give exact numbers" in call("judge", "known").out
    call("judge", "known", "--audit", 1000)
    fill("audit.csv", sources)
    judged = call_json("judge", "known", "--labels", "audit.csv")
    assert judged["gain"]["estimate"] == pytest.approx(marc.load_run("known")[0].gain)
    assert "exactly: all are labelled" in call("judge", "known", "--labels", "audit.csv").out


BAD = {
    "no run": (["nothing"], "nothing", "marc run"),
    "no labels there": (["classes", "--labels", "nothing.csv"], "nothing.csv", "--labels"),
    "an unknown order": (["classes", "--order", "7"], "7", "2, 0"),
    "a level of 1": (["classes", "--alpha", "1"], "1", "--alpha 0.05"),
    "an audit of nothing": (["classes", "--audit", "0"], "0", ">= 1"),
    "a page of another": (["classes", "--audit", "5", "-o", "mine.csv"], "mine.html", "-o"),
    "an audit into a page": (["classes", "--audit", "5", "-o", "mine.html"], "mine.html", "-o"),
}


@pytest.mark.parametrize("case", BAD)
def test_judge_refuses(place, case):
    (place / "mine.html").write_text("mine")
    words, came, allowed = BAD[case]
    before = tree(place)
    outcome = call("judge", *words)
    assert outcome.status == 2
    assert came in outcome.err
    assert allowed in outcome.err
    assert tree(place) == before

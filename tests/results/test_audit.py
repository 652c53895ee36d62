"""Labels that come in, and audits that go out."""

import csv
import dataclasses

import numpy as np
import pytest
from helpers.commands import tree

import marc
from marc.errors import MarcError
from marc.results.audit import distinct

STREAM = marc.synthetic_stream(n_images=200, n_classes=5, n_views=1)
NAMES, IDS = STREAM.features.class_names, STREAM.features.ids


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "classes"
    return marc.save_run(marc.run(marc.MARC("classes"), STREAM.shuffled(0)), path, STREAM)


def truth(ids):
    return {each: NAMES[STREAM.row_labels[IDS.index(each)]] for each in ids}


def fill(path):
    """Write the true labels into an audit."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    true = truth(row["id"] for row in rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": true[row["id"]]} for row in rows)
    return rows


def test_names_numbers_and_files_say_the_same(folder, tmp_path):
    named = truth(IDS[:60])
    numbered = {each: STREAM.row_labels[IDS.index(each)] for each in named}
    as_text = {each: str(number) for each, number in numbered.items()}
    lines = "".join(f'{each},"{name}",x\n' for each, name in named.items())
    (tmp_path / "all.csv").write_text("﻿id,label,more\n" + lines)
    tallies = {
        (found.tally, found.n_agreements)
        for labels in (named, numbered, as_text, tmp_path / "all.csv", [tmp_path / "all.csv"] * 2)
        for found in [marc.judge(folder, labels)]
    }
    assert len(tallies) == 1
    assert sum(next(iter(tallies))[0]) > 0


def test_neither_is_a_label_and_an_empty_one_is_none(folder):
    disagreements = marc.judge(folder).disagreements
    judgement = marc.judge(folder, {each.id: "neither" for each in disagreements[:4]})
    assert judgement.tally == (0, 0, 4)
    assert marc.judge(folder, {each.id: "" for each in disagreements}).tally == (0, 0, 0)
    assert marc.judge(folder, {each.id: None for each in disagreements}).tally == (0, 0, 0)


def test_classes_of_one_name_are_told_apart_and_a_name_goes_before_a_number():
    names = ["crane", "1", "crane", "0"]
    assert distinct(names) == ["crane (0)", "1", "crane (2)", "0"]
    from marc.results.audit import read_labels

    read = read_labels({"x": "0", "y": 0, "z": "2"}, ["x", "y", "z"], names, named=True)
    assert read == {0: 3, 1: 0, 2: 2}


BAD = {
    "an unknown id": ({"nobody": 0}, "no image of this id"),
    "an unknown class": ({IDS[0]: "zebra"}, "no such class"),
    "a number too large": ({IDS[0]: 5}, "no such class"),
    "a negative number": ({IDS[0]: -1}, "number of a class"),
    "a fraction": ({IDS[0]: 1.5}, "number of a class"),
    "a missing file": ("nothing.csv", "no such file"),
    "a folder": (".", "no such file"),
    "other columns": ("image;label\na;1\n", "not a file of labels"),
    "two that differ": (f"id,label\n{IDS[0]},0\n{IDS[0]},1\n", "two labels"),
    "a comma without quotes": (f"id,label\n{IDS[0]},a,b\n", "longer than the header"),
    "an unknown id in a file": ("id,label\nnobody,1\n", "row 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_labels_are_refused(folder, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    labels, message = BAD[case]
    if isinstance(labels, str) and "\n" in labels:
        (tmp_path / "labels.csv").write_text(labels)
        labels = "labels.csv"
    with pytest.raises(MarcError, match=message):
        marc.judge(folder, labels)


@pytest.mark.parametrize("text", ["", "\n", "id,label\n"])
def test_an_empty_file_shows_nothing(folder, tmp_path, text):
    (tmp_path / "empty.csv").write_text(text)
    judgement = marc.judge(folder, tmp_path / "empty.csv")
    assert judgement.verdict == "not shown"
    assert judgement.gain is judgement.labels_needed is None


def test_batches_of_one_seed_follow_each_other(folder, tmp_path):
    first, second, whole = (tmp_path / f"{name}.csv" for name in ("first", "second", "whole"))
    fresh = marc.judge(folder)
    fresh.write_audit(whole, 12, seed=4)
    fresh.write_audit(first, 5, seed=4)
    rows = fill(first)
    assert list(rows[0]) == ["id", "one_answer", "other_answer", "label"]
    marc.judge(folder, first).write_audit(second, 7, seed=4)
    rows += fill(second)
    assert [row["id"] for row in rows] == [row["id"] for row in fill(whole)]
    assert marc.judge(folder, [first, second]) == marc.judge(folder, whole)
    assert sum(marc.judge(folder, whole).tally) == 12


def test_every_disagreement_is_as_likely_as_another(folder, tmp_path):
    fresh = marc.judge(folder)
    drawn = [fresh.write_audit(tmp_path / "a.csv", 5, seed)[0].row for seed in range(200)]
    expected = 200 / len(fresh.disagreements)
    counts = np.array([drawn.count(each.row) for each in fresh.disagreements])
    assert ((counts - expected) ** 2 / expected).sum() < 2 * len(counts)


def test_an_audit_does_not_say_whose_answer_is_whose(folder, tmp_path):
    for each in marc.judge(folder).write_audit(tmp_path / "audit.csv", 1000):
        assert each.blind == sorted({each.base_answer, each.answer})
        assert (
            f"{each.id},{each.blind[0]},{each.blind[1]},\n" in (tmp_path / "audit.csv").read_text()
        )


def test_an_audit_replaces_only_one_without_labels(folder, tmp_path):
    fresh, path = marc.judge(folder), tmp_path / "audit.csv"
    fresh.write_audit(path, 5)
    fresh.write_audit(path, 6)
    fill(path)
    (tmp_path / "mine.csv").write_text("id,label\n")
    (tmp_path / "folder.csv").mkdir()
    before = tree(tmp_path)
    for name, message in [
        ("audit.csv", "holds labels"),
        ("mine.csv", "not an audit"),
        ("folder.csv", "not an audit"),
        ("audit.txt", ".csv file"),
    ]:
        with pytest.raises(MarcError, match=message):
            fresh.write_audit(tmp_path / name, 5)
    with pytest.raises(MarcError, match="left to label"):
        marc.judge(folder, truth(IDS)).write_audit(tmp_path / "more.csv", 5)
    with pytest.raises(MarcError, match="audit must be"):
        fresh.write_audit(tmp_path / "more.csv", 0)
    with pytest.raises(MarcError, match="seed must be"):
        fresh.write_audit(tmp_path / "more.csv", 5, seed=-1)
    assert tree(tmp_path) == before


def test_ids_and_classes_that_look_like_formulas_go_out_quoted_and_come_back(tmp_path):
    odd = ["=1+1", "'=1+1", "-x", "@y", "plain"]
    ids = [f"{odd[row % 5]}{row}" for row in range(len(STREAM))]
    features = dataclasses.replace(STREAM.features, ids=tuple(ids), class_names=tuple(odd))
    stream = dataclasses.replace(STREAM, features=features)
    runs = [marc.run(marc.MARC("classes", weight=w), stream.shuffled(0)) for w in (0, 10)]
    folders = [marc.save_run(run, tmp_path / str(i), stream) for i, run in enumerate(runs)]
    marc.compare(*folders).write_changes(tmp_path / "changed.csv")
    path = tmp_path / "audit.csv"
    drawn = marc.judge(folders[1]).write_audit(path, 500)
    for file in (path, tmp_path / "changed.csv"):
        with file.open(newline="") as opened:
            cells = [cell for row in csv.reader(opened) for cell in row]
        assert "'=1+1" in {cell[:5] for cell in cells}
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    with path.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": row["one_answer"]} for row in rows)
    labels = {each.id: each.blind[0] for each in drawn}
    assert len(labels) > 10
    assert marc.judge(folders[1], path).tally == marc.judge(folders[1], labels).tally

import csv
import json

import numpy as np
import pytest
from helpers.commands import PAPER, arrays_in, call, call_json, reseal, tree

from marc.files import unquoted

HEADER = ["run", "order", "id", "label", "reference_answer", "answer", "change"]


@pytest.fixture
def runs(sources, tmp_path, monkeypatch):
    """A reference and two runs over the same images, in the folders a, b and c."""
    monkeypatch.chdir(tmp_path)
    calls = {
        "a": ["--method", "no-memory"],
        "b": [*PAPER, "--seed", "2", "0"],
        "c": ["--method", "marc", "--space", "styles"],
    }
    for name, words in calls.items():
        assert call("run", sources["labelled"], *words, "-o", name).status == 0
    return tmp_path


def expected_rows(folder, reference, names, *, as_numbers=False):
    """The slow twin: look at every order and image."""
    first = arrays_in(folder / reference / "predictions.npz")
    rows = []
    for name in names:
        other = arrays_in(folder / name / "predictions.npz")
        text = str if as_numbers else lambda number, of=other: of["class_names"][number]
        for place, seed in enumerate(first["seeds"].tolist()):
            if seed not in other["seeds"]:
                continue
            after = other["prediction"][other["seeds"].tolist().index(seed)]
            for i, label in enumerate(first["label"]):
                was, now = first["prediction"][place][i], after[i]
                if (was == label) != (now == label):
                    kind = "repair" if now == label else "regression"
                    answers = [str(text(number)) for number in (label, was, now)]
                    rows.append([name, str(seed), first["ids"][i], *answers, kind])
    return rows


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_file_has_one_row_per_changed_image_and_order(runs):
    outcome = call("compare", "a", "b", "c", "-o", "deep/er/changed.csv")
    header, *rows = read_csv(runs / "deep/er/changed.csv")
    assert header == HEADER
    assert rows == expected_rows(runs, "a", ["b", "c"])
    assert {row[-1] for row in rows} == {"repair", "regression"}
    assert rows[0][3].startswith("class ")
    assert outcome.out.endswith(f"written: deep/er/changed.csv ({len(rows)} rows)\n")
    assert [path.name for path in (runs / "deep/er").iterdir()] == ["changed.csv"]


def test_the_rows_are_as_many_as_the_counts_say(runs):
    compared = call_json("compare", "a", "b", "c", "-o", "changed.csv")
    found = [(row[0], row[1], row[-1]) for row in read_csv(runs / "changed.csv")[1:]]
    for run in compared["runs"]:
        for kind in ("repair", "regression"):
            counts = [found.count((run["run"], str(seed), kind)) for seed in run["orders"]]
            assert counts == run[f"{kind}s"]


def test_json_names_the_images_only_if_asked(runs):
    assert "images" not in call_json("compare", "a", "b")["runs"][0]
    images = call_json("compare", "a", "b", "--images")["runs"][0]["images"]
    rows = [["b", *map(str, image.values())] for image in images]
    assert rows == expected_rows(runs, "a", ["b"])
    assert list(images[0]) == HEADER[1:]


def test_the_terminal_shows_the_first_ten_of_each_kind(runs):
    plain, named = call("compare", "a", "c"), call("compare", "a", "c", "--images")
    added = [line for line in named.out.splitlines() if line not in plain.out.splitlines()]
    assert len(added) == 3 * 2
    rows = expected_rows(runs, "a", ["c"])
    ids = [row[2] for row in rows if row[1] == "0" and row[-1] == "regression"]
    assert len(ids) > 10
    said = f"c, seed 0, regressions: {', '.join(ids[:10])} and {len(ids) - 10} more"
    assert said in added
    nothing = call("compare", "a", "a", "--images").out
    assert "a, seed 1, repairs: none\n" in nothing


def test_the_stored_order_is_named(runs, sources):
    for name, words in {"d": ["--method", "no-memory"], "e": PAPER}.items():
        call("run", sources["labelled"], *words, "--in-order", "-o", name)
    images = call_json("compare", "d", "e", "--images", "-o", "changed.csv")["runs"][0]["images"]
    assert {image["order"] for image in images} == {None}
    assert {row[1] for row in read_csv(runs / "changed.csv")[1:]} == {"as stored"}


def test_names_with_commas_quotes_and_lines_come_back(runs):
    names = ['a, "b"', "two\nlines", "é", " space ", "=1+1"]
    for name in ("a", "c"):
        path = runs / name / "predictions.npz"
        np.savez(path, **{**arrays_in(path), "class_names": np.array(names)})
        reseal(runs / name)
    call("compare", "a", "c", "-o", "changed.csv")
    found = [[*map(unquoted, row)] for row in read_csv(runs / "changed.csv")[1:]]
    assert found == expected_rows(runs, "a", ["c"])
    assert "'=1+1" in (runs / "changed.csv").read_text()  # no formula in a spreadsheet


def test_runs_without_a_change_leave_a_file_with_its_header_alone(runs):
    assert "(0 rows)" in call("compare", "a", "a", "-o", "changed.csv").out
    assert read_csv(runs / "changed.csv") == [HEADER]


def test_an_earlier_list_is_replaced_and_nothing_else(runs):
    call("compare", "a", "b", "-o", "changed.csv")
    call("compare", "a", "c", "-o", "changed.csv")
    assert {row[0] for row in read_csv(runs / "changed.csv")[1:]} == {"c"}
    (runs / "mine.csv").write_text("name,grade\n")
    (runs / "empty.csv").write_text("")
    before = tree(runs)
    for path in ("mine.csv", "a/config.json", "a", "empty.csv", "a/predictions.npz"):
        outcome = call("compare", "a", "b", "-o", path)
        assert outcome.status == 2
        assert "left alone" in outcome.err
        assert path in outcome.err
    assert tree(runs) == before


def test_a_failed_write_leaves_the_old_list(runs, monkeypatch):
    call("compare", "a", "b", "-o", "changed.csv")
    before = (runs / "changed.csv").read_bytes()

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("marc.files.writing.csv.writer", fail)
    assert call("compare", "a", "c", "-o", "changed.csv").status == 1
    assert (runs / "changed.csv").read_bytes() == before


def test_nothing_is_written_where_the_runs_cannot_be_compared(runs, sources):
    call("run", sources["other"], *PAPER, "-o", "other")
    assert call("compare", "a", "other", "-o", "changed.csv").status == 2
    assert not (runs / "changed.csv").exists()


def test_json_stays_one_object_with_a_file_and_images(runs):
    outcome = call("compare", "a", "b", "c", "--images", "-o", "changed.csv", "--json")
    assert outcome.err == ""
    assert set(json.loads(outcome.out)) == {"schema", "kind", "reference", "runs", "family"}

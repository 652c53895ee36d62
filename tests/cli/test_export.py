import pytest
from helpers.commands import PAPER, call, call_json


@pytest.fixture
def place(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("run", sources["labelled"], *PAPER, "--seed", 0, 1, "-o", "run").status == 0
    return tmp_path


def test_a_run_is_exported_and_it_is_said_of_which_order(place):
    outcome = call("export", "run", "--to", "csv")
    assert outcome.out.splitlines() == [
        "200 rows, in the order seed 0; the run has others: --order 1",
        "written: exports/run.csv",
    ]
    assert call("export", "run", "--to", "csv").out.endswith("already there: exports/run.csv\n")
    other = call_json("export", "run", "--to", "csv", "--order", 1, "-o", "b.csv")
    assert (other["path"], other["order"], other["others"]) == ("b.csv", 1, [0])


def test_it_is_said_how_it_is_opened(place):
    outcome = call("export", "run", "--to", "fiftyone", "-o", "photos")
    assert "200 rows, no pictures" in outcome.out
    assert "open: fiftyone app launch photos" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "--to"),
        (["run", "--to", "excel"], "atlas, csv, fiftyone, hf"),
        (["run", "--to", "csv", "--order", 7], "0, 1"),
        (["nothing", "--to", "csv"], "marc run"),
        (["run", "--to", "atlas", "--space", "none"], "classes, both, styles, noise"),
    ],
)
def test_bad_use_is_refused(place, words, said):
    outcome = call("export", *words)
    assert outcome.status == 2
    assert said in outcome.err
    assert not (place / "exports").exists()

"""How streams and results look, and what they give as data."""

import builtins
import importlib.util
import json

import pytest

import marc
from marc.errors import MarcError

STREAM = marc.synthetic_stream(80, n_classes=5, n_views=1)
SHOWN = {
    "Stream": STREAM,
    "Run": marc.run(marc.MARC("classes", seed=1), STREAM),
    "Sweep": marc.sweep(STREAM, ["classes", "noise"], [1, 4], [0.0, 10.0], seeds=[0, None]),
    "Selection": marc.select(STREAM, n_replicates=10),
    "Judgement": marc.judge(marc.run(marc.MARC("classes"), STREAM), {0: 1}),
}
ROWS = {"Stream": 80, "Run": 80, "Sweep": 16, "Selection": 4, "Judgement": 5}


@pytest.mark.parametrize("name", SHOWN)
def test_a_repr_fits_ten_lines(name):
    lines = repr(SHOWN[name]).splitlines()
    assert lines[0] == name
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_a_table(name):
    html = SHOWN[name]._repr_html_()
    assert html.startswith(f"<table><caption>{name}</caption><tr>")
    assert html.count("<tr>") == len(SHOWN[name].to_dict()) <= 10


@pytest.mark.parametrize("name", SHOWN)
def test_the_dictionary_is_plain_data(name):
    assert json.loads(json.dumps(SHOWN[name].to_dict()))


@pytest.mark.parametrize("name", SHOWN)
def test_the_frame_has_a_row_for_each_part(name):
    pandas = pytest.importorskip("pandas")
    frame = SHOWN[name].to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == ROWS[name]


def test_the_frame_of_a_sweep_has_its_accuracies():
    pytest.importorskip("pandas")
    sweep = SHOWN["Sweep"]
    rows = sweep.to_frame().set_index(["space", "capacity", "weight"])
    cell = rows.loc[("noise", 4, 10.0)]["accuracy"].tolist()
    assert cell == sweep.accuracy[1, 1, 1].tolist()


def test_a_run_without_labels_has_no_accuracy():
    from dataclasses import replace

    run = marc.run(marc.MARC("classes"), replace(STREAM, row_labels=None))
    assert "accuracy" not in run.to_dict()
    assert "accuracy" not in repr(run)


def test_html_is_escaped():
    from dataclasses import replace

    assert "<b>" not in replace(STREAM, name="<b>")._repr_html_()


def test_without_pandas_and_polars_the_error_says_what_to_install(monkeypatch):
    known = importlib.util.find_spec
    hidden = lambda name: None if name in ("pandas", "polars") else known(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    with pytest.raises(MarcError, match="pip install pandas"):
        STREAM.to_frame()


def test_polars_is_taken_where_pandas_is_not(monkeypatch):
    class Polars:
        DataFrame = builtins.dict

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "polars" or None)
    monkeypatch.setattr(importlib, "import_module", lambda name: Polars)
    assert set(STREAM.to_frame()) == {"item", "id", "label"}


def test_a_comparison_is_a_line_for_each_run():
    runs = [marc.run(marc.MARC(space), STREAM) for space in ("classes", "noise", "styles")]
    title, *lines = repr(marc.compare(*runs, against=None)).splitlines()
    assert title.startswith("Comparison with marc, in points")
    assert len(lines) == 2
    assert all("[" in line and len(line) < 80 for line in lines)

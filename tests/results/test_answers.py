import csv
import io
from dataclasses import replace

import numpy as np
import pytest

import marc
from marc.results.answers import answers_of


@pytest.fixture(scope="module")
def stream():
    return marc.load_stream("lab/sketch-12")


@pytest.fixture(scope="module")
def run(stream):
    return marc.run(marc.create_method("class-means", spaces=("labels",)), stream.shuffled(1))


def test_rows_are_the_stored_images_whatever_the_order(run, stream):
    table = answers_of(run, stream).columns
    assert list(table) == [
        *("file", "base_answer", "answer", "base_confidence", "confidence", "changed"),
        *("label", "right", "base_right"),
    ]
    assert table["file"] == list(stream.features.ids)
    names = stream.features.class_names
    for position in (0, 7, len(run.order) - 1):  # slowly, one by one
        row = run.order[position]
        assert table["answer"][row] == names[run.predictions[position]]
        assert table["base_answer"][row] == names[run.base_predictions[position]]
        assert table["label"][row] == names[stream.row_labels[row]]
        sure = run.certainty.confidence[position]
        assert table["confidence"][row] == pytest.approx(sure, abs=1e-6)
        assert table["right"][row] == (table["answer"][row] == table["label"][row])
        assert table["changed"][row] == (table["answer"][row] != table["base_answer"][row])
    assert np.mean(table["right"]) == run.accuracy
    assert np.mean(table["base_right"]) == run.base_accuracy


def test_without_labels_and_probabilities(run, stream):
    plain = replace(run, labels=None, certainty=None)
    text = answers_of(plain, stream, {"nearest": ["a"] * len(stream)}).csv().decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(stream)
    assert "label" not in rows[0]
    assert rows[0]["confidence"] == ""
    assert 0 < float(rows[0]["base_confidence"]) <= 1
    assert rows[0]["nearest"] == "a"
    assert {row["changed"] for row in rows} == {"true", "false"}


def test_any_text_is_written_as_text():
    names, ids = ["=1+1", 'a,"b"\nc', "été"], ["x\udcff.png", "-2.png", "c"]
    rows = np.eye(3, dtype=np.float32)
    stream = marc.Stream.from_arrays(rows, rows, {"s": rows}, class_names=names, ids=ids)
    table = answers_of(marc.run(marc.MARC(space="s"), stream), stream)
    text = table.csv()
    read = list(csv.reader(io.StringIO(text.decode("utf-8", "surrogateescape"))))
    assert [row[0] for row in read[1:]] == ["x\udcff.png", "'-2.png", "c"]
    assert [row[2] for row in read[1:]] == ["'=1+1", *names[1:]]
    parquet = pytest.importorskip("pyarrow.parquet")
    stored = parquet.read_table(io.BytesIO(table.parquet())).to_pydict()
    assert stored["answer"] == names
    assert stored["file"] == ["x\\udcff.png", "-2.png", "c"]
    assert stored["changed"] == [False] * 3


def test_parquet_without_pyarrow_says_what_to_install(run, stream, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(marc.MarcError, match=r"needs the package pyarrow.*\n.*marc-clip\[hf\]"):
        answers_of(run, stream).parquet()


def test_what_does_not_fit_is_refused(run, stream):
    with pytest.raises(marc.MarcError, match="another stream"):
        answers_of(run, stream.sample(5))
    with pytest.raises(marc.MarcError, match="no further column"):
        answers_of(run, stream, {"nearest": ["a"]})
    with pytest.raises(marc.MarcError, match="no further column"):
        answers_of(run, stream, {"answer": ["a"] * len(stream)})

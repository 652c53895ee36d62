"""What other tools read: the same answers, classes, pictures and neighbours, under their names."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import marc
from marc.report import exchange
from marc.results.answers import answers_of


@pytest.fixture(scope="module")
def stream():
    return marc.load_stream("lab/sketch-12").subset(np.arange(150))


@pytest.fixture(scope="module")
def run(stream):
    method = marc.create_method("class-means", spaces=("labels",))
    return marc.run(method, stream.shuffled(1))


@pytest.fixture
def export(run, stream, tmp_path):
    def write(to, run=run, stream=stream, **options):
        if to in ("atlas", "hf", "parquet"):
            pytest.importorskip("pyarrow")
        options = {"pictures": picture, **options}
        return marc.export(run, to, tmp_path / "out", stream=stream, **options)

    return write


def picture(row):
    """Every fifth picture is missing."""
    return np.full((20, 30, 3), row, np.uint8) if row % 5 else None


def table_in(path):
    return pytest.importorskip("pyarrow.parquet").read_table(path)


def test_a_table_is_the_answers_of_the_run(export, run, stream, tmp_path):
    export("csv")
    assert (tmp_path / "out").read_bytes() == answers_of(run, stream).csv()
    (tmp_path / "out").unlink()
    export("parquet")
    expected = answers_of(run, stream).columns
    assert table_in(tmp_path / "out").to_pydict() == {n: [*each] for n, each in expected.items()}


def test_the_atlas_has_pictures_maps_and_neighbours_that_came_before(export, run, stream, tmp_path):
    pytest.importorskip("sklearn")
    done = export("atlas", spaces=["labels", "captions"])
    columns = table_in(tmp_path / "out").to_pydict()
    assert [*columns][:4] == ["file", "image", "base_answer", "answer"]
    assert [*columns][-5:] == ["x_labels", "y_labels", "x_captions", "y_captions", "neighbors"]
    assert done.n_pictures == 120 == sum(each is not None for each in columns["image"])
    assert columns["image"][5] is None
    shown = Image.open(io.BytesIO(columns["image"][7]["bytes"]))
    assert np.abs(np.asarray(shown).astype(int) - 7).max() <= 1
    assert len({*zip(columns["x_labels"], columns["y_labels"], strict=True)}) == 150
    arrived = {row: time for time, row in enumerate(run.order.tolist())}
    keys = stream.features.keys("labels")
    for row, near in enumerate(columns["neighbors"]):
        assert len(near["ids"]) == len(near["distances"]) == 11
        assert near["ids"][0] == row
        others = [each for each in near["ids"] if each != row]
        assert all(arrived[each] < arrived[row] for each in others)
        assert len(others) == min(10, arrived[row])  # fewer classes than are remembered of each
        expected = [0, *(1 - keys[each] @ keys[row] for each in others)]
        assert near["distances"][: len(expected)] == pytest.approx(expected, abs=1e-5)
    words = "--image image --x x_labels --y y_labels --neighbors neighbors"
    assert done.commands == (f"embedding-atlas {tmp_path / 'out'} {words}",)


def test_without_a_library_for_maps_the_vectors_are_there(export, stream, tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "_MOST_MAPPED", 149)
    done = export("atlas", spaces=["labels"], pictures=lambda row: None)
    assert done.n_pictures == 0
    columns = table_in(tmp_path / "out").to_pydict()
    assert "image" not in columns
    assert np.array_equal(columns["vector_labels"], stream.features.keys("labels"))
    assert "--image" not in done.commands[0]
    assert "--vector vector_labels" in done.commands[0]


def test_the_hub_is_told_of_classes_and_pictures(export, run, stream, tmp_path):
    export("hf")
    [path] = (tmp_path / "out" / "data").iterdir()
    assert path.name == "test-00000-of-00001.parquet"
    table, names = table_in(path), [*stream.features.class_names]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert {*features} == {*table.column_names}
    assert features["image"] == {"_type": "Image"}
    assert features["confidence"] == {"_type": "Value", "dtype": "float64"}
    for name in ("label", "answer", "base_answer"):
        assert features[name] == {"_type": "ClassLabel", "names": names}
    answers = run.by_image()
    assert table["label"].to_pylist() == answers.labels.tolist()
    assert table["answer"].to_pylist() == answers.predictions.tolist()
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"{100 * run.accuracy:.2f} %" in card
    assert "settings fixed" in card
    yaml = pytest.importorskip("yaml")
    [config] = yaml.safe_load(card.split("---")[1])["configs"]
    assert config["data_files"] == [{"split": "test", "path": "data/test-*"}]


def test_the_data_set_opens_as_such(export, tmp_path):
    datasets = pytest.importorskip("datasets")
    export("hf")
    opened = datasets.load_dataset(str(tmp_path / "out"), split="test")
    assert opened.features["label"].names[0]
    assert opened[1]["image"].size == (30, 20)


def test_classes_of_one_name_are_two_and_what_is_unknown_has_a_type(export, run, stream, tmp_path):
    twins = replace(stream.features, class_names=("crane",) * stream.n_classes)
    plain = replace(run, certainty=None, labels=None)
    export("hf", run=plain, stream=replace(stream, features=twins, row_labels=None))
    [path] = (tmp_path / "out" / "data").iterdir()
    features = json.loads(table_in(path).schema.metadata[b"huggingface"])["info"]["features"]
    assert len({*features["answer"]["names"]}) == stream.n_classes
    assert features["confidence"]["dtype"] == "float64"
    assert "label" not in features
    assert (
        "right" not in (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("Col")[0]
    )


def test_samples_have_two_predictions_and_tags(export, run, stream, tmp_path):
    done = export("fiftyone")
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    answers, names = run.by_image(), stream.features.class_names
    pictures = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert len(pictures) == done.n_pictures == 120
    assert pictures[0] == "000001.jpg"
    for row, sample in enumerate(samples):
        assert sample["filepath"] == f"data/{row:06}.jpg"
        assert sample["file"] == stream.features.ids[row]
        for field, labels in (("memory", answers.predictions), ("label", answers.labels)):
            assert sample[field]["_cls"] == "Classification"
            assert sample[field]["label"] == names[labels[row]]
        sure = answers.base_certainty.confidence[row]
        assert sample["base"]["confidence"] == pytest.approx(sure, abs=1e-6)
        assert "confidence" not in sample["label"]
        before, after = answers.base_correct[row], answers.correct[row]
        tags = ["changed"] if sample["base"]["label"] != sample["memory"]["label"] else []
        tags += [["broken", "repaired"][int(after)]] if before != after else []
        assert sample["tags"] == tags
    assert {tag for sample in samples for tag in sample["tags"]} >= {"changed", "repaired"}
    info = json.loads((tmp_path / "out" / "metadata.json").read_text())["info"]
    assert info["selection"] == "fixed"

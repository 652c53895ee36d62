"""Local Hugging Face data sets, written as the library writes them."""

import json
import pickle
import sys

import numpy as np
import pytest
from helpers import image_trees as trees

from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.decoding import Unreadable, read_picture

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": ["ant", "wild_bee"], "_type": "ClassLabel"},
}


def rows(n_rows, start=0, labels=None, features=FEATURES):
    """A table of pictures, each another one."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pictures = [{"bytes": trees.photo(start + row), "path": f"{row}.png"} for row in range(n_rows)]
    labels = [row % 2 for row in range(n_rows)] if labels is None else labels
    table = pa.table({"image": pa.array(pictures, kind), "label": labels, "extra": [0] * n_rows})
    notes = {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    return table.replace_schema_metadata(notes)


def save(table, path, *, stream=True):
    """An arrow file in one of its two forms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def save_to_disk(folder, tables):
    files = []
    for index, table in enumerate(tables):
        name = f"data-{index:05d}-of-{len(tables):05d}.arrow"
        save(table, folder / name)
        files.append({"filename": name})
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": "test"}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def parquet(table, path, rows_a_group=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=rows_a_group)
    return path


def seeds_shown(images):
    """Whether every place gives its own picture."""
    for seed, location in enumerate(images.locations):
        again = pickle.loads(pickle.dumps(location))  # noqa: S301
        np.testing.assert_array_equal(
            np.asarray(read_picture(again, upright=True)), trees.pixels(seed)
        )


def test_parquet_files_of_a_part(tmp_path):
    parquet(rows(5), tmp_path / "data" / "test-00000-of-00002.parquet")
    parquet(rows(3, start=5), tmp_path / "data" / "test-00001-of-00002.parquet")
    parquet(rows(2), tmp_path / "data" / "train-00000-of-00001.parquet")
    images = open_images(f"hf/{tmp_path}")
    assert len(images) == 8
    assert images.ids[4:6] == (
        "data/test-00000-of-00002.parquet#4",
        "data/test-00001-of-00002.parquet#0",
    )
    assert images.labels == (0, 1, 0, 1, 0, 0, 1, 0)
    assert images.class_names == ("ant", "wild bee")
    assert images.notes == ("the part 'test' is read; there are also: train",)
    seeds_shown(images)
    assert len(open_images(f"hf/{tmp_path}#train")) == 2
    with pytest.raises(MarcError, match=r"no such part(.|\n)*test, train"):
        open_images(f"hf/{tmp_path}#val")


def test_parquet_files_in_folders_and_with_other_names(tmp_path):
    parquet(rows(2), tmp_path / "default" / "test" / "0000.parquet")
    assert open_images(f"hf/{tmp_path}").ids[0] == "default/test/0000.parquet#0"
    parquet(rows(2), tmp_path / "other" / "test" / "0000.parquet")
    with pytest.raises(MarcError, match=r"several folders(.|\n)*other/test"):
        open_images(f"hf/{tmp_path}")


def test_parts_of_unknown_names_must_be_chosen(tmp_path):
    for part in ("north", "south"):
        parquet(rows(2), tmp_path / f"{part}-00000-of-00001.parquet")
    with pytest.raises(MarcError, match=r"several parts(.|\n)*#north"):
        open_images(f"hf/{tmp_path}")
    assert len(open_images(f"hf/{tmp_path}#south")) == 2


def test_a_saved_data_set(tmp_path):
    images = open_images(f"hf/{save_to_disk(tmp_path, [rows(5), rows(3, start=5)])}")
    assert len(images) == 8
    assert images.class_names == ("ant", "wild bee")
    seeds_shown(images)


def test_names_from_the_file_beside_and_the_other_form_of_arrow(tmp_path):
    save_to_disk(tmp_path, [rows(3, features=None)])
    save(rows(3, features=None), tmp_path / "data-00000-of-00001.arrow", stream=False)
    images = open_images(f"hf/{tmp_path}")
    assert images.class_names == ("ant", "wild bee")
    seeds_shown(images)


def test_several_saved_parts(tmp_path):
    for split in ("train", "test"):
        save_to_disk(tmp_path / split, [rows(2)])
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    images = open_images(f"hf/{tmp_path}")
    assert images.ids[0].startswith("test/")
    assert open_images(f"hf/{tmp_path}#train").ids[0].startswith("train/")


def test_a_row_without_a_picture_is_missing_and_a_named_file_is_read(tmp_path):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    trees.tree(tmp_path, "there.png")
    pictures = [{"bytes": None, "path": "there.png"}, {"bytes": None, "path": None}, None]
    table = pa.table({"image": pa.array(pictures, kind), "label": [0, 0, 0]})
    images = open_images(f"hf/{parquet(table, tmp_path / 'test.parquet').parent}")
    assert read_picture(images.locations[0], upright=True).size == (16, 12)
    for location in images.locations[1:]:
        with pytest.raises(Unreadable) as caught:
            read_picture(location, upright=True)
        assert caught.value.code == 1


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    folders = parquet(rows(4), tmp_path / "p" / "test.parquet", 4).parent, tmp_path / "s"
    save_to_disk(folders[1], [rows(4)])
    opened = [open_images(f"hf/{folder}") for folder in folders]
    for images in opened:
        seeds_shown(images)
    parquet(rows(2, start=7), folders[0] / "test.parquet", 4)
    save(rows(2, start=7), folders[1] / "data-00000-of-00001.arrow")
    for images in opened:
        shown = np.asarray(read_picture(images.locations[1], upright=True))
        np.testing.assert_array_equal(shown, trees.pixels(8))
        with pytest.raises(Unreadable) as caught:
            read_picture(images.locations[3], upright=True)
        assert caught.value.code == 1


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([-1, -1], (None, ("ant", "wild bee"))),
        ([None, None], (None, ("ant", "wild bee"))),
        (["cat", "a_b"], ((1, 0), ("a b", "cat"))),
    ],
)
def test_hidden_labels_and_labels_as_text(tmp_path, labels, expected):
    parquet(rows(2, labels=labels), tmp_path / "test.parquet")
    images = open_images(f"hf/{tmp_path}")
    assert (images.labels, images.class_names) == expected


def test_plain_bytes_and_no_labels(tmp_path):
    parquet(pa.table({"img": [trees.photo(0), trees.photo(1)]}), tmp_path / "test.parquet")
    images = open_images(f"hf/{tmp_path}")
    assert images.labels is None
    assert images.notes == ("no column of labels was found",)
    seeds_shown(images)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table({"text": ["a"]}), "no column of encoded pictures(.|\n)*text"),
        (pa.table({"image": [[1, 2]]}), "no column of encoded pictures"),
        (rows(2, labels=[0, 7]), "largest label is 7"),
        (rows(2, labels=[0, -1]), "row 1 has -1"),
        (rows(2, labels=[0, None]), "label is missing(.|\n)*row 1"),
        (rows(0, labels=pa.array([], pa.int64())), "no rows"),
    ],
)
def test_data_sets_that_are_refused(tmp_path, table, problem):
    parquet(table, tmp_path / "test.parquet")
    with pytest.raises(MarcError, match=problem):
        open_images(f"hf/{tmp_path}")


def test_files_that_differ_and_files_that_are_damaged(tmp_path):
    parquet(rows(2), tmp_path / "test-00000-of-00002.parquet")
    parquet(rows(2, features=None), tmp_path / "test-00001-of-00002.parquet")
    with pytest.raises(MarcError, match="differ in their columns"):
        open_images(f"hf/{tmp_path}")
    (tmp_path / "test-00001-of-00002.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(MarcError, match="cannot be read"):
        open_images(f"hf/{tmp_path}")
    saved = save_to_disk(tmp_path / "saved", [rows(2)])
    (saved / "data-00000-of-00001.arrow").write_bytes(b"nothing of the kind")
    with pytest.raises(MarcError, match="cannot be read"):
        open_images(f"hf/{saved}")
    (saved / "state.json").write_text(json.dumps({"_data_files": [], "_indices_files": [{}]}))
    with pytest.raises(MarcError, match="flatten_indices"):
        open_images(f"hf/{saved}")
    (saved / "state.json").write_text("{}")
    with pytest.raises(MarcError, match="does not list"):
        open_images(f"hf/{saved}")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_pictures_with_a_table(tmp_path, kind):
    trees.tree(tmp_path, "x/a.png", "b.png")
    listed = [{"file_name": "x/a.png", "label": "dog"}, {"file_name": "b.png", "label": "cat"}]
    if kind == "csv":
        text = "file_name,label\n" + "".join(f"{r['file_name']},{r['label']}\n" for r in listed)
    else:
        text = "\n".join(json.dumps(row) for row in listed)
    (tmp_path / f"metadata.{kind}").write_text(text)
    images = open_images(f"hf/{tmp_path}")
    assert images.ids == ("x/a.png", "b.png")
    assert images.labels == (1, 0)
    assert images.class_names == ("cat", "dog")
    seeds_shown(images)
    (tmp_path / f"metadata.{kind}").write_text("label\ncat\n" if kind == "csv" else '{"label": 1}')
    with pytest.raises(MarcError, match="names no picture"):
        open_images(f"hf/{tmp_path}")


def test_a_folder_that_is_no_data_set(tmp_path):
    trees.tree(tmp_path, "a.png")
    with pytest.raises(MarcError, match=r"no local data set folder(.|\n)*folder/"):
        open_images(f"hf/{tmp_path}")


def test_without_the_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MarcError, match=r"marc-clip\[hf\]"):
        open_images(f"hf/{tmp_path}")


def test_a_damaged_arrow_file_is_refused_and_does_not_end_the_process(tmp_path):
    """Places outside the file are found before they are followed."""
    file = save(rows(3), tmp_path / "d.arrow")
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "d.arrow"}]}))
    data = file.read_bytes()
    at = data.index(len(trees.photo(0)).to_bytes(4, "little"))  # where the first picture ends
    file.write_bytes(data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :])
    with pytest.raises(MarcError, match="cannot be read"):
        open_images(f"hf/{tmp_path}")


@pytest.mark.parametrize("name", ["/etc/hosts", "../d.arrow", "", 3, None])
def test_files_of_a_saved_set_lie_in_its_folder(name, tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(MarcError, match="does not list the data files"):
        open_images(f"hf/{tmp_path}")


@pytest.mark.parametrize("kind", ["bytes", "path"])
def test_a_number_in_place_of_a_picture_is_none(kind, tmp_path):
    struct = pa.struct(
        [("bytes", pa.int64() if kind == "bytes" else pa.binary()), ("path", pa.int64())]
    )
    value = {"bytes": 2**50 if kind == "bytes" else None, "path": 7}
    parquet(pa.table({"image": pa.array([value], struct)}), tmp_path / "all.parquet")
    with pytest.raises(Unreadable) as caught:
        read_picture(open_images(f"hf/{tmp_path}").locations[0], upright=True)
    assert caught.value.code == 1


def test_nested_notes_of_a_parquet_file_are_passed_over(tmp_path):
    table = rows(2).replace_schema_metadata({"huggingface": "[" * 100_000})
    parquet(table, tmp_path / "all.parquet")
    assert len(open_images(f"hf/{tmp_path}")) == 2

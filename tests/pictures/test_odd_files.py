"""Links in rings, pipes, devices and names of every kind, in all sources of pictures."""

import json
import os
from importlib.util import find_spec

import pytest
from helpers import image_trees as trees
from helpers.commands import call

from marc.errors import MarcError
from marc.pictures import open_images, with_class_names
from marc.pictures.decoding import Unreadable, read_picture

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
DEEP = "[" * 100_000


def ring(path):
    path.symlink_to(path.name)


def device(path):
    path.symlink_to("/dev/zero")


ODD = {"ring": ring, "pipe": os.mkfifo, "device": device}


def fate(images):
    found = []
    for location in images.locations:
        try:
            found.append(read_picture(location, upright=True).size)
        except Unreadable as problem:
            found.append(problem.code)
    return found


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_listed_pictures_that_are_no_plain_files_are_missing(make, tmp_path):
    trees.tree(tmp_path, "a/1.png")
    make(tmp_path / "a" / "x.png")
    long = "n" * 300
    names = ["a/1.png", "a/x.png", f"a/{long}.png"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *(f"{n},0" for n in names)]))
    (tmp_path / "metadata.jsonl").write_text(
        "\n".join(json.dumps({"file_name": name}) for name in names)
    )
    split = {"test": [[name, 0, "a"] for name in names]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    for source in (f"csv/{tmp_path}/list.csv", f"hf/{tmp_path}", f"coop/{tmp_path}/split.json"):
        images = open_images(source)
        assert fate(images) == [(16, 12), 1, 1]
        assert images.duplicates() == []


def test_a_link_to_itself_in_a_folder_is_a_missing_picture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trees.tree(tmp_path / "photos", "cat/1.png", "dog/1.png")
    ring(tmp_path / "photos" / "cat" / "loop.png")
    (tmp_path / "photos" / "one").symlink_to("two")
    (tmp_path / "photos" / "two").symlink_to("one")
    images = open_images("folder/photos")
    assert fate(images) == [(16, 12), 1, (16, 12)]
    assert {path for path, _ in images.passed_over} == {"one", "two"}
    words = ("--predictor", "none", "--encoder", "mini:pixels", "--workers", "0")
    outcome = call("embed", "folder/photos", *words)
    assert outcome.status == 0, outcome.err
    assert "quarantined: 1 picture (1 missing, or cannot be opened)" in outcome.out


@pytest.mark.skipif(find_spec("open_clip") is None, reason="it has the names of the classes")
def test_a_link_to_itself_beside_the_classes_of_imagenet_is_passed_over(tmp_path):
    trees.tree(tmp_path, "imagenet-a/n01498041/1.jpg")
    ring(tmp_path / "imagenet-a" / "a")
    assert fate(open_images("imagenet-a", tmp_path)) == [(16, 12)]


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("csv/{}/list.csv", "list.csv"),
        ("coop/{}/split.json", "split.json"),
        ("hf/{}", "state.json"),
        ("hf/{}", "all.parquet"),
        ("wds/{}", "000.tar"),
        ("wds/{}/000.tar", "000.tar"),
        ("wds/{}/*.tar", "000.tar"),
    ],
)
def test_lists_that_are_no_plain_files_are_refused(make, source, file, tmp_path):
    make(tmp_path / file)
    with pytest.raises(MarcError):
        open_images(source.format(tmp_path))


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_class_names_that_are_no_plain_file_are_refused(make, tmp_path):
    trees.tree(tmp_path, "photos/cat/1.png")
    for name in ("names.txt", "names.json"):
        make(tmp_path / name)
        with pytest.raises(MarcError, match=r"plain file|no such file"):
            with_class_names(open_images(f"folder/{tmp_path}/photos"), tmp_path / name)


@pytest.mark.parametrize("kind", ["folder", "csv", "coop", "hf", "wds"])
@pytest.mark.parametrize("name", ["n" * 5000, "\ud800", "a/" * 3000])
def test_paths_that_no_file_can_have_are_refused(kind, name, tmp_path):
    with pytest.raises(MarcError):
        open_images(f"{kind}/{tmp_path}/{name}")


@pytest.mark.parametrize("content", [DEEP, '"\\ud800"', "9" * 5000, "NaN", "[]", "\udcff", "{"])
@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("coop/{}/split.json", "split.json"),
        ("hf/{}", "metadata.jsonl"),
        ("hf/{}", "state.json"),
        ("hf/{}", "dataset_dict.json"),
    ],
)
def test_json_of_every_kind_is_refused(content, source, file, tmp_path):
    (tmp_path / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(MarcError):
        open_images(source.format(tmp_path))


def test_names_with_control_characters_are_shown_escaped_and_stay_distinct(tmp_path):
    folder = os.fsencode(tmp_path)
    names = [b"\x1b[31m", b"\x9b", "\x9b".encode(), b"a\nb", b"a\\x0ab", b"\x7f", "é".encode()]
    for name in names:
        with open(os.path.join(folder, name + b".png"), "wb") as file:  # noqa: PTH118, PTH123
            file.write(trees.photo(0))
    images = open_images(f"folder/{tmp_path}")
    assert {name.removesuffix(".png") for name in images.ids} == {
        *("\\x1b[31m", "\\x9b", "\\u009b", "a\\x0ab", "a\\\\x0ab", "\\x7f", "é")
    }
    assert fate(images) == [(16, 12)] * len(names)


def test_class_names_with_control_characters_are_refused(tmp_path):
    trees.tree(tmp_path, "photos/cat/1.png")
    (tmp_path / "names.txt").write_text("a\x1b[31m\n")
    with pytest.raises(MarcError, match="line 1"):
        with_class_names(open_images(f"folder/{tmp_path}/photos"), tmp_path / "names.txt")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_picture_under_two_labels_is_refused(kind, tmp_path):
    trees.tree(tmp_path, "a.png")

    def write(first, second):
        rows = [("a.png", first), ("./a.png", second)]
        if kind == "csv":
            lines = ["file_name,label", *(f"{name},{label}" for name, label in rows)]
        else:
            lines = [json.dumps({"file_name": name, "label": label}) for name, label in rows]
        (tmp_path / f"metadata.{kind}").write_text("\n".join(lines))
        return open_images(f"hf/{tmp_path}")

    assert write(1, 1).notes == ("1 pictures are listed more than once",)
    with pytest.raises(MarcError, match="two labels"):
        write(0, 1)

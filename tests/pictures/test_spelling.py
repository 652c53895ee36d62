"""One spelling for each source of pictures."""

import json
import os
from pathlib import Path

import pytest
from helpers.image_trees import tree, write_split

from marc.errors import MarcError
from marc.pictures import canonical, open_images


@pytest.fixture
def here(tmp_path, monkeypatch):
    tree(tmp_path / "here" / "photos", "cat/1.png", "dog/1.png")
    (tmp_path / "here" / "list.csv").write_text("path,label\nphotos/cat/1.png,cat\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("folder/photos", "folder/photos"),
        ("folder/~", "folder/{home}"),
        ("~/x/", "~/x/"),
        ("folder/~/photos", "folder/{home}/photos"),
        ("./~x", "./~x"),
        ("folder/./~x", "folder/./~x"),
        ("folder/..", "folder/{above}"),
        (".", "folder/{here}"),
        ("folder///{here}/photos", "folder/photos"),
        ("csv/./list.csv", "csv/list.csv"),
        ("list.csv", "csv/list.csv"),
        ("hf/photos/#train", "hf/photos#train"),
        ("wds/photos//{{0..3}}.tar", "wds/photos/{{0..3}}.tar"),
        ("photos/cat/1.png", "photos/cat/1.png"),
        ("imagenet-a", "imagenet-a"),
        ("folder/", "folder/"),
        ("lab/sketch-12", "lab/sketch-12"),
        ("", ""),
        ("a\0b", "a\0b"),
        ("folder/" + "x" * 5000, "folder/" + "x" * 5000),
    ],
)
def test_a_source_has_one_spelling(here, tmp_path, monkeypatch, text, expected):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    places = {"here": here, "above": tmp_path, "home": home}
    expected = expected.format(**places)
    assert canonical(text.format(**places)) == expected
    assert canonical(expected) == expected


def test_a_published_set_of_the_name_of_a_folder_stays_one(here):
    tree(here / "imagenet-a", "n1/1.png")
    assert canonical("imagenet-a") == "imagenet-a"
    assert canonical("imagenet-a/") == "folder/imagenet-a"


def test_links_keep_their_names_and_what_is_above_them_is_real(here, tmp_path):
    tree(tmp_path / "far" / "sets" / "birds", "1.png")
    tree(tmp_path / "far" / "sets" / "fish", "1.png")
    (here / "birds").symlink_to(tmp_path / "far" / "sets" / "birds")
    (here / "me").symlink_to(here)
    assert canonical("birds") == "folder/birds"
    assert canonical("folder/me/photos") == "folder/photos"
    assert canonical("birds/../fish") == f"folder/{tmp_path}/far/sets/fish"


def test_the_name_and_the_pictures_are_those_of_the_spelling(here):
    plain = open_images(Path("photos"))
    assert plain.name == "folder/photos"
    assert plain == open_images(f"folder/{here}/photos/")
    assert open_images("list.csv").labels == (0,)


def test_a_plain_split_file_is_read_in_its_parts(here):
    write_split(here / "split.json", ["cat", "dog"])
    rows = [row for part in json.loads((here / "split.json").read_text()).values() for row in part]
    tree(here, *(row[0] for row in rows))
    assert open_images("split.json").name == "coop/split.json"
    assert canonical("./split.json#val") == "coop/split.json#val"
    assert Path(open_images("split.json#val").ids[0]).name.startswith("val_")


def test_where_there_is_no_current_folder_nothing_fails(here):
    gone = here / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert canonical("folder/photos/") == "folder/photos"


@pytest.mark.parametrize("name", ["photoz", "nonsense/x"])
def test_a_plain_name_of_nothing_is_said_to_be_no_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MarcError, match="there is no such folder"):
        open_images(name)

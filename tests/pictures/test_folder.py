"""Folders of pictures: order, labels, and everything odd that lies in them."""

import os
import random

import numpy as np
import pytest
from helpers import image_trees as trees
from hypothesis import given, settings
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.decoding import Unreadable, read_picture


def opened(folder):
    return open_images(f"folder/{folder}")


def fate(images):
    """What becomes of every picture: its size, or the code of the reason."""
    found = {}
    for name, location in zip(images.ids, images.locations, strict=True):
        try:
            found[name] = read_picture(location, upright=images.upright).size
        except Unreadable as problem:
            found[name] = problem.code
    return found


def test_the_odd_folder_behaves_as_documented(tmp_path):
    images = opened(trees.odd_folder(tmp_path / "odd"))
    assert fate(images) == {
        "bomb.png": 5,
        "deep.png": (16, 16),
        "empty.jpg": 2,
        "moving.gif": (8, 8),
        "plain.png": (16, 12),
        "print.jpg": (8, 8),
        "text.jpg": 3,
        "truncated.jpg": 4,
        "turned.jpg": (12, 16),  # it lies on its side in the file
    }
    assert dict(images.passed_over) == {
        ".jpg": "hidden: its name starts with a dot",
        "._plain.png": "hidden: its name starts with a dot",
        "text.txt": "no picture by its name",
    }
    assert images.labels is None
    assert images.class_names == ()
    assert set(Unreadable.REASONS) == {1, 2, 3, 4, 5}


def test_folders_are_labels_and_deeper_folders_belong_to_them(tmp_path):
    root = trees.tree(tmp_path, "white_shark/deep/er/1.jpg", "cat/2.JPG", "cat/1.png")
    images = opened(root)
    assert images.name == f"folder/{root}"
    assert images.ids == ("cat/1.png", "cat/2.JPG", "white_shark/deep/er/1.jpg")
    assert images.labels == (0, 0, 1)
    assert images.class_names == ("cat", "white shark")
    picture = read_picture(images.locations[0], upright=True)
    np.testing.assert_array_equal(np.asarray(picture), trees.pixels(2))


def test_numbers_as_folders_are_in_number_order(tmp_path):
    images = opened(trees.tree(tmp_path, *(f"{number}/a.png" for number in (10, 9, 100, 2))))
    assert images.class_names == ("2", "9", "10", "100")
    assert images.ids == ("10/a.png", "100/a.png", "2/a.png", "9/a.png")  # paths in byte order
    assert images.labels == (2, 3, 0, 1)
    assert any("order of the numbers" in note for note in images.notes)


def test_one_name_among_numbers_makes_all_of_them_names(tmp_path):
    images = opened(trees.tree(tmp_path, "10/a.png", "9/a.png", "b/a.png"))
    assert images.class_names == ("10", "9", "b")
    assert images.notes == ()


def test_pictures_beside_class_folders_are_an_error(tmp_path):
    trees.tree(tmp_path, "cat/1.png", "dog/1.png", "stray.png")
    with pytest.raises(MarcError, match=r"beside class folders(.|\n)*stray\.png \(1 in all\)"):
        opened(tmp_path)


def test_a_folder_without_pictures_is_no_class(tmp_path):
    trees.tree(tmp_path, "cat/1.png")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("x")
    images = opened(tmp_path)
    assert images.class_names == ("cat",)
    assert dict(images.passed_over)["notes/"] == "no pictures in it: no class"
    assert dict(images.passed_over)["notes/a.txt"] == "no picture by its name"


def test_pictures_beside_an_empty_folder_have_no_labels(tmp_path):
    trees.tree(tmp_path, "1.png", "2.png")
    (tmp_path / "empty").mkdir()
    assert opened(tmp_path).labels is None


def test_folders_named_like_parts_are_told_of(tmp_path):
    images = opened(trees.tree(tmp_path, "train/1.png", "val/1.png"))
    assert f"did you mean folder/{tmp_path}/val?" in images.notes[0]


def test_a_folder_without_pictures_is_an_error(tmp_path):
    (tmp_path / "a.heic").write_bytes(b"x")
    with pytest.raises(MarcError, match=r"no pictures(.|\n)*\.heic pictures cannot be read"):
        opened(tmp_path)
    with pytest.raises(MarcError, match="no such folder"):
        opened(tmp_path / "gone")


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_names_that_are_no_text_get_distinct_ids(tmp_path):
    folder = os.fsencode(tmp_path)
    for name in (b"caf\xe9.png", b"caf\\xe9.png", "café.png".encode()):
        with open(os.path.join(folder, name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(trees.photo(1))
    images = opened(tmp_path)
    assert set(images.ids) == {"caf\\xe9.png", "caf\\\\xe9.png", "café.png"}
    assert set(fate(images).values()) == {(16, 12)}
    assert len(images.digest) == 64
    assert "".join(images.ids).encode()  # can be written to any file


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_rings_of_links_end_and_links_elsewhere_are_followed(tmp_path):
    root = trees.tree(tmp_path / "root", "cat/1.png", "dog/1.png")
    elsewhere = trees.tree(tmp_path / "elsewhere", "1.png", "2.png")
    (root / "cat" / "up").symlink_to(root)
    (root / "cat" / "above").symlink_to(tmp_path)
    (root / "dog" / "side").symlink_to(root / "cat")
    (root / "fox").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(root)
    (root / "wolf").symlink_to(elsewhere)  # the same pictures twice
    (root / "dog" / "broken.png").symlink_to(tmp_path / "gone.png")
    images = opened(root)
    assert fate(images) == {
        "cat/1.png": (16, 12),
        "dog/1.png": (16, 12),
        "dog/broken.png": 1,
        "fox/1.png": (16, 12),
        "fox/2.png": (16, 12),
    }
    passed = {path for path, why in images.passed_over if "link" in why}
    assert passed == {"cat/up", "cat/above", "dog/side", "fox/back", "wolf"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_pipe_with_the_name_of_a_picture_does_not_block(tmp_path):
    trees.tree(tmp_path, "1.png")
    os.mkfifo(tmp_path / "2.png")
    (tmp_path / "3.png").symlink_to(tmp_path / "2.png")
    images = opened(tmp_path)
    assert images.ids == ("1.png",)
    assert dict(images.passed_over) == {"2.png": "no plain file", "3.png": "no plain file"}


# names that start alike: as bytes, `a-b/`, `a b/` and `a.b/` come before `a/`
_NAMES = st.sampled_from(["a", "a-b", "a b", "a.b", "a0", "b", "é", "Z", "10", "9"])


@settings(max_examples=40, deadline=None)
@given(
    paths=st.sets(st.lists(_NAMES, min_size=2, max_size=4).map("/".join), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
)
def test_the_order_does_not_depend_on_the_file_system(tmp_path_factory, paths, seed):
    """Whatever order the system lists entries in, the list is the one of sorted paths."""
    root = tmp_path_factory.mktemp("order")
    for path in paths:
        (root / f"{path}.png").parent.mkdir(parents=True, exist_ok=True)
        (root / f"{path}.png").write_bytes(b"x")
    before = opened(root)
    original = os.scandir

    class Shuffled:
        def __init__(self, path):
            with original(path) as found:
                self.entries = list(found)
            random.Random(seed).shuffle(self.entries)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *error):
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", Shuffled)
        after = opened(root)
    assert before == after
    assert list(before.ids) == sorted((f"{path}.png" for path in paths), key=os.fsencode)
    folders = {path.partition("/")[0] for path in paths}
    numbers = all(folder.isdigit() for folder in folders)
    classes = sorted(folders, key=int if numbers else os.fsencode)
    assert before.labels == tuple(classes.index(name.partition("/")[0]) for name in before.ids)

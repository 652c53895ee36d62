"""Tables, split files, class names and duplicates."""

import json

import pytest
from helpers import image_trees as trees

from marc.errors import MarcError
from marc.pictures import FileBytes, ImageSet, open_images, with_class_names
from marc.pictures.decoding import Unreadable, read_picture


def table(folder, text, name="list.csv", encoding="utf-8"):
    trees.tree(folder, "a.png", "b.png", "sub/c.png")
    (folder / name).write_bytes(text.encode(encoding))
    return f"csv/{folder / name}"


def test_a_table_with_names(tmp_path):
    images = open_images(table(tmp_path, "path,label\nsub/c.png,wild_cat\nb.png,ant\na.png,ant\n"))
    assert images.ids == ("sub/c.png", "b.png", "a.png")  # the order of the file
    assert images.labels == (1, 0, 0)
    assert images.class_names == ("ant", "wild cat")
    assert images.upright
    assert read_picture(images.locations[0], upright=True).size == (16, 12)


def test_a_table_with_numbers_other_columns_and_marks_of_other_systems(tmp_path):
    text = '\ufefflabel,path,size\r\n3,"a.png",x\r\n0,./b.png,y\r\n\r\n'
    images = open_images(table(tmp_path, text))
    assert images.ids == ("a.png", "b.png")
    assert images.labels == (3, 0)
    assert images.class_names == ()
    assert images.notes == ("columns not used: size",)


def test_a_table_without_labels_with_tabs_and_a_root(tmp_path):
    source = table(tmp_path / "lists", "path\nx.png\n", "list.tsv")
    trees.tree(tmp_path / "pictures", "x.png")
    images = open_images(source, tmp_path / "pictures")
    assert (images.ids, images.labels) == (("x.png",), None)
    assert read_picture(images.locations[0], upright=True)


def test_a_missing_picture_stays_in_the_list(tmp_path):
    images = open_images(table(tmp_path, "path,label\na.png,x\ngone.png,x\n"))
    assert images.ids == ("a.png", "gone.png")
    with pytest.raises(Unreadable) as caught:
        read_picture(images.locations[1], upright=True)
    assert caught.value.code == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no column `path`"),
        ("a.png,x\nb.png,y\n", "no column `path`"),
        ("path;label\na.png;x\n", "no column `path`(.|\n)*commas"),
        ("path,path\na.png,x\n", "column twice"),
        ("path,label\n", "lists no pictures"),
        ("path,label\na.png,x\nb.png\n", "line 3 has 1"),
        ("path,label\na.png,x\n,y\n", "path is missing(.|\n)*line 3"),
        ("path,label\na.png,x\nb.png,\n", "label is missing(.|\n)*line 3"),
        ("path,label\na.png,x\nb.png,y\n./a.png,x\n", "a.png in line 2 and line 4"),
        ("path,label\na.png,x\nb.png,7\n", "line 3 has '7', line 2 has 'x'"),
        ("path,label\na.png,-1\n", "out of range(.|\n)*line 2 has -1"),
        ("path,label\na.png,99999999\n", "out of range"),
        ("path,label\nu.png,x\nv.png,y\n", "none of the 2 pictures(.|\n)*--root"),
        ('path,label\n"a.png,x\n', "cannot be read"),
    ],
)
def test_tables_that_are_refused(tmp_path, text, problem):
    with pytest.raises(MarcError, match=problem):
        open_images(table(tmp_path, text))


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(MarcError, match=r"UTF-8(.|\n)*byte 13"):
        open_images(table(tmp_path, "path,label\nab\xe9.png,x\n", encoding="latin-1"))
    with pytest.raises(MarcError, match="no such file"):
        open_images(f"csv/{tmp_path / 'gone.csv'}")


def split(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "split.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return f"coop/{folder / 'split.json'}"


ROWS = {
    "train": [["b/0.jpg", 1, "sea_lion"], ["c/0.jpg", 2, "crab"]],
    "val": [["a/1.jpg", 0, "ant"]],
    "test": [["b/2.jpg", 1, "sea_lion"], ["a/2.jpg", 0, "ant"]],
}


def test_a_split_file_finds_its_pictures_and_all_classes(tmp_path):
    source = split(tmp_path, ROWS)
    trees.tree(tmp_path / "images", "a/2.jpg", "b/2.jpg", "a/1.jpg")
    (tmp_path / "annotations").mkdir()
    images = open_images(source)
    assert images.ids == ("b/2.jpg", "a/2.jpg")
    assert images.labels == (1, 0)
    assert images.class_names == ("ant", "sea lion", "crab")  # crab is in the training part only
    assert not images.upright
    assert read_picture(images.locations[0], upright=False).size == (16, 12)
    assert open_images(f"{source}#val").ids == ("a/1.jpg",)
    assert open_images(source, tmp_path / "images").locations == images.locations


def test_pictures_that_a_split_file_lists_twice_stay_two(tmp_path):
    trees.tree(tmp_path, "a.jpg")
    images = open_images(split(tmp_path, {"test": [["a.jpg", 0, "a"], ["a.jpg", 0, "a"]]}))
    assert images.ids == ("a.jpg", "a.jpg#2")
    assert images.notes == ("1 pictures are listed more than once",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not JSON"),
        ([], "no split file"),
        ({"testing": []}, "no split file"),
        ({"test": {}}, "is no list"),
        ({"test": [], "train": ROWS["train"]}, "'test' is empty(.|\n)*train"),
        ({"test": [["a.jpg", "0", "a"]]}, r"test\[0\]"),
        ({"test": [["a.jpg", True, "a"]]}, r"test\[0\]"),
        ({"test": [["a.jpg", 0]]}, r"test\[0\]"),
        ({"test": [["a.jpg", 0, "a"], ["b.jpg", 0, "b"]]}, "label 0 is 'a', but 'b' at b.jpg"),
        ({"test": [["a.jpg", 0, "a"], ["b.jpg", 2, "b"]]}, "no entry has label 1"),
        (ROWS, "none of the 2 pictures"),
        ({"test": [["\ud800.jpg", 0, "\ud800"]]}, "not JSON"),
    ],
)
def test_split_files_that_are_refused(tmp_path, content, problem):
    with pytest.raises(MarcError, match=problem):
        open_images(split(tmp_path, content))


def test_a_part_that_does_not_exist(tmp_path):
    with pytest.raises(MarcError, match="unknown part"):
        open_images(split(tmp_path, ROWS) + "#testing")


def labelled(labels=(0, 1, 1), names=("red ant", "bee")):
    places = tuple(FileBytes(str(index)) for index in range(3))
    return ImageSet("folder/x", ("a", "b", "c"), places, labels, names)


def written(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("n.txt", "fire ant\nhoney bee\n\n", ("fire ant", "honey bee")),
        ("n.json", ["fire ant", "honey bee"], ("fire ant", "honey bee")),
        ("n.json", {"red_ant": "fire ant"}, ("fire ant", "bee")),
        ("n.json", {"red ant": "fire ant", "bee": "wasp"}, ("fire ant", "wasp")),
    ],
)
def test_class_names_can_be_given(tmp_path, name, content, expected):
    images = with_class_names(labelled(), written(tmp_path, name, content))
    assert images.class_names == expected
    assert (images.ids, images.labels) == (labelled().ids, labelled().labels)


def test_class_names_for_pictures_without_labels_or_names(tmp_path):
    names = written(tmp_path, "n.txt", "a\nb\nc\n")
    assert with_class_names(labelled(None, ()), names).class_names == ("a", "b", "c")
    assert with_class_names(labelled((0, 1, 1), ()), names).class_names == ("a", "b", "c")
    with pytest.raises(MarcError, match="3 names, but the largest label is 3"):
        with_class_names(labelled((0, 1, 3), ()), names)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("n.txt", "a\nb\nc\n", "has 2 classes(.|\n)*3 names"),
        ("n.txt", "a\n", "1 names"),
        ("n.txt", "", "no class names"),
        ("n.txt", "a\n\nb", "line 2 is ''"),
        ("n.json", ["a", 3], "name 2 is 3"),
        ("n.json", '"ab"', "no class names"),
        ("n.json", "{", "not JSON"),
        ("n.json", {"wasp": "x"}, "not the name of a class(.|\n)*wasp"),
        ("n.json", {}, "not the name of a class"),
    ],
)
def test_class_names_that_are_refused(tmp_path, name, content, problem):
    with pytest.raises(MarcError, match=problem):
        with_class_names(labelled(), written(tmp_path, name, content))


class InMemory:
    """A place whose size is not known without reading it."""

    def __init__(self, data):
        self.data = data

    def read(self):
        if self.data is None:
            raise FileNotFoundError
        return self.data


def test_equal_files_are_found_and_few_are_read(tmp_path):
    for name, data in {"a": b"one", "b": b"two", "c": b"one", "d": b"three", "e": b"two"}.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    for name in ("empty1.png", "empty2.png"):
        (tmp_path / name).write_bytes(b"")
    images, calls = open_images(f"folder/{tmp_path}"), []
    groups = images.duplicates(lambda *step: calls.append(step))
    assert groups == [["a.png", "c.png"], ["b.png", "e.png"]]
    assert calls == [("comparing files", done, 4) for done in (1, 2, 3, 4)]  # not d, not empty


def test_equal_pictures_in_other_places_are_found(tmp_path):
    (tmp_path / "x").write_bytes(b"..same..")
    places = (
        InMemory(b"same"),
        FileBytes(str(tmp_path / "x"), 2, 4),
        InMemory(None),
        FileBytes(str(tmp_path / "gone")),
        InMemory(b"other"),
    )
    images = ImageSet("x", ("a", "b", "c", "d", "e"), places)
    assert images.duplicates() == [["a", "b"]]


def test_one_file_by_two_paths_is_listed_twice(tmp_path):
    trees.tree(tmp_path, "a/1.png")
    (tmp_path / "list.csv").write_text("path,label\na/1.png,ant\na/../a/1.png,bee\n")
    with pytest.raises(MarcError, match="listed twice"):
        open_images(f"csv/{tmp_path / 'list.csv'}")

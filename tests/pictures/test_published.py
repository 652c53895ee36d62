"""Published sets on small fake trees with their real layout."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from helpers import image_trees as trees
from helpers.repository import ROOT

from marc.errors import MarcError
from marc.pictures import NAMED_SETS, imagenet, open_images
from marc.pictures.coop import _EUROSAT_NAMES, CROSS_DOMAIN_SETS
from marc.pictures.decoding import Unreadable, read_picture
from marc.pictures.imagenet import IMAGENET_SETS

TENCH, GOLDFISH, STINGRAY = "n01440764", "n01443537", "n01498041"


@pytest.fixture
def lists():
    for package in ("timm", "open_clip"):
        if find_spec(package) is None:  # importing them would take torch
            pytest.skip(f"no {package}")
    return imagenet


def test_the_lists_are_those_of_the_packages_and_nothing_heavy_is_imported(lists):
    code = """import sys
from marc.pictures.imagenet import _class_names, _wordnet_ids
print(len(_class_names()), len(_wordnet_ids("imagenet")), len(_wordnet_ids("imagenet-a")))
print([name for name in ("torch", "timm", "open_clip", "pyarrow", "PIL") if name in sys.modules])"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["1000 1000 200", "[]"]


def test_labels_of_the_small_sets_are_sorted_ids_and_their_masks_are_timms(lists):
    all_ids = lists._wordnet_ids("imagenet")
    assert list(all_ids) == sorted(set(all_ids))
    for classes in ("imagenet-a", "imagenet-r"):
        ids = lists._wordnet_ids(classes)
        assert list(ids) == sorted(set(ids))
        mask = lists._labels_within_imagenet(classes)
        assert [all_ids[index] for index in mask] == list(ids)
        stored = imagenet._package_file(
            "timm", "data", "_info", f"{classes.replace('-', '_')}_indices.txt"
        )
        assert [int(line) for line in stored.read_text().split()] == list(mask)


def test_names_are_those_that_open_clip_would_give(lists):
    file = Path(find_spec("open_clip").submodule_search_locations[0], "zero_shot_metadata.py")
    spec = spec_from_file_location("metadata_alone", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert lists._class_names() == tuple(module.IMAGENET_CLASSNAMES)


def test_names_that_imagenet_has_twice_are_still_there(lists):
    """They share a prototype: whoever reads the names must see it and not drop a class."""
    names = lists._class_names()
    assert [names[index] for index in (657, 744)] == ["missile"] * 2
    assert [names[index] for index in (836, 837)] == ["sunglasses"] * 2


def test_without_the_packages_the_error_says_what_to_install(monkeypatch):
    imagenet._class_names.cache_clear()
    monkeypatch.setattr(imagenet, "find_spec", lambda name: None)
    with pytest.raises(MarcError, match=r"open_clip: not installed(.|\n)*encoders"):
        imagenet._class_names()


@pytest.mark.parametrize(
    ("name", "below", "paths", "labels", "names"),
    [
        ("imagenet-val", "val", (f"{TENCH}/ILSVRC2012_val_00000293.JPEG", f"{GOLDFISH}/b.JPEG"),
         (0, 1), ("tench", "goldfish")),
        ("imagenet-val", "imagenet/images/val", (f"{GOLDFISH}/b.JPEG",), (1,), ("goldfish",)),
        ("imagenet-a", "imagenet-a", (f"{STINGRAY}/0.000348_chameleon _ box turtle_0.555.jpg",),
         (0,), ("stingray",)),
        ("imagenet-a", "imagenet-adversarial/imagenet-a", ("n01531178/x.jpg",), (1,),
         ("goldfinch",)),
        ("imagenet-r", "imagenet-r", (f"{GOLDFISH}/art_0.jpg",), (0,), ("goldfish",)),
        ("imagenet-r", "", (f"{STINGRAY}/art_0.jpg",), (3,), ("stingray",)),
        ("imagenet-sketch", "sketch", (f"{GOLDFISH}/sketch_0.JPEG",), (1,), ("goldfish",)),
        ("imagenet-sketch", "imagenet-sketch/images", (f"{TENCH}/s.JPEG",), (0,), ("tench",)),
        ("imagenet-v2", "imagenetv2-matched-frequency-format-val", ("1/a.jpeg", "999/a.jpeg"),
         (1, 999), ("goldfish", "toilet paper")),
        ("imagenet-v2", "imagenetv2/imagenetv2-matched-frequency-format-val",
         (f"{GOLDFISH}/a.jpeg",), (1,), ("goldfish",)),
    ],
)  # fmt: skip
def test_the_layouts_of_imagenet(lists, tmp_path, name, below, paths, labels, names):
    trees.tree(tmp_path / below, *paths)
    images = open_images(name, tmp_path)
    assert images.name == name
    assert images.ids == paths
    assert images.labels == labels
    assert tuple(images.class_names[label] for label in labels) == names
    assert len(images.class_names) == NAMED_SETS[name].classes
    assert (images.prompts, images.upright) == (("tip-7",), False)
    assert any("pictures; the published set has" in note for note in images.notes)
    assert read_picture(images.locations[0], upright=False).size == (16, 12)


def test_v2_is_in_number_order(lists, tmp_path):
    """Sorted as text the folders are 0, 1, 10, 11, 2, ...: labels would be permuted."""
    trees.tree(tmp_path, *(f"{number}/a.jpeg" for number in range(12)))
    images = open_images("imagenet-v2", tmp_path)
    assert [int(name.partition("/")[0]) for name in images.ids] == list(images.labels)
    assert images.ids[:4] == ("0/a.jpeg", "1/a.jpeg", "10/a.jpeg", "11/a.jpeg")
    assert images.labels[:4] == (0, 1, 10, 11)


def test_no_picture_of_imagenet_a_is_lost_by_its_name(lists, tmp_path):
    """Names hold predicted classes; a well-known helper loses those with the letters `sh`."""
    files = [f"0.0_{what}_0.5.jpg" for what in ("jellyfish", "washer _ mushroom", "shield", "ant")]
    trees.tree(tmp_path / "imagenet-a", *(f"{STINGRAY}/{file}" for file in files))
    (tmp_path / "imagenet-a" / "README.txt").write_text("x")
    trees.tree(tmp_path / "imagenet-a", "n99999999/1.jpg", f"{TENCH}/1.jpg")
    images = open_images("imagenet-a", tmp_path)
    assert sorted(images.ids) == sorted(f"{STINGRAY}/{file}" for file in files)
    assert dict(images.passed_over) == {
        "README.txt": "no picture by its name",
        f"{TENCH}/1.jpg": "not in a class folder of imagenet-a",
        "n99999999/1.jpg": "not in a class folder of imagenet-a",
    }


def test_the_published_counts_leave_no_note(lists, tmp_path, monkeypatch):
    trees.tree(tmp_path / "val", f"{TENCH}/a.JPEG", f"{GOLDFISH}/a.JPEG")
    small = replace(IMAGENET_SETS[0], images=2, classes=2)
    assert small.open(tmp_path).notes == ()


def test_flat_validation_pictures_are_explained(tmp_path):
    trees.tree(tmp_path / "val", "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(MarcError, match=r"without class folders(.|\n)*move the pictures"):
        open_images("imagenet-val", tmp_path)


@pytest.mark.parametrize("name", sorted(NAMED_SETS))
def test_a_missing_set_prints_what_is_expected(tmp_path, name):
    with pytest.raises(MarcError) as caught:
        open_images(name, tmp_path)
    folder = NAMED_SETS[name].layout.split("/")[0]
    assert f"{tmp_path / folder}" in str(caught.value)
    assert "nothing is downloaded" in str(caught.value)
    for root, problem in ((None, "needs the folder"), (tmp_path / "gone", "no such folder")):
        with pytest.raises(MarcError, match=problem):
            open_images(name, root)


def fake(published, root, names=("b_class", "a class")):
    """A small tree in the layout of a cross-domain set."""
    folder = root / published.folder
    pictures = folder / published.pictures
    if published.name == "fgvc-aircraft":
        trees.tree(pictures, "0034309.jpg", "1000001.jpg")
        (folder / published.split).write_text("0034309 737-400\n1000001 F/A-18\n")
        (folder / "variants.txt").write_text("707-320\n737-400\nF/A-18\n")
        return
    split = trees.write_split(folder / published.split, names)
    trees.tree(pictures, *(row[0] for row in split["test"]))


@pytest.mark.parametrize("published", CROSS_DOMAIN_SETS, ids=lambda published: published.name)
def test_the_layouts_of_the_cross_domain_sets(tmp_path, published):
    fake(published, tmp_path)
    images = open_images(published.name, tmp_path)
    assert images == open_images(published.name, tmp_path / published.folder)
    assert (images.name, images.prompts) == (published.name, (published.prompts,))
    assert not images.upright
    assert any(f"the published set has {published.images:,}" in note for note in images.notes)
    if published.name == "fgvc-aircraft":
        assert images.ids == ("0034309.jpg", "1000001.jpg")
        assert images.labels == (1, 2)
        assert images.class_names == ("707-320", "737-400", "F/A-18")
    else:
        assert images.ids[0] == "b_class/test_0.jpg"  # the order of the file, not of the names
        assert images.labels == (0, 0, 1, 1)
        assert images.class_names == ("b class", "a class")
    for seed, location in enumerate(images.locations):
        shown = np.asarray(read_picture(location, upright=False), dtype=float)
        assert np.abs(shown - trees.pixels(seed)).mean() < 60  # its own picture, not another


@pytest.mark.parametrize("given", [tuple(_EUROSAT_NAMES), tuple(_EUROSAT_NAMES.values())])
def test_eurosat_is_renamed_whether_or_not_the_split_file_was(tmp_path, given):
    published = next(each for each in CROSS_DOMAIN_SETS if each.name == "eurosat")
    fake(published, tmp_path, given)
    images = open_images("eurosat", tmp_path)
    assert images.class_names == tuple(_EUROSAT_NAMES.values())
    assert images.class_names[0] == "Annual Crop Land"
    assert any("AnnualCrop -> " in note for note in images.notes) == ("AnnualCrop" in given)


def test_a_line_of_aircraft_that_names_no_variant(tmp_path):
    published = next(each for each in CROSS_DOMAIN_SETS if each.name == "fgvc-aircraft")
    fake(published, tmp_path)
    (tmp_path / "fgvc_aircraft" / published.split).write_text("0034309 737-400\n1000001 Zeppelin\n")
    with pytest.raises(MarcError, match="line 2: '1000001 Zeppelin'"):
        open_images("fgvc-aircraft", tmp_path)


def test_all_published_sets_are_listed_with_their_sizes():
    assert len(NAMED_SETS) == 15
    assert NAMED_SETS["imagenet-a"].images == 7500
    assert NAMED_SETS["eurosat"].layout == "eurosat/split_zhou_EuroSAT.json and eurosat/2750/"
    assert NAMED_SETS["stanford-cars"].layout.endswith("and stanford_cars/")


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("imagenet_a", "imagenet-a --root DIR"),
        ("eurosatt", "eurosat --root DIR"),
        ("folder", "folder/DIR"),
        ("foldr/x", "folder/DIR"),
        ("{here}/list.txt", "csv/{here}/list.txt"),
        ("", "folder/DIR"),
    ],
)
def test_a_misspelt_source_gets_a_suggestion(tmp_path, monkeypatch, source, hint):
    (tmp_path / "list.txt").write_text("path\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MarcError) as caught:
        open_images(source.format(here=tmp_path))
    assert caught.value.hint == hint.format(here=tmp_path)


def test_a_root_folder_where_none_is_used_is_an_error(tmp_path):
    with pytest.raises(MarcError, match="takes no root"):
        open_images(f"folder/{tmp_path}", tmp_path)
    with pytest.raises(MarcError, match="no such root"):
        open_images("csv/x.csv", tmp_path / "gone")


def test_the_page_of_sources_has_every_set_and_every_reason():
    page = (ROOT / "docs" / "sources.md").read_text()
    prompts = {published.name: published.prompts for published in CROSS_DOMAIN_SETS}
    for name, known in NAMED_SETS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1:3] == [f"{known.images:,}", f"{known.classes:,}"]
        assert f"`{known.layout.split(' ')[0]}".rstrip("`/") in cells[3]
        assert cells[4] == f"`{prompts.get(name, 'tip-7')}`"
    for code, reason in Unreadable.REASONS.items():
        assert f"| {code} | {reason} |" in page

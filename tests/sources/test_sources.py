from pathlib import Path

import pytest
from helpers.commands import call
from helpers.image_trees import tree

import marc
from marc import MarcError
from marc.cli._options import open_stream
from marc.embed.store import FeatureStore
from marc.sources import draws_views, is_pictures, spelled


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("folders/images", "lab/sketch-12"),
        ("pack", "lab/sketch-12"),
        ("arrays", "arrays/FILE.npz"),
        ("arrays/", "arrays/FILE.npz"),
        ("", "lab/sketch-12"),
        ("lab/", "lab/NAME"),
        ("neon-12", "lab/neon-12"),
    ],
)
def test_another_spelling_of_a_source_gets_the_right_one(source, hint):
    with pytest.raises(MarcError) as refusal:
        marc.load_stream(source)
    message = str(refusal.value)
    assert message.startswith("a source is written type/name, and this type is not known.")
    assert "allowed:  arrays/FILE.npz, lab/NAME, store/DIR, folder/DIR" in message
    assert message.endswith(f"try:  {hint}")


@pytest.mark.parametrize("plain", ["pack.npz", "data/pack.npz", "/data/pack.npz"])
def test_a_plain_pack_is_opened_as_one(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert spelled(plain) == f"arrays/{plain}"
    with pytest.raises(MarcError, match="no such feature pack"):
        marc.load_stream(plain)


@pytest.fixture
def embedded(tmp_path, monkeypatch):
    """A folder with pictures and their store, made in the current folder."""
    here = tmp_path / "here"
    tree(here / "photos", *(f"{kind}/{n}.png" for kind in ("cat", "bird") for n in range(20)))
    (tmp_path / "linked").symlink_to(here)
    monkeypatch.chdir(here)
    marc.embed("folder/photos", ["mini:pixels"], predictor="mini:captions", workers=0)
    return here


SAME = [
    *(
        "photos",
        "photos/",
        "./photos",
        "folder/photos/",
        "folder/./photos",
        "folder//{here}/photos",
    ),
    *("{here}/photos", "{here}/../here/photos/", "folder/photos/cat/..", "{here}/../linked/photos"),
]


def test_a_folder_has_one_store_however_it_is_spelled(embedded):
    for text in SAME:
        text = text.format(here=embedded)
        assert spelled(text) == "folder/photos"
        assert is_pictures(text)
        assert FeatureStore.default_path(text) == Path("stores/folder-photos")
        assert marc.load_stream(text).source == "folder/photos"
    again = marc.embed("./photos", ["mini:pixels"], predictor="mini:captions", workers=0)
    assert len(again) == 40
    assert [each.name for each in Path("stores").iterdir()] == ["folder-photos"]


def test_commands_take_a_plain_folder_a_plain_store_and_a_plain_pack(embedded):
    for words in (["geometry", "photos/"], ["select", f"{embedded}/photos"], ["run", "./photos"]):
        done = call(*words)
        assert done.status == 0, done.err
    assert "marc embed folder/photos" in call("check", "photos/", "--encoder", "mini:pixels").out
    assert spelled("stores/folder-photos/") == "store/stores/folder-photos"
    assert len(marc.load_stream("stores/folder-photos")) == 40
    marc.write_pack(marc.load_stream(Path("photos")), Path("pack.npz"))
    assert marc.load_stream(Path("pack.npz")).source == "arrays/pack.npz"
    assert call("sweep", "pack.npz", "--space", "pixels", "--seed", "0").status == 0


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        *(("fotos/", "folder/photos"), ("folder/photoz", "folder/photos"), ("./zzz", "ls .")),
        *(("photos/cats", "folder/photos/cat"), ("hf/photo", "hf/photos"), ("csv/x.csv", "ls .")),
        *(("list.csv", "ls ."), ("/nowhere/at/all", "ls /nowhere/at")),
    ],
)
@pytest.mark.parametrize("verb", [marc.load_stream, marc.embed, marc.adapt])
def test_what_is_not_there_is_said_not_to_be_there(tmp_path, monkeypatch, source, hint, verb):
    tree(tmp_path / "photos", "cat/1.png")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MarcError, match=r"there is no such (folder|file)") as refusal:
        verb(source)
    assert refusal.value.hint == hint


def test_a_plain_name_that_nearly_is_a_folder_gets_the_folder(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    for verb in (marc.load_stream, marc.embed):
        with pytest.raises(MarcError) as refusal:
            verb("photoz")
        assert refusal.value.hint == "folder/photos"


def test_a_type_of_source_is_never_taken_for_a_folder(tmp_path, monkeypatch):
    (tmp_path / "lab" / "sketch-12").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert spelled("lab/sketch-12") == "lab/sketch-12"
    assert spelled("./lab/sketch-12") == "folder/lab/sketch-12"
    assert spelled("imagenet-a") == "imagenet-a"


def test_an_unknown_stream_of_the_lab_is_refused_with_the_names():
    with pytest.raises(MarcError, match="mosaic-12"):
        marc.load_stream("lab/sketches")


def test_stored_views_are_taken_as_far_as_asked(sources):
    assert marc.load_stream(sources["labelled"]).n_views == 2
    one = marc.load_stream(sources["labelled"], n_views=1)
    whole = marc.load_stream(sources["labelled"])
    assert one.fingerprint == whole.with_views(1).fingerprint
    assert marc.load_stream(sources["labelled"], n_views=2).fingerprint == whole.fingerprint
    with pytest.raises(MarcError, match="does not store that many views"):
        marc.load_stream(sources["labelled"], n_views=3)


@pytest.mark.parametrize("source", ["lab/sketch-12", "labelled"])
def test_no_views_are_not_all_views(sources, source):
    with pytest.raises(MarcError, match="views must be an integer"):
        marc.load_stream(sources.get(source, source), n_views=0)


def test_the_lab_draws_as_many_views_as_are_asked_for():
    plain = marc.load_stream("lab/sketch-12")
    assert plain.n_views == 1
    three = marc.load_stream("lab/sketch-12", n_views=3)
    assert three.n_views == 3
    assert three.with_views(1).fingerprint == plain.fingerprint
    assert draws_views("lab/sketch-12")
    assert not draws_views("labs/sketch-12")


def test_the_command_line_takes_all_stored_views_for_zero(sources):
    assert open_stream(sources["labelled"], 0).n_views == 2
    assert open_stream(sources["labelled"], 1).n_views == 1
    assert open_stream("lab/sketch-12", 0).n_views == 1
    assert open_stream("lab/sketch-12", 3).n_views == 3


def test_pictures_elsewhere_are_named_by_their_path(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(MarcError, match="not embedded yet") as refused:
        marc.load_stream(tmp_path / "photos")
    assert refused.value.hint.startswith(f"marc embed {tmp_path}/photos --encoder")
    assert refused.value.got.startswith(f"{tmp_path}/photos: ")

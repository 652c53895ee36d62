"""The feature store: chunks are there or not, and what was made otherwise is never mixed."""

import json

import numpy as np
import pytest
import zarr

from marc import MarcError
from marc.features import digest
from marc.images.image_set import FileBytes, ImageSet
from marc.new_store import create_store, replace_store, writing
from marc.records import differences
from marc.store import CONTENT, IDS, LABELS, STATUS, FeatureStore, is_store


def images(count=10, **changes):
    ids = tuple(f"{number:02}.png" for number in range(count))
    facts = {"labels": tuple(number % 3 for number in range(count)), "class_names": ("a", "b", "c")}
    return ImageSet("folder/x", ids, tuple(map(FileBytes, ids)), **{**facts, **changes})


@pytest.fixture
def store(tmp_path):
    create_store(tmp_path / "s", images(), chunk=4)
    opened = FeatureStore(tmp_path / "s", write=True)
    opened.prepare("spaces/x", (2,), "float32", made={"digest": "a"})
    return opened


def fill(store, name="spaces/x", value=1.0):
    for chunk in range(store.n_chunks):
        rows = store.rows(chunk)
        store.write(STATUS, chunk, np.zeros(len(rows), np.uint8))
        store.write(CONTENT, chunk, np.zeros((len(rows), 16), np.uint8))
        store.write(name, chunk, np.full((len(rows), 2), value, np.float32))
    store.finish(name)


def test_a_store_is_a_plain_zarr_group_that_names_its_pictures(store):
    group = zarr.open_group(store.path, mode="r")
    assert group.metadata.zarr_format == 3
    assert group["images/ids"][:].tolist() == list(images().ids)
    assert group["images/labels"][:].tolist() == list(images().labels)
    assert store.get(IDS).tolist() == list(images().ids)
    assert store.n_chunks == 3
    assert [len(store.rows(chunk)) for chunk in range(3)] == [4, 4, 2]


def test_an_unlabelled_list_has_no_labels(tmp_path):
    create_store(tmp_path / "s", images(labels=None, class_names=()))
    assert FeatureStore(tmp_path / "s").attributes(LABELS) == {}


def test_a_chunk_of_zeros_is_a_chunk(store):
    assert store.pending("spaces/x") == [0, 1, 2]
    store.write("spaces/x", 1, np.zeros((4, 2), np.float32))
    assert store.pending("spaces/x") == [0, 2]
    store.finish("spaces/x")
    assert not store.is_complete("spaces/x")
    fill(store)
    assert store.pending("spaces/x") == []
    assert store.is_complete("spaces/x")


def test_readers_see_only_what_could_be_read(store):
    fill(store)
    store.write(STATUS, 0, np.array([0, 3, 0, 0], np.uint8))
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    store.write("spaces/x", 0, values)
    assert store.read("spaces/x")[:3].tolist() == values[[0, 2, 3]].tolist()
    assert len(store.read("spaces/x")) == 9
    assert store.readable.tolist() == [True, False] + [True] * 8


def test_an_array_made_otherwise_is_refused_by_name(store):
    fill(store)
    assert store.holds("spaces/x", {"digest": "a"})
    assert not store.holds("spaces/y", {"digest": "a"})
    with pytest.raises(MarcError, match="digest: stored a, now b"):
        store.holds("spaces/x", {"digest": "b"})
    assert not store.holds("spaces/x", {"digest": "b"}, force=True)
    store.prepare("spaces/x", (3,), "float32", made={"digest": "b"})
    assert store.pending("spaces/x") == [0, 1, 2]
    assert store.shape("spaces/x") == (10, 3)


def test_a_digest_is_of_what_readers_see(store):
    fill(store)
    store.write(STATUS, 1, np.array([0, 3, 0, 0], np.uint8))
    store.write("spaces/x", 2, np.arange(4, dtype=np.float32).reshape(2, 2))
    store.prepare("spaces/z", (2,), "float32", made={})
    for chunk in range(3):
        store.write("spaces/z", chunk, store.read_chunk("spaces/x", chunk))
    store.finish("spaces/z")
    assert store.attributes("spaces/z")["features"] == digest(store.read("spaces/z"))


def test_a_store_of_other_pictures_is_refused_and_replaced_by_force(store):
    create_store(store.path, images(), chunk=4)  # the same list: nothing happens
    fill(store)
    for others, word in ((images(9), "n_images"), (images(labels=(0,) * 10), "list")):
        with pytest.raises(MarcError, match=word):
            create_store(store.path, others, chunk=4)
    with pytest.raises(MarcError, match="chunk: stored 4, now 5"):
        create_store(store.path, images(), chunk=5)
    assert FeatureStore(store.path).is_complete("spaces/x")
    create_store(store.path, images(9), chunk=4, force=True)
    assert FeatureStore(store.path).n_images == 9
    assert [path.name for path in store.path.parent.iterdir()] == ["s"]


def test_other_words_for_the_classes_are_the_same_pictures(store):
    create_store(store.path, images(class_names=("x", "y", "z")), chunk=4)


@pytest.mark.parametrize("force", [True, False])
def test_a_foreign_folder_is_left_alone(tmp_path, force):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.txt").write_text("years of work")
    with pytest.raises(MarcError, match="left alone"):
        create_store(tmp_path / "s", images(), force=force)
    assert (tmp_path / "s" / "thesis.txt").read_text() == "years of work"
    other = zarr.create_group(tmp_path / "other")
    other.attrs["theirs"] = 1
    with pytest.raises(MarcError, match="left alone"):
        create_store(tmp_path / "other", images(), force=force)


def test_what_is_no_store_says_how_to_make_one(tmp_path):
    with pytest.raises(MarcError, match="marc embed"):
        FeatureStore(tmp_path / "nothing")
    (tmp_path / "zarr.json").write_text("{")
    assert not is_store(tmp_path)


def test_a_store_of_another_version_is_refused(store):
    path = store.path / "zarr.json"
    about = json.loads(path.read_text())
    about["attributes"]["marc_store"]["format"] = 99
    path.write_text(json.dumps(about))
    with pytest.raises(MarcError, match="format 99"):
        FeatureStore(store.path)


def test_one_writer_at_a_time_and_leftovers_are_cleared(store):
    left = store.path / "spaces/x/c/0/0.1234.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with writing(store.path):
        assert not left.exists()
        with pytest.raises(MarcError, match="another marc embed"), writing(store.path):
            pass
        FeatureStore(store.path).get(IDS)  # readers do not wait
    with writing(store.path):
        pass


def test_a_store_is_not_replaced_under_a_writer(store):
    with writing(store.path):
        with pytest.raises(MarcError, match="another marc embed"):
            create_store(store.path, images(9), chunk=4, force=True)
        with pytest.raises(MarcError, match="another marc embed"):
            replace_store(store.path, images(), chunk=4)
    assert FeatureStore(store.path).n_images == 10


@pytest.mark.parametrize("left", [(), ("zarr.0123.partial",)])
def test_a_store_that_was_only_begun_is_begun_again(tmp_path, left):
    begun = tmp_path / "s.new"
    begun.mkdir()
    for name in left:
        (begun / name).touch()
    create_store(tmp_path / "s", images())
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    (tmp_path / "t.new").mkdir()
    (tmp_path / "t.new" / "mine.txt").touch()
    with pytest.raises(FileExistsError):
        create_store(tmp_path / "t", images())


def test_a_file_system_without_locks_is_written_to_all_the_same(store, monkeypatch):
    def refuse(handle, operation):
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    with writing(store.path):
        pass


def test_a_small_array_says_what_made_it_last(store, monkeypatch):
    store.put("predictor/prototypes", np.eye(3, dtype=np.float32), {"prompts": "t1"})
    assert store.holds("predictor/prototypes", {"prompts": "t1"})
    assert np.array_equal(store.get("predictor/prototypes"), np.eye(3))
    with pytest.raises(MarcError, match="prompts: stored t1, now t2"):
        store.holds("predictor/prototypes", {"prompts": "t2"})
    monkeypatch.setattr("marc.store.versions", lambda *names: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.put("predictor/prototypes", np.eye(3, dtype=np.float32), {"prompts": "t2"})
    assert not store.holds("predictor/prototypes", {"prompts": "t2"})


def test_differences_are_short_and_named():
    found = differences({"a": 1, "b": {"c": "x" * 99}}, {"a": 1, "b": {"c": "y"}, "d": 2})
    assert found == [f"b.c: stored {'x' * 37}..., now y", "d: stored None, now 2"]

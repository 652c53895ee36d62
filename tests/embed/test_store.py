"""The feature store: chunks are there or not, and what was made otherwise is never mixed."""

import errno
import json
import subprocess
import sys

import numpy as np
import pytest
import zarr

from marc import MarcError
from marc.embed.changes import _create_store, holds_list, writing
from marc.embed.plan import EmbeddingPlan
from marc.embed.store import FeatureStore
from marc.files import LOCK, differences, locked
from marc.pictures.image_set import FileBytes, ImageSet
from marc.stream import digest


def holds(path, pictures, chunk=FeatureStore.CHUNK, force=False):
    return holds_list(EmbeddingPlan(pictures, path, (), chunk=chunk), force=force)


def images(count=10, **changes):
    ids = tuple(f"{number:02}.png" for number in range(count))
    facts = {"labels": tuple(number % 3 for number in range(count)), "class_names": ("a", "b", "c")}
    return ImageSet("folder/x", ids, tuple(map(FileBytes, ids)), **{**facts, **changes})


def make(path, pictures, chunk=4):
    with writing(path):
        return _create_store(path, pictures, chunk=chunk)


@pytest.fixture
def store(tmp_path):
    opened = make(tmp_path / "s", images())
    opened.prepare("spaces/x", (2,), "float32", made={"digest": "a"})
    return opened


def fill(store, name="spaces/x", value=1.0, finish=True):
    for chunk in range(store.n_chunks):
        rows = store.rows(chunk)
        store.write(FeatureStore.STATUS, chunk, np.zeros(len(rows), np.uint8))
        store.write(FeatureStore.CONTENT, chunk, np.zeros((len(rows), 16), np.uint8))
        store.write(name, chunk, np.full((len(rows), 2), value, np.float32))
    if finish:
        for each in (FeatureStore.STATUS, FeatureStore.CONTENT, name):
            store.finish(each)


def test_a_store_is_a_plain_zarr_group_that_names_its_pictures(store):
    group = zarr.open_group(store.path, mode="r")
    assert group.metadata.zarr_format == 3
    assert group["images/ids"][:].tolist() == list(images().ids)
    assert group["images/labels"][:].tolist() == list(images().labels)
    assert store.get(FeatureStore.IDS).tolist() == list(images().ids)
    assert store.n_chunks == 3
    assert [len(store.rows(chunk)) for chunk in range(3)] == [4, 4, 2]


def test_an_unlabelled_list_has_no_labels(tmp_path):
    make(tmp_path / "s", images(labels=None, class_names=()))
    assert FeatureStore(tmp_path / "s").attributes(FeatureStore.LABELS) == {}


def test_a_chunk_of_zeros_is_a_chunk(store):
    assert store.pending("spaces/x") == [0, 1, 2]
    store.write("spaces/x", 1, np.zeros((4, 2), np.float32))
    assert store.pending("spaces/x") == [0, 2]
    store.finish("spaces/x")
    assert not store.is_complete("spaces/x")
    fill(store)
    assert store.pending("spaces/x") == []
    assert store.is_complete("spaces/x")
    assert store.is_sound("spaces/x")


def test_readers_see_only_what_could_be_read(store):
    fill(store, finish=False)
    store.write(FeatureStore.STATUS, 0, np.array([0, 3, 0, 0], np.uint8))
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
    fill(store, finish=False)
    store.write(FeatureStore.STATUS, 1, np.array([0, 3, 0, 0], np.uint8))
    store.write("spaces/x", 2, np.arange(4, dtype=np.float32).reshape(2, 2))
    store.prepare("spaces/z", (2,), "float32", made={})
    for chunk in range(3):
        store.write("spaces/z", chunk, store.read_chunk("spaces/x", chunk))
    store.finish("spaces/z")
    assert store.attributes("spaces/z")["features"] == digest(store.read("spaces/z"))


def test_a_store_of_other_pictures_is_refused_and_replaced_by_force(store):
    assert holds(store.path, images(), chunk=4)
    for others, word in ((images(9), "n_images"), (images(labels=(0,) * 10), "list")):
        with pytest.raises(MarcError, match=f"other pictures(.|\n)*{word}"):
            holds(store.path, others, chunk=4)
    with pytest.raises(MarcError, match=r"other chunks(.|\n)*chunk: stored 4, now 5"):
        holds(store.path, images(), chunk=5)
    assert not holds(store.path, images(9), chunk=4, force=True)
    assert make(store.path, images(9)).n_images == 9
    assert FeatureStore(store.path).names("spaces") == []


def test_other_words_for_the_classes_are_the_same_pictures(store):
    assert holds(store.path, images(class_names=("x", "y", "z")), chunk=4)


@pytest.mark.parametrize("force", [True, False])
def test_a_foreign_folder_is_left_alone(tmp_path, force):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.txt").write_text("years of work")
    other = zarr.create_group(tmp_path / "other")
    other.attrs["theirs"] = 1
    for name in ("s", "other"):
        with pytest.raises(MarcError, match="left alone"):
            holds(tmp_path / name, images(), force=force)
        with pytest.raises(MarcError, match="left alone"), writing(tmp_path / name):
            pass
        assert not (tmp_path / name / LOCK).exists()
    assert (tmp_path / "s" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("moment", ["put", "prepare", "mark"])
def test_a_store_killed_in_the_making_is_made_again(store, monkeypatch, moment):
    """Neither the old nor a half-made one is taken for a store."""
    monkeypatch.setattr(FeatureStore, moment, lambda *words, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make(store.path, images(9))
    assert not FeatureStore.exists(store.path)
    monkeypatch.undo()
    assert not holds(store.path, images(9), chunk=4)
    assert make(store.path, images(9)).get(FeatureStore.IDS).tolist() == list(images(9).ids)


def test_a_folder_that_another_command_locked_is_left_alone(tmp_path):
    (tmp_path / LOCK).touch()
    (tmp_path / "results").mkdir()
    with pytest.raises(MarcError, match="left alone"), writing(tmp_path):
        pass
    assert (tmp_path / "results").is_dir()


def test_what_somebody_put_beside_the_features_stays(store):
    (store.path / "notes.txt").write_text("mine")
    make(store.path, images(9))
    assert (store.path / "notes.txt").read_text() == "mine"


def test_a_writer_killed_before_its_first_file_leaves_no_store(tmp_path):
    (tmp_path / LOCK).touch()
    (tmp_path / "zarr.json.123.new").write_text("{")
    assert not FeatureStore.exists(tmp_path)
    assert make(tmp_path, images()).n_images == 10


def test_where_no_store_comes_of_it_no_folder_stays(tmp_path):
    with writing(tmp_path / "s"):
        assert (tmp_path / "s" / LOCK).exists()
    assert not (tmp_path / "s").exists()


def test_what_is_no_store_says_how_to_make_one(tmp_path):
    with pytest.raises(MarcError, match="marc embed"):
        FeatureStore(tmp_path / "nothing")
    (tmp_path / "zarr.json").write_text("{")
    assert not FeatureStore.exists(tmp_path)


def test_a_store_of_another_version_is_refused(store):
    path = store.path / "zarr.json"
    about = json.loads(path.read_text())
    about["attributes"]["marc_store"]["format"] = 99
    path.write_text(json.dumps(about))
    with pytest.raises(MarcError, match="format 99"):
        FeatureStore(store.path)


def test_one_writer_at_a_time_and_leftovers_are_cleared(store):
    left = store.path / "spaces/x/c/0/0.1234.new"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with writing(store.path):
        assert not left.exists()
        with pytest.raises(MarcError, match="another marc embed"), writing(store.path):
            pass
        FeatureStore(store.path).get(FeatureStore.IDS)  # readers do not wait
    with writing(store.path):
        pass


def test_a_file_system_without_locks_is_written_to_all_the_same(store, monkeypatch):
    def refuse(handle, operation):
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    with writing(store.path):
        pass


def test_a_killed_writer_leaves_no_lock_behind(tmp_path):
    words = f"""
import sys, time
from pathlib import Path
from marc.files import locked
with locked(Path({str(tmp_path)!r}), ""):
    print("held", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(MarcError, match="another is"), locked(tmp_path, "another is"):
            pass
        holder.kill()
    with locked(tmp_path, "another is"):
        assert [left.name for left in tmp_path.iterdir()] == [LOCK]


def test_a_small_array_says_what_made_it_last(store, monkeypatch):
    store.put("predictor/prompts", np.eye(3, dtype=np.float32), {"prompts": "t1"})
    assert store.holds("predictor/prompts", {"prompts": "t1"})
    assert np.array_equal(store.get("predictor/prompts"), np.eye(3))
    with pytest.raises(MarcError, match="prompts: stored t1, now t2"):
        store.holds("predictor/prompts", {"prompts": "t2"})
    with monkeypatch.context() as patch:
        patch.setattr("marc.embed.store.SealedArray.write", lambda *words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.put("predictor/prompts", np.eye(3, dtype=np.float32), {"prompts": "t2"})
    assert not store.is_complete("predictor/prompts")
    assert not store.is_sound("predictor/prompts")


@pytest.mark.parametrize(
    "name", [FeatureStore.IDS, FeatureStore.LABELS, FeatureStore.STATUS, "spaces/x"]
)
@pytest.mark.parametrize("harm", ["cut", "altered", "lost", "no array"])
def test_a_damaged_store_says_what_and_what_to_do(store, name, harm):
    fill(store)
    files = sorted((store.path / name / "c").rglob("*"))
    chunk = next(path for path in files if path.is_file())
    if harm == "cut":
        chunk.write_bytes(chunk.read_bytes()[:-3])
    elif harm == "altered":
        data = bytearray(chunk.read_bytes())
        data[-1] ^= 1
        chunk.write_bytes(data)
    elif harm == "lost":
        chunk.unlink()
    else:
        (store.path / name / "zarr.json").write_text("{")
    again = FeatureStore(store.path)
    with pytest.raises(MarcError, match=f"{name} is not what was written(.|\n)*--force"):
        again.read(name) if name == "spaces/x" else again.get(name)


def test_differences_are_short_and_named():
    found = differences({"a": 1, "b": {"c": "x" * 99}}, {"a": 1, "b": {"c": "y"}, "d": 2})
    assert found == [f"b.c: stored {'x' * 37}..., now y", "d: stored None, now 2"]

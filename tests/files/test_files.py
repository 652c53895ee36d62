import os
import stat

import numpy as np
import pytest

from marc.errors import MarcError
from marc.files import read_arrays, whole_file, write_arrays, write_whole

OBJECTS = {"objects": np.array([{}, []], dtype=object)}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_read_back_as_they_were_written(tmp_path, compressed):
    arrays = {"a/b": np.arange(6).reshape(2, 3), "names": np.array(["é", "b"])}
    write_arrays(tmp_path / "a.npz", arrays, compressed=compressed)
    again = read_arrays(tmp_path / "a.npz", "a file")
    assert set(again) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    write_arrays(tmp_path / "a.npz", {"x": np.zeros(3)})
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "a.npz", OBJECTS)
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.npz", "a file")["x"], np.zeros(3))


def test_objects_are_neither_written_nor_read(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "new.npz", OBJECTS)
    assert not (tmp_path / "new.npz").exists()
    np.savez(tmp_path / "pickled.npz", **OBJECTS)
    with pytest.raises(MarcError, match="this file is not what it should be"):
        read_arrays(tmp_path / "pickled.npz", "what it should be")


@pytest.mark.parametrize("content", [b"", b"PK half", b"text"])
def test_a_damaged_file_is_named_with_what_it_may_be(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(MarcError) as refused:
        read_arrays(tmp_path / "a.npz", "a pack", "arrays")
    assert "a.npz" in str(refused.value)
    assert "allowed:  arrays" in str(refused.value)


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first")
        second.write(b"second, and longer")
        assert not path.exists()
    assert path.read_bytes() == b"first"  # the last to end
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_and_its_name_are_on_the_disk_at_the_end(tmp_path, monkeypatch):
    kinds, fsync = [], os.fsync

    def noted(descriptor):
        kinds.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_whole(tmp_path / "a.txt", b"content")
    assert kinds == [False, True]

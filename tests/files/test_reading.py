"""Foreign files: whatever is in them, a value or an error that names the file."""

import io
import json
import os
import struct
import time
import zipfile
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
import numpy as np
import pytest

from marc.errors import MarcError
from marc.files import (
    as_text,
    conform,
    parse_json,
    read_arrays,
    read_bytes,
    read_json,
    read_text,
    read_toml,
    refuse_odd_file,
    user_path,
    write_arrays,
    write_json,
)

OBJECTS = {"objects": np.array([{}, []], dtype=object)}
READERS = [read_bytes, read_text, read_json, read_toml, lambda path: read_arrays(path, "arrays")]


@pytest.fixture(params=["folder", "pipe", "device", "ring", "none", "null byte", "long name"])
def odd(request, tmp_path):
    path = tmp_path / "odd"
    if request.param == "folder":
        path.mkdir()
    elif request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    elif request.param == "ring":
        path.symlink_to(path)
    elif request.param == "null byte":
        path = tmp_path / "a\0b"
    elif request.param == "long name":
        path = tmp_path / ("a" * 5000)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_only_plain_files_are_read_and_nothing_hangs(odd, reader):
    began = time.monotonic()
    with pytest.raises(MarcError):
        reader(odd)
    assert time.monotonic() - began < 5


def test_a_link_to_a_plain_file_is_one(tmp_path):
    (tmp_path / "a").write_text("content")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_text(tmp_path / "b") == "content"
    assert refuse_odd_file(tmp_path / "b").st_size == 7


def test_a_file_that_is_too_long_is_refused_unread(tmp_path):
    with (tmp_path / "long").open("wb") as file:
        file.truncate(2**31)  # with holes: it takes no room
    with pytest.raises(MarcError, match=r"(?s)too long.*2,147,483,648 bytes"):
        read_text(tmp_path / "long")


def test_bytes_that_are_no_text_are_told_with_their_place():
    assert as_text("\ufeffé".encode(), "here") == "é"
    with pytest.raises(MarcError, match=r"(?s)UTF-8.*here: byte 2"):
        as_text(b"ab\xff", "here")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5000,
        '"\\ud800"',
        '{"\\udfff": 1}',
        "\x00",
        "{'a': 1}",
    ],
)
def test_what_is_not_json(tmp_path, text):
    with pytest.raises(MarcError, match="not JSON"):
        parse_json(text, "here")
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(MarcError, match=r"a\.json"):
        read_json(tmp_path / "a.json")


def test_a_pair_of_escapes_is_one_character():
    assert parse_json('"\\ud83d\\ude00"', "here") == "\U0001f600"


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a = ", "a" * 10 + "=" + "1" * 5000, 'a = "\\ud800"', "\x00"]
)
def test_what_is_not_toml(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(MarcError, match=r"a\.toml"):
        read_toml(tmp_path / "a.toml")


class Shape(TypedDict):
    n: Annotated[int, msgspec.Meta(ge=0, le=10)]
    names: list[str]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"n": 1},
        {"n": "1", "names": []},
        {"n": -1, "names": []},
        {"n": 11, "names": []},
        {"n": 10**30, "names": []},
        {"n": 1.5, "names": []},
        {"n": None, "names": []},
        {"n": 1, "names": [1]},
        {"n": 1, "names": {}},
    ],
)
def test_data_of_another_shape_are_told_with_their_place(tmp_path, value):
    (tmp_path / "a.json").write_text(json.dumps(value))
    with pytest.raises(MarcError, match=r"a\.json"):
        read_json(tmp_path / "a.json", Shape)


def test_data_of_a_shape_are_given_as_they_are(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 3, "names": ["a"], "more": 1}')
    assert read_json(tmp_path / "a.json", Shape) == {"n": 3, "names": ["a"], "more": 1}
    with pytest.raises(MarcError, match="not as marc writes it"):
        conform([], Shape, "here")


def header(shape, dtype="<f4", version=1):
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        header((2**50,)),  # petabytes that are not there
        header((-1, -4)) + bytes(16),
        header((2,)) + bytes(4),
        header((2,)) + bytes(12),
        header((2**62, 2**62)),
        header((2,), "|O") + bytes(16),
        header((1,), "|V4") + bytes(4),
        header((1,), "<U1") + b"\xff\xff\xff\x7f",  # no such character
        header((1,), "<c8") + bytes(8),
        header("(" * 200),
        header((2,), version=9) + bytes(8),
        b"",
        b"\x93NUMPY",
    ],
)
def test_an_array_that_is_not_what_its_header_tells(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(MarcError, match=r"a\.npz"):
        read_arrays(tmp_path / "a.npz", "arrays")


def test_a_small_file_of_huge_arrays_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as file,
    ):
        file.write(header((1200 * 2**18,)))
        for _ in range(1200):
            file.write(bytes(2**20))
    began = time.monotonic()
    with pytest.raises(MarcError, match="would become"):
        read_arrays(path, "arrays")
    assert time.monotonic() - began < 1


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for value in (1, 2):
            archive.writestr("a.npy", header((1,)) + struct.pack("<f", value))
    with pytest.raises(MarcError, match="twice"):
        read_arrays(tmp_path / "a.npz", "arrays")


def test_some_arrays_are_read_without_the_rest(tmp_path):
    write_arrays(tmp_path / "a.npz", {"a": np.arange(3), "b": np.zeros(2)})
    assert list(read_arrays(tmp_path / "a.npz", "arrays", only=["a"])) == ["a"]


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


def test_the_name_of_a_file_of_no_encoding_is_json(tmp_path):
    write_json(tmp_path / "a.json", {"source": "arrays/caf\udce9.npz"})
    assert read_json(tmp_path / "a.json") == {"source": "arrays/caf\udce9.npz"}


def test_a_file_of_the_system_that_waits_for_more_is_empty():
    waiting = Path("/proc/kmsg")
    if not os.access(waiting, os.R_OK):
        pytest.skip("only for the system's administrator")
    assert isinstance(read_bytes(waiting, at_most=2**20), bytes)


def test_a_file_that_is_longer_than_the_system_says_is_not_read_to_its_end():
    with pytest.raises(MarcError, match="too long"):
        read_bytes(Path("/proc/self/maps"), at_most=100)


def test_nobody_has_a_home_by_that_name():
    assert user_path("~nobody-at-all/a.npz") == Path("~nobody-at-all/a.npz")
    assert user_path("~/a.npz") == Path.home() / "a.npz"


@pytest.mark.parametrize("dtype", ["<U0", "|S0"])
def test_texts_of_no_bytes_are_refused_however_many_they_are(tmp_path, dtype):
    header = io.BytesIO()
    facts = {"descr": dtype, "fortran_order": False, "shape": (300_000_000,)}
    np.lib.format.write_array_header_1_0(header, facts)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("names.npy", header.getvalue())
    with pytest.raises(MarcError, match="not numbers or text"):
        read_arrays(tmp_path / "a.npz", "a pack")


def test_names_of_many_parts_end_at_once(tmp_path):
    (tmp_path / "a.toml").write_text(".".join("a" * 50_000) + " = 1")
    with pytest.raises(MarcError, match="nested too deeply"):
        read_toml(tmp_path / "a.toml")

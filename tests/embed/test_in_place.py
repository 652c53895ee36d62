"""Rows that are read where they lie in a store are those of the whole array, or an error."""

import shutil

import numpy as np
import pytest
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.stores import chunk_files, replace_values

from marc import files
from marc.embed import in_place, sealed
from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.stream import rows as lazy
from marc.stream.rows import LazyRows


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store of three views and two spaces, in four chunks; two pictures could not be read."""
    root = tmp_path_factory.mktemp("stores")
    pictures = draw_lab_folder(root / "pictures")
    for path in sorted(pictures.rglob("*.png"))[3:9:5]:
        path.write_bytes(b"no picture")
    plan = make_plan(pictures, root / "store", n_views=3)
    embed_plan(plan)
    return plan.store


@pytest.fixture
def store(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "_LARGE", 10)
    return FeatureStore(shutil.copytree(kept, tmp_path / "store"))


@pytest.fixture(scope="module")
def whole(kept):
    stream = FeatureStore(kept).stream()
    features = stream.features
    _ = features.base, features.images, [features.keys(space) for space in stream.spaces]
    return stream


@pytest.mark.parametrize(("piece", "together", "gap"), [(1, 1, 1), (2**21, 2**20, 2**12)])
def test_every_row_is_that_of_the_whole_array(store, whole, monkeypatch, piece, together, gap):
    monkeypatch.setattr(sealed, "_PIECE", piece)
    monkeypatch.setattr(in_place, "_TOGETHER", together)
    monkeypatch.setattr(in_place, "_GAP", gap)
    stream, n_images = store.stream(), len(whole)
    assert np.count_nonzero(~store.readable) == 2
    draw = np.random.default_rng(0)
    several = [draw.integers(n_images, size=size) for size in (1, 5, 3 * n_images)]
    for index in (0, n_images - 1, slice(None), *several):
        for space in (*whole.spaces, "predictor"):
            found = stream.features.keys(space)
            assert isinstance(found, LazyRows)
            np.testing.assert_array_equal(found[index], whole.features.keys(space)[index])
        views = np.asarray(whole.features.views)
        np.testing.assert_array_equal(stream.features.views[index], views[index])
        few = stream.with_views(2).features.views
        np.testing.assert_array_equal(few[index], views[index][..., :2, :])
        found, base = stream.features.base.at(index), whole.features.base.at(index)
        for name, values in vars(base).items():
            np.testing.assert_array_equal(getattr(found, name), values, strict=True)


def test_the_stream_has_the_same_digests(store, whole):
    stream = store.stream()
    assert stream.fingerprint == whole.fingerprint
    assert stream.features.images == whole.features.images
    assert stream.with_views(1).fingerprint == whole.with_views(1).fingerprint


def read_all(stream):
    for space in stream.spaces:
        _ = stream.features.keys(space)[:]
    return stream


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, -1])
def test_a_changed_byte_is_an_error_also_after_the_chunk_was_read(store, after, number):
    stream = store.stream()
    space = stream.spaces[0]
    if after:
        read_all(stream)
    path = chunk_files(store.path, f"spaces/{space}")[number]
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    with pytest.raises(MarcError, match="a chunk is not what was written"):
        read_all(stream)


@pytest.mark.parametrize("change", ["shorter", "longer", "gone", "folder"])
def test_a_file_of_another_length_or_none_is_an_error(store, change):
    stream = read_all(store.stream())
    path = chunk_files(store.path, f"spaces/{stream.spaces[0]}")[1]
    content = path.read_bytes()
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change != "gone":
        path.write_bytes(content[:-1] if change == "shorter" else content + b"0")
    with pytest.raises(MarcError, match="files were changed or lost"):
        read_all(stream)


def test_the_same_bytes_in_a_new_file_are_the_same_rows(store):
    stream = store.stream()
    space = stream.spaces[0]
    before = stream.features.keys(space)[:]
    for path in chunk_files(store.path, f"spaces/{space}"):
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        copy.replace(path)
    np.testing.assert_array_equal(stream.features.keys(space)[:], before)


def test_an_array_that_was_replaced_as_a_whole_is_an_error(store):
    stream = read_all(store.stream())
    space = stream.spaces[0]
    replace_values(store.path, f"spaces/{space}", lambda values: -values)
    assert read_all(store.stream()), "the new one is sound"
    with pytest.raises(MarcError, match="a chunk is not what was written"):
        read_all(stream)


def test_features_that_are_none_are_refused_though_they_are_sealed(store):
    space = store.stream().spaces[0]
    replace_values(store.path, f"spaces/{space}", lambda values: values * 2)
    with pytest.raises(MarcError, match="not all features are finite and of length one"):
        read_all(store.stream())


def test_no_file_stays_open(store, monkeypatch):
    opened = []

    def open_plain(path):
        opened.append(files.open_plain(path))
        return opened[-1]

    monkeypatch.setattr(in_place, "open_plain", open_plain)
    read_all(store.stream())
    assert len(opened) >= 8
    assert all(file.closed for file in opened)


def test_a_file_that_changes_while_it_is_read_is_an_error(store, monkeypatch):
    times = iter(range(100))
    monkeypatch.setattr(in_place, "_facts", lambda file: (next(times),))
    with pytest.raises(MarcError, match="a chunk was changed while it was read"):
        read_all(store.stream())

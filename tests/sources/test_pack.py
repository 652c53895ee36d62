import errno
import gc
import os
import pickle
import zipfile

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.sources import load_stream, pack
from marc.sources.pack import read_pack, write_pack
from marc.stream import Stream


def whole_pack():
    stream = make_stream(n_views=2)
    features = stream.features
    return {
        "predictor/views": features.views,
        "predictor/prototypes": features.predictor.prototypes,
        "predictor/tau": np.float64(20.0),
        "spaces/good": features.spaces["good"],
        "labels": stream.row_labels,
        "class_names": np.array(["ant", "bee", "cat", "dog", "eel"]),
        "paths": np.array([f"folder/{number}.jpg" for number in range(60)]),
    }


def save(path, arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


def without(*names):
    return {name: array for name, array in whole_pack().items() if name not in names}


@pytest.fixture(scope="module", autouse=True)
def _only_what_these_tests_make_is_collected():
    gc.freeze()  # else every refusal walks through all that earlier tests have imported
    yield
    gc.unfreeze()


def refusal(function, *args):
    with pytest.raises(MarcError) as refused:
        function(*args)
    gc.collect()  # a file left open would warn now, and warnings are errors
    return str(refused.value)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_written_stream_reads_back_bit_for_bit(tmp_path, labelled):
    given = make_stream(n_views=3, dim=32, space_dim=24)
    features = given.features
    stream = Stream.from_arrays(
        features.views.astype(np.float16),
        features.predictor.prototypes,
        features.spaces,
        logit_scale=33.3,
        labels=given.row_labels if labelled else None,
        class_names=["ä", "b", "c", "d", "e e"],
        ids=[f"image {number}" for number in range(60)],
    )
    path = tmp_path / "deep" / "pack.npz"
    write_pack(stream, path)
    again = load_stream(f"arrays/{path}")
    assert again.name == "pack"
    assert again.features.ids == stream.features.ids
    assert again.features.class_names == stream.features.class_names
    for space in ("good", "bad", "predictor"):
        np.testing.assert_array_equal(again.features.keys(space), stream.features.keys(space))
    np.testing.assert_array_equal(again.features.base.logits, stream.features.base.logits)
    assert again.fingerprint == stream.fingerprint


def test_a_pack_written_again_has_the_same_content(tmp_path):
    write_pack(make_stream(), tmp_path / "one.npz")
    write_pack(read_pack(tmp_path / "one.npz"), tmp_path / "two.npz")
    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "two.npz") as two:
        assert set(one.files) == set(two.files)
        for name in one.files:
            np.testing.assert_array_equal(one[name], two[name])


def test_a_pack_is_written_in_the_order_of_the_files(tmp_path):
    write_pack(make_stream().shuffled(1), tmp_path / "pack.npz")
    stream = read_pack(tmp_path / "pack.npz")
    assert stream.order.tolist() == list(range(60))
    np.testing.assert_array_equal(stream.labels, make_stream().labels)


def test_a_path_may_be_a_string(tmp_path):
    write_pack(make_stream(), str(tmp_path / "pack.npz"))
    assert len(load_stream(f"arrays/{tmp_path}/pack.npz")) == 60


def test_features_without_views_are_one_view(tmp_path):
    views = whole_pack()["predictor/views"]
    arrays = {**without("predictor/views"), "predictor/features": views[:, 0]}
    stream = read_pack(save(tmp_path / "pack.npz", arrays))
    assert stream.n_views == 1
    np.testing.assert_array_equal(stream.features.views[:, 0], views[:, 0])


def test_a_missing_tau_means_100(tmp_path):
    stream = read_pack(save(tmp_path / "pack.npz", without("predictor/tau")))
    assert stream.features.predictor.logit_scale == 100.0


@pytest.mark.parametrize("tau", [np.float32(20), np.array([20]), np.array([[20.0]])])
def test_tau_may_be_any_array_of_one_number(tmp_path, tau):
    arrays = {**whole_pack(), "predictor/tau": tau}
    assert read_pack(save(tmp_path / "pack.npz", arrays)).features.predictor.logit_scale == 20.0


@pytest.mark.parametrize("tau", [np.array([1.0, 2.0]), np.array([]), np.array("hot"), np.nan, -1.0])
def test_a_bad_tau_is_refused(tmp_path, tau):
    path = save(tmp_path / "pack.npz", {**whole_pack(), "predictor/tau": tau})
    assert "got:" in refusal(read_pack, path)


def test_optional_keys_may_be_missing(tmp_path):
    path = save(tmp_path / "pack.npz", without("labels", "class_names", "paths", "spaces/good"))
    stream = read_pack(path)
    assert stream.labels is None
    assert stream.spaces == ("predictor",)
    assert stream.features.class_names[0] == "class 0"
    assert stream.features.ids[:2] == ("0", "1")


def test_given_names_are_read(tmp_path):
    features = read_pack(save(tmp_path / "pack.npz", whole_pack())).features
    assert features.class_names == ("ant", "bee", "cat", "dog", "eel")
    assert features.ids[59] == "folder/59.jpg"


def test_names_stored_as_bytes_are_read_as_text(tmp_path):
    arrays = {**whole_pack(), "class_names": np.array([b"ant", b"bee", b"cat", b"dog", b"eel"])}
    features = read_pack(save(tmp_path / "pack.npz", arrays)).features
    assert features.class_names == ("ant", "bee", "cat", "dog", "eel")


def test_unknown_keys_are_ignored(tmp_path):
    arrays = {**whole_pack(), "domain": np.array(["a"] * 60), "other/thing": np.zeros(3)}
    plain = read_pack(save(tmp_path / "plain.npz", whole_pack()))
    assert read_pack(save(tmp_path / "more.npz", arrays)).fingerprint == plain.fingerprint


def test_bad_features_in_a_pack_are_refused_like_any_others(tmp_path):
    arrays = whole_pack()
    arrays["spaces/good"] = arrays["spaces/good"][:10]
    message = refusal(read_pack, save(tmp_path / "pack.npz", arrays))
    assert "space 'good' must have one row per image" in message


class Trap:
    """Unpickling this would make a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["class_names", "extra"])
def test_a_pack_with_pickled_objects_is_refused_and_nothing_is_executed(tmp_path, name):
    arrays = {**whole_pack(), name: np.array([Trap(tmp_path / "sprung")], dtype=object)}
    message = refusal(read_pack, save(tmp_path / "pack.npz", arrays))
    assert "this file is not a feature pack" in message
    assert "has the type object, not numbers or text" in message
    assert not (tmp_path / "sprung").exists()


def test_a_bare_pickle_is_refused_and_nothing_is_executed(tmp_path):
    path = tmp_path / "pack.npz"
    path.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert "this file is not a feature pack" in refusal(read_pack, path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_pack_is_refused(tmp_path, share):
    path = save(tmp_path / "pack.npz", whole_pack())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    message = refusal(read_pack, path)
    assert "this file is not a feature pack" in message
    assert f"got:  {path}" in message
    assert "predictor/prototypes (C, D)" in message


def test_a_damaged_compressed_pack_is_refused(tmp_path):
    path = tmp_path / "pack.npz"
    np.savez_compressed(path, **whole_pack())
    whole = path.read_bytes()
    for place in range(500, 2500, 100):
        path.write_bytes(whole[:place] + bytes(20) + whole[place + 20 :])
        assert "this file is not a feature pack" in refusal(read_pack, path)


def write_text(path):
    path.write_text("ids,labels\n1,2\n")


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


def write_npy(path):
    with path.open("wb") as file:
        np.save(file, np.ones(3))


@pytest.mark.parametrize("write", [write_text, write_zip, write_npy])
def test_a_file_that_is_no_pack_is_refused(tmp_path, write):
    path = tmp_path / "pack.npz"
    write(path)
    message = refusal(read_pack, path)
    assert f"got:  {path}" in message
    assert "predictor/prototypes (C, D)" in message


@pytest.mark.parametrize("missing", ["predictor/views", "predictor/prototypes"])
def test_a_pack_without_a_predictor_is_refused_with_what_it_has(tmp_path, missing):
    path = save(tmp_path / "pack.npz", without(missing))
    message = refusal(read_pack, path)
    assert message.startswith("the pack has no predictor.")
    assert f"got:  {path}: {', '.join(sorted(without(missing)))}" in message
    assert "allowed:  predictor/views (T, M, D) or predictor/features (T, D)" in message


def test_an_empty_pack_has_nothing(tmp_path):
    assert "pack.npz: nothing" in refusal(read_pack, save(tmp_path / "pack.npz", {}))


def test_a_missing_pack_is_refused(tmp_path):
    path = tmp_path / "pack.npz"
    assert refusal(load_stream, f"arrays/{path}") == (
        f"there is no such feature pack.\n  got:  {path}\n  try:  ls {tmp_path}"
    )


def fail_half_way(file, **arrays):
    file.write(b"half")
    raise OSError(errno.ENOSPC, "no space left on device")


def test_a_failed_write_leaves_no_pack(tmp_path, monkeypatch):
    monkeypatch.setattr(pack.np, "savez", fail_half_way)
    with pytest.raises(OSError, match="no space left"):
        write_pack(make_stream(), tmp_path / "pack.npz")
    assert not (tmp_path / "pack.npz").exists()


def test_a_failed_write_leaves_the_old_pack_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "pack.npz"
    write_pack(make_stream(seed=1), path)
    monkeypatch.setattr(pack.np, "savez", fail_half_way)
    with pytest.raises(OSError, match="no space left"):
        write_pack(make_stream(seed=2), path)
    np.testing.assert_array_equal(read_pack(path).labels, make_stream(seed=1).labels)


def test_an_encrypted_archive_is_refused(tmp_path):
    path = tmp_path / "pack.npz"
    write_pack(make_stream(), path)
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := content.find(mark, place + 1)) >= 0:
            content[place + flags] |= 1  # says that the entry is encrypted
    path.write_bytes(content)
    with pytest.raises(MarcError, match="not a feature pack"):
        read_pack(path)


@pytest.mark.parametrize("key", ["class_names", "paths", "domain"])
def test_names_of_bytes_are_text_in_utf_8(tmp_path, key):
    stream = make_stream()
    size = stream.n_classes if key == "class_names" else len(stream)
    write_pack(stream, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = {name: file[name] for name in file.files}
    names = [f"é{number}" for number in range(size)]
    np.savez(tmp_path / "b.npz", **{**arrays, key: np.array([name.encode() for name in names])})
    read = read_pack(tmp_path / "b.npz")
    found = {"class_names": read.features.class_names, "paths": read.features.ids}
    assert list(found.get(key, () if read.row_domains is None else read.row_domains)) == names
    np.savez(tmp_path / "c.npz", **{**arrays, key: np.array([b"\xff%d" % i for i in range(size)])})
    with pytest.raises(MarcError, match="UTF-8"):
        read_pack(tmp_path / "c.npz")

"""Pictures in tar shards."""

import gzip
import io
import json
import pickle
import tarfile

import numpy as np
import pytest
from helpers import image_trees as trees

from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.decoding import read_picture
from marc.pictures.wds import _expand_braces


def shard(path, files, kind="w"):
    """Write a tar of (name, bytes)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, kind) as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def numbered(folder, n_shards=2, n_pictures=3):
    """Shards of pictures with `.cls` labels; the picture and its label are its number."""
    for index in range(n_shards):
        files = []
        for row in range(n_pictures):
            number = index * n_pictures + row
            files += [(f"{number:04d}.png", trees.photo(number))]
            files += [(f"{number:04d}.cls", str(number).encode())]
        shard(folder / f"{index:03d}.tar", files)
    return folder


def test_pictures_are_found_by_their_place(tmp_path):
    images = open_images(f"wds/{numbered(tmp_path)}")
    assert images.ids[:4] == ("000.tar/0000.png", "000.tar/0001.png", "000.tar/0002.png",
                              "001.tar/0003.png")  # fmt: skip
    assert images.labels == (0, 1, 2, 3, 4, 5)
    assert images.class_names == ()
    assert (images.passed_over, images.notes) == ((), ())
    for seed, location in enumerate(images.locations):
        again = pickle.loads(pickle.dumps(location))  # noqa: S301
        picture = read_picture(again, upright=True)
        np.testing.assert_array_equal(np.asarray(picture), trees.pixels(seed))


def test_a_folder_a_pattern_and_a_star_are_the_same(tmp_path):
    numbered(tmp_path)
    images = open_images(f"wds/{tmp_path}")
    for source in (f"wds/{tmp_path}/{{000..001}}.tar", f"wds/{tmp_path}/*.tar"):
        other = open_images(source)
        assert (other.ids, other.labels, other.locations) == (
            images.ids,
            images.labels,
            images.locations,
        )
    assert len(open_images(f"wds/{tmp_path}/001.tar")) == 3


def test_class_names_beside_the_shards(tmp_path):
    numbered(tmp_path)
    (tmp_path / "classnames.txt").write_text("a\nb\nc\nd\ne\nf\n")
    assert open_images(f"wds/{tmp_path}").class_names == ("a", "b", "c", "d", "e", "f")
    (tmp_path / "classnames.txt").write_text("a\nb\n")
    with pytest.raises(MarcError, match="2 names, but the largest label is 5"):
        open_images(f"wds/{tmp_path}")


def test_other_labels_and_what_lies_beside_pictures(tmp_path):
    files = [
        ("x/a.JPG", trees.photo(0, "JPEG")),
        ("x/a.json", json.dumps({"label": "cat", "width": 3}).encode()),
        ("x/a.seg.png", trees.photo(1)),
        ("x/b.webp", trees.photo(2, "WEBP")),
        ("x/b.txt", b"wild_dog\n"),
        ("x/c.npy", b"numbers"),
        ("x/._a.jpg", b"left behind"),
        ("x/.jpg", trees.photo(3, "JPEG")),
    ]
    images = open_images(f"wds/{shard(tmp_path / 's.tar', files)}")
    assert images.ids == ("s.tar/x/a.jpg", "s.tar/x/b.webp")
    assert images.class_names == ("cat", "wild dog")
    assert images.labels == (0, 1)
    assert dict(images.passed_over) == {
        "s.tar/x/a.seg.png": "beside a picture, not used",
        "s.tar/x/c.npy": "no picture",
        "s.tar/x/._a.jpg": "hidden: its name starts with a dot",
        "s.tar/x/.jpg": "hidden: its name starts with a dot",
    }


def test_no_labels_at_all_and_a_name_twice(tmp_path):
    files = [("a.png", trees.photo(0)), ("a.png", trees.photo(1))]
    images = open_images(f"wds/{shard(tmp_path / 's.tar', files)}")
    assert images.labels is None
    assert len(set(images.ids)) == 2
    shown = np.asarray(read_picture(images.locations[1], upright=True))
    np.testing.assert_array_equal(shown, trees.pixels(1))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([("a.png", b"x"), ("a.cls", b"1"), ("b.png", b"x")], "1 of 2 have none"),
        ([("a.png", b"x"), ("a.cls", b"1"), ("b.png", b"x"), ("b.cls", b"cat")], "numbers in some"),
        ([("a.png", b"x"), ("a.json", b"{")], "not JSON"),
        ([("a.npy", b"x")], "no pictures in the shards"),
        ([], "no pictures in the shards"),
    ],
)
def test_shards_that_are_refused(tmp_path, files, problem):
    with pytest.raises(MarcError, match=problem):
        open_images(f"wds/{shard(tmp_path / 's.tar', files)}")


def test_compressed_shards_are_refused_whatever_they_are_called(tmp_path):
    plain = shard(tmp_path / "plain.tar", [("a.png", trees.photo(0))])
    for name in ("s.tar.gz", "s.tar"):
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
        with pytest.raises(MarcError, match=r"compressed with gzip(.|\n)*gunzip"):
            open_images(f"wds/{tmp_path / name}")
    with pytest.raises(MarcError, match="compressed with gzip"):
        open_images(f"wds/{tmp_path}")


def test_missing_shards(tmp_path):
    numbered(tmp_path)
    with pytest.raises(MarcError, match=r"2 of 4 shards are missing(.|\n)*002\.tar"):
        open_images(f"wds/{tmp_path}/{{000..003}}.tar")
    (tmp_path / "none").mkdir()
    for source in (f"wds/{tmp_path}/none", f"wds/{tmp_path}/x*.tar"):
        with pytest.raises(MarcError, match="no shards"):
            open_images(source)
    with pytest.raises(MarcError, match="counts wrongly"):
        _expand_braces("{5..3}.tar")


def test_a_shard_that_was_cut_is_told_of(tmp_path):
    whole = shard(tmp_path / "s.tar", [(f"{row}.png", trees.photo(row)) for row in range(3)])
    data = whole.read_bytes()
    last = open_images(f"wds/{whole}").locations[2]
    whole.write_bytes(data[: last.offset + 100])
    with pytest.raises(MarcError, match="cut off"):
        open_images(f"wds/{whole}")
    whole.write_bytes(data[: last.offset - 512])  # before the header of the last one
    images = open_images(f"wds/{whole}")
    assert len(images) == 2
    assert images.notes == ("s.tar has no end mark: it may have been cut off",)


def test_a_shard_that_is_damaged_inside_is_an_error(tmp_path):
    """Readers of tar files take a broken header for the end, and lose what follows."""
    path = shard(tmp_path / "s.tar", [(f"{row}.png", trees.photo(row)) for row in range(3)])
    second = open_images(f"wds/{path}").locations[1]
    data = bytearray(path.read_bytes())
    data[second.offset - 512 : second.offset] = b"\x07" * 512
    path.write_bytes(data)
    with pytest.raises(MarcError, match=r"damaged(.|\n)*no header at byte"):
        open_images(f"wds/{path}")
    path.write_bytes(b"no tar at all" * 100)
    with pytest.raises(MarcError, match="no tar file"):
        open_images(f"wds/{path}")


def test_what_is_no_plain_file_in_a_shard_is_named(tmp_path):
    path = shard(tmp_path / "s.tar", [("a.png", trees.photo(0))])
    kinds = {
        "soft.png": (tarfile.SYMTYPE, "a link"),
        "hard.png": (tarfile.LNKTYPE, "a link"),
        "pipe.png": (tarfile.FIFOTYPE, "no plain file"),
        "device.png": (tarfile.CHRTYPE, "no plain file"),
        "sparse.png": (tarfile.GNUTYPE_SPARSE, "no plain file"),
        "folder": (tarfile.DIRTYPE, None),
    }
    with tarfile.open(path, "a") as archive:
        for name, (kind, _) in kinds.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.png"
            archive.addfile(member)
    images = open_images(f"wds/{path}")
    assert images.ids == ("s.tar/a.png",)
    expected = {f"s.tar/{name}": why for name, (_, why) in kinds.items() if why}
    assert dict(images.passed_over) == expected


def test_headers_without_end_are_refused(tmp_path):
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    (tmp_path / "s.tar").write_bytes((header.tobuf(tarfile.GNU_FORMAT) + b"n" * 512) * 3000)
    with pytest.raises(MarcError, match="no tar file"):
        open_images(f"wds/{tmp_path}/s.tar")


@pytest.mark.parametrize(
    "pattern", ["{0..9999}{0..9999}.tar", "{a,b}" * 40, "{0..9}" * 9, f"{{{'1' * 5000}..2}}"]
)
def test_a_pattern_of_too_many_shards_is_refused_before_it_is_written_out(pattern):
    with pytest.raises(MarcError):
        open_images(f"wds/{pattern}")


@pytest.mark.parametrize("label", [b"[" * 100_000, b'{"label": [1]}', b'{"label": {}}', b"\xff"])
def test_labels_that_are_none_are_refused(label, tmp_path):
    path = shard(tmp_path / "s.tar", [("a.png", b"x"), ("a.json", label)])
    with pytest.raises(MarcError, match=r"a\.json"):
        open_images(f"wds/{path}")

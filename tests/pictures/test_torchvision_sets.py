"""`tv/NAME` on small sets, written as they lie on the disk."""

import hashlib
import multiprocessing
import pickle
from importlib.util import find_spec

import numpy as np
import pytest
from helpers.commands import call, call_json
from helpers.image_trees import pixels, tree

import marc
from marc import MarcError
from marc.embed.store import FeatureStore
from marc.pictures import open_images, reopen_images
from marc.pictures import torchvision_sets as module
from marc.pictures.decoding import read_picture

pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")


@pytest.fixture(scope="module", autouse=True)
def _importable():
    try:
        module._data_sets()
    except MarcError as error:
        pytest.skip(str(error))


def idx(array):
    """An array as a file of MNIST has it."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_mnist(root, labels, name="MNIST", part="t10k"):
    """One part of a set like MNIST; the other is empty, unless it is there."""
    grey = np.random.default_rng(0).integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    folder = root / name / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("images-idx3", "labels-idx1"):
        (folder / f"{'train' if part == 't10k' else 't10k'}-{kind}-ubyte").touch()
    (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(grey))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.array(labels, dtype=np.uint8)))
    return grey


def write_country(root, part, *names):
    return tree(root / "country211" / part, *names)


def seen(images, row):
    return np.asarray(read_picture(images.locations[row], images.upright))


def test_pictures_labels_and_names_are_those_of_the_data_set(tmp_path):
    grey = write_mnist(tmp_path, [7, 2, 1, 0])
    images = open_images("tv/MNIST", tmp_path)
    assert images.name == "tv/MNIST"
    assert images.ids == ("test/000000", "test/000001", "test/000002", "test/000003")
    assert images.labels == (7, 2, 1, 0)
    assert images.class_names[7] == "7 - seven"
    assert np.array_equal(seen(images, 2)[..., 1], grey[2])
    assert images.root == str(tmp_path)
    assert images.notes == ("the part 'test' is read; tv/MNIST#train would be another",)


def test_the_other_part_is_asked_for(tmp_path):
    write_mnist(tmp_path, [1])
    write_mnist(tmp_path, [3, 4], part="train")
    images = open_images("tv/MNIST#train", tmp_path)
    assert (images.ids, images.labels) == (("train/000000", "train/000001"), (3, 4))
    assert images.notes == ()
    assert images.digest != open_images("tv/MNIST", tmp_path).digest
    with pytest.raises(MarcError, match="unknown part") as refusal:
        open_images("tv/MNIST#val", tmp_path)
    assert refusal.value.allowed == "test, train"


def test_a_set_in_folders_is_told_the_part_by_split(tmp_path):
    write_country(tmp_path, "test", "AD/1.png", "AD/2.png", "great_land/1.jpg")
    write_country(tmp_path, "valid", "AD/9.png")
    images = open_images("tv/Country211", tmp_path)
    assert images.class_names == ("AD", "great land")
    assert images.labels == (0, 0, 1)
    assert np.array_equal(seen(images, 1), pixels(1))
    assert open_images("tv/Country211#valid", tmp_path).ids == ("valid/000000",)
    with pytest.raises(MarcError, match="no such part") as refusal:
        open_images("tv/Country211#dev", tmp_path)
    assert "'train', 'valid', 'test'" in refusal.value.got


def test_cifar_is_read_as_torchvision_checks_it(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    data = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    batch = {"data": data.reshape(5, -1), "labels": [4, 3, 2, 1, 0]}
    sums = {}
    for name, content in {
        "test_batch": batch,
        "data_batch_1": batch,
        "batches.meta": {"label_names": ["plane", "car", "bird", "cat", "deer"]},
    }.items():
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "train_list", [["data_batch_1", sums["data_batch_1"]]])
    meta = {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]}
    monkeypatch.setattr(CIFAR10, "meta", meta)
    images = open_images("tv/CIFAR10", tmp_path)
    assert images.labels == (4, 3, 2, 1, 0)
    assert images.class_names == ("plane", "car", "bird", "cat", "deer")
    assert np.array_equal(seen(images, 3), data[3].transpose(1, 2, 0))


def read_elsewhere(location):
    return hashlib.sha256(location.read()).hexdigest()


def test_a_spawned_process_reads_the_same_bytes(tmp_path):
    write_mnist(tmp_path, [0, 1, 2])
    places = open_images("tv/MNIST", tmp_path).locations
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(read_elsewhere, places)
    assert found == [read_elsewhere(place) for place in places]
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("source", "problem", "says"),
    [
        ("tv/MNIST", "is not there, or not whole", "download=True)"),
        ("tv/Country211", "is not there, or not whole", "download=True)"),
        ("tv/CIFAR", "unknown data set of torchvision", "CIFAR10, CIFAR100"),
        ("tv/FakeData", "unknown data set of torchvision", "MNIST"),
        ("tv/ImageFolder", "unknown data set of torchvision", "tv/CIFAR10 --root DIR"),
        ("tv/", "no source of pictures", "tv/NAME"),
    ],
)
def test_what_cannot_be_opened_is_said_with_what_can(tmp_path, source, problem, says):
    with pytest.raises(MarcError, match=problem) as refusal:
        open_images(source, tmp_path)
    assert says in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_files_that_are_damaged_are_said_to_be(tmp_path):
    write_mnist(tmp_path, [0, 1, 2])
    path = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MarcError, match="not whole"):
        open_images("tv/MNIST", tmp_path)


def test_a_root_is_needed_and_must_be_there(tmp_path):
    with pytest.raises(MarcError, match="needs the folder") as refusal:
        open_images("tv/MNIST")
    assert refusal.value.hint.startswith("tv/MNIST --root DIR")
    with pytest.raises(MarcError, match="no such root"):
        open_images("tv/MNIST", tmp_path / "gone")


class Odd:
    """A data set whose labels are what they are."""

    def __init__(self, labels, kept=None, classes=("a", "b")):
        self.given, self.classes = labels, classes
        if kept is not None:
            self.targets = kept

    def __len__(self):
        return len(self.given)

    def __getitem__(self, row):
        return None, self.given[row]


@pytest.mark.parametrize("labels", [[0, 0.5], ["a", "b"], [np.array([1, 2])], [None]])
def test_labels_that_are_no_integers_are_refused(labels):
    with pytest.raises(MarcError, match="no integers"):
        module._read_labels(Odd(labels), ("a", "b"), "Odd")


def test_kept_labels_are_believed_only_if_they_are_the_given_ones():
    assert module._read_labels(Odd([0, 1], kept=[1, 0]), ("a", "b"), "Odd") == (0, 1)
    kept = np.array([0, 1, 1, 0])
    assert module._read_labels(Odd([0, None, 1, 0], kept=kept), ("a", "b"), "Odd") == (0, 1, 1, 0)
    assert module._read_labels(Odd([-1, -1]), ("a", "b"), "Odd") is None
    with pytest.raises(MarcError, match="fewer class names"):
        module._read_labels(Odd([0, 2]), ("a", "b"), "Odd")
    with pytest.raises(MarcError, match="what its classes are called"):
        module._class_names(Odd([0], classes=None), "Odd")
    several = Odd([0], classes=[("tench", "Tinca tinca"), "great_shark"])
    assert module._class_names(several, "Odd") == ("tench", "great shark")


def test_a_set_is_embedded_run_and_opened_again(tmp_path, monkeypatch):
    write_country(
        tmp_path / "sets", "test", *(f"{k}/{n}.png" for k in ("cat", "bird") for n in "123")
    )
    monkeypatch.chdir(tmp_path)
    words = ["--encoder", "mini:pixels", "--predictor", "mini:captions", "--workers", "2"]
    made = call("embed", "tv/Country211", "--root", "sets", *words)
    assert made.status == 0, made.err
    assert "tv/Country211: 6 pictures -> store/stores/tv-Country211" in made.out
    stream = marc.load_stream("tv/Country211")
    assert stream.features.ids[0] == "test/000000"
    assert call_json("run", "tv/Country211", "--seed", "0")["config"]["source"] == "tv/Country211"
    monkeypatch.chdir(tmp_path / "sets")
    store = FeatureStore(tmp_path / "stores" / "tv-Country211")
    assert reopen_images(store.about).labels == (0, 0, 0, 1, 1, 1)


def test_data_sets_are_listed_with_their_type():
    out = call("list", "datasets").out
    assert "tv/NAME" in out
    assert "folder/DIR" in out

"""`marc.embed`, the verb: the same as `marc embed`, with encoders as objects too."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import marc
from marc.cli.embed import embed_pictures as command
from marc.embed.store import FeatureStore
from marc.embed.verb import embed, embed_pictures
from marc.encoders import EncoderCard
from marc.errors import MarcError
from marc.pictures.crops import Crop
from marc.stream import digest


class Mean:
    """The mean colour, turned by its weights."""

    def __init__(self, seed=0, **changes):
        self.weights = np.random.default_rng(seed).standard_normal((3, 4))
        card = EncoderCard(
            *("mean", "mean colour", "numpy", "mean", 4, Crop(64, 64), (0, 0, 0), (1, 1, 1)),
            *("mean", "MIT"),
            digest=digest(self.weights),
        )
        self.card = replace(card, **changes)

    def encode(self, images):
        return ((1 + images.mean(axis=(1, 2))) @ self.weights).astype(np.float32)


@pytest.fixture
def photos(tmp_path):
    draw = np.random.default_rng(0)
    for name in ("mug", "key"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            pixels = draw.integers(256, size=(70, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return f"folder/{tmp_path / 'photos'}"


def test_it_gives_the_stream_of_the_store(photos, tmp_path):
    encoders = ["mini:pixels", Mean()]
    stream = marc.embed(photos, encoders, predictor="mini:captions", output=tmp_path / "store")
    assert set(stream.spaces) == {"pixels", "mean"}
    assert len(stream) == 6
    again = marc.load_stream(f"store/{tmp_path / 'store'}")
    assert again.fingerprint == stream.fingerprint


def test_other_weights_of_the_same_name_are_refused(photos, tmp_path):
    embed_pictures(photos, [Mean(0)], predictor="none", output=tmp_path / "store")
    made = FeatureStore(tmp_path / "store").attributes("spaces/mean")["made"]
    assert made["encoder"]["digest"] == Mean(0).card.digest
    assert embed_pictures(photos, [Mean(0)], predictor="none", output=tmp_path / "store").done
    with pytest.raises(MarcError, match="digest"):
        embed_pictures(photos, [Mean(1)], predictor="none", output=tmp_path / "store")


@pytest.mark.parametrize(
    ("encoder", "problem"),
    [
        (Mean(digest=""), "has no digest"),
        (Mean(name="a+b"), "not a name for a space"),
        (Mean(name="predictor"), "not a name for a space"),
        (object(), "has a card and encodes"),
    ],
)
def test_an_encoder_that_no_store_could_trust_is_refused(encoder, problem, photos, tmp_path):
    with pytest.raises(MarcError, match=problem):
        marc.embed(photos, [encoder], output=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_encoder_without_texts_is_no_predictor(photos, tmp_path):
    with pytest.raises(MarcError, match="needs a text tower"):
        marc.embed(photos, predictor=Mean(), output=tmp_path / "store")


def test_a_dry_run_gives_the_estimate_and_writes_nothing(photos, tmp_path):
    found = marc.embed(photos, [Mean()], predictor="none", dry_run=True, output=tmp_path / "store")
    assert found.chunks == {"spaces/mean": (0, 1)}
    assert not (tmp_path / "store").exists()


def test_without_a_predictor_it_gives_what_was_done(photos, tmp_path):
    options = {"predictor": "none", "output": tmp_path / "store"}
    assert marc.embed(photos, [Mean()], **options).n_chunks == 1
    marc.embed(photos, predictor="mini:captions", output=tmp_path / "store")
    assert marc.embed(photos, [Mean()], **options).spaces == ("mean",)  # now it has one


def test_spaces_alone_need_no_class_names(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(3):
        pixels = np.full((70, 80, 3), 40 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    source, options = f"folder/{tmp_path / 'photos'}", {"output": tmp_path / "store"}
    assert marc.embed(source, [Mean()], predictor="none", **options).n_images == 3


def test_spaces_alone_are_given_beside_a_predictor_that_was_killed(photos, tmp_path):
    def kill(what, done, total):
        if what == "embedding":
            raise KeyboardInterrupt

    store = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        marc.embed(photos, predictor="mini:captions", output=store, on_progress=kill)
    assert FeatureStore(store).attributes(FeatureStore.VIEWS)
    assert marc.embed(photos, [Mean()], predictor="none", output=store).n_chunks == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_progress_is_told_by_picture_and_ends_with_the_last(photos, tmp_path, workers):
    told = []
    marc.embed(
        *(photos, ["mini:pixels", "mini:crops"]),
        **{"predictor": "mini:captions", "output": tmp_path / "store", "batch": 2},
        workers=workers,
        on_progress=lambda *each: told.append(each),
    )
    names = list(dict.fromkeys(what for what, _, _ in told))
    assert names[0] == "listing the pictures"
    assert [name for name in names if name.startswith("loading")] == [
        *("loading mini:captions", "loading mini:pixels", "loading mini:crops")
    ]
    assert ("starting to read" in names) == bool(workers)
    done = [(done, total) for what, done, total in told if what == "embedding"]
    assert done == sorted(set(done))
    assert len(done) > 4  # of six pictures in one chunk
    assert done[-1] == (6, 6)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[(name, 2**63) for name in ("views", "view_seed", "batch", "workers", "chunk")],
        *(("views", 4097), ("views", 0), ("view_seed", -1), ("view_seed", 2**53)),
        *(("batch", 2**16 + 1), ("workers", 1025), ("workers", -2), ("chunk", 2**20 + 1)),
        *((name, 1.5) for name in ("views", "view_seed", "batch", "workers", "chunk")),
    ],
)
def test_numbers_that_no_machine_could_do_are_refused_at_once(option, value, tmp_path):
    """Before the source, which is not there."""
    with pytest.raises(MarcError, match=f"{option} must be an integer"):
        marc.embed(f"folder/{tmp_path / 'none'}", predictor="mini:captions", **{option: value})


def test_a_gpu_that_is_not_there_is_refused_whatever_encodes(photos, tmp_path):
    pytest.importorskip("torch")
    with pytest.raises(MarcError, match="cuda:99"):
        marc.embed(
            photos, ["mini:pixels"], predictor="none", device="cuda:99", output=tmp_path / "s"
        )
    assert not (tmp_path / "s").exists()


def test_the_package_is_its_verb_and_has_the_defaults_of_the_command():
    import marc.embed as package

    assert package is marc.embed
    assert callable(package)
    assert inspect.signature(embed).parameters == inspect.signature(embed_pictures).parameters
    ours = inspect.signature(embed_pictures).parameters
    for name, option in inspect.signature(command).parameters.items():
        if name in ("source", "json", "classes"):  # in Python class_names may be a list
            continue
        default = ours[{"encoder": "encoders"}.get(name, name)].default
        theirs = option.default.default
        assert default == (tuple(theirs) if isinstance(theirs, list) else theirs), name

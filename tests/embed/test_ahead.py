"""Encoders that are begun and waited for later: the same bytes, and nothing behind a failure."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import tree
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.image_trees import draw

import marc
from marc import MarcError
from marc.embed import fill
from marc.embed.plan import EncoderSpec
from marc.embed.store import FeatureStore
from marc.embed.workers import PixelSpec, Workers
from marc.encoders import create_encoder
from marc.pictures.crops import Crop
from marc.pictures.image_set import FileBytes


class Later:
    """An encoder of the lab that computes when its vectors are waited for, in whatever thread."""

    def __init__(self, name):
        self._of = create_encoder(name)
        self.card, self.precision, self.batch = self._of.card, self._of.precision, self._of.batch
        self.threads = []

    def encode(self, images):
        return self.begin_encoding(images)()

    def begin_encoding(self, images):
        def wait():
            self.threads.append(threading.current_thread())
            return self._of.encode(images)

        return wait


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_lab_folder(tmp_path_factory.mktemp("pictures"))


def plan_of(pictures, store, encoder):
    plan = make_plan(pictures, store, predictor=None, spaces=())
    return replace(plan, spaces=(EncoderSpec(encoder.card.name, given=encoder),))


def test_vectors_that_are_waited_for_are_written_by_another_thread(pictures, tmp_path):
    later, now = Later("mini:pairs-small"), create_encoder("mini:pairs-small")
    done = embed_plan(plan_of(pictures, tmp_path / "later", later))
    embed_plan(plan_of(pictures, tmp_path / "now", now))
    assert tree(tmp_path / "later") == tree(tmp_path / "now")
    assert len(later.threads) == 4
    assert threading.current_thread() not in later.threads
    assert done.timing.images == 14
    assert 0 < done.timing.busy <= 1
    assert done.timing.writing > 0


def test_nothing_is_written_behind_a_chunk_that_failed(pictures, tmp_path, monkeypatch):
    written, plain = [], fill._write_chunk

    def fail_at_one(store, chunk, seen, vectors):
        written.append(chunk)
        if chunk == 1:
            raise MarcError("the disk is full")
        plain(store, chunk, seen, vectors)

    monkeypatch.setattr(fill, "_write_chunk", fail_at_one)
    plan = plan_of(pictures, tmp_path / "s", create_encoder("mini:pairs-small"))
    with pytest.raises(MarcError, match="the disk is full"):
        embed_plan(plan)
    assert written == [0, 1]
    assert FeatureStore(tmp_path / "s").pending("spaces/pairs-small") == [1, 2, 3]


def test_an_error_while_vectors_are_waited_for_is_the_callers(pictures, tmp_path):
    later = Later("mini:pairs-small")
    later.begin_encoding = lambda images: lambda: np.full((len(images), 128), np.nan, np.float32)
    with pytest.raises(MarcError, match="not finite"):
        embed_plan(plan_of(pictures, tmp_path / "s", later))


def test_compiled_code_makes_other_arrays(pictures, tmp_path):
    encoder = Later("mini:pairs-small")
    plan = plan_of(pictures, tmp_path / "s", encoder)
    embed_plan(plan)
    encoder.compiled = True
    with pytest.raises(MarcError, match="compiled"):
        embed_plan(plan)


def test_stores_of_fast_and_of_exact_squares_never_mix(pictures, tmp_path):
    pytest.importorskip("torch")
    exact = make_plan(pictures, tmp_path / "exact", n_views=3, spaces=("mini:pairs-small",))
    fast = replace(exact, store=tmp_path / "fast", resize="fast")
    for plan in (exact, fast):
        embed_plan(plan)
        other = "exact" if plan.resize == "fast" else "fast"
        with pytest.raises(MarcError, match=r"interpolation: stored .*bicubic, now .*bicubic"):
            embed_plan(replace(plan, resize=other))
    streams = [marc.load_stream(f"store/{each.store}") for each in (exact, fast)]
    keys, near = (each.features.keys("pairs-small") for each in streams)
    assert not np.array_equal(keys, near)
    assert ((keys * near).sum(axis=1) > 0.999).all()
    stored = FeatureStore(fast.store).attributes("spaces/pairs-small")
    assert stored["card"]["crop"]["interpolation"] == "fast-bicubic"


def test_a_reader_that_stops_early_leaves_no_place_in_use(tmp_path):
    spec = PixelSpec((Crop(8, 8), Crop(16, 20)), None, True)
    pieces = []
    for seed in range(8):
        draw(tmp_path / f"{seed}.png", seed)
        pieces.append(((f"{seed}.png",), (FileBytes(str(tmp_path / f"{seed}.png")),)))
    with Workers(1) as workers:
        for _ in range(3):
            abandoned = workers.prepare((piece, spec) for piece in pieces)
            next(abandoned)
            abandoned.close()
        again = list(workers.prepare((piece, spec) for piece in reversed(pieces)))
    for found, piece in zip(again, reversed(pieces), strict=True):
        for crop, expected in spec.prepare(piece).squares.items():
            assert np.array_equal(found.squares[crop], expected)


def test_an_unknown_resize_is_refused_before_pictures_are_listed():
    with pytest.raises(MarcError, match="exact, fast"):
        marc.embed("folder/nowhere", resize="quick")

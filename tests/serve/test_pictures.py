"""`marc.serve.pictures`: from what strangers send to features, in processes that may die."""

import asyncio
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from helpers.image_trees import bomb, encoded, moving, photo, turned
from PIL import Image

import marc.serve.pictures
from marc.encoders import create_encoder
from marc.errors import MarcError
from marc.scores import unit
from marc.serve.memory.config import StepRequest
from marc.serve.picture_worker import DecodingLimits
from marc.serve.pictures import Pictures
from marc.serve.refused import Refused
from marc.serve.service import Service
from marc.session.session import Session
from marc.stream.predictor import Predictor
from marc.types import Query
from marc_lab.streams import plan_stream

PLAN = plan_stream("sketch-12")
CLASSES = PLAN.class_names
ENCODERS = "mini:captions", ["mini:pairs-small", "mini:random"]
UNIX = pytest.mark.skipif(os.name != "posix", reason="signals of Unix")


class Gate:
    """An encoder that waits at a gate, or fails."""

    precision, batch = "float32", 64

    def __init__(self):
        self._inner = create_encoder("mini:pairs-small")
        self.card = self._inner.card
        self.open, self.reached, self.sizes, self.poison = threading.Event(), 0, [], None

    def encode(self, images):
        self.reached += 1
        assert self.open.wait(20)
        self.sizes.append(len(images))
        if self.poison is not None and (images == self.poison).all(axis=(1, 2, 3)).any():
            raise RuntimeError("this square")
        return self._inner.encode(images)


@contextmanager
def running(predictor=ENCODERS[0], encoders=ENCODERS[1], **options):
    pictures = Pictures(predictor, encoders, **options)
    pictures.start()
    try:
        yield pictures
    finally:
        pictures.close()


@pytest.fixture(scope="module")
def pictures():
    """One for all tests that leave it running."""
    with running(limits=DecodingLimits(seconds=8)) as pictures:
        yield pictures


def features(pictures, *images):
    """Of some pictures that come at once; a refusal in the place of what was refused."""

    async def all_at_once():
        waiting = [pictures.features(image) for image in images]
        async with asyncio.timeout(40):
            return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(all_at_once())


def refused(pictures, image):
    (refusal,) = features(pictures, image)
    assert isinstance(refusal, Refused), refusal
    return refusal


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.005)


def same(seen, query):
    return np.array_equal(seen.views, query.views) and all(
        np.array_equal(seen.keys[space], query.keys[space]) for space in query.keys
    )


def test_a_picture_alone_has_the_features_that_a_session_has_of_it(pictures):
    session = Session(CLASSES, *ENCODERS)
    prototypes, scale = pictures.prototypes(CLASSES)
    predictor = Predictor(unit(prototypes), scale)
    assert np.array_equal(predictor.prototypes, session.predictor.prototypes)
    large = encoded(np.kron(PLAN.picture(5), np.ones((9, 7, 1), dtype=np.uint8)), "JPEG")
    for image in (encoded(PLAN.picture(3)), large, turned(6), moving("WEBP"), photo(2, "BMP")):
        (seen,) = features(pictures, image)
        query = session._query(image)
        ours = Query.from_features(seen.views, predictor, seen.keys, item=0)
        assert seen.views.dtype == np.float32
        assert same(ours, query)
        assert np.array_equal(ours.base.logits, query.base.logits)
    other = session._query(encoded(PLAN.picture(4)))
    assert not same(seen, other)


def test_a_memory_of_a_server_answers_pictures_as_a_session_does(tmp_path):
    rows, session = range(40), Session(CLASSES, *ENCODERS)
    body = {"method": "class-means", "classes": list(CLASSES), "mode": "live"}

    async def serve():
        service = Service(tmp_path, pictures=Pictures(*ENCODERS))
        await service.start()
        try:
            await service.create("cam", body)
            requests = [StepRequest(f"{r}", None, {}, encoded(PLAN.picture(r))) for r in rows]
            answers = [json.loads(await service.step("cam", each)) for each in requests]
            with pytest.raises(Refused, match="no picture"):
                await service.step("cam", StepRequest("text", None, {}, b"text"))
            return answers, await service.call("cam", "picture", seq=answers[0]["seq"])
        finally:
            await service.stop()

    answers, small = asyncio.run(serve())
    live = [session.step(PLAN.picture(row)) for row in rows]
    assert [each["class"] for each in answers] == [each.answer for each in live]
    assert [each["top"][0]["probability"] for each in answers] == [e.confidence for e in live]
    assert any(each["disagree"] for each in answers)
    assert small.startswith(b"RIFF")


def test_what_it_is_made_of_is_plain_and_equal_after_a_restart(pictures):
    told = pictures.describe()
    assert json.loads(json.dumps(told)) == told
    assert told == Pictures(*ENCODERS).describe()
    assert told != Pictures("mini:captions", ["mini:pairs-small"]).describe()
    assert set(told["encoders"]) == {
        "predictor/views",
        "spaces/pairs-small",
        "spaces/random",
    }
    assert pictures.spaces == {"pairs-small": 128, "random": 128}
    (seen,) = features(pictures, photo())
    assert {space: key.shape for space, key in seen.keys.items()} == {
        space: (dim,) for space, dim in pictures.spaces.items()
    }


def test_what_comes_while_the_encoders_are_busy_is_one_batch():
    gate, images = Gate(), [encoded(PLAN.picture(row)) for row in range(20)]
    with running(encoders=[gate]) as pictures:

        async def come():
            first = asyncio.ensure_future(pictures.features(images[0]))
            await asyncio.to_thread(until, lambda: gate.reached == 1)
            others = [asyncio.ensure_future(pictures.features(each)) for each in images[1:]]
            await asyncio.to_thread(until, lambda: pictures._decoded.qsize() == 19)
            gate.open.set()
            return await asyncio.gather(first, *others)

        together = asyncio.run(come())
        assert gate.sizes == [1, 16, 3]
        assert pictures.status()["encoded_total"] == 20
        assert pictures.status()["batches_total"] == 3
        alone = [features(pictures, image)[0] for image in images]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.views, other.views, atol=1e-3)  # kept in 16 bits
        np.testing.assert_allclose(
            one.keys["pairs-small"], other.keys["pairs-small"], rtol=0, atol=1e-6
        )


def test_a_picture_that_the_encoders_fail_on_fails_alone():
    gate = Gate()
    gate.poison = 255
    gate.open.set()
    white = encoded(np.full((64, 64, 3), 255, dtype=np.uint8))
    with running(encoders=[gate]) as pictures:
        gate.open.clear()

        async def come():
            first = asyncio.ensure_future(pictures.features(photo(0)))
            await asyncio.to_thread(until, lambda: gate.reached == 1)
            others = [pictures.features(image) for image in (photo(1), white, photo(2))]
            others = [asyncio.ensure_future(each) for each in others]
            await asyncio.to_thread(until, lambda: pictures._decoded.qsize() == 3)
            gate.open.set()
            return await asyncio.gather(first, *others, return_exceptions=True)

        outcomes = asyncio.run(come())
        assert [isinstance(each, Refused) for each in outcomes] == [False, False, True, False]
        assert outcomes[2].status == 500
        assert "this square" in outcomes[2].got
        assert gate.sizes == [1, 3, 1, 1, 1]


def test_what_is_no_picture_is_refused_and_the_process_lives(pictures):
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><rect width="8" height="8"/></svg>'
    before = pictures.status()["decoders_started_total"]
    others = svg, b"<!DOCTYPE html><img src=x>", b"%PDF-1.7", b"%!PS-Adobe-3.0 EPSF-3.0\n"
    for image in (b"", b"a few words", b"\0" * 4096, moving("GIF"), photo(1, "TIFF"), *others):
        refusal = refused(pictures, image)
        assert refusal.status == 422
        assert "no picture that is read here" in refusal.problem
        assert "JPEG, PNG, WebP or BMP" in refusal.allowed
    for kind in ("JPEG", "PNG", "WEBP", "BMP"):
        whole = photo(3, kind)
        for image in (whole[: len(whole) * 2 // 3], whole[:16]):
            refusal = refused(pictures, image)
            assert refusal.status == 422, kind
            assert "truncated or damaged" in refusal.problem
    assert pictures.status()["decoders_started_total"] == before
    assert pictures.status()["waiting"] == 0


def test_pictures_that_are_too_large_are_refused(pictures):
    for image in (bomb(), bomb(5001, 5000), bomb(65537, 1)):
        refusal = refused(pictures, image)
        assert refusal.status == 413
        assert "25 megapixels" in refusal.allowed
    refusal = refused(pictures, b"\xff\xd8\xff" + bytes(20 * 2**20))
    assert refusal.status == 413
    assert refusal.allowed == "20,971,520 bytes, the quota 'image_bytes'"
    (seen,) = features(pictures, encoded(Image.new("1", (5000, 5000))))
    assert seen.views.shape[0] == 1


def test_pictures_of_every_kind_of_colour_are_read(pictures):
    grey = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    kinds = [Image.new(mode, (30, 20)) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")]
    images = [*map(encoded, kinds), encoded(grey), moving("WEBP"), moving("PNG")]
    images += [encoded(Image.new("CMYK", (8, 8)), "JPEG"), encoded(Image.new("L", (9000, 1)))]
    for seen in features(pictures, *images):
        assert not isinstance(seen, Exception), seen
        assert np.isfinite(seen.views).all()


def test_random_damage_never_ends_the_process(pictures):
    before = pictures.status()["decoders_started_total"]
    rng = np.random.default_rng(0)
    images = []
    for kind in ("JPEG", "PNG", "WEBP", "BMP"):
        whole = np.frombuffer(photo(4, kind), dtype=np.uint8)
        for _ in range(40):
            damaged = whole.copy()
            damaged[rng.integers(0, len(whole), 6)] = rng.integers(0, 256, 6)
            images.append(damaged.tobytes())
    outcomes = features(pictures, *images)
    statuses = {getattr(each, "status", 200) for each in outcomes}
    assert statuses <= {200, 413, 422}
    assert 422 in statuses
    assert pictures.status()["decoders_started_total"] == before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is one of Linux")
def test_a_picture_that_needs_more_memory_than_it_may_have_is_refused():
    grey = Image.fromarray(np.zeros((4000, 4000), dtype=np.uint16))
    limits = DecodingLimits(memory=2**27)
    with running(limits=limits) as pictures:
        assert refused(pictures, encoded(grey)).status == 413
        (seen,) = features(pictures, photo())
        assert seen.thumbnail


def test_a_thumbnail_is_small_and_says_nothing_of_place_and_camera(pictures):
    exif = Image.Exif()
    exif[0x010F] = "a secret camera"
    noise = np.random.default_rng(0).integers(0, 256, (700, 900, 3), dtype=np.uint8)
    image = encoded(noise, "JPEG", exif=exif, comment=b"a secret", icc_profile=b"a secret" * 99)
    for data in (image, encoded(noise[:112, :112]), encoded(Image.new("L", (9000, 1)))):
        (seen,) = features(pictures, data)
        with Image.open(io.BytesIO(seen.thumbnail)) as small:
            assert small.format == "WEBP"
            assert max(small.size) == 112
        assert len(seen.thumbnail) <= 6000
        assert b"secret" not in seen.thumbnail
    (seen,) = features(pictures, encoded(PLAN.picture(0)))
    with Image.open(io.BytesIO(seen.thumbnail)) as small:
        shown = np.asarray(small, dtype=float)
    assert shown.shape == PLAN.picture(0).shape
    assert np.abs(shown - PLAN.picture(0)).mean() < 25


@UNIX
def test_a_killed_process_takes_one_picture_with_it():
    with running() as pictures:
        os.kill(pictures._decoders[0]._process.pid, signal.SIGINT)  # Ctrl-C is the server's
        assert features(pictures, photo())[0].thumbnail
        for pause in (True, False):
            pid = pictures._decoders[0]._process.pid
            if pause:
                os.kill(pid, signal.SIGSTOP)

                async def come(pid=pid):
                    waiting = [asyncio.ensure_future(pictures.features(photo(n))) for n in (0, 1)]
                    await asyncio.to_thread(until, lambda: pictures._waiting.qsize() == 1)
                    os.kill(pid, signal.SIGKILL)
                    return await asyncio.gather(*waiting, return_exceptions=True)

                first, second = asyncio.run(come())
                assert first.status == 422
                assert "ended" in first.problem
            else:  # while it has nothing to do: nobody notices
                os.kill(pid, signal.SIGKILL)
                until(lambda: not pictures._decoders[0]._process.is_alive())
                (second,) = features(pictures, photo(1))
            assert not isinstance(second, Exception)
        assert pictures.status()["decoders_started_total"] == 3


@UNIX
@pytest.mark.parametrize("size", [(12, 16), (900, 900)])  # one is written to it, the other is not
def test_a_decoder_that_hangs_is_ended_at_its_time(size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    with running(limits=DecodingLimits(seconds=1)) as pictures:
        os.kill(pictures._decoders[0]._process.pid, signal.SIGSTOP)
        refusal = refused(pictures, encoded(pixels))
        assert refusal.status == 422
        assert refusal.allowed == "1 s"
        (seen,) = features(pictures, photo())
        assert seen.thumbnail


@UNIX
def test_what_is_too_many_is_refused_and_what_was_given_up_makes_room(monkeypatch):
    with running(queue=3) as pictures:
        pid = pictures._decoders[0]._process.pid
        os.kill(pid, signal.SIGSTOP)

        async def come():
            waiting = [asyncio.ensure_future(pictures.features(photo(n))) for n in range(3)]
            await asyncio.to_thread(until, lambda: pictures._waiting.qsize() == 2)
            with pytest.raises(Refused, match="too many") as refusal:
                await pictures.features(photo())
            assert (refusal.value.status, refusal.value.retry_after) == (429, 1)
            waiting[1].cancel()
            await asyncio.sleep(0.05)  # the loop says so to the thread
            os.kill(pid, signal.SIGCONT)
            return await asyncio.gather(*waiting, return_exceptions=True)

        first, second, third = asyncio.run(come())
        assert isinstance(second, asyncio.CancelledError)
        assert first.thumbnail
        assert third.thumbnail
        until(lambda: pictures.status()["waiting"] == 0)
        assert pictures.status()["encoded_total"] == 2
        monkeypatch.setattr(marc.serve.pictures, "_MOST_BYTES", 100)
        pictures.limits = DecodingLimits(bytes=len(photo()))
        outcomes = features(pictures, photo(), photo())
        assert [getattr(each, "status", 200) for each in outcomes] == [200, 429]


@UNIX
def test_closing_refuses_what_waits_and_leaves_no_process():
    before = set(multiprocessing.active_children())
    others = len([t for t in threading.enumerate() if t.name == "decoding"])
    pictures = Pictures(*ENCODERS, workers=2)
    with pytest.raises(Refused) as early:
        asyncio.run(pictures.features(photo()))
    assert early.value.status == 503
    pictures.start()
    processes = set(multiprocessing.active_children()) - before
    assert len(processes) == 2
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)

    async def come():
        waiting = [asyncio.ensure_future(pictures.features(photo(n))) for n in range(5)]
        await asyncio.to_thread(until, lambda: pictures._waiting.qsize() == 3)
        await asyncio.to_thread(pictures.close)
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [each.status for each in asyncio.run(come())] == [503] * 5
    assert set(multiprocessing.active_children()) == before
    assert len([t for t in threading.enumerate() if t.name == "decoding"]) == others
    pictures.close()  # again
    assert refused(pictures, photo()).status == 503
    pictures.start()
    pictures.start()  # it runs: nothing is started twice
    assert pictures.status()["decoders_started_total"] == 4
    assert len([t for t in threading.enumerate() if t.name == "decoding"]) == 2 + others
    assert features(pictures, photo())[0].thumbnail
    pictures.close()
    assert [each._process for each in pictures._decoders] == [None, None]


@UNIX
def test_a_server_that_is_killed_leaves_no_process(tmp_path):
    lines = [
        "import os, signal",
        "from marc.serve.pictures import Pictures",
        "if __name__ == '__main__':",
        "    Pictures('mini:captions', ['mini:random'], workers=2).start()",
        "    print('started', flush=True)",
        "    os.kill(os.getpid(), signal.SIGKILL)",
    ]
    script = tmp_path / "server.py"
    script.write_text("\n".join(lines))
    # it returns when the last process that has this pipe is gone
    ended = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=30)
    assert (ended.stdout, ended.returncode) == (b"started\n", -signal.SIGKILL)


def test_encoders_and_prompts_are_checked_at_once():
    for predictor, encoders, options in (
        ("mini:pairs-small", [], {}),
        ("mini:captions", ["no such encoder"], {}),
        ("mini:captions", ["mini:random", "mini:random"], {}),
        ("mini:captions", ["mini:random"], {"prompts": ["no such set"]}),
        ("mini:captions", ["mini:random"], {"workers": 0}),
    ):
        with pytest.raises(MarcError):
            Pictures(predictor, encoders, **options)

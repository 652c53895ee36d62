"""Forms of features: equal numbers in any form are an equal step, and nothing else is numbers."""

import base64
import io
import json
import struct

import numpy as np
import pytest
from helpers.asking import asking, step_body
from helpers.serving import DIM, SPACE_DIM, features
from safetensors.numpy import save

from marc.errors import MarcError
from marc.serve.refused import Refused
from marc.serve.web.bodies import JSON, NPY, SAFETENSORS, step_of, step_request

LAYOUT = DIM, {"s": SPACE_DIM}
MOST = 1000
VIEWS, KEYS = features(3)
ALL = np.concatenate([VIEWS[0], KEYS["s"]])


def b64(array, **more):
    return {"b64": base64.b64encode(np.asarray(array, "<f4").tobytes()).decode(), **more}


def json_step(predictor, space):
    body = {"id": "3", "features": {"predictor": predictor, "spaces": {"s": space}}}
    return JSON, json.dumps(body).encode()


def npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return NPY, file.getvalue()


def tensors(**arrays):
    return SAFETENSORS, save(arrays)


FORMS = {
    "lists": json_step(VIEWS[0].tolist(), KEYS["s"].tolist()),
    "a list of one view": json_step(VIEWS.tolist(), KEYS["s"].tolist()),
    "base64": json_step(b64(VIEWS), b64(KEYS["s"])),
    "base64 of a shape": json_step(b64(VIEWS, shape=[1, DIM]), b64(KEYS["s"], shape=[SPACE_DIM])),
    "npy": npy(ALL),
    "npy 2.0": npy(ALL, (2, 0)),
    "npy of 64 bits": npy(ALL.astype(np.float64)),
    "npy from the other end": npy(ALL.astype(">f4")),
    "npy in Fortran's order": npy(np.asfortranarray(ALL)),
    "safetensors": tensors(predictor=VIEWS[0], s=KEYS["s"]),
    "safetensors of one view": tensors(predictor=VIEWS, s=KEYS["s"]),
    "safetensors of 64 bits": tensors(predictor=VIEWS.astype(float), s=KEYS["s"].astype(float)),
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with asking(tmp_path_factory.mktemp("served")) as asker:
        yield asker


def test_equal_numbers_are_an_equal_step_in_every_form(ask):
    answers = set()
    for at, (media_type, raw) in enumerate(FORMS.values()):
        ask.make(f"m{at}")
        ask.step(1, f"m{at}")
        query = "?id=3" if media_type != JSON else ""
        answer = ask(
            "POST",
            f"/v1/memories/m{at}/step{query}",
            body=raw,
            headers={"Content-Type": media_type},
        )
        assert answer.status == 200, answer
        answers.add(json.dumps(answer.content))
    assert len(answers) == 1


def test_half_precision_is_read(ask):
    half = ALL.astype(np.float16)
    request = step_request(*npy(half), {"id": "3"}, LAYOUT, MOST)
    np.testing.assert_array_equal(request.views, half[:DIM].astype(np.float32))
    np.testing.assert_array_equal(request.keys["s"], half[DIM:].astype(np.float32))


def test_options_of_a_raw_body_are_in_the_query():
    query = {"id": "3", "neighbours": "2", "dry_run": "true", "deadline": "5"}
    request = step_request(*npy(ALL), query, LAYOUT, MOST)
    assert (request.id, request.neighbours, request.dry_run) == ("3", 2, True)
    assert request.deadline is not None


QUERIES = [{}, {"id": ""}, {"id": "3", "neighbours": "x"}, {"id": "3", "neighbours": "1" * 5000},
           {"id": "3", "dry_run": "1"}, {"id": "3", "deadline": "nan"},
           {"id": "3", "deadline": "inf"}, {"id": "3", "neighbors": "2"},
           {"id": "3", "image": "x"}]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_odd_options_are_refused(query):
    with pytest.raises(MarcError):
        step_request(*npy(ALL), query, LAYOUT, MOST)


class Surprise:
    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def header(text, data=b"", version=b"\x01\x00"):
    """An array whose header says anything."""
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text.encode() + data


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([Surprise()], dtype=object), allow_pickle=True)
    return file.getvalue()


def described(shape, descr="'<f4'", order=False):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


N = DIM + SPACE_DIM
NO_ARRAYS = {
    "empty": b"",
    "text": b"hello",
    "half a header": npy(ALL)[1][:30],
    "half the data": npy(ALL)[1][:-5],
    "objects": pickled(),
    "integers": npy(np.arange(N))[1],
    "complex": npy(ALL.astype(complex))[1],
    "a longer header than there is": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    "a shape that lies": header(described("(10**9,)"), ALL.tobytes()),
    "a shape of too many": header(described(f"({2**62},)"), ALL.tobytes()),
    "two dimensions": header(described(f"({N}, 1)"), ALL.tobytes()),
    "a scalar": header(described("()"), ALL.tobytes()[:4]),
    "a negative shape": header(described("(-1,)"), ALL.tobytes()),
    "more data than it says": header(described(f"({N},)"), ALL.tobytes() + b"\0" * 4),
    "fields": header(described("(1,)", "[('a', '<f4')]"), ALL.tobytes()),
    "signs without end": header("-" * 900 + "1"),
    "brackets without end": header("(" * 900),
    "signs of a size": header("-" * 60_000 + "1"),
    "another version": header(described(f"({N},)"), ALL.tobytes(), b"\x09\x09"),
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_what_is_no_array_of_numbers_is_refused(name):
    with pytest.raises(MarcError) as caught:
        step_request(NPY, NO_ARRAYS[name], {"id": "3"}, LAYOUT, MOST)
    assert caught.value.problem


def safetensors(header, data=b""):
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


ENTRY = {"dtype": "F32", "shape": [DIM], "data_offsets": [0, 4 * DIM]}
NO_TENSORS = {
    "empty": b"",
    "a longer header than there is": struct.pack("<Q", 2**60) + b"{}",
    "no json": struct.pack("<Q", 2) + b"xx",
    "none": safetensors({}),
    "less data than it says": safetensors({"predictor": ENTRY}, b"\0" * 8),
    "integers": tensors(predictor=np.arange(DIM), s=KEYS["s"])[1],
    "truth": tensors(predictor=np.ones(DIM, bool), s=KEYS["s"])[1],
    "of another kind": safetensors(
        {"predictor": {"dtype": "BF16", "shape": [DIM], "data_offsets": [0, 2 * DIM]}},
        b"\0" * 2 * DIM,
    ),
    "of no kind": safetensors(
        {"predictor": {"dtype": "F9", "shape": [DIM], "data_offsets": [0, 2 * DIM]}}, b"\0" * 12
    ),
    "no predictor": tensors(s=KEYS["s"])[1],
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_are_no_tensors_of_numbers_is_refused(name):
    with pytest.raises(MarcError) as caught:
        step_request(SAFETENSORS, NO_TENSORS[name], {"id": "3"}, LAYOUT, MOST)
    assert caught.value.problem


NO_NUMBERS = {
    "text": "1",
    "texts": ["1.5"] * DIM,
    "null": [None] * DIM,
    "truth": [True] * DIM,
    "one truth": [1.0] * (DIM - 1) + [True],
    "none": [],
    "no views": [[]],
    "of two lengths": [[1.0], [1.0, 2.0]],
    "mixed": [1.0, [1.0]],
    "views of views": [[[1.0]]],
    "a long text among many": ["a" * 100_000, *[1.0] * 100_000],
    "a number": 1.0,
    "base64 that is none": {"b64": "!"},
    "base64 of no floats": {"b64": "AAAAA"},
    "of three bytes": {"b64": "AAAA"},
    "a number as base64": {"b64": 5},
    "no base64": {"shape": [1]},
    "empty base64": {"b64": ""},
    "another key": b64(VIEWS, type="f2"),
    "a shape that lies": b64(VIEWS, shape=[DIM + 1]),
    "a shape of text": b64(VIEWS, shape=str(DIM)),
    "a shape of halves": b64(VIEWS, shape=[DIM + 0.5]),
    "a negative shape": b64(VIEWS, shape=[-1, DIM]),
    "a shape of truth": b64(VIEWS[0, :1], shape=[True]),
    "a shape of three": b64(VIEWS, shape=[1, 1, DIM]),
    "no shape": b64(VIEWS, shape=None),
    "an empty shape": b64(VIEWS, shape=[]),
    "a shape without end": b64(VIEWS, shape=[2**62, 2**62]),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_features_are_numbers_and_nothing_like_them(name):
    for place in ("predictor", "s"):
        predictor = {
            "predictor": VIEWS[0].tolist(),
            "s": KEYS["s"].tolist(),
            place: NO_NUMBERS[name],
        }
        space = predictor.pop("s")
        body = {"id": "3", "features": {**predictor, "spaces": {"s": space}}}
        with pytest.raises(MarcError) as caught:
            step_of(body, MOST)
        assert len(str(caught.value)) < 600


ODD_SHAPES = {
    "short": {"predictor": [1.0] * (DIM - 1)},
    "long": {"predictor": [1.0] * (DIM + 1)},
    "zero": {"predictor": [0.0] * DIM},
    "too large for 32 bits": {"predictor": [1e300] * DIM},
    "not finite": {"predictor": b64([np.nan] * DIM)},
    "too many views": {"predictor": [[1.0] * DIM] * 257},
    "no space": {"spaces": {}},
    "null spaces": {"spaces": None},
    "two spaces": {"spaces": {"s": [1.0] * SPACE_DIM, "t": [1.0]}},
    "short key": {"spaces": {"s": [1.0]}},
    "views of a key": {"spaces": {"s": [[1.0] * SPACE_DIM]}},
    "zero key": {"spaces": {"s": [0.0] * SPACE_DIM}},
    "infinite key": {"spaces": {"s": b64([np.inf] * SPACE_DIM)}},
}


def test_features_that_do_not_fit_step_nothing(ask):
    ask.make("fit")
    body = step_body(1)
    for name, more in ODD_SHAPES.items():
        odd = {**body, "features": {**body["features"], **more}}
        answer = ask("POST", "/v1/memories/fit/step", odd)
        assert answer.status == 422, name
    assert ask("GET", "/v1/memories/fit").content["seq"] == 0


def test_pictures_are_base64_of_a_bounded_size(ask):
    with pytest.raises(Refused) as caught:
        step_of({"id": "1", "image": "A" * (2 * MOST)}, MOST)
    assert caught.value.status == 413
    assert "image_bytes" in caught.value.problem
    for image in (5, None, "!!!!", ["AAAA"], "\u00e4"):
        with pytest.raises(MarcError):
            step_of({"id": "1", "image": image}, MOST)
    ask.make("pictures")
    answer = ask("POST", "/v1/memories/pictures/step", {"id": "1", "image": "AAAA"})
    assert answer.status == 422
    assert "takes features" in answer.content["problem"]

"""What a server makes, and what it refuses to make because it is too large."""

import pytest
from helpers.serving import DIM, N_CLASSES, SPACE_DIM, body

from marc.errors import MarcError
from marc.serve.creation import checked, made
from marc.serve.memory.served import Served
from marc.serve.refused import Refused

_CAPACITY = 16  # of the predictor's own memory, larger than the one that is read
_BYTES = N_CLASSES * _CAPACITY * (DIM + SPACE_DIM) * 4


@pytest.mark.parametrize(
    ("quota", "size"),
    [("classes", N_CLASSES), ("capacity", _CAPACITY), ("dims", DIM), ("bytes", _BYTES)],
)
def test_a_quota_is_named_where_it_refuses(quota, size):
    checked(body(), None, {quota: size})
    with pytest.raises(Refused) as refused:
        checked(body(), None, {quota: size - 1})
    error = refused.value
    assert (error.status, error.got, error.allowed) == (413, size, size - 1)
    assert quota in error.problem


def test_a_memory_is_made_whole_or_not_at_all(tmp_path):
    settings = checked(body(mode="canary", fraction=0.0), None, {})
    made(tmp_path / "m", *settings)
    memory = Served(tmp_path / "m")
    assert (memory.head["mode"], memory.head["fraction"]) == ("canary", 0.0)
    memory.close()
    with pytest.raises((OSError, MarcError)):
        made(tmp_path / "m", *settings)
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


def test_the_fraction_has_a_default(tmp_path):
    made(tmp_path / "m", *checked(body(), None, {}))
    memory = Served(tmp_path / "m")
    assert memory.head["fraction"] == 0.1
    memory.close()


def test_too_many_class_names_are_refused_before_an_encoder_reads_them():
    class Encoders:
        def prototypes(self, classes):
            raise AssertionError("they were read")

    with pytest.raises(Refused, match="'classes'"):
        checked({"classes": ["a", "b", "c"]}, Encoders(), {"classes": 2})

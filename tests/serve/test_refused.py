"""A refusal has a status, and crosses to another process whole."""

import copy

from marc.errors import MarcError
from marc.serve.refused import Refused


def test_a_refusal_is_an_error_with_a_status():
    error = Refused(429, "too many", got=3, allowed=2, hint="wait", retry_after=1.5)
    assert isinstance(error, MarcError)
    assert "too many" in str(error)
    assert "wait" in str(error)
    assert (error.status, error.retry_after) == (429, 1.5)


def test_a_refusal_crosses_to_another_process():
    error = Refused(507, "full", got="disk", allowed=None, hint="room", retry_after=5)
    again = copy.deepcopy(error)  # by its parts, as pickle does
    assert type(again) is Refused
    assert (str(again), vars(again)) == (str(error), vars(error))

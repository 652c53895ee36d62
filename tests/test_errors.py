import numpy as np
import pytest

from marc.errors import MarcError, integer, number, one_of


def test_a_message_has_one_line_for_each_part_that_is_given():
    error = MarcError("views are wrong.", got=3, allowed="1 to 2", hint="--views 2")
    assert str(error) == "views are wrong.\n  got:  3\n  allowed:  1 to 2\n  try:  --views 2"


def test_parts_that_are_not_given_are_left_out():
    assert str(MarcError("views are wrong")) == "views are wrong."


@pytest.mark.parametrize("got", [0, "", False, ()])
def test_a_falsy_value_that_came_is_still_told(got):
    assert f"got:  {got}" in str(MarcError("wrong", got=got))


def test_the_parts_can_be_read_from_the_error():
    error = MarcError("wrong", got=1, allowed=2, hint="three")
    assert (error.problem, error.got, error.allowed, error.hint) == ("wrong", 1, 2, "three")


def test_bad_input_can_be_caught_as_a_value_error():
    assert issubclass(MarcError, ValueError)


def test_one_of_gives_back_a_known_name():
    assert one_of("policy", "fifo", {"fifo": 1, "entropy": 2}) == "fifo"


@pytest.mark.parametrize("value", ["lifo", "", None, 3, ["fifo"]])
def test_one_of_lists_the_names_in_order_when_it_refuses(value):
    with pytest.raises(MarcError) as refused:
        one_of("policy", value, {"fifo": 1, "entropy": 2}, hint="policy=...")
    assert str(refused.value) == (
        f"unknown policy.\n  got:  {value!r}\n  allowed:  entropy, fifo\n  try:  policy=..."
    )


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2)])
def test_whole_number_gives_a_plain_int(value):
    result = integer("capacity", value, 2)
    assert result == 2
    assert type(result) is int


@pytest.mark.parametrize(
    "value", [1, -1, 2.0, "2", None, True, np.True_, np.float32(2), np.array([2]), np.array([2, 3])]
)
def test_whole_number_refuses_what_is_no_whole_number_or_too_small(value):
    with pytest.raises(MarcError) as refused:
        integer("capacity", value, 2)
    assert str(refused.value) == f"capacity must be an integer >= 2.\n  got:  {value!r}"


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1)])
def test_number_gives_a_plain_float(value):
    result = number("weight", value)
    assert result == 1.0
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        -1e-9,
        float("nan"),
        float("-inf"),
        None,
        "ten",
        [1, 2],
        pytest.param(10**400, id="beyond float"),
    ],
)
def test_number_refuses_what_is_negative_or_not_finite(value):
    with pytest.raises(MarcError) as refused:
        number("weight", value)
    assert str(refused.value) == f"weight must be a finite number >= 0.\n  got:  {repr(value)[:80]}"


def test_number_has_a_lower_bound_that_is_allowed_itself():
    assert number("weight", 1.5, at_least=1.5) == 1.5
    with pytest.raises(MarcError, match=r"weight must be a finite number >= 1\.5\.\n  got:  1\.25"):
        number("weight", 1.25, at_least=1.5)


@pytest.mark.parametrize("value", [1.1e9, 1e308, float("inf")])
def test_number_has_an_upper_bound(value):
    with pytest.raises(MarcError, match=r"weight must be a finite number <= 1e\+09"):
        number("weight", value)
    assert number("weight", 50.0, at_most=50) == 50.0
    with pytest.raises(MarcError, match=r"<= 50\.\n"):
        number("weight", 50.1, at_most=50)

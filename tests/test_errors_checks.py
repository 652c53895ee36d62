import math

import numpy as np
import pytest

import marc
from marc.errors import MarcError, check_features, check_labels, check_spaces
from marc.stream.stream import _names

DRAW = np.random.default_rng(0)
ROWS = DRAW.standard_normal((6, 4)).astype(np.float32)
VIEWS = DRAW.standard_normal((6, 2, 4)).astype(np.float32)


def with_value(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def refusal(function, *args, **kwargs):
    with pytest.raises(MarcError) as refused:
        function(*args, **kwargs)
    return str(refused.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_point_features_pass(dtype):
    check_features("views", VIEWS.astype(dtype), ndim=3)
    check_features("prototypes", ROWS.astype(dtype), ndim=2)


@pytest.mark.parametrize("shape", [(), (4,), (6, 4), (1, 6, 2, 4), (0, 2, 4), (6, 0, 4), (6, 2, 0)])
def test_views_of_a_wrong_or_empty_shape_are_refused(shape):
    message = refusal(check_features, "views", np.ones(shape), ndim=3)
    assert message == (
        "views must be a non-empty array of features.\n"
        f"  got:  {shape}\n"
        "  allowed:  (T, M, D) or (T, D)"
    )


@pytest.mark.parametrize("shape", [(), (4,), (6, 2, 4), (0, 4), (6, 0)])
def test_rows_of_a_wrong_or_empty_shape_are_refused(shape):
    message = refusal(check_features, "prototypes", np.ones(shape), ndim=2)
    assert message == (
        f"prototypes must be a non-empty array of features.\n  got:  {shape}\n  allowed:  (n, D)"
    )


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "complex64", "object", "<U3"])
def test_features_that_are_not_floating_point_are_refused(dtype):
    message = refusal(check_features, "prototypes", np.ones((6, 4)).astype(dtype), ndim=2)
    assert message == (
        "prototypes must be floating-point features.\n"
        f"  got:  {dtype}\n"
        "  allowed:  float16, float32 or float64"
    )


@pytest.mark.parametrize(
    ("value", "norm"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf"), (0.0, "0.0")]
)
def test_a_row_that_is_not_finite_or_zero_is_refused_with_its_place(value, norm):
    message = refusal(check_features, "space 'a'", with_value(ROWS, 5, value), ndim=2)
    assert "space 'a' must be finite and have no zero vector.\n" in message
    assert f"got:  norm {norm} at [5]\n" in message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_bad_number_is_enough(value):
    message = refusal(check_features, "views", with_value(VIEWS, (4, 1, 2), value), ndim=3)
    assert f"got:  norm {value} at [4, 1]\n" in message
    assert "try:  leave that image out, or embed it again" in message


def test_a_bad_row_is_found_beyond_the_first_block():
    rows = with_value(np.ones((9000, 2), dtype=np.float16), 8999, 0.0)
    assert "at [8999]" in refusal(check_features, "views", rows, ndim=2)
    views = with_value(np.ones((9000, 2, 1), dtype=np.float16), (8998, 1), np.nan)
    assert "at [8998, 1]" in refusal(check_features, "views", views, ndim=3)


def test_finite_features_too_large_for_float32_are_refused():
    message = refusal(check_features, "views", with_value(VIEWS.astype(float), 3, 1e300), ndim=3)
    assert "at [3, 0]" in message


def test_spaces_come_back_as_unit_float32_and_the_input_stays_as_it_was():
    given = {"a": ROWS.astype(np.float64), "b": ROWS.astype(np.float16)}
    before = {name: rows.copy() for name, rows in given.items()}
    checked = check_spaces(given, 6)
    assert list(checked) == ["a", "b"]
    for name, rows in checked.items():
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(given[name], before[name])


@pytest.mark.parametrize("name", ["", "predictor", "all", "class marginals", "dino+center", "+"])
def test_reserved_names_of_spaces_are_refused(name):
    message = refusal(check_spaces, {name: ROWS}, 6)
    assert f"not a name for a space.\n  got:  {name!r}\n" in message
    assert "any without '+' but 'predictor', 'all'" in message


@pytest.mark.parametrize("n_images", [5, 7])
def test_a_space_needs_one_row_per_image(n_images):
    message = refusal(check_spaces, {"good": ROWS}, n_images)
    assert message == (
        "space 'good' must have one row per image.\n"
        "  got:  6 rows\n"
        f"  allowed:  {n_images}, as in views"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_bad_features_of_a_space_are_told_with_its_name(bad):
    message = refusal(check_spaces, {"good": with_value(ROWS, 2, bad)}, 6)
    assert "space 'good' must be finite" in message
    assert "at [2]" in message


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_labels_come_back_as_int64(dtype):
    result = check_labels(np.array([0, 2, 1], dtype=dtype), 3, 3)
    assert result.dtype == np.int64
    assert result.tolist() == [0, 2, 1]


def test_no_labels_stay_no_labels():
    assert check_labels(None, 3, 3) is None


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ([0.0, 1.0, 2.0], "float64 (3,)"),
        ([True, False, True], "bool (3,)"),
        (["0", "1", "2"], "<U1 (3,)"),
        ([0, 1], "int64 (2,)"),
        ([0, 1, 2, 0], "int64 (4,)"),
        ([[0], [1], [2]], "int64 (3, 1)"),
        ([], "float64 (0,)"),
        (1, "int64 ()"),
    ],
)
def test_labels_of_a_wrong_kind_or_length_are_refused(given, got):
    message = refusal(check_labels, given, 3, 3)
    assert message == (
        f"labels must be one integer per image.\n  got:  {got}\n  allowed:  integers (3,)"
    )


@pytest.mark.parametrize(
    ("given", "got"), [([0, -1, 1], "-1 to 1"), ([0, 3, 1], "0 to 3"), ([-5, 9, 0], "-5 to 9")]
)
def test_labels_out_of_range_are_refused(given, got):
    message = refusal(check_labels, given, 3, 3)
    assert message == (
        f"labels are out of range.\n  got:  {got}\n  allowed:  0 to 2: one per prototype"
    )


def test_names_are_numbered_unless_given():
    assert _names("class_names", None, 2, "class ") == ("class 0", "class 1")
    assert _names("class_names", ["cat", 7], 2, "class ") == ("cat", "7")


@pytest.mark.parametrize("given", [[], ["cat"], ["cat", "dog", "cow"]])
def test_a_wrong_number_of_names_is_refused(given):
    message = refusal(_names, "class_names", given, 2, "class ")
    assert message == f"class_names has the wrong length.\n  got:  {len(given)}\n  allowed:  2"


STREAM = marc.synthetic_stream(n_images=20, n_classes=3, n_views=1)
METHOD = marc.MARC("classes")
ODD = {"none": None, "int": 3, "bytes": b"x", "dict": {}, "object": object(), "nan": math.nan}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    "verb",
    [
        lambda odd: marc.run(odd, STREAM),
        lambda odd: marc.run(METHOD, odd),
        lambda odd: marc.run(METHOD, "arrays/a.npz"),
        lambda odd: marc.replay(METHOD, odd),
        lambda odd: marc.sweep(odd),
        lambda odd: marc.select(odd),
        lambda odd: marc.geometry_of(odd),
        lambda odd: marc.compare(odd, odd),
        lambda odd: marc.compare([odd], [odd]),
        lambda odd: marc.judge(odd),
        lambda odd: marc.report(odd),
        lambda odd: marc.report("run", output=odd),
        lambda odd: marc.embed(odd),
        lambda odd: marc.load_stream(odd),
        lambda odd: marc.load_run(odd),
        lambda odd: marc.save_run(odd, "r", STREAM),
        lambda odd: marc.save_run([odd], "r", STREAM),
        lambda odd: marc.save_run(marc.run(METHOD, STREAM), "r", odd),
        lambda odd: marc.save_sweep(odd, "s", STREAM),
        lambda odd: marc.save_snapshot(odd, "m"),
        lambda odd: marc.create_encoder(odd),
        lambda odd: marc.create_encoder("builtins:eval"),
        lambda odd: marc.load_sweep(odd),
        lambda odd: marc.write_pack(odd, "a.npz"),
        lambda odd: marc.create_method(odd),
        lambda odd: marc.Stream.from_arrays(odd, np.eye(3)),
        lambda odd: marc.Stream.from_arrays(np.eye(3), odd),
        lambda odd: marc.Stream.from_arrays(np.eye(3), np.eye(3), odd or 3),
        lambda odd: marc.Stream.from_arrays(np.eye(3), np.eye(3), ids=odd or 3),
    ],
)
def test_a_verb_refuses_what_is_of_another_kind(tmp_path, monkeypatch, verb, odd):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MarcError):
        verb(odd)
    assert not [*tmp_path.iterdir()]

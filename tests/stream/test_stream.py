import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.stream import Stream

N_IMAGES, N_VIEWS, DIM, N_CLASSES = 9, 3, 4, 5


def arrays(**changes):
    draw = np.random.default_rng(0)
    given = {
        "views": draw.standard_normal((N_IMAGES, N_VIEWS, DIM)),
        "prototypes": draw.standard_normal((N_CLASSES, DIM)),
        "spaces": {name: draw.standard_normal((N_IMAGES, 6)) for name in "ab"},
        "logit_scale": 20.0,
        "labels": np.arange(N_IMAGES) % N_CLASSES,
        "class_names": list("vwxyz"),
        "ids": [f"image {number}" for number in range(N_IMAGES)],
    }
    return {**given, **changes}


def make(**changes):
    return Stream.from_arrays(**arrays(**changes))


def with_value(array, index, value):
    changed = np.array(array)
    changed[index] = value
    return changed


VIEWS, PROTOTYPES = arrays()["views"], arrays()["prototypes"]


@pytest.mark.parametrize(
    ("changes", "problem", "got"),
    [
        ({"views": with_value(VIEWS, (2, 1, 0), np.nan)}, "views must be finite", "nan at [2, 1]"),
        ({"views": with_value(VIEWS, (2, 1, 0), np.inf)}, "views must be finite", "inf at [2, 1]"),
        ({"views": with_value(VIEWS, (2, 1), 0)}, "have no zero vector", "norm 0.0 at [2, 1]"),
        ({"views": VIEWS.astype(int)}, "views must be floating-point", "int64"),
        ({"views": VIEWS[np.newaxis]}, "views must be a non-empty", "(1, 9, 3, 4)"),
        ({"views": VIEWS[:0]}, "views must be a non-empty", "(0, 3, 4)"),
        ({"views": VIEWS[:, :0]}, "views must be a non-empty", "(9, 0, 4)"),
        ({"prototypes": with_value(PROTOTYPES, (3, 0), np.nan)}, "must be finite", "nan at [3]"),
        ({"prototypes": with_value(PROTOTYPES, 3, 0)}, "no zero vector", "norm 0.0 at [3]"),
        ({"prototypes": PROTOTYPES.astype(int)}, "prototypes must be floating", "int64"),
        ({"prototypes": PROTOTYPES[:1]}, "at least two classes", "1"),
        (
            {"prototypes": PROTOTYPES[:, :3]},
            "views and prototypes must have the same dimension",
            "views 4, prototypes 3",
        ),
        ({"spaces": {"a": np.ones((8, 2))}}, "space 'a' must have one row per image", "8 rows"),
        ({"spaces": {"a": np.ones((9, 2), int)}}, "space 'a' must be floating-point", "int64"),
        ({"spaces": {"a": np.zeros((9, 2))}}, "space 'a' must be finite", "norm 0.0 at [0]"),
        ({"spaces": {"predictor": np.ones((9, 2))}}, "not a name for a space", "'predictor'"),
        ({"spaces": {"all": np.ones((9, 2))}}, "not a name for a space", "'all'"),
        ({"spaces": {"class marginals": np.ones((9, 2))}}, "not a name for a space", "marginals'"),
        ({"spaces": {"a+b": np.ones((9, 2))}}, "not a name for a space", "'a+b'"),
        ({"spaces": {"": np.ones((9, 2))}}, "not a name for a space", "''"),
        ({"spaces": {3: np.ones((9, 2))}}, "not a name for a space", "3"),
        ({"labels": np.arange(9)}, "labels are out of range", "0 to 8"),
        ({"labels": -np.ones(9, int)}, "labels are out of range", "-1 to -1"),
        ({"labels": np.zeros(9)}, "labels must be one integer per image", "float64 (9,)"),
        ({"labels": np.zeros(8, int)}, "labels must be one integer", "int64 (8,)"),
        ({"class_names": ["cat"]}, "class_names has the wrong length", "1"),
        ({"ids": ["a"] * 8}, "ids has the wrong length", "8"),
        ({"ids": ["a", "b", "a", *"cdefgh"]}, "ids must be distinct", "8 of 9"),
        ({"logit_scale": -1.0}, "logit_scale must be a finite number >= 1e-09", "-1.0"),
        ({"logit_scale": np.nan}, "logit_scale must be a finite number >= 1e-09", "nan"),
        ({"logit_scale": "high"}, "logit_scale must be a finite number >= 1e-09", "'high'"),
        ({"logit_scale": None}, "logit_scale must be a finite number >= 1e-09", "None"),
    ],
)
def test_bad_arrays_are_refused_with_what_was_wrong_and_what_came(changes, problem, got):
    with pytest.raises(MarcError) as refused:
        make(**changes)
    first, second, *_ = str(refused.value).splitlines()
    assert problem in first
    assert second.startswith("  got:  ")
    assert second.endswith(got)


@pytest.mark.parametrize("scale", [1e-30, 1e-24, 1e-22, 1e-19, 1e15])
def test_features_of_any_size_become_unit_vectors_or_are_refused(scale):
    try:
        stream = make(views=scale * VIEWS)
    except MarcError:
        return
    norms = np.linalg.norm(stream.query(0).views, axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("order", "problem", "got"),
    [
        (np.arange(8), "an order must be one integer per image", "int64 (8,)"),
        (np.arange(9.0), "an order must be one integer per image", "float64 (9,)"),
        (np.ones(9, bool), "an order must be one integer per image", "bool (9,)"),
        (np.arange(9).reshape(3, 3), "an order must be one integer per image", "int64 (3, 3)"),
        (np.zeros(9, int), "an order must name every image once", "1 distinct rows of 9"),
        (np.arange(1, 10), "an order must name every image once", "9 distinct rows of 9"),
        (np.arange(9) - 1, "an order must name every image once", "9 distinct rows of 9"),
    ],
)
def test_an_order_that_is_no_permutation_is_refused(order, problem, got):
    with pytest.raises(MarcError) as refused:
        make().reordered(order)
    assert str(refused.value) == (f"{problem}.\n  got:  {got}\n  allowed:  a permutation of 0..8")


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True])
def test_a_seed_must_be_a_whole_number(seed):
    with pytest.raises(MarcError) as refused:
        make().shuffled(seed)
    assert str(refused.value) == f"seed must be an integer >= 0.\n  got:  {seed!r}"


@pytest.mark.parametrize("n_views", [0, -1, 1.0, True])
def test_the_number_of_views_must_be_a_whole_number(n_views):
    with pytest.raises(MarcError) as refused:
        make().with_views(n_views)
    assert str(refused.value) == f"views must be an integer >= 1.\n  got:  {n_views!r}"


def test_more_views_than_are_stored_are_refused():
    with pytest.raises(MarcError) as refused:
        make().with_views(4)
    assert str(refused.value) == (
        "the stream does not store that many views.\n  got:  4\n  allowed:  1 to 3"
    )


@pytest.mark.parametrize("space", ["nope", "nope+center", "+center", ""])
def test_an_unknown_space_is_refused_with_the_known_ones(space):
    name = space.split("+")[0]
    for keys in (make().features.keys, make().query(0).key):
        with pytest.raises(MarcError) as refused:
            keys(space)
        assert str(refused.value) == (
            f"there is no space {name!r}.\n  got:  {space}\n  allowed:  a, b, predictor"
        )


def test_an_unknown_transform_is_refused_with_the_known_ones():
    with pytest.raises(MarcError, match="unknown space transform") as refused:
        make().features.keys("a+rotate")
    assert "got:  'rotate'" in str(refused.value)
    assert "allowed:  center, pca, random, whiten" in str(refused.value)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**40])
def test_shuffled_is_the_permutation_of_a_new_generator(seed):
    stream = make()
    expected = np.random.default_rng(seed).permutation(N_IMAGES)
    assert stream.shuffled(seed).order.tolist() == expected.tolist()
    assert stream.shuffled(seed).seed == seed
    assert [query.item for query in stream.shuffled(seed)] == expected.tolist()


def test_shuffling_does_not_compound():
    stream = make()
    again = stream.shuffled(0).shuffled(1)
    assert again.order.tolist() == stream.shuffled(1).order.tolist()
    assert again.seed == 1


def test_reordering_counts_stored_rows_and_forgets_the_seed():
    order = np.arange(N_IMAGES)[::-1]
    stream = make().shuffled(3).reordered(order)
    assert stream.order.tolist() == order.tolist()
    assert stream.seed is None


def test_labels_follow_the_order():
    stream = make().shuffled(5)
    assert stream.labels.tolist() == [item % N_CLASSES for item in stream.order]
    assert make(labels=None).labels is None


def test_views_are_nested():
    stream = make().shuffled(1)
    for n_views in (1, 2, 3):
        fewer = stream.with_views(n_views)
        assert fewer.n_views == n_views
        assert fewer.order.tolist() == stream.order.tolist()
        assert fewer.seed == 1
        for item in range(N_IMAGES):
            expected = stream.query(item).views[:n_views]
            np.testing.assert_array_equal(fewer.query(item).views, expected)


def test_fewer_views_give_the_scores_of_a_stream_that_stores_only_those():
    fewer = make().with_views(2).features.base
    stored = make(views=VIEWS[:, :2]).features.base
    np.testing.assert_array_equal(fewer.logits, stored.logits)
    np.testing.assert_array_equal(fewer.view_entropy, stored.view_entropy)


def test_features_without_a_view_axis_are_one_view():
    assert make(views=VIEWS[:, 0]).n_views == 1
    np.testing.assert_array_equal(make(views=VIEWS[:, 0]).query(4).views, make().query(4).views[:1])


def test_sizes_and_names_are_those_of_the_arrays():
    stream = make(class_names=None, ids=None)
    assert (len(stream), stream.n_views, stream.n_classes) == (N_IMAGES, N_VIEWS, N_CLASSES)
    assert stream.spaces == ("a", "b")
    assert make(spaces=None).spaces == ("predictor",)
    assert stream.features.class_names[4] == "class 4"
    assert stream.features.ids[8] == "8"


def different_parts(one, other):
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("views", {"views": with_value(VIEWS, (8, 2, 3), 0.5)}),
        ("prototypes", {"prototypes": with_value(PROTOTYPES, (4, 3), 0.5)}),
        ("logit_scale", {"logit_scale": 21.0}),
        ("labels", {"labels": with_value(np.arange(N_IMAGES) % N_CLASSES, 8, 0)}),
        ("labels", {"labels": None}),
        ("class_names", {"class_names": list("vwxyy")}),
        ("ids", {"ids": list("abcdefghi")}),
    ],
)
def test_a_fingerprint_names_the_part_that_changed(part, changes):
    assert different_parts(make().fingerprint, make(**changes).fingerprint) == {part}


def test_a_fingerprint_names_the_space_that_changed():
    spaces = arrays()["spaces"]
    changed = {**spaces, "b": with_value(spaces["b"], (8, 5), 0.5)}
    one, other = make().fingerprint, make(spaces=changed).fingerprint
    assert different_parts(one, other) == {"spaces"}
    assert different_parts(one["spaces"], other["spaces"]) == {"b"}


def test_a_fingerprint_names_the_order():
    assert different_parts(make().fingerprint, make().shuffled(0).fingerprint) == {"order"}
    assert make().reordered(np.arange(N_IMAGES)).fingerprint == make().fingerprint


def test_equal_streams_have_equal_fingerprints():
    assert make().fingerprint == make().fingerprint
    assert make().shuffled(4).fingerprint == make().shuffled(4).fingerprint
    assert make().with_views(2).fingerprint == make(views=VIEWS[:, :2]).fingerprint


def test_a_fingerprint_does_not_depend_on_the_memory_layout():
    rows = np.random.default_rng(1).standard_normal((N_IMAGES, 64))
    plain, turned = ({"a": rows}, {"a": np.asfortranarray(rows)})
    assert make(spaces=turned).fingerprint == make(spaces=plain).fingerprint


def test_float16_features_are_accepted_and_normalised():
    half = {name: rows.astype(np.float16) for name, rows in arrays()["spaces"].items()}
    stream = make(
        views=VIEWS.astype(np.float16), prototypes=PROTOTYPES.astype(np.float16), spaces=half
    )
    query = stream.query(3)
    predictor = stream.features.predictor
    for rows in (query.views, query.key("a")[np.newaxis], predictor.prototypes):
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(query.views, make().query(3).views, atol=2e-3)


def test_using_a_stream_leaves_the_given_arrays_as_they_were():
    given, before = arrays(), arrays()
    stream = Stream.from_arrays(**given)
    stream.features.keys("a+whiten")
    assert [query.base.label for query in stream.with_views(2).shuffled(0)]
    for name in ("views", "prototypes", "labels"):
        np.testing.assert_array_equal(given[name], before[name])
    for name, rows in before["spaces"].items():
        np.testing.assert_array_equal(given["spaces"][name], rows)


def test_queries_look_up_keys_by_space():
    stream = make()
    query = stream.query(2)
    assert sorted(query.keys) == ["a", "b"]
    assert len(query.keys) == 2
    np.testing.assert_array_equal(query.key("a"), stream.features.spaces["a"][2])
    np.testing.assert_array_equal(query.key("predictor"), query.views[0])
    np.testing.assert_array_equal(stream.features.keys("predictor")[2], query.views[0])
    np.testing.assert_array_equal(query.key("a+center"), stream.features.keys("a+center")[2])


def test_a_query_can_be_asked_whether_it_has_a_space():
    assert "a" in make().query(2).keys
    assert "nope" not in make().query(2).keys


def test_the_stored_order_can_be_taken_up_again():
    stream = make_stream()
    again = stream.shuffled(3).in_order(None)
    assert np.array_equal(again.order, np.arange(len(stream)))
    assert again.seed is None
    assert np.array_equal(stream.in_order(3).order, stream.shuffled(3).order)


def test_what_a_screen_would_obey_in_a_name_is_spelled_out():
    eye, names = np.eye(3), ["\x1b[31mred", "two\nlines", "\u202eback"]
    stream = Stream.from_arrays(eye, eye, {}, class_names=names, ids=["a\0", "b\x9b", "\u2028"])
    assert stream.features.class_names == ("\\x1b[31mred", "two\nlines", "\\u202eback")
    assert stream.features.ids == ("a\\x00", "b\\x9b", "\\u2028")


@pytest.mark.parametrize("name", ["a\0b", "\x1b[31m", "\ud800", "\u202e", "a\nb"])
def test_a_space_has_a_name_that_can_be_shown(name):
    with pytest.raises(MarcError, match="not a name for a space"):
        Stream.from_arrays(np.eye(3), np.eye(3), {name: np.eye(3)})

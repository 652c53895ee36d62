import numpy as np
import pytest
from helpers import reference
from helpers.making import make_stream

from marc import transforms
from marc.errors import MarcError
from marc.scores import unit

SPREAD = np.array([1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05])
ROWS = unit(SPREAD * np.random.default_rng(0).standard_normal((40, 7)) + 0.8)


def centered(rows):
    rows = rows.astype(np.float64)
    return rows - sum(rows) / len(rows)


def cosines(rows):
    rows = reference.unit(rows)
    return rows @ rows.T


@pytest.mark.parametrize("step", ["center", "whiten", "pca:3", "random:3", "random:3:9"])
def test_transforms_give_unit_float32_rows_and_leave_the_input_alone(step):
    rows = ROWS.copy()
    result = transforms.apply(rows, [step])
    assert result.dtype == np.float32
    assert result.shape == (40, 3 if ":" in step else 7)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(rows, ROWS)


def test_center_subtracts_the_mean():
    expected = centered(ROWS)
    np.testing.assert_allclose(expected.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(transforms.center(ROWS), reference.unit(expected), atol=1e-6)


def test_whitened_rows_have_the_identity_as_covariance_before_they_are_normalised():
    rows = centered(ROWS)
    precision = np.linalg.inv(rows.T @ rows / len(rows))
    products = rows @ precision @ rows.T  # of whitened rows, whatever their rotation
    lengths = np.sqrt(np.diag(products))
    result = transforms.whiten(ROWS)
    np.testing.assert_allclose(result @ result.T, products / np.outer(lengths, lengths), atol=1e-5)
    whitened = result * lengths[:, np.newaxis]
    np.testing.assert_allclose(whitened.T @ whitened / len(rows), np.eye(7), atol=1e-5)


def test_whitening_does_not_blow_up_directions_without_variance():
    flat = np.concatenate([ROWS, np.ones((40, 2))], axis=1)
    np.testing.assert_allclose(
        cosines(transforms.whiten(flat)), cosines(transforms.whiten(ROWS)), atol=1e-5
    )


def test_pca_to_full_dimension_preserves_cosines_of_centred_rows():
    np.testing.assert_allclose(cosines(transforms.pca(ROWS, 7)), cosines(centered(ROWS)), atol=1e-5)


def test_pca_keeps_the_directions_of_largest_variance():
    rows = centered(ROWS)
    _, _, directions = np.linalg.svd(rows)
    expected = cosines(rows @ directions[:3].T)
    np.testing.assert_allclose(cosines(transforms.pca(ROWS, 3)), expected, atol=1e-5)


def test_a_random_projection_is_drawn_from_its_seed():
    projection = np.random.default_rng(5).standard_normal((7, 4))
    expected = reference.unit(ROWS.astype(np.float64) @ projection)
    np.testing.assert_allclose(transforms.random(ROWS, 4, 5), expected, atol=1e-6)
    np.testing.assert_array_equal(transforms.random(ROWS, 4, 5), transforms.random(ROWS, 4, 5))
    np.testing.assert_array_equal(transforms.random(ROWS, 4), transforms.random(ROWS, 4, 0))
    assert not np.allclose(transforms.random(ROWS, 4, 5), transforms.random(ROWS, 4, 6))


def test_no_step_changes_nothing():
    np.testing.assert_array_equal(transforms.apply(ROWS, []), ROWS)


def test_a_chain_of_a_stream_equals_its_steps_by_hand():
    features = make_stream(space_dim=12).features
    rows = features.spaces["good"]
    by_hand = transforms.pca(transforms.center(rows), 8)
    np.testing.assert_array_equal(features.keys("good+center+pca:8"), by_hand)
    np.testing.assert_array_equal(
        features.keys("good+random:9:4+whiten"), transforms.whiten(transforms.random(rows, 9, 4))
    )
    np.testing.assert_array_equal(features.keys("good"), rows)


def test_the_predictor_space_can_be_transformed():
    features = make_stream().features
    expected = transforms.center(features.clip_keys)
    np.testing.assert_array_equal(features.keys("predictor+center"), expected)


def test_a_transform_asked_for_again_is_the_same():
    features = make_stream().features
    first = features.keys("good+center").copy()
    features.keys("bad+whiten")
    np.testing.assert_array_equal(features.keys("good+center"), first)


@pytest.mark.parametrize("step", ["", "rotate", "Center", "pca 3", "rotate:3", " center"])
def test_an_unknown_transform_is_refused_with_the_known_ones(step):
    with pytest.raises(MarcError) as refused:
        transforms.apply(ROWS, [step])
    assert str(refused.value) == (
        "unknown space transform.\n"
        f"  got:  {step.split(':')[0]!r}\n"
        "  allowed:  center, pca, random, whiten\n"
        "  try:  NAME+pca:64"
    )


@pytest.mark.parametrize(
    "step",
    [
        *("center:", "center:3", "whiten:3", "pca", "pca:", "pca:x", "pca:-1", "pca:2.5"),
        *("pca:3:1", "pca: 3", "random", "random:", "random:3:", "random:3:x", "random:3:1:1"),
        *("random:3:-1", "pca:²"),
    ],
)
def test_a_malformed_transform_is_refused_with_the_right_spellings(step):
    name = step.split(":")[0]
    with pytest.raises(MarcError) as refused:
        transforms.apply(ROWS, [step])
    assert str(refused.value) == (
        f"the space transform {name!r} is not written like that.\n"
        f"  got:  {step!r}\n"
        "  allowed:  center, whiten, pca:N, random:N, random:N:SEED"
    )


@pytest.mark.parametrize("step", ["pca:0", "pca:8", "random:0", "random:8", "random:8:1"])
def test_a_dimension_that_the_space_does_not_have_is_refused(step):
    name, size = step.split(":")[:2]
    with pytest.raises(MarcError) as refused:
        transforms.apply(ROWS, [step])
    assert str(refused.value) == (
        f"{name} cannot give that dimension.\n  got:  {size}\n  allowed:  1 to 7"
    )


def test_a_dimension_is_checked_against_what_the_step_before_left():
    assert transforms.apply(ROWS, ["pca:4", "random:4"]).shape == (40, 4)
    with pytest.raises(MarcError, match="allowed:  1 to 4"):
        transforms.apply(ROWS, ["pca:4", "random:5"])


@pytest.mark.parametrize("step", ["center", "whiten", "pca:3"])
@pytest.mark.parametrize("n_images", [1, 7])
def test_a_transform_to_zero_vectors_is_refused(step, n_images):
    same = np.repeat(ROWS[:1], n_images, axis=0)
    with pytest.raises(MarcError) as refused:
        transforms.apply(same, [step])
    assert str(refused.value).startswith("the space transform maps an image to the zero vector.")
    assert f"got:  {n_images} images" in str(refused.value)


def test_one_image_at_the_mean_is_enough_to_be_refused():
    rows = np.array([[3.0, 4.0], [-3.0, -4.0], [4.0, 3.0], [-4.0, -3.0], [0.0, 0.0]])
    with pytest.raises(MarcError, match="maps an image to the zero vector"):
        transforms.center(rows)

import numpy as np
import pytest
from PIL import Image

from marc.pictures.views import _OPERATIONS, _draw_mixture, _mix, _Mixture, _Operation

THIRTEEN = tuple(_OPERATIONS)
NINE = THIRTEEN[:9]
LEVELS = (0.1, 0.5, 1.0, 2.5, 5.0, 9.99, 10.0, 17.3, 31.0, 50.0)


def drawn(width=24, height=24, seed=3):
    pixels = np.random.default_rng(seed).integers(20, 220, size=(height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def after(picture, name, level, sign=1):
    return np.asarray(_Operation(name, level, sign).apply(picture))


def mixtures(n, names=THIRTEEN, severity=50.0):
    return [_draw_mixture(names, severity, np.random.default_rng(seed)) for seed in range(n)]


def test_the_lists_of_operations():
    assert len(set(NINE)) == 9
    assert len(set(THIRTEEN)) == 13
    assert set(THIRTEEN) - set(NINE) == {"color", "contrast", "brightness", "sharpness"}


@pytest.mark.parametrize("name", _OPERATIONS)
def test_no_level_up_to_fifty_breaks_an_operation(name):
    for picture in (
        drawn(),
        drawn(1, 1),
        Image.new("RGB", (5, 4)),
        Image.new("RGB", (4, 5), "white"),
    ):
        for level in LEVELS:
            for sign in (1, -1):
                result = after(picture, name, level, sign)
                assert result.shape == (picture.height, picture.width, 3)
                assert result.dtype == np.uint8


@pytest.mark.parametrize("name", _OPERATIONS)
def test_every_operation_does_something_and_leaves_its_input_alone(name):
    picture = drawn()
    before = np.asarray(picture).copy()
    assert (after(picture, name, 3.0) != before).any()
    np.testing.assert_array_equal(np.asarray(picture), before)


def test_posterize_keeps_the_top_bits_and_turns_black_without_any():
    picture, pixels = drawn(), np.asarray(drawn())
    for level, bits in ((0.1, 4), (2.49, 4), (2.51, 3), (5.1, 2), (7.6, 1)):
        step = 2 ** (8 - bits)
        np.testing.assert_array_equal(after(picture, "posterize", level), pixels // step * step)
    for level in (10.0, 12.5, 50.0):
        assert not after(picture, "posterize", level).any()


def test_solarize_inverts_what_is_bright_and_then_everything():
    picture, pixels = drawn(), np.asarray(drawn())
    expected = np.where(pixels < 128, pixels, 255 - pixels)
    np.testing.assert_array_equal(after(picture, "solarize", 5.0), expected)
    for level in (10.0, 50.0):
        np.testing.assert_array_equal(after(picture, "solarize", level), 255 - pixels)


def test_translate_moves_whole_pixels_and_leaves_black_behind():
    picture, pixels = drawn(), np.asarray(drawn())
    right = after(picture, "translate_x", 5.0, sign=-1)  # int(24 / 3 * 0.5) = 4 pixels
    np.testing.assert_array_equal(right[:, 4:], pixels[:, :-4])
    assert not right[:, :4].any()
    up = after(picture, "translate_y", 5.0)
    np.testing.assert_array_equal(up[:-4], pixels[4:])
    assert not up[-4:].any()
    assert not after(picture, "translate_x", 50.0).any()


def test_rotate_turns_by_whole_degrees():
    picture = drawn()
    for level, degrees in ((0.3, 0), (1.0, 3), (10.0, 30), (50.0, 150)):
        for sign in (1, -1):
            expected = picture.rotate(sign * degrees, resample=Image.Resampling.BILINEAR)
            np.testing.assert_array_equal(after(picture, "rotate", level, sign), expected)


def test_shear_slants_the_rows():
    columns = np.zeros((21, 41, 3), dtype=np.uint8)
    columns[:, 20] = 255
    slanted = after(Image.fromarray(columns), "shear_x", 10.0)[..., 0].astype(float)
    places = (slanted * np.arange(41)).sum(axis=1) / slanted.sum(axis=1)
    np.testing.assert_allclose(np.diff(places), -0.3, atol=0.02)
    down = after(Image.fromarray(columns).transpose(Image.Transpose.TRANSPOSE), "shear_y", 10.0)
    np.testing.assert_array_equal(down[..., 0].T, slanted)


def test_enhancements_scale_from_a_tenth():
    picture, pixels = drawn(), np.asarray(drawn()).astype(float)
    np.testing.assert_allclose(after(picture, "brightness", 5.0), pixels, atol=1)
    np.testing.assert_allclose(after(picture, "brightness", 2.5), 0.55 * pixels, atol=1)
    bright = after(picture, "brightness", 50.0)
    np.testing.assert_allclose(bright, np.minimum(255, 9.1 * pixels), atol=1)
    grey = np.asarray(picture.convert("L")).astype(float)
    faded = 0.55 * pixels + 0.45 * grey[..., np.newaxis]
    np.testing.assert_allclose(after(picture, "color", 2.5), faded, atol=1)
    flat = 0.55 * pixels + 0.45 * grey.mean()
    np.testing.assert_allclose(after(picture, "contrast", 2.5), flat, atol=1.6)
    for name in ("color", "contrast", "sharpness"):
        np.testing.assert_allclose(after(picture, name, 5.0), pixels, atol=1)


@pytest.mark.parametrize("severity", [1.0, 50.0])
def test_draws_are_as_described(severity):
    drawn_mixtures = mixtures(4000, severity=severity)
    weights = np.array([mixture.weights for mixture in drawn_mixtures])
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-15)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.mean(axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose(weights.var(axis=0), 1 / 18, atol=0.005)  # of Dirichlet(1, 1, 1)
    kept = np.array([mixture.original for mixture in drawn_mixtures])
    np.testing.assert_allclose(np.quantile(kept, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)
    chains = [chain for mixture in drawn_mixtures for chain in mixture.chains]
    assert len(chains) == 3 * len(drawn_mixtures)
    lengths = np.bincount([len(chain) for chain in chains])
    np.testing.assert_allclose(lengths / len(chains), [0, 1 / 3, 1 / 3, 1 / 3], atol=0.02)
    operations = [operation for chain in chains for operation in chain]
    counts = [sum(one.name == name for one in operations) for name in THIRTEEN]
    np.testing.assert_allclose(np.array(counts) / len(operations), 1 / 13, atol=0.01)
    levels = np.array([operation.level for operation in operations])
    assert 0.1 <= levels.min() < 0.1 + 0.01 * severity
    assert 0.99 * severity < levels.max() <= severity
    np.testing.assert_allclose(levels.mean(), (0.1 + severity) / 2, rtol=0.02)
    assert abs(np.mean([operation.sign for operation in operations])) < 0.03


def test_only_the_listed_operations_are_drawn():
    names = {
        operation.name
        for mixture in mixtures(200, NINE, 1.0)
        for chain in mixture.chains
        for operation in chain
    }
    assert names == set(NINE)


def test_mixing_pixels_is_mixing_after_normalisation():
    mean, std = np.array([0.4815, 0.4578, 0.4082]), np.array([0.2686, 0.2613, 0.2758])

    def normalised(pixels):
        return (np.asarray(pixels, dtype=float) / 255 - mean) / std

    picture = drawn()
    for mixture in mixtures(30):
        chained = np.zeros((24, 24, 3))
        for weight, chain in zip(mixture.weights, mixture.chains, strict=True):
            copy = picture
            for operation in chain:
                copy = operation.apply(copy)
            chained += weight * normalised(copy)
        slow = mixture.original * normalised(picture) + (1 - mixture.original) * chained
        np.testing.assert_allclose(normalised(_mix(picture, mixture)), slow, atol=2e-6)


def test_a_mixture_is_not_rounded_and_stays_within_the_range_of_pixels():
    for picture in (drawn(), Image.new("RGB", (8, 8), "white"), Image.new("RGB", (8, 8))):
        mixed = np.stack([_mix(picture, mixture) for mixture in mixtures(150)])
        assert mixed.dtype == np.float32
        assert mixed.min() >= 0
        assert mixed.max() <= 255
    fraction = _mix(drawn(), mixtures(1)[0]) % 1
    assert ((fraction > 0.1) & (fraction < 0.9)).any()


def test_keeping_everything_gives_the_picture():
    chains = ((_Operation("rotate", 50.0, 1),),) * 3
    kept = _mix(drawn(), _Mixture((0.2, 0.3, 0.5), 1.0, chains))
    np.testing.assert_array_equal(kept, np.asarray(drawn()))

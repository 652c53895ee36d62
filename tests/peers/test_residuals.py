import numpy as np
import pytest

from marc.peers._residuals import Rows, SameTexts, adamw_step, lengths, marginal_entropy
from marc.stream.predictor import Predictor


def plain_entropy(logits):
    powers = np.exp(logits - logits.real.max(axis=1, keepdims=True))
    mean = (powers / powers.sum(axis=1, keepdims=True)).mean(axis=0)
    return -(mean * np.log(mean)).sum()


def complex_gradient(loss, at):
    """Derivatives without differences: the imaginary part of a step of 1e-30 i."""
    gradient = np.empty(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[place] += 1e-30j
        gradient[place] = loss(moved).imag / 1e-30
    return gradient


@pytest.mark.parametrize("shape", [(1, 2), (1, 7), (3, 4), (6, 20)])
def test_the_gradient_of_the_marginal_entropy(shape):
    logits = 3 * np.random.default_rng(sum(shape)).standard_normal(shape)
    entropy, gradient = marginal_entropy(logits)
    assert entropy == pytest.approx(plain_entropy(logits.astype(complex)).real, abs=1e-12)
    np.testing.assert_allclose(gradient, complex_gradient(plain_entropy, logits), atol=1e-12)
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-12)
    differences = (
        plain_entropy(logits + 1e-5 * np.eye(shape[1])[0])
        - plain_entropy(logits - 1e-5 * np.eye(shape[1])[0])
    ) / 2e-5
    assert gradient[:, 0].sum() == pytest.approx(differences, abs=1e-8)


def test_probabilities_that_are_zero_in_their_type_do_no_harm():
    entropy, gradient = marginal_entropy(np.array([[0, -1e4, -2e6], [0, -1e5, 1]], dtype="f4"))
    assert np.isfinite(gradient).all()
    assert entropy > 0


def test_a_step_is_that_of_adamw_whose_moments_and_decay_are_written_out():
    draw = np.random.default_rng(0)
    raw, gradient = draw.standard_normal((2, 4, 6)).astype(np.float32)

    def loss(residual):  # <g, (raw + r) / |raw + r|>
        moved = raw + residual
        return (gradient * moved / np.sqrt((moved**2).sum(axis=1, keepdims=True))).sum()

    by_residual = complex_gradient(loss, np.zeros(raw.shape))
    first, second = 0.1 * by_residual / (1 - 0.9), 0.001 * by_residual**2 / (1 - 0.999)
    residual = np.zeros(raw.shape) * (1 - 6e-4 * 0.1) - 6e-4 * first / (np.sqrt(second) + 1e-3)
    moved = Rows.of(raw).after_step(gradient.copy(), 6e-4, 1e-3)
    np.testing.assert_allclose(moved, raw + residual, atol=1e-6)


def test_almost_all_of_a_step_is_by_the_sign():
    gradient = np.array([3, -2e-3, 1e-8, -1e-8, 0], dtype=np.float32)
    expected = [-5e-3, 5e-3, -2.5e-3, 2.5e-3, 0]
    np.testing.assert_allclose(adamw_step(gradient, 5e-3, 1e-8), expected, rtol=1e-5)


def test_a_row_of_zeros_has_no_direction_and_does_no_harm():
    rows = Rows.of(np.zeros((1, 3), dtype=np.float32))
    assert not rows.unit.any()
    assert lengths(rows.raw)[0] > 0
    moved = rows.after_step(np.ones((1, 3), dtype=np.float32), 0.1, 1e-3)
    np.testing.assert_allclose(moved, -0.1, rtol=1e-5)


def test_same_texts_are_tied_as_long_as_their_rows_are_the_same():
    rows = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32)
    texts = SameTexts.of(Predictor(rows, 10.0))
    scores = np.array([4.0, 3, 2, 1])
    texts.tie(scores)
    assert scores.tolist() == [4, 3, 4, 3]
    rows[3] += 1
    scores = np.array([[4.0, 3, 2, 1]])
    texts.tie(scores, rows)
    assert scores.tolist() == [[4, 3, 4, 1]]

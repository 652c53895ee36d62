import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from helpers.gold import gold as released
from helpers.tiny_networks import (
    ConvBN,
    Tower,
    as_it_is,
    fed,
    random_state,
    tiny_vit,
    tower_stream,
    with_weights,
    without_pictures,
    without_towers,
)
from torch import nn

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._image_learning import Classifier
from marc.peers.contract import check_method
from marc.peers.shot_training import SHOT, _shot_loss, _Training


def convolutional():
    return ConvBN(8)


def pseudo_labels(features, p, rounds=2):
    """Nearest centroids by cosine of features with a one behind them, in loops over classes."""
    rows = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels, shares = p.argmax(axis=1), p
    for _ in range(rounds):
        best = np.full(len(rows), -np.inf)
        new = labels.copy()
        for c in range(p.shape[1]):
            if (labels == c).any():
                centroid = (shares[:, c : c + 1] * rows).sum(axis=0) / (1e-8 + shares[:, c].sum())
                near = rows @ centroid / np.linalg.norm(centroid)
                new[near > best], best = c, np.maximum(best, near)
        labels = new
        shares = np.eye(p.shape[1])[labels]
    return labels


def literal(stream, method):
    """The published steps on whole streams of plain pictures, with the optimiser written out."""
    predictor = stream.features.predictor
    tower, texts = predictor.image_tower, torch.from_numpy(predictor.prototypes)
    network, n = tower.copy().eval().requires_grad_(True), len(stream)
    images = tower.prepare(np.stack([query.pixels()[0] for query in stream]))
    moving = list(network.parameters())
    velocity, size = [torch.zeros_like(p) for p in moving], method.pictures

    def look(images):
        features = network(images)
        features = features / features.norm(dim=1, keepdim=True)
        return features, predictor.logit_scale * features @ texts.T

    def norms(learning):
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.train(learning)

    last = method.epochs * -(-n // size)
    step, epoch = 0, 0
    while step < last:
        order = np.random.default_rng([method.seed, epoch]).permutation(n)
        epoch += 1
        for start in range(0, n, size):
            rows = order[start : start + size]
            if len(rows) == 1 or step == last:
                continue
            if step % (last // method.refreshes) == 0:
                with torch.no_grad():
                    features, logits = look(images)
                    labels = pseudo_labels(features.numpy(), logits.softmax(1).numpy())
            step += 1
            rate = method.rate * (1 + 10 * step / last) ** -0.75
            norms(True)
            logits = look(images[rows])[1]
            norms(False)
            p = logits.softmax(1)
            loss = -(p * (p + 1e-5).log()).sum(1).mean()
            loss = loss + (p.mean(0) * (p.mean(0) + 1e-5).log()).sum()
            wanted = nn.functional.cross_entropy(logits, torch.from_numpy(labels[rows]))
            gradients = torch.autograd.grad(loss + method.label_weight * wanted, moving)
            for parameter, gradient, v in zip(moving, gradients, velocity, strict=True):
                gradient = gradient + 1e-3 * parameter.data
                v.copy_(gradient if step == 1 else 0.9 * v + gradient)
                parameter.data -= rate * (gradient + 0.9 * v)
    with torch.no_grad():
        return look(images)[1].numpy()


@pytest.mark.parametrize("network", [None, convolutional])
@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 3, "refreshes": 3, "pictures": 16, "rate": 1e-2},
        {"epochs": 4, "refreshes": 2, "pictures": 7, "rate": 5e-3, "label_weight": 1.0},
    ],
)
def test_shot_equals_its_published_steps(network, settings):
    stream = tower_stream(network and Tower(network), n_images=50, n_views=1)
    method = SHOT(**settings)
    found = np.array([step.logits for step in iter_steps(method, stream)])
    np.testing.assert_allclose(found, literal(stream, method), atol=5e-3)


def test_it_is_trained_on_the_views_behind_the_plain_picture_and_answers_the_plain_one():
    plain, views = (
        run(SHOT(epochs=2, rate=rate), tower_stream(n_views=n)) for rate, n in ((0.0, 1), (0.0, 6))
    )
    assert np.array_equal(plain.predictions, views.predictions)
    seen = []
    stream = tower_stream(n_views=5, n_images=20)
    tower = stream.features.predictor.image_tower
    tower.prepare = lambda pixels, old=tower.prepare: seen.append(pixels) or old(pixels)
    run(SHOT(epochs=3, refreshes=1, pictures=10), stream)
    plain = {query.pixels()[0].tobytes() for query in stream}
    kinds = [{picture.tobytes() in plain for picture in batch} for batch in seen]
    before = [{True}]  # the first pictures are held against their features
    assert kinds == [*before, {True}, *[{False}] * 6, {True}]


def test_batches_are_drawn_by_the_seed():
    stream = tower_stream()
    first, again, other = (
        [step.logits for step in iter_steps(SHOT(epochs=2, pictures=16, seed=seed), stream)]
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n_images", [1, 2, 3])
def test_few_images_are_answered(n_images):
    steps = list(iter_steps(SHOT(pictures=2), tower_stream(n_images=n_images)))
    assert np.isfinite([step.logits for step in steps]).all()


def test_shot_keeps_the_contract_of_methods():
    check_method(SHOT)
    check_method(lambda: SHOT(epochs=2, refreshes=1, pictures=9, rate=0.01, seed=3))
    check_method(lambda: SHOT(epochs=2, label_weight=0.0))


def test_classes_with_the_same_text_stay_tied_and_the_lower_answers():
    for step in iter_steps(SHOT(epochs=2), tower_stream(twins=True)):
        assert step.logits[1] == step.logits[-1]
        assert step.prediction != 4


def test_draws_and_threads_are_left_alone():
    before = random_state()
    run(SHOT(epochs=1), tower_stream())
    assert random_state() == before


@pytest.mark.parametrize("labels", [True, False])
def test_the_gradient_of_the_loss(labels):
    draw = np.random.default_rng(0)
    z = draw.standard_normal((4, 3))
    y = torch.from_numpy(draw.integers(3, size=4)) if labels else None

    def loss(values):
        return float(_shot_loss(torch.from_numpy(values), y, 0.3, 1.7))

    logits = torch.from_numpy(z).requires_grad_(True)
    (found,) = torch.autograd.grad(_shot_loss(logits, y, 0.3, 1.7), logits)
    for at in np.ndindex(z.shape):
        step = np.zeros_like(z)
        step[at] = 1e-6
        assert found[at].item() == pytest.approx((loss(z + step) - loss(z - step)) / 2e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda: without_towers(tower_stream()), "image encoder is not at hand"),
        (lambda: without_pictures(tower_stream()), "features alone"),
    ],
)
def test_streams_that_do_not_fit_are_refused_before_the_first_image(stream, message):
    with pytest.raises(MarcError, match=message):
        run(SHOT(), stream())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be"),
        ({"refreshes": 0}, "refreshes must be"),
        ({"pictures": 1}, "pictures must be"),
        ({"rate": -1}, "rate must be"),
        ({"seed": -1}, "seed must be"),
        ({"threshold": "low"}, "threshold must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        SHOT(**settings)


def test_the_released_training_gave_the_same():
    gold = released("shot_tiny_vit")
    backbone = with_weights(tiny_vit(classes=0), "shot_tiny_source", "F.")
    neck = nn.Sequential()
    neck.add_module("bottleneck", nn.Linear(48, 32))
    neck.add_module("bn", nn.BatchNorm1d(32))
    neck = with_weights(neck, "shot_tiny_source", "B.")
    stored = with_weights(_Stored(), "shot_tiny_source", "C.fc.")
    direction = stored.weight_v / stored.weight_v.norm(dim=1, keepdim=True)
    weight, bias = (direction * stored.weight_g).detach(), stored.bias.detach()
    classifier = Classifier(
        nn.Sequential(backbone, neck), lambda features: features @ weight.T + bias, as_it_is
    )
    images, orders = fed(gold["images"]), gold["perms"]
    training = _Training(
        classifier,
        [(backbone, 1e-3), (neck, 1e-2)],
        lambda rows, learning: images[torch.from_numpy(rows)],
        len(images),
        SHOT(epochs=2, refreshes=2, pictures=32),
    )
    np.testing.assert_allclose(training.look()[1], gold["source_logits"], atol=2e-5)
    training.run(lambda epoch: lambda n: orders[epoch])
    logits = training.look()[1]
    np.testing.assert_allclose(logits, gold["logits"], atol=2e-5)
    assert np.array_equal(logits.argmax(axis=1), gold["pred"])
    assert np.array_equal(training.pseudo_labels, gold["pseudo_labels"])
    for name, value in neck.state_dict().items():
        np.testing.assert_allclose(value, gold[f"final_B.{name}"], atol=2e-6)
    for name, value in backbone.norm.state_dict().items():
        np.testing.assert_allclose(value, gold[f"final_F.norm.{name}"], atol=2e-6)


class _Stored(nn.Module):
    """A weight-normalised layer by its parts."""

    def __init__(self):
        super().__init__()
        self.weight_g = nn.Parameter(torch.empty(10, 1))
        self.weight_v = nn.Parameter(torch.empty(10, 32))
        self.bias = nn.Parameter(torch.empty(10))

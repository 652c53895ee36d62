import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from helpers.gold import gold as released
from helpers.tiny_networks import (
    ConvBN,
    Tower,
    fed,
    random_state,
    tiny_vit,
    tower_stream,
    whole,
    with_weights,
    without_pictures,
    without_towers,
)
from torch import nn

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._image_learning import norm_parameters
from marc.peers.contract import check_method
from marc.peers.tent import Tent, _adapt, _tent_learner


def convolutional():
    return ConvBN(8)


def without_norms():
    return nn.Sequential(nn.Conv2d(3, 8, 8), nn.Flatten())


def direction(optimiser, gradient, m, v, count):
    """Which way an optimiser goes at its step number `count`; its moments change in place."""
    if optimiser == "adam":
        m.mul_(0.9).add_(0.1 * gradient)
        v.mul_(0.999).add_(0.001 * gradient**2)
        return (m / (1 - 0.9**count)) / ((v / (1 - 0.999**count)).sqrt() + 1e-8)
    m.copy_(gradient if count == 1 else 0.9 * m + gradient)
    return gradient + 0.9 * m


def literal(stream, batch_size, optimiser, rate, steps, episodic):
    """The published steps, with the optimisers written out."""
    predictor = stream.features.predictor
    tower, texts = predictor.image_tower, torch.from_numpy(predictor.prototypes)
    network = tower.copy()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = part.running_var = None
            part.track_running_stats = False
    moving = list(norm_parameters(network).values())
    first = [each.clone() for each in moving]
    queries, answers, moments, count = list(stream), [], [], 0
    for start in range(0, len(queries), batch_size):
        if episodic:
            for each, source in zip(moving, first, strict=True):
                each.data.copy_(source)
        if episodic or not moments:
            moments, count = [(torch.zeros_like(p), torch.zeros_like(p)) for p in moving], 0
        batch = [query.pixels()[0] for query in queries[start : start + batch_size]]
        images = tower.prepare(np.stack(batch))
        for each in moving:
            each.requires_grad_(True)
        for _ in range(steps):
            features = network(images)
            features = features / features.norm(dim=1, keepdim=True)
            logits = predictor.logit_scale * features @ texts.T
            p = torch.softmax(logits, 1)
            loss = -(p * torch.log(p)).sum(1).mean()
            gradients = torch.autograd.grad(loss, moving)
            count += 1
            for parameter, gradient, held in zip(moving, gradients, moments, strict=True):
                parameter.data -= rate * direction(optimiser, gradient, *held, count)
        answers.append(logits.detach().numpy())
    return np.concatenate(answers)


@pytest.mark.parametrize("network", [None, convolutional])
@pytest.mark.parametrize(
    ("optimiser", "rate", "steps", "episodic"),
    [("adam", 1e-3, 1, False), ("sgd", 5e-2, 1, False), ("adam", 1e-2, 3, True)],
)
def test_tent_equals_its_published_steps(network, optimiser, rate, steps, episodic):
    stream = tower_stream(network and Tower(network), n_images=50, n_views=2)
    settings = {"optimiser": optimiser, "rate": rate, "steps": steps, "episodic": episodic}
    method = Tent(batch_size=16, **settings)
    found = np.array([step.logits for step in iter_steps(method, stream)])
    np.testing.assert_allclose(found, literal(stream, 16, **settings), atol=2e-4)


def test_a_batch_is_answered_before_it_moves_the_network():
    stream = tower_stream(n_images=40)
    still, moving = (
        np.array([step.logits for step in iter_steps(Tent(batch_size=16, rate=rate), stream)])
        for rate in (0, 0.05)
    )
    assert np.array_equal(still[:16], moving[:16])
    assert not np.isclose(still[16:], moving[16:]).all(axis=1).any()


def test_an_episode_ends_with_its_batch():
    stream = tower_stream(n_images=40)
    still, episodic = (
        [step.logits for step in iter_steps(Tent(batch_size=8, rate=rate, episodic=True), stream)]
        for rate in (0, 0.05)
    )
    assert np.array_equal(still, episodic)


def test_layer_norms_and_batch_norms_learn_and_nothing_else_does():
    learner = _tent_learner(whole(tiny_vit()), "adam", 1e-3)
    names = set(learner.parameters)
    assert {"norm.weight", "blocks.0.norm1.bias", "blocks.1.norm2.weight"} <= names
    assert all("norm" in name for name in names)
    network = learner.classifier.module
    assert {n for n, p in network.named_parameters() if p.requires_grad} == names
    kept = {name: each.clone() for name, each in network.state_dict().items()}
    _adapt(learner, torch.randn(8, 3, 16, 16))
    changed = {name for name, each in network.state_dict().items() if (each != kept[name]).any()}
    assert changed <= names
    assert len(changed) >= len(names) - 2
    assert set(norm_parameters(ConvBN())) == {
        f"bn{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")
    }


def test_tent_keeps_the_contract_of_methods():
    check_method(Tent)
    check_method(lambda: Tent(batch_size=7, optimiser="sgd", rate=0.05))
    check_method(lambda: Tent(batch_size=16, steps=2, rate=0.01, episodic=True))


def test_classes_with_the_same_text_stay_tied_and_the_lower_answers():
    stream = tower_stream(twins=True, n_images=60)
    for step in iter_steps(Tent(batch_size=8, rate=0.05), stream):
        assert step.logits[1] == step.logits[-1]
        assert step.prediction != 4


def test_draws_and_threads_are_left_alone():
    before = random_state()
    run(Tent(), tower_stream())
    assert random_state() == before


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda: without_towers(tower_stream()), "image encoder is not at hand"),
        (lambda: without_pictures(tower_stream()), "features alone"),
        (lambda: tower_stream(Tower(without_norms)), "this image encoder has none"),
    ],
)
def test_streams_that_do_not_fit_are_refused_before_the_first_image(stream, message):
    with pytest.raises(MarcError, match=message):
        run(Tent(), stream())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be"),
        ({"optimiser": "adamw"}, "unknown optimiser"),
        ({"rate": -1}, "rate must be"),
        ({"momentum": 1}, "momentum must be below 1"),
        ({"steps": 0}, "steps must be"),
        ({"episodic": 1}, "episodic must be true or false"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        Tent(**settings)


@pytest.mark.parametrize(
    ("variant", "settings"),
    [
        ("convbn_adam", ("adam", 1e-3)),
        ("convbn_sgd", ("sgd", 2.5e-4)),
        ("vit_sgd", ("sgd", 1e-3)),
        ("vit_adam_episodic", ("adam", 1e-3, 0.9, True)),
    ],
)
def test_the_released_functions_gave_the_same(variant, settings):
    gold, kind = released(f"tent_tiny_{variant}"), variant.partition("_")[0]
    network = tiny_vit() if kind == "vit" else ConvBN()
    network = with_weights(network, f"tent_tiny_{kind}_weights")
    images, episodic = fed(gold["images"]), settings[-1] is True
    with torch.no_grad():
        np.testing.assert_allclose(network(images), gold["source_logits"], atol=1e-5)
    learner = _tent_learner(whole(network), *settings)
    batches = images.split(64)
    found = np.concatenate([_adapt(learner, batch, episodic=episodic) for batch in batches])
    np.testing.assert_allclose(found, gold["logits"], atol=1e-5)
    assert np.array_equal(found.argmax(axis=1), gold["pred"])
    for name, parameter in learner.parameters.items():
        adapted = gold[f"adapted_{name}"]
        np.testing.assert_allclose(parameter.detach(), adapted, atol=1e-6)

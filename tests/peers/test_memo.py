import copy

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

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._image_learning import mix_statistics
from marc.peers.contract import check_method
from marc.peers.memo import MEMO, _adapt_to_one, _memo_learner


def convolutional():
    return ConvBN(8)


def literal(stream, optimiser, rate, decay, steps):
    """A copy of the published network for each image, and the optimisers written out."""
    predictor = stream.features.predictor
    tower, texts = predictor.image_tower, torch.from_numpy(predictor.prototypes)
    source, answers, moments, count = tower.copy(), [], None, 0

    def logits_of(network, images):
        features = network(images)
        return predictor.logit_scale * (features / features.norm(dim=1, keepdim=True)) @ texts.T

    for query in stream:
        network = copy.deepcopy(source).requires_grad_(True)
        moving = list(network.parameters())
        moments = moments or [(torch.zeros_like(p), torch.zeros_like(p)) for p in moving]
        images = tower.prepare(query.pixels())
        for _ in range(steps):
            mean = torch.softmax(logits_of(network, images[1:]), 1).mean(0)
            loss = -(mean * torch.log(mean)).sum()
            gradients = torch.autograd.grad(loss, moving)
            count += 1
            for parameter, gradient, (m, v) in zip(moving, gradients, moments, strict=True):
                if optimiser == "sgd":
                    parameter.data -= rate * (gradient + decay * parameter.data)
                    continue
                m.mul_(0.9).add_(0.1 * gradient)
                v.mul_(0.999).add_(0.001 * gradient**2)
                parameter.data *= 1 - rate * decay
                step = (m / (1 - 0.9**count)) / ((v / (1 - 0.999**count)).sqrt() + 1e-8)
                parameter.data -= rate * step
        with torch.no_grad():
            answers.append(logits_of(network, images[:1])[0].numpy())
    return np.array(answers)


@pytest.mark.parametrize("n_views", [2, 6])
@pytest.mark.parametrize(
    ("optimiser", "rate", "decay", "steps"),
    [("adamw", 1e-3, 0.5, 1), ("sgd", 2e-2, 0.0, 1), ("sgd", 1e-2, 0.1, 3)],
)
def test_memo_equals_its_published_steps(n_views, optimiser, rate, decay, steps):
    stream = tower_stream(n_images=20, n_views=n_views)
    settings = {"optimiser": optimiser, "rate": rate, "decay": decay, "steps": steps}
    found = np.array([step.logits for step in iter_steps(MEMO(**settings), stream)])
    np.testing.assert_allclose(found, literal(stream, **settings), atol=2e-3)


def test_with_sgd_an_image_is_answered_alone_and_with_adamw_it_is_not():
    stream = tower_stream(n_images=40)
    for settings, alone in (({"optimiser": "sgd", "rate": 0.02}, True), ({"rate": 1e-3}, False)):
        here, there = (
            np.array([step.logits for step in iter_steps(MEMO(**settings), each)])[
                np.argsort(each.order)
            ]
            for each in (stream, stream.shuffled(5))
        )
        assert np.array_equal(here, there) == alone


def test_every_parameter_moves_and_every_one_comes_back():
    learner = _memo_learner(whole(tiny_vit()), "adamw", 1e-3, 0.01)
    network = learner.classifier.module
    before = {name: each.clone() for name, each in network.state_dict().items()}
    moved = []
    network.register_forward_hook(
        lambda *_: moved.append({n: (p != before[n]).any() for n, p in network.named_parameters()})
    )
    images = torch.randn(5, 3, 16, 16)
    _adapt_to_one(learner, images[1:], images[:1])
    assert not any(moved[0].values())
    assert all(moved[1].values())
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())


def test_statistics_of_batch_norms_are_mixed_sixteen_pictures_to_one():
    torch_state = random_state()
    network = Tower(convolutional).copy()
    network.bn1.running_mean.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    images = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    into = network.conv1(images)
    mean = (16 * network.bn1.running_mean + into.mean((0, 2, 3))) / 17
    var = (16 * network.bn1.running_var + into.var((0, 2, 3))) / 17
    expected = (into - mean[:, None, None]) / (var[:, None, None] + network.bn1.eps).sqrt()
    mix_statistics(network, 16)
    with torch.no_grad():
        found = network.bn1(into)
    scale, shift = (each[:, None, None].detach() for each in (network.bn1.weight, network.bn1.bias))
    np.testing.assert_allclose(found, (expected * scale + shift).detach(), atol=1e-5)
    assert random_state() == torch_state


def test_memo_keeps_the_contract_of_methods():
    check_method(MEMO)
    check_method(lambda: MEMO(optimiser="sgd", rate=0.02, decay=0.0))


def test_memo_runs_with_batch_norms():
    stream = tower_stream(Tower(convolutional), n_images=12)
    steps = list(iter_steps(MEMO(rate=1e-3), stream))
    assert np.isfinite([step.logits for step in steps]).all()


def test_classes_with_the_same_text_stay_tied_and_the_lower_answers():
    stream = tower_stream(twins=True, n_images=30)
    for step in iter_steps(MEMO(rate=1e-3), stream):
        assert step.logits[1] == step.logits[-1]
        assert step.prediction != 4


def test_draws_and_threads_are_left_alone():
    before = random_state()
    run(MEMO(), tower_stream(n_images=10))
    assert random_state() == before


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda: without_towers(tower_stream()), "image encoder is not at hand"),
        (lambda: without_pictures(tower_stream()), "features alone"),
        (lambda: tower_stream(n_views=1), "views behind the plain one"),
    ],
)
def test_streams_that_do_not_fit_are_refused_before_the_first_image(stream, message):
    with pytest.raises(MarcError, match=message):
        run(MEMO(), stream())


def test_a_live_picture_without_views_is_refused():
    with pytest.raises(MarcError, match="views behind the plain one"):
        MEMO().step(tower_stream(n_views=1).query(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimiser": "adam"}, "unknown optimiser"),
        ({"rate": -1}, "rate must be"),
        ({"decay": "no"}, "decay must be"),
        ({"steps": 0}, "steps must be"),
        ({"prior_strength": -1}, "prior_strength must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        MEMO(**settings)


@pytest.mark.parametrize("settings", [("sgd", 2.5e-4, 0.0), ("adamw", 1e-5, 0.01)])
def test_the_released_script_gave_the_same(settings):
    gold, views = released(f"memo_tiny_vit_{settings[0]}"), released("memo_tiny_vit_sgd")["views"]
    network = with_weights(tiny_vit(), "tent_tiny_vit_weights")
    learner = _memo_learner(whole(network), *settings)
    found, losses = [], []
    for plain, copies in zip(fed(gold["images"]), fed(views), strict=True):
        logits, loss = _adapt_to_one(learner, copies, plain[None])
        found.append(logits[0])
        losses.append(loss)
    np.testing.assert_allclose(found, gold["logits"], atol=1e-5)
    np.testing.assert_allclose(losses, gold["loss"], atol=1e-5)
    assert np.array_equal(np.argmax(found, axis=1), gold["pred"])

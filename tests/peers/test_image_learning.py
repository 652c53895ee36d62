import copy

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from helpers.tiny_networks import Tower, tiny_vit, tower_stream, whole
from torch import nn

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._image_learning import (
    Classifier,
    Learner,
    entropies,
    marginal_entropy,
    norms_learning,
)
from marc.peers.memo import MEMO
from marc.peers.small_towers import SmallImageTower
from marc.peers.tent import Tent
from marc.scores import softmax, softmax_entropy


def gradients_differ_by(loss, values):
    """Between what torch says and central differences, in float64."""
    given = torch.from_numpy(values).requires_grad_(True)
    (found,) = torch.autograd.grad(loss(given), given)
    differences = []
    for at in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[at] = 1e-6
        up, down = (float(loss(torch.from_numpy(values + s))) for s in (step, -step))
        differences.append(abs((up - down) / 2e-6 - found[at].item()))
    return max(differences)


def test_entropies_and_their_gradients():
    logits = np.random.default_rng(0).standard_normal((5, 4)) * 3
    tensor = torch.from_numpy(logits)
    np.testing.assert_allclose(entropies(tensor), softmax_entropy(logits), atol=1e-9)
    mean = softmax(logits).mean(axis=0)
    assert float(marginal_entropy(tensor)) == pytest.approx(-(mean * np.log(mean)).sum())
    assert gradients_differ_by(lambda z: entropies(z).mean(), logits) < 1e-8
    assert gradients_differ_by(marginal_entropy, logits) < 1e-8


def test_the_gradient_through_a_tower_to_its_norms():
    """From the norm behind everything else, in float64, against central differences."""
    stream = tower_stream(n_images=6, n_views=3)
    predictor = stream.features.predictor
    classifier = Classifier.of(predictor)
    classifier.module.double()
    classifier.head._rows = classifier.head._rows.double()
    pixels = np.stack([query.pixels()[0] for query in stream])
    images = predictor.image_tower.prepare(pixels).double()
    norm = classifier.module.norm

    def loss(scale):
        out = torch.func.functional_call(classifier.module, {"norm.weight": scale}, (images,))
        features = nn.functional.normalize(out)
        logits = predictor.logit_scale * features @ classifier.head._rows.T
        return entropies(logits).mean()

    assert gradients_differ_by(loss, norm.weight.detach().numpy()) < 1e-7


def test_a_classifier_says_what_the_predictor_says_of_the_same_features():
    stream = tower_stream(twins=True)
    predictor = stream.features.predictor
    classifier = Classifier.of(predictor)
    images = predictor.image_tower.prepare(stream.query(0).pixels())
    with torch.no_grad():
        features, logits = classifier.features(images), classifier.logits(images)
    np.testing.assert_allclose(logits, predictor.logits(features.numpy()), atol=1e-4)
    assert torch.equal(logits[:, 1], logits[:, -1])


def test_norms_learn_only_while_they_are_told_to():
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2)).eval()
    with norms_learning([network]):
        assert [part.training for part in network] == [True, False, False]
    assert not any(part.training for part in network)


@pytest.mark.parametrize("make", [lambda: Tent(batch_size=8), MEMO])
def test_what_was_learned_in_other_weights_is_refused(make):
    stream = tower_stream(n_images=20)
    method = make()
    run(method, stream)
    other = tower_stream(SmallImageTower(8, seed=1), n_images=20)
    with pytest.raises(MarcError, match="learned in an image encoder with other weights"):
        list(iter_steps(method, other))
    method.reset()
    list(iter_steps(method, other))


def test_what_was_learned_serves_other_prototypes_too():
    """One network, two sets of classes."""
    tower = SmallImageTower(8)
    method, twin = Tent(batch_size=8, rate=0.05), Tent(batch_size=8, rate=0.05)
    list(iter_steps(method, tower_stream(tower, n_images=24)))
    list(iter_steps(twin, tower_stream(tower, n_images=24)))
    restored = Tent.from_state(twin.state())
    other = tower_stream(tower, seed=1, n_images=24, n_classes=3)
    mine, theirs = ([s.logits for s in iter_steps(each, other)] for each in (method, restored))
    assert np.array_equal(mine, theirs)
    assert mine[0].shape == (3,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("digest"), "which weights it is of"),
        (lambda arrays: arrays.update(digest=np.array([-2])), "should be a text"),
        (lambda arrays: arrays.pop("contents"), "which weights it is of"),
        (lambda arrays: arrays.pop("weights/norm.weight"), "not those that it lists"),
        (lambda arrays: arrays.update(more=np.zeros(3)), "other parts"),
        (lambda arrays: arrays["weights/norm.weight"].fill(np.nan), "not finite"),
        (
            lambda arrays: arrays.update({"weights/norm.weight": np.zeros(16)}),
            "no float32",
        ),
        (
            lambda arrays: arrays.update({"weights/norm.weight": np.zeros(3, dtype=np.float32)}),
            "not those that it lists",
        ),
    ],
)
def test_a_damaged_state_is_refused(change, message):
    method = Tent(batch_size=8)
    run(method, tower_stream(n_images=20))
    state = copy.deepcopy(method.state())
    change(state["arrays"])
    with pytest.raises(MarcError, match=message):
        Tent.from_state(state)


def listed(arrays):
    """Let a state list the arrays that it has, as if it had been written so."""
    names = sorted(name for name in arrays if "/" in name)
    lines = "\n".join(f"{name} {arrays[name].shape}" for name in names)
    arrays["contents"] = np.array([ord(letter) for letter in lines])


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("weights/norm.weight"),
        lambda arrays: arrays.update({"weights/norm.weight": np.zeros(3, dtype=np.float32)}),
        lambda arrays: arrays.update({"weights/other": np.zeros(16, dtype=np.float32)}),
        lambda arrays: arrays.update({"moments/other:step": np.zeros(1, dtype=np.float32)}),
        lambda arrays: arrays.update(
            {"moments/norm.weight:exp_avg": np.zeros(2, dtype=np.float32)}
        ),
        lambda arrays: arrays.pop("moments/norm.weight:exp_avg"),
        lambda arrays: arrays["moments/norm.weight:step"].fill(0),
        lambda arrays: arrays["moments/norm.weight:exp_avg_sq"].fill(-1),
        lambda arrays: [arrays.pop(name) for name in [*arrays] if "weights/" in name],
    ],
)
def test_a_state_of_another_network_is_refused_when_the_network_is_there(change):
    stream, method = tower_stream(n_images=20), Tent(batch_size=8)
    run(method, stream)
    state = copy.deepcopy(method.state())
    change(state["arrays"])
    listed(state["arrays"])
    with pytest.raises(MarcError, match="do not fit the network"):
        list(iter_steps(Tent.from_state(state), stream))


def test_before_anything_was_seen_there_is_no_state():
    for method in (Tent(), MEMO()):
        with pytest.raises(MarcError, match="nothing was seen yet"):
            method.state()


def test_a_state_holds_parameters_and_moments():
    stream = tower_stream(n_images=20)
    for method, parts in (
        (Tent(batch_size=8), {"digest", "contents", "weights", "moments"}),
        (Tent(batch_size=8, episodic=True), {"digest", "contents"}),
        (MEMO(), {"digest", "contents", "moments"}),
        (MEMO(optimiser="sgd"), {"digest", "contents"}),
    ):
        run(method, stream)
        assert {name.partition("/")[0] for name in method.state()["arrays"]} == parts


def test_networks_of_libraries_learn_too():
    stream = tower_stream(Tower(_narrow_vit), n_images=20)
    for method in (Tent(batch_size=8), MEMO()):
        assert np.isfinite([step.logits for step in iter_steps(method, stream)]).all()


def _narrow_vit():
    network = tiny_vit(classes=8)
    return nn.Sequential(nn.Upsample(16), network)


def test_a_learner_goes_back_to_where_it_was():
    network = tiny_vit().eval()
    before = [each.clone() for each in network.parameters()]
    learner = Learner(
        whole(network), dict(network.named_parameters()), lambda p: torch.optim.Adam(p, 0.1)
    )
    learner.descend(learner.classifier.logits(torch.randn(2, 3, 16, 16)).sum())
    learner.restore()
    after = list(network.parameters())
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    assert not learner.optimiser.state


class _Pooled(nn.Module):
    """A 2-d batch norm behind the mean over a picture: one value of a picture per channel."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
        self.last = nn.Linear(16, 8)

    def forward(self, images):
        return self.last(self.norm(self.conv(images).mean((2, 3), keepdim=True)).flatten(1))


def pooled():
    return _Pooled()


def test_tent_answers_a_last_batch_of_one_value_per_channel():
    """It is its own mean, without variance, so that the shift is all that the norm gives."""
    stream = tower_stream(Tower(pooled), n_images=5)
    predictor = stream.features.predictor
    method = Tent(batch_size=4)
    step = list(iter_steps(method, stream))[-1]
    assert np.isfinite(step.logits).all()
    Tent.from_state(method.state())  # it would refuse what is not finite
    still = [step.logits for step in iter_steps(Tent(batch_size=4, rate=0), stream)][-1]
    network = predictor.image_tower.copy()
    with torch.no_grad():
        features = network.last(network.norm.bias).numpy()
    expected = predictor.logits(features / np.linalg.norm(features))
    np.testing.assert_allclose(still, expected, atol=1e-4)


def test_memo_answers_a_picture_of_one_value_per_channel():
    stream = tower_stream(Tower(pooled), n_images=4, n_views=3)
    predictor = stream.features.predictor
    still = [step.logits for step in iter_steps(MEMO(rate=0, decay=0), stream)]
    tower = predictor.image_tower
    network = tower.copy()
    for query, found in zip(stream, still, strict=True):
        with torch.no_grad():
            value = network.conv(tower.prepare(query.pixels()[:1])).mean((2, 3))
            mean, var = value / 17, torch.full((16,), 16 / 17)  # it kept means 0, variances 1
            features = network.last((value - mean) / (var + network.norm.eps).sqrt()).numpy()
        expected = predictor.logits(features / np.linalg.norm(features))[0]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    moved = [step.logits for step in iter_steps(MEMO(rate=0.01), stream)]
    assert np.isfinite(moved).all()
    assert not np.allclose(moved, still)

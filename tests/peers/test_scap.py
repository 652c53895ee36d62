import copy
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from helpers.tiny_networks import (
    ConvBN,
    Tower,
    random_state,
    tower_stream,
    without_pictures,
    without_towers,
)

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.scap import SCAP, repulsion, supportive_cliques
from marc.peers.small_towers import SmallTextTower
from marc.stream.predictor import Towers

PROMPT = "a photo of a {}."


def convolutional():
    return ConvBN(8)


def entropy(logits):
    p = torch.softmax(logits, -1)
    return -(p * torch.log(p)).sum(-1)


class Literal:
    """The released program for one stream, with lists, dictionaries and torch's own optimiser."""

    def __init__(self, predictor, method):
        self.m, self.predictor = method, predictor
        self.text, self.image = predictor.text_tower, predictor.image_tower
        self.network = self.image.copy()
        self.tokens = self.text.tokenize([PROMPT.format(name) for name in self.text.class_names])
        self.embedded = self.text.embed(self.tokens)
        self.first = self.embedded[:, 1:5].clone()
        self.T = torch.nn.Parameter(self.first.clone())
        draw = np.random.default_rng(method.seed).uniform(-1, 1, (2, self.image.prefix_width))
        self.P = torch.nn.Parameter(torch.from_numpy(draw.astype(np.float32)))
        self.optimiser = torch.optim.AdamW([self.T, self.P], method.rate)
        self.fresh = copy.deepcopy(self.optimiser.state_dict())
        self.text_average = self.first.clone()
        self.image_average = [self.P.detach().clone() for _ in self.first]
        self.kept, self.times = {}, {}

    def set(self, parameter, value):
        with torch.no_grad():
            parameter.copy_(value)

    def see(self, images):
        f = self.network(images, self.P.expand(len(images), -1, -1))
        f = f / f.norm(dim=1, keepdim=True)
        whole = torch.cat([self.embedded[:, :1], self.T, self.embedded[:, 5:]], 1)
        t = self.text.encode(whole, self.tokens)
        t = t / t.norm(dim=1, keepdim=True)
        frozen = torch.from_numpy(self.predictor.prototypes)
        t = (1 - self.m.ensemble) * t + self.m.ensemble * frozen
        t = t / t.norm(dim=1, keepdim=True)
        return self.predictor.logit_scale * f @ t.T, f

    def step(self, loss):
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def cliques(self, images):
        with torch.no_grad():
            logits, f = self.see(images)
        guesses, found = logits.argmax(1).tolist(), []
        for c in dict.fromkeys(guesses):
            members = [i for i, guess in enumerate(guesses) if guess == c]
            found.append((c, members))
            for i in members:
                near = [j for j in members if float(f[i] @ f[j]) > self.m.threshold]
                if 1 < len(near) < len(members):
                    found.append((c, near))
        return found

    def learn(self, images):
        steps, says, means, negatives = [], [], [], {}
        for number, (c, members) in enumerate(self.cliques(images)):
            self.set(self.T, self.first)
            if c in self.kept:
                self.set(self.P, self.kept[c])
            logits, f = self.see(images[members])
            loss = entropy(logits).mean()
            spread = ((f - f.mean(0)) ** 2).mean() * 100
            self.step(loss + spread * self.m.closeness)
            mean = logits.detach().mean(0)
            p = mean.softmax(0)
            for k in range(len(p)):
                if p[k] <= 0.7 * p.max():
                    negatives.setdefault(k, []).append(number)
            guess = int(mean.argmax())
            steps.append(self.T.detach() - self.first)
            says.append(guess)
            means.append(mean)
            if guess in self.kept:
                w = math.exp(-float(loss.detach()) / 100) / (1 + self.times[guess])
                self.kept[guess] = self.kept[guess] * (1 - w) + self.P.detach() * w
                self.times[guess] += 1
            else:
                self.kept[guess], self.times[guess] = self.P.detach().clone(), 1
        self.average(steps, says, means, negatives)

    def average(self, steps, says, means, negatives):
        for number, c in enumerate(says):
            if c not in negatives:
                continue
            total = torch.zeros_like(steps[0][c])
            for k in negatives[c]:
                z = means[k]
                w = (z * z.log()).sum() - z.sum() * z[c].log()
                if w > 1:
                    total += steps[k][c] * (1 / w) ** self.m.power
            update = total / len(negatives[c]) + steps[number][c]
            self.text_average[c] += self.m.clique_weight * update

    def answer(self, images):
        w = self.m.text_weight
        self.set(self.T, w * self.text_average + (1 - w) * self.first)
        self.optimiser.load_state_dict(copy.deepcopy(self.fresh))

        def surest(logits):
            n = max(1, int(self.m.fraction * len(logits)))
            return logits[torch.argsort(entropy(logits), stable=True)[:n]]

        logits = surest(self.see(images)[0])
        self.step(entropy(logits.softmax(1).mean(0).log()))
        with torch.no_grad():
            c = int(surest(self.see(images)[0]).mean(0).argmax())
            w = self.m.image_weight
            self.set(self.P, w * self.image_average[c] + (1 - w) * self.P)
            answer = self.see(images[:1])[0][0]
            c, top = int(answer.argmax()), float(answer.max())
            d = math.exp(-top / self.m.slowness)
            self.text_average[c] = d * self.text_average[c] + (1 - d) * self.T[c]
            self.image_average[c] = d * self.image_average[c] + (1 - d) * self.P
        return answer.numpy()

    def run(self, stream, size):
        queries, answers = list(stream), []
        for start in range(0, len(queries), size):
            batch = [query.pixels() for query in queries[start : start + size]]
            self.learn(self.image.prepare(np.stack([pixels[0] for pixels in batch])))
            answers += [self.answer(self.image.prepare(pixels)) for pixels in batch]
        return np.array(answers)


def seen_stream(shared, **more):
    """Prototypes near what the network sees, so that many classes are answered.

    With a `shared` part all logits are above 0, as those of CLIP are, and cliques speak against.
    """
    stream = tower_stream(**more)
    predictor = stream.features.predictor
    tower, draw = predictor.image_tower, np.random.default_rng(SCAP().seed)
    tokens = draw.uniform(-1, 1, (2, tower.prefix_width)).astype(np.float32)
    with torch.no_grad():
        images = tower.prepare(np.stack([query.pixels()[0] for query in stream]))
        seen = tower.copy()(images, torch.from_numpy(tokens).expand(len(images), -1, -1)).numpy()
    texts = seen[: stream.n_classes] - (1 - shared) * seen.mean(axis=0)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    predictor = replace(predictor, logit_scale=30.0, prototypes=texts)
    return replace(stream, features=replace(stream.features, predictor=predictor))


@pytest.mark.parametrize("make", [tower_stream, partial(seen_stream, 0), partial(seen_stream, 1)])
@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0.9},
        {"threshold": 0.99, "fraction": 0.5, "clique_weight": 1.0, "power": 0.1, "ensemble": 0.9},
        {"text_weight": 0.7, "image_weight": 0.6, "slowness": 20.0, "closeness": 0.1, "seed": 3},
    ],
)
def test_scap_equals_the_steps_of_the_released_program(make, settings):
    stream = make(n_images=24, n_views=4)
    method = SCAP(batch_size=10, rate=1e-3, **settings)
    twin = Literal(stream.features.predictor, method)
    expected = twin.run(stream, 10)
    found = np.array([step.logits for step in iter_steps(method, stream)])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    arrays = method.state()["arrays"]
    np.testing.assert_allclose(arrays["words_mean"], twin.text_average, atol=2e-5)
    np.testing.assert_allclose(arrays["tokens_mean"], np.stack(twin.image_average), atol=2e-5)
    for c, times in twin.times.items():
        assert arrays["n_retained"][c] == times
        np.testing.assert_allclose(arrays["retained"][c], twin.kept[c], atol=2e-5)
    assert (arrays["n_retained"] > 0).sum() == len(twin.times)


def test_cliques_of_a_class_are_the_whole_and_the_supporters_of_each_image():
    angles = np.array([0.0, 0.1, 0.2, 1.5, 0.05])
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.array([1, 1, 1, 1, 0])
    found = supportive_cliques(features, labels, math.cos(0.15))
    as_lists = [(label, rows.tolist()) for label, rows in found]
    assert as_lists == [
        (1, [0, 1, 2, 3]),
        (1, [0, 1]),
        (1, [0, 1, 2]),
        (1, [1, 2]),
        (0, [4]),
    ]


def test_a_clique_speaks_against_classes_only_where_all_its_logits_are_positive():
    assert not repulsion(np.array([3.0, -0.1, 2.0]), 1.1).any()
    z = np.array([5.0, 1.0, 2.0])
    found = repulsion(z, 2.0)
    for c in range(3):
        w = sum(x * math.log(x) for x in z) - sum(z) * math.log(z[c])
        assert found[c] == pytest.approx(w**-2.0 if w > 1 else 0.0)


def test_without_a_step_and_without_tokens_it_would_be_the_prompt_and_the_prototypes():
    """At a rate of 0 nothing moves: every image is seen with the tokens that were drawn."""
    stream = tower_stream(n_images=12, n_views=3)
    method = SCAP(rate=0.0, batch_size=5)
    found = np.array([step.logits for step in iter_steps(method, stream)])
    twin = Literal(stream.features.predictor, method)
    with torch.no_grad():
        pixels = np.stack([query.pixels()[0] for query in stream])
        expected = twin.see(twin.image.prepare(pixels))[0]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_scap_keeps_the_contract_of_methods():
    check_method(SCAP)
    check_method(lambda: SCAP(batch_size=16, threshold=0.9, fraction=0.4, rate=0.02))


def test_classes_with_the_same_name_and_text_stay_tied_and_the_lower_answers():
    stream = tower_stream(twins=True, n_images=30)
    predictor = stream.features.predictor
    tower = SmallTextTower(["one", "two", "three", "four", "two"], 8)
    towers = Towers(lambda: tower, predictor.towers.image)
    object.__setattr__(predictor, "towers", towers)
    for step in iter_steps(SCAP(batch_size=10, rate=0.02), stream):
        assert step.logits[1] == step.logits[-1]
        assert step.prediction != 4


def test_draws_and_threads_are_left_alone():
    before = random_state()
    run(SCAP(), tower_stream(n_images=10))
    assert random_state() == before


def test_tokens_are_drawn_by_the_seed():
    stream = tower_stream(n_images=8)
    first, again, other = (
        [step.logits for step in iter_steps(SCAP(seed=seed), stream)] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda: without_towers(tower_stream()), "image encoder is not at hand"),
        (lambda: tower_stream(Tower(convolutional)), "text encoder is not at hand"),
        (lambda: without_pictures(tower_stream()), "features alone"),
    ],
)
def test_streams_that_do_not_fit_are_refused_before_the_first_image(stream, message):
    with pytest.raises(MarcError, match=message):
        run(SCAP(), stream())


def test_an_image_encoder_without_tokens_is_refused():
    stream = tower_stream()
    stream.features.predictor.image_tower.prefix_width = None
    with pytest.raises(MarcError, match="this one takes none"):
        run(SCAP(), stream)


def test_what_was_learned_with_other_names_is_refused():
    method = SCAP()
    list(iter_steps(method, tower_stream(n_images=8)))
    fewer, renamed = tower_stream(n_images=8, n_classes=3), tower_stream(n_images=8)
    text_tower = renamed.features.predictor.text_tower
    text_tower.class_names = tuple(f"another {name}" for name in text_tower.class_names)
    for other in (fewer, renamed):
        with pytest.raises(MarcError, match="other class names"):
            list(iter_steps(method, other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("words"), "do not fit"),
        (lambda arrays: arrays.update(tokens=np.zeros(3, dtype=np.float32)), "do not fit"),
        (lambda arrays: arrays["words_mean"].fill(np.inf), "not finite"),
        (lambda arrays: arrays["n_retained"].fill(-1), "counts what cannot be"),
        (lambda arrays: arrays["words_moments"].fill(-1), "counts what cannot be"),
        (lambda arrays: arrays.update(more=np.zeros(2)), "do not fit"),
    ],
)
def test_a_damaged_state_is_refused(change, message):
    method = SCAP()
    list(iter_steps(method, tower_stream(n_images=8)))
    state = copy.deepcopy(method.state())
    change(state["arrays"])
    with pytest.raises(MarcError, match=message):
        SCAP.from_state(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be"),
        ({"rate": -1}, "rate must be"),
        ({"threshold": 2}, "threshold must be"),
        ({"fraction": 2}, "fraction of the views"),
        ({"prompt": "a photo"}, "a prompt needs"),
        ({"ensemble": 1.5}, "ensemble must be"),
        ({"slowness": 0}, "slowness must be above 0"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        SCAP(**settings)

"""The prompts of SCAP in torch: words and tokens that are learned, and how a batch moves them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from marc.peers._arrays import first_equal
from marc.peers._image_learning import entropies, marginal_entropy, numbers
from marc.peers._prompts import Prompts
from marc.peers.scap import repulsion, supportive_cliques
from marc.peers.view_selection import select_views
from marc.scores import Int
from marc.stream.predictor import Predictor

if TYPE_CHECKING:
    from marc.peers.scap import SCAP

_TOKENS = 2  # that prompt the image encoder, as many vectors as in the released code
_MOST_IN_CLIQUE = 100  # images of a clique that its step looks at, as released
_UNLIKELY = 0.7  # of the top probability: classes below it are what a clique speaks against
_COOLING = 100.0  # a clique joins its class's tokens with exp(-entropy / 100), as released
_FIRST, _SECOND, _EPSILON, _DECAY = 0.9, 0.999, 1e-8, 0.01  # of AdamW, its defaults in torch


class Prompted:
    """Both encoders of a predictor, with words for each class name and tokens for the pictures."""

    def __init__(self, predictor: Predictor, prompt: str, ensemble: float) -> None:
        self.predictor, self.tower, self._ensemble = predictor, predictor.image_tower, ensemble
        self._text = predictor.text_tower
        self._prompts = Prompts.of(self._text, prompt)
        self._module = self.tower.copy().eval().requires_grad_(False)
        with torch.no_grad():
            self._embedded = self._text.embed(self._prompts.tokens)  # (U, L, W)
        self.which: Int = self._prompts.which
        """The row of words of each class, (C,)."""
        names = sha256("\n".join(self._text.class_names).encode()).hexdigest()
        self.digest = f"{self._text.digest} {self.tower.digest} {names}"
        texts = predictor.prototypes
        both = np.concatenate([texts, self.which[:, np.newaxis].astype(texts.dtype)], axis=1)
        device = self._embedded.device
        self._same = torch.from_numpy(first_equal(both)).to(device)
        self._texts = torch.from_numpy(np.array(texts)).to(device)
        self._rows = torch.from_numpy(self.which).to(device)

    @property
    def words(self) -> Tensor:
        """Those that the prompts have before they are tuned, (U, n, W)."""
        first = self._text.first_word
        return self._embedded[:, first : first + self._prompts.n_context].clone()

    def start(self, seed: int) -> dict[str, NDArray[Any]]:
        """A memory in which nothing was learned: words as they are, tokens that are drawn."""
        words, n_classes, width = numbers(self.words), len(self.which), self.tower.prefix_width
        draw = np.random.default_rng(seed)
        tokens = draw.uniform(-1, 1, (_TOKENS, width or 0)).astype(np.float32)
        return {
            "words": words,
            "tokens": tokens,
            "words_mean": words.copy(),
            "tokens_mean": np.repeat(tokens[np.newaxis], n_classes, axis=0),
            "retained": np.zeros((n_classes, *tokens.shape), dtype=np.float32),
            "n_retained": np.zeros(n_classes, dtype=np.int64),
            "words_moments": np.zeros((2, *words.shape), dtype=np.float32),
            "tokens_moments": np.zeros((2, *tokens.shape), dtype=np.float32),
            "n_steps": np.zeros(1, dtype=np.int64),
        }

    def texts(self, words: Tensor) -> Tensor:
        """Unit text features (C, D) of tuned words (U, n, W), mixed with the prototypes."""
        first = self._text.first_word
        behind = self._embedded[:, first + words.shape[1] :]
        whole = torch.cat([self._embedded[:, :first], words, behind], 1)
        tuned = functional.normalize(self._text.encode(whole, self._prompts.tokens))
        mixed = (1 - self._ensemble) * tuned[self._rows] + self._ensemble * self._texts
        return functional.normalize(mixed)

    def features(self, images: Tensor, tokens: Tensor) -> Tensor:
        """Unit features (n, D) of pictures, with tokens (k, W)."""
        return functional.normalize(self._module(images, tokens.expand(len(images), -1, -1)))

    def logits(self, features: Tensor, texts: Tensor) -> Tensor:
        """(n, C); classes with the same words and prototype are tied."""
        return (float(self.predictor.logit_scale) * features @ texts.T)[:, self._same]


@dataclass
class _Clique:
    """What a clique says, and how it moved the words."""

    label: int
    logits: NDArray[np.float32]
    """The mean of its images, from before its step, (C,)."""
    step: Tensor
    """(U, n, W)."""


class Learning:
    """How one batch moves what was learned."""

    def __init__(self, network: Prompted, memory: dict[str, NDArray[Any]], settings: SCAP) -> None:
        self._network, self._settings = network, settings
        self._words = network.words
        device = self._words.device
        self._held = {
            name: torch.from_numpy(array.copy()).to(device)
            for name, array in memory.items()
            if name not in ("digest", "n_retained", "n_steps")
        }
        self._n_retained, self._n_steps = memory["n_retained"].copy(), int(memory["n_steps"][0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is known after the batch."""
        arrays: dict[str, NDArray[Any]] = {n: numbers(each) for n, each in self._held.items()}
        return {**arrays, "n_retained": self._n_retained, "n_steps": np.array([self._n_steps])}

    def learn_cliques(self, images: Tensor) -> None:
        """Let every clique of the plain pictures (B, ...) of a batch take its step."""
        with torch.no_grad():
            features = self._network.features(images, self._held["tokens"])
            logits = self._network.logits(features, self._network.texts(self._held["words"]))
        found = supportive_cliques(
            numbers(features), numbers(logits).argmax(axis=1), self._settings.threshold
        )
        cliques = [
            self._learn_clique(label, images[torch.from_numpy(rows[:_MOST_IN_CLIQUE])])
            for label, rows in found
        ]
        self._join(cliques)

    def answer(self, images: Tensor) -> NDArray[np.float32]:
        """Logits (C,) of the first of some views, after a step of both prompts down their loss."""
        settings, held, network = self._settings, self._held, self._network
        held["words"] = torch.lerp(self._words, held["words_mean"], settings.text_weight)
        self._forget_moments()
        with torch.enable_grad():
            words, tokens, logits, _ = self._see(images)
            self._move(words, tokens, marginal_entropy(logits[self._surest(logits)]))
        with torch.no_grad():
            texts = network.texts(held["words"])
            again = network.logits(network.features(images, held["tokens"]), texts)
            label = int(again[self._surest(again)].mean(0).argmax())
            mean = held["tokens_mean"][label]
            held["tokens"] = torch.lerp(held["tokens"], mean, settings.image_weight)
            plain = network.logits(network.features(images[:1], held["tokens"]), texts)[0]
        found = numbers(plain)
        self._remember(int(found.argmax()), float(found.max()))
        return found

    def _learn_clique(self, label: int, images: Tensor) -> _Clique:
        held, settings = self._held, self._settings
        held["words"] = self._words
        if self._n_retained[label]:
            held["tokens"] = held["retained"][label]
        with torch.enable_grad():
            words, tokens, logits, features = self._see(images)
            entropy = entropies(logits).mean()
            apart = ((features - features.mean(0)) ** 2).mean()
            self._move(words, tokens, entropy + 100 * settings.closeness * apart)
        mean = numbers(logits.detach().mean(0))
        says = int(mean.argmax())
        self._retain(says, math.exp(-float(entropy.detach()) / _COOLING))
        return _Clique(says, mean, held["words"] - self._words)

    def _see(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Words and tokens that gradients lead to, and logits and features with them."""
        words, tokens = (
            self._held[name].detach().clone().requires_grad_(True) for name in ("words", "tokens")
        )
        features = self._network.features(images, tokens)
        return words, tokens, self._network.logits(features, self._network.texts(words)), features

    def _move(self, words: Tensor, tokens: Tensor, loss: Tensor) -> None:
        """One step of AdamW on both prompts."""
        gradients = torch.autograd.grad(loss, (words, tokens))
        self._n_steps += 1
        for name, value, gradient in zip(
            ("words", "tokens"), (words, tokens), gradients, strict=True
        ):
            moments = self._held[f"{name}_moments"]
            self._held[name] = _adamw(
                value.detach(), gradient, moments, self._n_steps, self._settings.rate
            )

    def _forget_moments(self) -> None:
        self._n_steps = 0
        for name in ("words_moments", "tokens_moments"):
            self._held[name] = torch.zeros_like(self._held[name])

    def _surest(self, logits: Tensor) -> Tensor:
        values = numbers(logits)
        kept = select_views(values, self._settings.fraction, method="scap", at_least=1)
        return torch.from_numpy(kept).to(logits.device)

    def _retain(self, label: int, sure: float) -> None:
        """The tokens of a clique join those that later cliques of its class start from."""
        share = sure / (1 + int(self._n_retained[label])) if self._n_retained[label] else 1.0
        retained = self._held["retained"]
        retained[label] = torch.lerp(retained[label], self._held["tokens"], share)
        self._n_retained[label] += 1

    def _join(self, cliques: list[_Clique]) -> None:
        """The steps of cliques join the running average of their classes' words.

        For each class the cliques that find it unlikely join too, as far as they speak against
        it; a class that none finds unlikely is left as it is.
        """
        settings, mean = self._settings, self._held["words_mean"]
        unlikely = np.stack([_unlikely(clique.logits) for clique in cliques])  # (n, C)
        weights = np.stack([repulsion(clique.logits, settings.power) for clique in cliques])
        weights = np.where(unlikely, weights, 0.0)
        for clique in cliques:
            label, row = clique.label, int(self._network.which[clique.label])
            against = int(unlikely[:, label].sum())
            if not against:
                continue
            step = clique.step[row].clone()
            for other in np.flatnonzero(weights[:, label]):
                step += float(weights[other, label]) / against * cliques[other].step[row]
            mean[row] += settings.clique_weight * step

    def _remember(self, label: int, top: float) -> None:
        """Both prompts of an image join the running averages of the class that it was given."""
        share = 1 - math.exp(-top / self._settings.slowness)
        row, held = int(self._network.which[label]), self._held
        for name, at, value in (("words", row, held["words"][row]), ("tokens", label, None)):
            mean = held[f"{name}_mean"]
            mean[at] = torch.lerp(mean[at], held[name] if value is None else value, share)


def _unlikely(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Classes (C,) whose probability is at most 0.7 of the top one."""
    z = logits.astype(np.float64)
    return np.asarray(np.exp(z - z.max()) <= _UNLIKELY)


def _adamw(value: Tensor, gradient: Tensor, moments: Tensor, step: int, rate: float) -> Tensor:
    """A value after one step, the `step`-th; `moments` (2, ...) of it are brought up to date."""
    moments[0].lerp_(gradient, 1 - _FIRST)
    moments[1].mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
    spread = (moments[1] / (1 - _SECOND**step)).sqrt() + _EPSILON
    return value * (1 - rate * _DECAY) - rate / (1 - _FIRST**step) * moments[0] / spread

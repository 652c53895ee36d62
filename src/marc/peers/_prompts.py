"""Prompts with a context that is learned: vectors before each class name, where words would be.

Everything that runs in torch is here. What comes in and goes out are arrays: a context, unit text
features, and the gradient that leads from the one back to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from marc.errors import MarcError
from marc.peers._arrays import first_equal
from marc.scores import Float, Int
from marc.stream.predictor import TextTower

Pull = Callable[[Float], NDArray[np.floating]]
"""From a gradient by the features of distinct names (U, D) to that by the context (n, W)."""
_AT_ONCE = 2**21  # numbers in the embeddings of prompts that are in memory on the way back
_WORTH = 64  # prompts that are encoded apart from longer ones, which would have them padded
_SMALL = 2**15  # numbers in them up to which more threads wait for each other and do little else
_ENDING = 8  # words at the end of a name, which tell whether long names are the same
_NOTHING = 1e-20  # far below any optimiser's epsilon; what it becomes on the way is slow to compute


@dataclass(frozen=True)
class Prompts:
    """The prompts of all classes around a context. Classes of the same name share one prompt."""

    tower: TextTower
    tokens: Tensor
    """(U, L), a row for each distinct name, the shortest first."""
    which: Int
    """The row of each class, (C,)."""
    n_context: int
    """Vectors that are learned; they follow the token that starts a text."""

    @classmethod
    def of(cls, tower: TextTower, prompt: str) -> Prompts:
        """Of a prompt with braces for the name; the words before them make the first context.

        An underscore in a name is written as a space. Names that are too long for the text encoder
        are cut by its tokenizer; if what is left does not tell them apart, they are refused.
        """
        written = [name.replace("_", " ") for name in tower.class_names]
        names = list(dict.fromkeys(written))
        before = prompt.partition("{}")[0].strip()
        texts = [prompt.replace("{}", name) for name in names]
        tokens, alone = tower.tokenize(texts), tower.tokenize([before])
        same = (tokens == alone).cumprod(1).sum(1)  # tokens that are those of the context alone
        n_context = int(same.min()) - tower.first_word
        if same.min() == tokens.shape[1]:
            raise _no_room(before, tokens.shape[1] - tower.first_word - 2, tokens.shape[1])
        if n_context < 1:
            raise MarcError(
                "the words before the class name are not tokens of their own",
                got=repr(prompt),
                hint='prompt="a photo of a {}."',
            )
        _check_apart(tower, names, prompt.partition("{}")[2], tokens)
        order = np.argsort(_lengths(tokens), kind="stable")
        rows = {names[old]: new for new, old in enumerate(order)}
        which = np.array([rows[name] for name in written])
        return cls(tower, tokens[torch.from_numpy(order)], which, n_context)

    def __deepcopy__(self, memo: Any) -> Prompts:
        return self  # nothing in it ever changes

    @cached_property
    def words(self) -> NDArray[np.floating]:
        """The vectors of the words before the name, (n, W)."""
        first = self.tower.first_word
        found = self._embedded[0, first : first + self.n_context]
        return np.array(found.cpu().numpy())

    @cached_property
    def _embedded(self) -> Tensor:
        """(U, L, W)."""
        with torch.no_grad():
            return self.tower.embed(self.tokens)

    def features(self, context: Float) -> NDArray[np.floating]:
        """Unit text features (U, D) of a context (n, W)."""
        with torch.no_grad(), self._threads():
            parts = [self._encode(self._tensor(context), rows) for rows in self._parts()]
        return np.array(torch.cat(parts).cpu().numpy())

    def with_gradient(self, context: Float) -> tuple[NDArray[np.floating], Pull]:
        """Unit text features (U, D), and what pulls gradients back; it may be used many times.

        What the way back needs is kept if memory allows. Otherwise it is computed again for each
        gradient, part by part.
        """
        parts, leaf = list(self._parts()), self._tensor(context).clone().requires_grad_(True)
        if self._numbers.sum() > _AT_ONCE:
            features, kept = self.features(context), None
        else:
            with self._threads():
                kept = [self._encode(leaf, rows) for rows in parts]
            features = np.array(torch.cat(kept).detach().cpu().numpy())

        def pull(gradient: Float) -> NDArray[np.floating]:
            given = self._tensor(np.where(np.abs(gradient) < _NOTHING, 0, gradient))
            total = torch.zeros_like(leaf)
            with self._threads():
                for number, rows in enumerate(parts):
                    encoded = kept[number] if kept else self._encode(leaf, rows)
                    total += torch.autograd.grad(
                        encoded, leaf, given[rows], retain_graph=kept is not None
                    )[0]
            return np.array(total.cpu().numpy())

        return features, pull

    def logits(self, views: Float, features: Float, scale: float) -> NDArray[Any]:
        """Logits (r, C), scale <f, t_c>, of views (r, D) and features (U, D) of the names."""
        return np.asarray(np.take(scale * (views @ features.T), self.which, axis=1))

    def by_name(self, gradient: Float) -> Float:
        """A gradient by the features of classes (C, D) as one by those of names (U, D)."""
        total = np.zeros((len(self.tokens), gradient.shape[1]), dtype=gradient.dtype)
        if len(total) == len(gradient):
            total[self.which] = gradient
        else:
            np.add.at(total, self.which, gradient)
        return total

    def _encode(self, context: Tensor, rows: slice) -> Tensor:
        embedded, start = self._embedded[rows], self.tower.first_word
        behind, tokens = embedded[:, start + self.n_context :], self.tokens[rows]
        read_once = getattr(self.tower, "encode_behind", None)  # where a tower knows how to
        if read_once is not None:
            encoded = read_once(torch.cat([embedded[0, :start], context]), behind, tokens)
        else:
            vectors = context.expand(len(embedded), -1, -1)
            whole = torch.cat([embedded[:, :start], vectors, behind], 1)
            encoded = self.tower.encode(whole, tokens)
        return functional.normalize(encoded, dim=1)

    @cached_property
    def _numbers(self) -> Int:
        """Numbers in the embeddings of each prompt, as far as it goes, (U,)."""
        return _lengths(self.tokens) * self._embedded.shape[2]

    def _parts(self) -> Iterator[slice]:
        """Rows of prompts that are encoded together: many of a length, and what memory holds."""
        numbers, start = self._numbers, 0
        for row in range(1, len(numbers)):
            longer = numbers[row] > numbers[row - 1] and row - start >= _WORTH
            if longer or (row + 1 - start) * numbers[row] > _AT_ONCE:
                yield slice(start, row)
                start = row
        yield slice(start, len(numbers))

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """While this is open, small prompts are computed on one thread."""
        before = torch.get_num_threads()
        if before == 1 or self._numbers.sum() > _SMALL:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _tensor(self, array: Float) -> Tensor:
        return torch.as_tensor(np.asarray(array)).to(self._embedded)


def _no_room(before: str, most: int, length: int) -> MarcError:
    return MarcError(
        "the words before the class name leave no token for it",
        got=f"{len(before.split())} words: {length} tokens or more, with those around a text",
        allowed=f"{most} tokens of words before the name: the text encoder reads {length} in all",
        hint="a shorter prompt, or a smaller n_context",
    )


def _check_apart(tower: TextTower, names: list[str], behind: str, tokens: Tensor) -> None:
    """Refuse names (U,) with the same tokens (U, L) because they were cut.

    Names that the text encoder reads alike, as those that differ in capitals, are no such ones.
    """
    first = first_equal(tokens.cpu().numpy())
    twins = np.flatnonzero(first != np.arange(len(first)))
    if not len(twins):
        return
    apart = np.zeros(len(names), dtype=bool)
    for texts in (names, [" ".join(name.split()[-_ENDING:]) for name in names]):
        found = tower.tokenize([text + behind for text in texts])
        apart |= (found != found[torch.from_numpy(first)]).any(1).cpu().numpy()
    cut = twins[apart[twins]]
    if len(cut):
        row = cut[0]
        raise MarcError(
            "class names are cut, and what is left of them is the same",
            got=f"{names[first[row]]!r:.80} and {names[row]!r:.80} in this prompt",
            allowed=f"{tokens.shape[1]} tokens in all, with those that start and end a text",
            hint="a shorter prompt, a smaller n_context, or shorter class names",
        )


def _lengths(tokens: Tensor) -> Int:
    """How far each text (n, L) goes, (n,): behind it all tokens are the last one."""
    changes = (tokens != tokens[:, -1:]).cpu().numpy()
    last = changes.shape[1] - changes[:, ::-1].argmax(axis=1)
    return np.where(changes.any(axis=1), np.minimum(last + 1, changes.shape[1]), changes.shape[1])

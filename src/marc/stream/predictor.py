"""The frozen zero-shot classifier: text prototypes, and the prompts that they are means of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, check_features
from marc.scores import Float, Int, unit

_TOWERS_HINT = "a lab/ stream or a store/ that marc embed filled; towers=... in Stream.from_arrays"


@dataclass(frozen=True)
class PromptEmbeddings:
    """The embedding of every prompt, for methods that choose among them; read when first used."""

    class_of: Int
    """The class that each prompt speaks of, (P,), every class at least once."""
    read: Callable[[], Float]
    """Gives the embeddings (P, D)."""

    @classmethod
    def of(
        cls, given: ArrayLike | None, class_of: ArrayLike | None, shape: tuple[int, ...]
    ) -> PromptEmbeddings | None:
        """Of prompts (C, P, D), or (P, D) and their classes, that fit prototypes of `shape`."""
        if given is None and class_of is None:
            return None
        if given is None:
            raise MarcError("prompt_class without prompts says nothing", hint="prompts=... too")
        rows, (n_classes, dim) = np.asarray(given), shape
        if rows.ndim == 3 and class_of is None:
            class_of = np.repeat(np.arange(len(rows)), rows.shape[1])
            rows = rows.reshape(-1, rows.shape[2])
        check_features("prompts", rows, ndim=2)
        classes = np.asarray(class_of)
        fits = classes.shape == (len(rows),) and rows.shape[1] == dim
        if not fits or not np.array_equal(np.unique(classes), range(n_classes)):
            raise MarcError(
                "the prompts do not fit the prototypes",
                got=f"prompts {np.shape(given)}, prompt_class {classes.shape}",
                allowed=f"(C, P, D), or (P, D) and (P,) with each of the {n_classes} classes",
            )
        return cls(classes.astype(np.int64), lambda: rows)

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        """Unit embeddings (P, D)."""
        return unit(self.read())

    @cached_property
    def by_class(self) -> NDArray[np.float32]:
        """The first prompts of each class, as many as the class with the fewest has: (C, P, D)."""
        fewest = int(np.bincount(self.class_of).min())
        in_classes = np.argsort(self.class_of, kind="stable")
        starts = np.searchsorted(self.class_of[in_classes], np.arange(self.class_of.max() + 1))
        return self.rows[in_classes[starts[:, np.newaxis] + np.arange(fewest)]]


class TextTower(Protocol):
    """A predictor's text encoder in torch, for methods that learn what it is asked.

    Tensors are of torch; gradients pass from `encode` back to the embeddings of words.
    """

    class_names: tuple[str, ...]
    """The names that the prototypes speak of, as they stand in prompts, (C,)."""
    digest: str
    """Of its weights: a state that was learned with others is refused."""
    first_word: int
    """Where the first word of a text lies among its tokens: 1 behind a token that starts it."""

    def tokenize(self, texts: Sequence[str]) -> Any:
        """Tokens (n, L) of texts, as whole numbers."""

    def embed(self, tokens: Any) -> Any:
        """Embeddings (n, L, W) of tokens (n, L), without their positions."""

    def encode(self, embeddings: Any, tokens: Any) -> Any:
        """Features (n, D), not of unit length; `tokens` say where each text ends."""


class ImageTower(Protocol):
    """A predictor's image encoder in torch, for methods that learn inside it."""

    digest: str
    """Of its weights as they were published."""
    prefix_width: int | None
    """W of the tokens (n, k, W) that its module takes as `prefix` before those of the patches; None
    where it has no tokens."""

    def copy(self) -> Any:
        """A torch module of its own: crops (n, 3, H, W), as `prepare` gives, to (n, D)."""

    def prepare(self, pixels: NDArray[np.uint8]) -> Any:
        """What the module takes, from cropped pictures (n, H, W, 3)."""


@dataclass(frozen=True)
class Towers:
    """The networks behind a predictor; each is loaded when a method first asks for it."""

    text: Callable[[], TextTower] | None = None
    image: Callable[[], ImageTower] | None = None


@dataclass(frozen=True)
class Predictor:
    """The frozen zero-shot classifier: unit text prototypes (C, D) and the logit scale tau."""

    prototypes: NDArray[np.float32]
    logit_scale: float
    prompts: PromptEmbeddings | None = None
    """What the prototypes are means of, where it is known."""
    towers: Towers = field(default_factory=Towers, compare=False, repr=False)
    """Its networks, where they can be had."""

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.prototypes)

    @cached_property
    def text_tower(self) -> TextTower:
        """Its text encoder, loaded when it is first asked for."""
        if self.towers.text is None:
            raise MarcError("this predictor's text encoder is not at hand", hint=_TOWERS_HINT)
        return self.towers.text()

    @cached_property
    def image_tower(self) -> ImageTower:
        """Its image encoder, loaded when it is first asked for."""
        if self.towers.image is None:
            raise MarcError("this predictor's image encoder is not at hand", hint=_TOWERS_HINT)
        return self.towers.image()

    def logits(self, views: Float) -> NDArray[np.float32]:
        """View logits tau <f, t_c> of equation 1 for unit features (..., D), shape (..., C).

        Each distinct prototype is multiplied once: two classes with the same text then tie
        exactly, whatever the blocking of the matrix product.
        """
        distinct, index = self._distinct
        logits = np.asarray(views, dtype=np.float32) @ distinct.T
        logits *= np.float32(self.logit_scale)
        return logits if len(distinct) == len(index) else np.take(logits, index, axis=-1)

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.float32], Int]:
        distinct, index = np.unique(self.prototypes, axis=0, return_inverse=True)
        if len(distinct) == len(self.prototypes):
            return self.prototypes, np.arange(len(self.prototypes))
        return distinct, index.reshape(-1)

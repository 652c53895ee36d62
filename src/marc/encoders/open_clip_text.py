"""The text towers of open_clip, asked with vectors where words would be.

A tower reads a text up to where it ends, because nothing behind it is seen; one whose tokens see
each other in both directions, or which answers at its last place, reads everything that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from marc.encoders.open_clip_causal import shares_beginnings, states_at_ends
from marc.errors import MarcError

if TYPE_CHECKING:
    from torch import Tensor

_PARTS = ("token_embedding", "positional_embedding", "transformer", "ln_final")
_ENDS = ("argmax", "eos", "last")


class OpenClipTextTower:
    """The text encoder of a model of open_clip."""

    def __init__(
        self,
        model: Any,
        tokenize: Callable[[list[str]], Tensor],
        class_names: Sequence[str],
        *,
        name: str,
        digest: str,
    ) -> None:
        self.class_names, self.digest = tuple(class_names), digest
        self._text = _text_part(model, name)
        self._ends = _pooling(model, self._text, name)
        for part in (self._text.token_embedding, self._text.transformer, self._text.ln_final):
            part.eval().requires_grad_(False)
        self._tokenize = tokenize
        first, other = self.tokenize(["a", "the"])
        self.first_word = int((first != other).int().argmax())

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Tokens (n, L) of texts, filled up to what the tower can read; longer ones are cut."""
        return self._tokenize(list(texts)).to(self._text.positional_embedding.device)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (n, L, W) of tokens (n, L), without their positions."""
        return self._text.token_embedding(tokens)

    def encode(self, embeddings: Tensor, tokens: Tensor) -> Tensor:
        """Features (n, D), not of unit length."""
        text, ends = self._text, self._where(tokens)
        mask, length = text.attn_mask, tokens.shape[1]
        if mask is not None:
            length = int(ends.max()) + 1
            mask = mask[:length, :length].to(embeddings.dtype)
        states = embeddings[:, :length] + text.positional_embedding[:length].detach()
        states = text.transformer(states, attn_mask=mask)
        return self._projected(states[range(len(ends)), ends])

    def encode_behind(self, before: Tensor, behind: Tensor, tokens: Tensor) -> Tensor:
        """The same of texts (n, s + L) with a common beginning (s, W), and what follows (n, L, W).

        Every text goes on behind its beginning.
        """
        import torch

        text, ends, shared = self._text, self._where(tokens), len(before)
        if not shares_beginnings(text) or shared == 0:
            both = torch.cat([before.expand(len(behind), -1, -1), behind], dim=1)
            return self.encode(both, tokens)
        behind = behind[:, : int(ends.max()) + 1 - shared]
        return self._projected(states_at_ends(text, before, behind, ends))

    def _projected(self, states: Tensor) -> Tensor:
        pooled, projection = self._text.ln_final(states), self._text.text_projection
        if projection is None:
            return pooled
        return projection(pooled) if callable(projection) else pooled @ projection.detach()

    def _where(self, tokens: Tensor) -> Tensor:
        """The place (n,) of each text at which its feature is read."""
        if self._ends == "last":
            return tokens.new_full((len(tokens),), tokens.shape[1] - 1)
        return tokens.argmax(1) if self._ends is None else (tokens == self._ends).int().argmax(1)


def _text_part(model: Any, name: str) -> Any:
    """What holds the layers of the text tower: the model itself, or a part of its own."""
    text = getattr(model, "text", model)
    missing = [part for part in _PARTS if not hasattr(text, part)]
    if (
        missing
        or getattr(text, "cls_emb", None) is not None
        or getattr(text, "use_pad_mask", False)
    ):
        raise MarcError(
            f"the text tower of {name} takes no vectors in place of words",
            got=type(text).__name__,
            allowed="the towers of CLIP, MobileCLIP and SigLIP as open_clip builds them itself; "
            "none from transformers and none of CoCa",
            hint="the predictor clip-b16-text",
        )
    return text


def _pooling(model: Any, text: Any, name: str) -> str | int | None:
    """Where a feature is read: `last`, the number of the end token, or None at the highest one."""
    own = text is model
    kind = getattr(model, "text_pool_type", "argmax") if own else text.pool_type
    if kind not in _ENDS:
        raise MarcError(
            f"the text tower of {name} is read at a place that is not known here",
            got=kind,
            allowed=", ".join(_ENDS),
        )
    if kind == "eos":
        return int(model.text_eos_id if own else text.eos_id)
    return "last" if kind == "last" else None

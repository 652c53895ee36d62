"""Texts that begin alike, in a causal transformer of open_clip: their beginning is read once.

No position of such a transformer sees what follows it, so a common beginning gives every text the
same keys and values. In the last layer only the position that a text is read at has an answer to
give; the others have been seen by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def shares_beginnings(text: Any) -> bool:
    """Whether a text tower is causal and made of plain blocks, as those of CLIP are."""
    from open_clip.transformer import ResidualAttentionBlock
    from torch import nn

    return text.attn_mask is not None and all(
        type(block) is ResidualAttentionBlock
        and type(block.attn) is nn.MultiheadAttention
        and not hasattr(block, "ln_1_kv")
        for block in text.transformer.resblocks
    )


def states_at_ends(text: Any, before: Tensor, behind: Tensor, ends: Tensor) -> Tensor:
    """States (n, W) of the last layer at `ends` (n,), places behind the beginning.

    Args:
        text: the text tower.
        before: embeddings (s, W) of the common beginning, without positions.
        behind: embeddings (n, L, W) of what follows it in each text.
        ends: where each text is read, counted from its first token.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    shared, length = len(before), len(before) + behind.shape[1]
    positions = text.positional_embedding.detach()
    before, behind = (before + positions[:shared])[None], behind + positions[shared:length]
    mask = text.attn_mask[:length, :length].to(behind.dtype)
    *earlier, last = text.transformer.resblocks
    for block in earlier:
        (query, *beginning), own = _heads(block, before), _heads(block, behind)
        keys, values = _joined(beginning, own[1:])
        before = _after(block, before, attend(query, *beginning, attn_mask=mask[:shared, :shared]))
        behind = _after(block, behind, attend(own[0], keys, values, attn_mask=mask[shared:]))
    own = _heads(last, behind)
    keys, values = _joined(_heads(last, before)[1:], own[1:])
    texts, places = torch.arange(len(ends), device=ends.device), ends - shared
    query = own[0][texts, :, places].unsqueeze(2)  # (n, heads, 1, width of a head)
    seen = attend(query, keys, values, attn_mask=mask[ends, None, None])
    return _after(last, behind[texts, places].unsqueeze(1), seen)[:, 0]


def _heads(block: Any, states: Tensor) -> list[Tensor]:
    """Queries, keys and values of states (n, L, W), each (n, heads, L, W / heads)."""
    from torch.nn.functional import linear

    attention = block.attn
    parts = linear(block.ln_1(states), attention.in_proj_weight, attention.in_proj_bias)
    n, length, _ = parts.shape
    split = parts.view(n, length, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    return list(split)


def _joined(beginning: list[Tensor], own: list[Tensor]) -> list[Tensor]:
    """Keys and values of the beginning (1, h, s, d) before those of each text (n, h, L, d)."""
    import torch

    n = len(own[0])
    return [
        torch.cat([first.expand(n, -1, -1, -1), rest], dim=2)
        for first, rest in zip(beginning, own, strict=True)
    ]


def _after(block: Any, states: Tensor, seen: Tensor) -> Tensor:
    """States (n, L, W) after a block, of which the attention (n, h, L, W / h) is known."""
    mixed = block.attn.out_proj(seen.transpose(1, 2).reshape(states.shape))
    states = states + block.ls_1(mixed)
    return states + block.ls_2(block.mlp(block.ln_2(states)))

"""The text towers of open_clip give what `encode_text` gives, and gradients by their words."""

import types

import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
import torch

from marc import MarcError
from marc.encoders.open_clip_text import OpenClipTextTower

PICTURES = {"layers": 1, "width": 64, "patch_size": 16, "image_size": 64}
TEXTS = {"context_length": 12, "vocab_size": 50, "width": 64, "heads": 2, "layers": 2}
END = 49


def tokenize(texts):
    """A start, a token for each letter, an end, and zeros."""
    rows = [[48, *(ord(letter) - 96 for letter in text), END] for text in texts]
    return torch.tensor([row + [0] * (12 - len(row)) for row in rows])


def tower_of(kind=open_clip.CLIP, **texts):
    model = filled(lambda: kind(16, PICTURES, {**TEXTS, **texts}))
    return model, OpenClipTextTower(model, tokenize, ["a", "b"], name="mine", digest="of it")


@pytest.mark.parametrize("kind", [open_clip.CLIP, open_clip.CustomTextCLIP])
@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"pool_type": "eos", "eos_id": END},
        {"pool_type": "last"},
        {"no_causal_mask": True},
        {"no_causal_mask": True, "pool_type": "last", "proj_bias": True},
        {"proj_type": "none"},
    ],
    ids=["clip", "eos", "last", "both ways", "siglip", "no projection"],
)
def test_a_tower_says_what_its_model_says(kind, texts):
    if kind is open_clip.CLIP and texts.get("proj_type") == "none":
        pytest.skip("pictures have another width then")
    model, tower = tower_of(kind, **texts)
    tokens = tower.tokenize(["cat", "a", "aardvark"])
    with torch.no_grad():
        expected = model.encode_text(tokens)
        found = tower.encode(tower.embed(tokens), tokens)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (tower.first_word, tower.class_names, tower.digest) == (1, ("a", "b"), "of it")


def test_gradients_pass_to_the_words_and_to_nothing_else():
    model, tower = tower_of()
    tokens = tower.tokenize(["cat", "cow"])
    words = tower.embed(tokens).double().requires_grad_(True)
    model.double()
    tower.encode(words, tokens).square().sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert words.grad[:, :5].abs().sum(2).min() > 0
    assert not words.grad[:, 5:].any()  # behind its end nothing of a text is seen
    step = torch.zeros_like(words)
    step[1, 2, 3] = 1e-6
    with torch.no_grad():
        values = [tower.encode(words + s, tokens).square().sum() for s in (step, -step)]
    assert float(words.grad[1, 2, 3]) == pytest.approx(float(values[0] - values[1]) / 2e-6, 1e-6)


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"layers": 1},
        {"layers": 3, "ls_init_value": 0.3},
        {"pool_type": "eos", "eos_id": END},
        {"pool_type": "last"},
        {"no_causal_mask": True},
    ],
    ids=["clip", "one layer", "scaled", "eos", "last", "both ways"],
)
@pytest.mark.parametrize("kind", [open_clip.CLIP, open_clip.CustomTextCLIP])
@pytest.mark.parametrize("shared", [0, 1, 3])
def test_a_common_beginning_is_read_once_and_changes_nothing(kind, texts, shared):
    model, tower = tower_of(kind, **texts)
    model.double()
    tokens = tower.tokenize(["cat", "carpets", "cage"])
    words = tower.embed(tokens)
    before = words[0, :shared].clone().requires_grad_(True)
    behind = words[:, shared:].clone().requires_grad_(True)
    found = tower.encode_behind(before, behind, tokens)
    whole = torch.cat([before.expand(3, -1, -1), behind], dim=1)
    expected = tower.encode(whole, tokens)
    torch.testing.assert_close(found, expected)
    slope = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0)).double()
    both = (before, behind) if shared else (behind,)
    mine = torch.autograd.grad(found, both, slope)
    torch.testing.assert_close(mine, torch.autograd.grad(expected, both, slope))


def test_texts_are_encoded_as_far_as_the_longest_goes():
    model, tower = tower_of()
    seen = []
    model.transformer.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape))
    tokens = tower.tokenize(["cat", "lion"])
    tower.encode(tower.embed(tokens), tokens)
    assert seen == [(2, 6, 64)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (types.SimpleNamespace(transformer=None), "takes no vectors in place of words"),
        ({"embed_cls": True}, "takes no vectors in place of words"),
        ({"pool_type": "first"}, "at a place that is not known here"),
    ],
    ids=["transformers", "CoCa", "first"],
)
def test_other_towers_are_refused(text, words):
    if isinstance(text, dict):
        with pytest.raises(MarcError, match=words):
            tower_of(open_clip.CustomTextCLIP, **text)
    else:
        with pytest.raises(MarcError, match=words):
            OpenClipTextTower(
                types.SimpleNamespace(text=text), tokenize, ["a"], name="mine", digest=""
            )

"""What the shortcuts of TPT are worth, as in `speed.py`; needs the extra `encoders`.

The literal loop does for every image what the released one does: all 77 positions of the prompts of
all classes, forward, back through an optimiser object, and forward again with the moved context.
Both compute on one thread: for prompts this small several wait for each other.
"""

from __future__ import annotations

import importlib.util

import numpy as np

import marc
from benchmarks.peers.speed import agree, ratio, timed
from marc.encoders.torch_runtime import import_libraries
from marc.loop import run
from marc.peers.tpt import TPT
from marc.stream.predictor import Towers

N_VIEWS, N_KEPT = 64, 6
_SIZES = ((64, 2, 10, 40), (256, 6, 50, 2))
"""Width and layers of a text encoder, classes, and images; CLIP ViT-B/16 has 512 and 12."""


def make_model(width: int, layers: int):
    """A model of open_clip with random weights, whose text tower is of this size."""
    import_libraries("open_clip")
    import open_clip
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    pictures = {"layers": 1, "width": 64, "patch_size": 16, "image_size": 64}
    texts = {"context_length": 77, "vocab_size": 49408, "width": width}
    texts |= {"heads": width // 64 or 1, "layers": layers}
    model = open_clip.CLIP(width, pictures, texts).eval().requires_grad_(False)
    return model, open_clip.get_tokenizer("ViT-B-32")


def make_images(model, tokenize, n_classes: int, n_images: int):
    """Views scattered around the texts of made-up names of one to three words."""
    import torch

    from marc.encoders.open_clip_text import OpenClipTextTower

    words = ("amber", "bird", "cedar", "drum", "ember", "frog", "grape", "hill", "iron", "jar")
    draw = np.random.default_rng(7)
    names = [" ".join(draw.choice(words, size=1 + n % 3)) + f" {n}" for n in range(n_classes)]
    tower = OpenClipTextTower(model, tokenize, names, name="random", digest="random")
    with torch.no_grad():
        texts = model.encode_text(tower.tokenize([f"a photo of a {name}." for name in names]))
    texts = texts.numpy()
    around = draw.standard_normal((n_images, N_VIEWS, texts.shape[1])) * texts.std()
    labels = draw.integers(n_classes, size=n_images)
    centred = texts - texts.mean(axis=0)
    views = 3 * centred[labels][:, np.newaxis] + 0.5 * around
    return marc.Stream.from_arrays(
        views.astype(np.float32), texts, towers=Towers(text=lambda: tower)
    )


def literal_tpt(model, tokenize, stream):
    """The released loop for features of the views that are known."""
    import torch

    predictor = stream.features.predictor
    tokens = tokenize([f"a photo of a {name}." for name in predictor.text_tower.class_names])
    embedded = model.token_embedding(tokens)
    initial = embedded[0, 1:5].clone()
    context = torch.nn.Parameter(initial.clone())
    optimiser = torch.optim.AdamW([context], 5e-3)
    fresh = optimiser.state_dict()
    ends = tokens.argmax(dim=1)

    def logits_of(views):
        learned = context.unsqueeze(0).expand(len(tokens), -1, -1)
        prompts = torch.cat([embedded[:, :1], learned, embedded[:, 5:]], dim=1)
        states = model.transformer(prompts + model.positional_embedding, attn_mask=model.attn_mask)
        states = model.ln_final(states)[torch.arange(len(ends)), ends] @ model.text_projection
        texts = states / states.norm(dim=1, keepdim=True)
        return predictor.logit_scale * views @ texts.T

    answers = []
    for query in stream:
        views = torch.from_numpy(query.views)
        with torch.no_grad():
            context.copy_(initial)
        optimiser.load_state_dict(fresh)
        logits = logits_of(views)
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
        mean = logits[entropy.argsort()[:N_KEPT]].log_softmax(1).logsumexp(0) - np.log(N_KEPT)
        loss = -(mean * mean.exp()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            answers.append(int(logits_of(views[:1])[0].argmax()))
    return np.array(answers)


def tpt() -> list[tuple[str, str]]:
    """Every position of every prompt for every image, or what is needed of them."""
    rows: list[tuple[str, str]] = []
    if importlib.util.find_spec("open_clip") is None:
        return rows
    for width, layers, n_classes, n_images in _SIZES:
        model, tokenize = make_model(width, layers)
        stream = make_images(model, tokenize, n_classes, n_images)
        literal, expected = timed(lambda: literal_tpt(model, tokenize, stream))  # noqa: B023
        method = TPT()  # encodes the untuned prompts in the call that is not counted
        ours, found = timed(lambda: run(method, stream).predictions)  # noqa: B023
        agree(expected, found)
        case = f"C {n_classes}, text width {width}, {layers} layers, {n_images} images"
        rows.append(
            (f"TPT, the released loop / one encoding shared ({case})", ratio(literal, ours))
        )
    return rows


PARTS = (tpt,)

if __name__ == "__main__":
    for row in tpt():
        print("| " + " | ".join(row) + " |", flush=True)

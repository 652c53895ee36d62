"""Streams, results and pages for the tests of reports, and a strict reader of pages."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from PIL import Image

import marc
from helpers.commands import call

VOID = {"meta", "img", "input", "br", "hr", "link"}
NASTY = '</script><script>alert("x")</script>'
LONG = "a-name-without-any-space-" * 6


class Page(HTMLParser):
    """A page as a list of elements; refuses one whose elements do not nest."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts, self.spoken = [], [], {}, []
        self.text = text
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(text)
            if self.open[-1] not in ("script", "style"):
                self.spoken.append(text)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self):
        """The data block of the explorer."""
        return json.loads(next(text for text in self.texts["script"] if text.startswith("{")))

    @property
    def words(self):
        """What a person reads, in one line."""
        return " ".join(" ".join(self.spoken).split())


def make_stream(**changes):
    """A small stream whose names are what users could have."""
    drawn = marc.synthetic_stream(n_images=160, n_classes=5, n_views=2, seed=8)
    features = drawn.features
    names = ["cat", NASTY, "a & b", LONG, "日本 $x_1$"]
    stream = marc.Stream.from_arrays(
        features.views,
        features.predictor.prototypes,
        renamed(features.spaces),
        logit_scale=30.0,
        labels=drawn.row_labels,
        class_names=names,
        ids=[f"images/{row:03d}.png" for row in range(159)] + ["<b>&.png"],
        name="small",
    )
    return replace(stream, **changes)


def renamed(spaces):
    """One of the spaces under a name that matplotlib would leave out, or take for mathematics."""
    return {{"noise": "_noise$"}.get(name, name): keys for name, keys in spaces.items()}


def make_results(folder):
    """Packs and finished folders in `folder`, with pictures for some of the images."""
    marc.write_pack(make_stream(), folder / "small.npz")
    marc.write_pack(make_stream(row_labels=None), folder / "unlabelled.npz")
    other = marc.synthetic_stream(160, 5, 2, seed=9)
    features = replace(other.features, spaces=renamed(other.features.spaces))
    marc.write_pack(replace(other, features=features), folder / "other.npz")
    (folder / "images").mkdir()
    draw = np.random.default_rng(0)
    for row in range(0, 159, 2):
        pixels = draw.integers(256, size=(40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"images/{row:03d}.png")
    source, seeds = f"arrays/{folder}/small.npz", ["--seed", "0", "1"]
    setting = ["--space", "both", "--capacity", "4", "--weight", "7"]
    words = {
        "run": ["run", source, *setting, *seeds],
        "sweep": ["sweep", source, *seeds],
        "other": ["sweep", f"arrays/{folder}/other.npz", *seeds],
        "unlabelled": ["run", f"arrays/{folder}/unlabelled.npz", *setting, *seeds],
        "online": ["run", source, *setting, *seeds, "--policy", "retrieval_aware"],
        "none": ["run", source, "--method", "no-memory", *seeds],
        "means": ["run", source, "--method", "class-means", *seeds],
        "learned": ["run", source, "--space", "both", "--weight", "auto", *seeds],
        "tda": ["run", source, "--method", "tda", "--set", "fraction=0.5", *seeds],
        "sharp": ["run", source, *setting, *seeds, "--set", "beta=9.0"],
    }
    for name, line in words.items():
        outcome = call(*line, "-o", folder / name)
        assert outcome.status == 0, outcome.err
    return {name: Path(folder) / name for name in words}

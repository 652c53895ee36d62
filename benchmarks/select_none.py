"""Is any memory worth it, and which? What `marc select` says without labels, judged by labels.

    python -m benchmarks.select_none [PACK.npz ...]        ten minutes on two cores

Over every stream of the lab and some packs, in each space and in two that mean nothing (`noise`,
and `others`: the keys of other images): the trust of class means, their gain, that of MARC with a
learned weight, and the oracle's. Prints two tables in Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import marc
from marc.class_means import ClassMeans
from marc.errors import check_spaces
from marc.spaces.geometry import pseudo_purity
from marc.spaces.trust import trust
from marc.stats import spearman
from marc.stream import Stream
from marc_lab.streams import list_lab_streams

SEEDS, LEASTS = (0, 1, 2), (0.01, 0.02, 0.05, 0.1, 0.2)  # orders, thresholds of trust
OWN = ("captions", "lite0")  # the predictor's own features, under a name of their own
NOTHING = ("noise", "others")


class Found(NamedTuple):
    """One space of one stream; gains in points, over three orders."""

    trust: float
    purity: float
    class_means: float
    auto: float
    oracle: float


def with_nothing(stream: Stream) -> Stream:
    """The same stream with two more spaces, which mean nothing."""
    draw, spaces = np.random.default_rng(5), stream.features.spaces.items()
    kept = {space: keys for space, keys in spaces if space not in OWN}
    keys = next(iter(kept.values()))
    kept |= {"noise": draw.standard_normal(keys.shape), "others": keys[draw.permutation(len(keys))]}
    return replace(stream, features=replace(stream.features, spaces=check_spaces(kept, len(keys))))


def gain(stream: Stream, method: ClassMeans | marc.MARC) -> float:
    """In points, the mean over orders."""
    return 100 * float(np.mean([marc.replay(method, stream.shuffled(s)).gain for s in SEEDS]))


def judged(stream: Stream) -> tuple[dict[str, Found], float]:
    """What each space is worth, and class means in all of them but those that mean nothing."""
    stream = with_nothing(stream)
    labels, sweep, found = stream.features.base.label, marc.sweep(stream), {}
    for space in stream.spaces:
        purity = pseudo_purity(stream.features.keys(space), labels, 10)
        gains = [gain(stream, m) for m in (ClassMeans(space), marc.MARC(space, weight="auto"))]
        oracle = 100 * sweep.oracle(space).gain
        found[space] = Found(trust(stream.features, [space]), purity, *gains, oracle)
    every = [space for space in stream.spaces if space not in NOTHING]
    return found, gain(stream, ClassMeans([*every, "predictor"]))


def header(columns: list[str]) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def thresholds(cells: list[Found]) -> Iterator[str]:
    """How often none is right, by the least trust that is asked for."""
    columns = ["least trust", "none", "the oracle gains < 1", "most that class means gain", "least"]
    yield from header([*columns, "worth it", "the oracle gains < 1", "class means lose > 0.1"])
    for least in LEASTS:
        none = [each for each in cells if each.trust <= least]
        worth = [each for each in cells if each.trust > least]
        right, small = (sum(each.oracle < 1 for each in part) for part in (none, worth))
        gains = [each.class_means for each in none]
        lost = sum(each.class_means < -0.1 for each in worth)
        most = f"{max(gains):+.2f} | {min(gains):+.2f}"
        yield f"| {least} | {len(none)} | {right} | {most} | {len(worth)} | {small} | {lost} |"


def ranks(name: str, streams: list[tuple[dict[str, Found], float]]) -> str:
    """How well trust and pseudo-purity rank the spaces of some streams, and what choices gain."""
    rows = []
    for found, every in streams:
        real = [each for space, each in found.items() if space not in NOTHING]
        gains = [each.class_means for each in real]
        by = {key: [getattr(each, key) for each in real] for key in ("trust", "purity")}
        chosen = {key: real[int(np.argmax(values))] for key, values in by.items()}
        ranked = [spearman(by[key], gains) for key in by]
        picked = [chosen[key].class_means for key in by]
        rows.append([*ranked, *picked, max(gains), every, chosen["purity"].auto])
    means, table = np.nanmean(rows, axis=0), np.array(rows)
    wins = ", ".join(f"{int((table[:, 5] > table[:, c]).sum())}" for c in (2, 3, 4))
    numbers = [f"{means[0]:.2f}", f"{means[1]:.2f}", *(f"{value:+.2f}" for value in means[2:])]
    return f"| {name} | {len(rows)} | " + " | ".join([*numbers, wins]) + " |"


if __name__ == "__main__":
    groups: dict[str, list[tuple[dict[str, Found], float]]] = {}
    packs = [f"arrays/{path}" for path in sys.argv[1:]]
    for source in [*(f"lab/{name}" for name in list_lab_streams()), *packs]:
        print(f"\r{source[-40:]:<40}", end="", file=sys.stderr, flush=True)
        stream = marc.load_stream(source)
        size = f"lab, {stream.n_classes} classes" if source.startswith("lab/") else "packs"
        groups.setdefault(size, []).append(judged(stream))
    print("\r" + " " * 40, end="\r", file=sys.stderr)
    cells = [each for g in groups.values() for found, _ in g for each in found.values()]
    columns = [
        "streams",
        "how many",
        "rank by trust",
        "by pseudo-purity",
        "gain, most trusted",
        "purest",
    ]
    columns += ["best", "all spaces", "MARC auto, purest", "all beat most trusted, purest, best in"]
    print("\n".join([*thresholds(cells), "", *header(columns)]))
    for size, streams in groups.items():
        print(ranks(size, streams))

"""Which test of a lead to trust: choices made on one half of a stream, judged on the other half.

    python -m benchmarks.lab.leads          about five minutes on two cores

Every stream of the lab is split at random into halves, ten times. A test that resolves a leader on
one half should find the same leader on the other, whose images it has not seen. The last columns
judge by labels: what the leader of the whole stream loses in oracle gain, and whether the space of
the highest gain is in the tie. Prints a table in Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import marc
from marc.spaces.selection import Selection, plan_selection
from marc.stream import Stream
from marc_lab.streams import list_lab_streams

N_SPLITS, N_REPLICATES = 10, 200
NOT_ASKED = ("captions", "labels")  # the predictor's own space, and one that learned the labels
By = dict[str, Selection]
"""A selection by its test of a lead."""


class Judged(NamedTuple):
    """One stream: all of it, and what one half says beside the other."""

    whole: By
    halves: list[tuple[By, By]]
    gains: dict[str, float]
    """Oracle gain by space."""

    def regret(self, spaces: tuple[str, ...]) -> float:
        """What the best of some spaces loses against the best of all, in points."""
        return 100 * (max(self.gains.values()) - max(self.gains[space] for space in spaces))


def candidates(stream: Stream) -> list[str]:
    """The spaces that are ranked."""
    return [space for space in stream.spaces if space not in NOT_ASKED]


def selections(stream: Stream) -> By:
    """The label-free ranking of the candidates, by every test."""
    spaces = candidates(stream)
    job = plan_selection(stream, spaces, sizes=(), n_replicates=N_REPLICATES)
    measured = [job.space(space) for space in spaces]
    return {test: job.result(measured, test) for test in Selection.TESTS}


def judged(stream: Stream) -> Judged:
    """A stream and its halves."""
    half, pairs = len(stream) // 2, []
    for split in range(N_SPLITS):
        order = np.random.default_rng([7, split]).permutation(len(stream))
        first, second = (
            selections(stream.subset(np.sort(rows))) for rows in (order[:half], order[half:])
        )
        pairs += [(first, second), (second, first)]
    sweep = marc.sweep(stream, candidates(stream))
    gains = {space: sweep.oracle(space).gain for space in sweep.spaces}
    return Judged(selections(stream), pairs, gains)


def row(name: str, test: str, streams: list[Judged]) -> list[str]:
    """How one test does on some streams."""
    wholes = [(each, each.whole[test]) for each in streams]
    regrets = [each.regret(whole.tied) for each, whole in wholes if whole.space is not None]
    n_best = sum(each.regret(whole.tied) == 0 for each, whole in wholes)
    pairs = [(a[test], b[test].ranking[0].space) for each in streams for a, b in each.halves]
    resolved = [(a, leader) for a, leader in pairs if a.space is not None]
    n_other = sum(a.space != leader for a, leader in resolved)
    n_outside = sum(leader not in a.tied for a, leader in pairs)
    return [
        name,
        test,
        f"{len(regrets)} of {len(streams)}",
        f"{len(resolved)} of {len(pairs)}",
        f"{n_other}",
        f"{n_outside} of {len(pairs)}",
        f"{np.mean([len(a.tied) for a, _ in pairs]):.1f}",
        f"{np.mean(regrets):.1f} (worst {max(regrets):.1f})" if regrets else "",
        f"{n_best} of {len(streams)}",
    ]


def lines(by_size: dict[str, list[Judged]]) -> Iterator[str]:
    """The table."""
    columns = ["streams", "test", "resolved, whole", "resolved, halves", "of these another leader",
               "other leader outside the tie", "spaces in the tie", "regret if resolved, whole",
               "best gain in the tie, whole"]  # fmt: skip
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    for name, streams in by_size.items():
        for test in Selection.TESTS:
            yield "| " + " | ".join(row(name, test, streams)) + " |"


if __name__ == "__main__":
    found: dict[str, list[Judged]] = {}
    for name in list_lab_streams():
        print(f"\r{name:<30}", end="", file=sys.stderr, flush=True)
        stream = marc.load_stream(f"lab/{name}")
        size = f"{stream.n_classes} classes, {len(stream):,} images"
        found.setdefault(size, []).append(judged(stream))
    print("\r" + " " * 30, end="\r", file=sys.stderr)
    print("\n".join(lines(found)))

"""The tables of docs/results/lab.md, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from benchmarks.lab.measures import (
    IN_TURN,
    KINDS,
    Cell,
    Measurements,
    difference,
    pooled_gain,
    regret,
    stream_of,
)
from benchmarks.words import decimal, percent, points, table, with_ends, with_half
from marc.stats import Interval

CONTROLS = ("pixels", "random")
LABEL_FREE = (
    "pairs-large",
    "pairs-medium",
    "pairs-small",
    "pairs-vit",
    "vicreg",
    "crops",
    "rotation",
    "masked-vit",
)
"""Trained spaces that learned neither labels nor captions."""
LEFT_OUT = {
    "all spaces": (),
    "without `captions`": ("captions",),
    "without `labels`": ("labels",),
    "without both": ("captions", "labels"),
}
COMPARED = (
    ("pairs-vit", "masked-vit"),
    ("pairs-medium", "pairs-small"),
    ("pairs-large", "pairs-medium"),
    ("pairs-large", "crops"),
    ("vicreg", "pairs-large"),
    ("labels-half", "pairs-large"),
    ("labels", "pairs-large"),
)
PSEUDO, TRUE = "pseudo_purity@10", "purity@10"
Streams = Sequence[Measurements]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's with midranks; not a number where one side is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return math.nan
    return float(spearmanr(first, second).statistic)


def trained(stream: Measurements) -> list[str]:
    """The spaces that are no controls."""
    return [space for space in stream.cells if space not in CONTROLS]


def best_space(stream: Measurements, kind: str, spaces: Sequence[str]) -> str:
    """The space of the highest gain: chosen with the labels."""
    return max(spaces, key=lambda space: stream.cells[space].gain(kind).estimate)


def stream_table(many: Streams, few: Streams) -> str:
    """Each stream: no memory, the best label-free space, the predictor's own, the reference."""

    def half(stream: Measurements) -> list[str]:
        best = best_space(stream, "fixed", LABEL_FREE)
        gains = [stream.cells[space].gain("fixed") for space in (best, "captions", "labels")]
        return [percent(stream.base), best, *map(with_half, gains)]

    names = ["no memory", "best label-free", "its gain", "`captions`", "`labels`"]
    header = ["stream", *(f"48: {names[0]}", *names[1:]), *(f"12: {names[0]}", *names[1:])]
    return table(header, ([a.name, *half(a), *half(b)] for a, b in zip(many, few, strict=True)))


def mean_table(many: Streams, few: Streams) -> str:
    """Every space, mean over the shifts without `clean`."""

    def row(space: str) -> list[str]:
        cells = [stream.cells[space] for stream in many if stream.name != "clean"]
        fewer = [stream.cells[space] for stream in few if stream.name != "clean"]
        gains = [with_half(pooled_gain(cells, kind)) for kind in KINDS]
        return [space, *_geometry(cells), *gains, signs([c.gain("held-out") for c in cells]),
                *_geometry(fewer)[:2], *(with_half(pooled_gain(fewer, kind)) for kind in KINDS),
                signs([c.gain("held-out") for c in fewer])]  # fmt: skip

    header = ["space", "48: purity", "pseudo", "anti-hub", *KINDS, "up/down",
              "12: purity", "pseudo", *KINDS, "up/down"]  # fmt: skip
    shifts = [stream.cells for stream in many if stream.name != "clean"]
    spaces = sorted(many[0].cells, key=lambda s: -np.mean([cells[s].purity for cells in shifts]))
    return table(header, map(row, spaces))


def _geometry(cells: Sequence[Cell]) -> list[str]:
    measures = [(cell.purity, cell.pseudo_purity, cell.antihubs) for cell in cells]
    return [percent(value) for value in np.mean(measures, axis=0)]


def signs(gains: Sequence[Interval]) -> str:
    """In how many streams the whole interval is above and below zero."""
    return f"{sum(g.low > 0 for g in gains)}/{sum(g.high < 0 for g in gains)}"


def correlations(streams: Streams, only_trained: bool) -> dict[tuple[str, str], list[float]]:
    """By measure and kind of gain: one correlation a stream, then the pooled one."""
    results = {}
    for measure in ("purity", "pseudo_purity"):
        for kind in KINDS:
            pairs = [
                [
                    (getattr(stream.cells[space], measure), stream.cells[space].gain(kind).estimate)
                    for space in (trained(stream) if only_trained else stream.cells)
                ]
                for stream in streams
            ]
            every = [pair for each in pairs for pair in each]
            results[measure, kind] = [
                correlation(*zip(*each, strict=True)) for each in (*pairs, every)
            ]
    return results


def correlation_table(many: Streams, few: Streams) -> str:
    """Rank correlation of both purities with the three gains, per stream and pooled."""
    header, columns = ["stream"], []
    for streams in (many, few):
        for only_trained in (False, True):
            found = correlations(streams, only_trained)
            for measure, short in (("purity", "P"), ("pseudo_purity", "PP")):
                which = "trained" if only_trained else "all"
                header.append(f"{streams[0].n_classes} {which}: {short}")
                columns.append(np.array([found[measure, kind] for kind in KINDS]))

    def row(name: str, values: list) -> list[str]:
        return [name, *(" ".join(map(decimal, three)) for three in values)]

    rows = [row(stream.name, [c[:, place] for c in columns]) for place, stream in enumerate(many)]
    rows.append(row("mean", [np.nanmean(c[:, :-1], axis=1) for c in columns]))
    rows.append(row("pooled", [c[:, -1] for c in columns]))
    return table(header, rows)


def regret_table(many: Streams, few: Streams) -> str:
    """What the label-free choice loses, by set of candidates."""
    rows = []
    for streams in (many, few):
        for what, left_out in LEFT_OUT.items():
            spaces = [space for space in streams[0].cells if space not in left_out]
            found = [regret(streams, spaces, kind, PSEUDO) for kind in KINDS]
            by_labels = regret(streams, spaces, "oracle", TRUE)
            called = [
                sum(stream.selection(spaces, test).space is not None for stream in streams)
                for test in ("radii", "paired")
            ]
            rows.append(
                [f"{streams[0].n_classes}", what]
                + [f"{percent(r.mean)} (worst {percent(r.worst)}), {r.hits} hits" for r in found]
                + [f"{percent(by_labels.mean)}", *map(str, called)]
            )
    header = ["classes", "candidates", *KINDS, "by purity, oracle", "called: radii", "paired"]
    return table(header, rows)


def choice_table(streams: Streams) -> str:
    """The label-free choice on each stream, without `captions` and `labels`."""
    rows = []
    for stream in streams:
        spaces = [space for space in stream.cells if space not in LEFT_OUT["without both"]]
        choices = [stream.choice(spaces, kind, PSEUDO) for kind in KINDS]
        cell = stream.cells[choices[0].chosen]
        rows.append([
            stream.name,
            choices[0].chosen,
            with_ends(cell.gain("fixed")),
            choices[0].best,
            " / ".join(percent(choice.regret) for choice in choices),
            _tied(stream, spaces),
        ])  # fmt: skip
    header = ["stream", "choice", "its fixed gain", "best, fixed", "regret", "not told apart from"]
    return table(header, rows)


def _tied(stream: Measurements, spaces: Sequence[str]) -> str:
    """From which spaces the leader is not told apart, by both tests."""
    radii, paired = (stream.selection(spaces, test).tied[1:] for test in ("radii", "paired"))
    both = [space if space in radii else f"{space} (not by radii)" for space in paired]
    further = [space for space in radii if space not in paired]
    also = f"; by radii also {', '.join(further)}" if further else ""
    return (", ".join(both) or "none") + also


def mistake_table(stream: Measurements) -> str:
    """Purity beside gain, and whose answers the neighbours of a wrong image carry."""
    spaces = sorted(trained(stream), key=lambda space: -stream.cells[space].purity)
    header = ["space", "purity", "pseudo", "same mistake", "right answer", *KINDS]
    rows = [
        [space, percent(cell.purity), percent(cell.pseudo_purity), percent(cell.same_mistake),
         percent(cell.right_answer), *(with_ends(cell.gain(kind)) for kind in KINDS)]
        for space in spaces
        for cell in [stream.cells[space]]
    ]  # fmt: skip
    return table(header, rows)


def comparison_table(many: Streams, few: Streams) -> str:
    """One space minus another, image by image."""
    rows = []
    for first, second in COMPARED:
        row = [f"{first} - {second}"]
        for streams in (many, few):
            cells = [(stream.cells[first], stream.cells[second]) for stream in streams]
            row.append(points(float(np.mean([a.purity - b.purity for a, b in cells]))))
            for kind in ("fixed", "held-out"):
                each = [difference(a.right[kind], b.right[kind]) for a, b in cells]
                mean = float(np.mean([gain.estimate for gain in each]))
                row.append(f"{points(mean)}, {signs(each)}")
        for name in ("halftone", "mosaic"):
            a, b = (stream_of(many, name).cells[space] for space in (first, second))
            row.append(with_half(difference(a.right["fixed"], b.right["fixed"])))
        rows.append(row)
    header = ["spaces", "48: purity", "fixed", "held-out", "12: purity", "fixed", "held-out",
              "48: halftone", "mosaic"]  # fmt: skip
    return table(header, rows)


def order_table(many: dict, few: dict) -> str:
    """`mixed` and `drift` in their own order and shuffled."""
    spaces = ("captions", "pairs-small", "pairs-large", "vicreg", "labels-half", "labels")
    columns = [(results, name, order) for results in (many, few) for name in IN_TURN
               for order in ("own", "shuffled")]  # fmt: skip
    header = [f"{r[name][order].n_classes}: {name}, {order}" for r, name, order in columns]
    base = ["no memory", *(percent(r[name][order].base) for r, name, order in columns)]
    rows = [
        [space, *(with_half(r[name][o].cells[space].gain("fixed")) for r, name, o in columns)]
        for space in spaces
    ]
    return table(["space", *header], [base, *rows])


def whole_table(many: Streams, few: Streams) -> str:
    """Every stream and space."""

    def half(stream: Measurements, space: str) -> list[str]:
        cell = stream.cells[space]
        return [percent(stream.base), *_geometry([cell]), *(with_half(cell.gain(k)) for k in KINDS)]

    names = ["purity", "pseudo", "anti-hub", *KINDS]
    header = ["stream", "space", "48: base", *names, "12: base", *names]
    return table(header, (
        [first.name, space, *half(first, space), *half(second, space)]
        for first, second in zip(many, few, strict=True)
        for space in sorted(first.cells, key=lambda space, cells=first.cells: -cells[space].purity)
    ))  # fmt: skip

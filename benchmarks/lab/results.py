"""Print docs/results/lab.md: every stream and space of the lab, and what follows from them.

    python -m benchmarks.lab.results > docs/results/lab.md

Draws and embeds the streams at the first call (about 12 minutes on two cores), then about two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import marc
from benchmarks.lab import tables
from benchmarks.lab.measures import (
    CAPACITY,
    KINDS,
    WEIGHT,
    Measurements,
    base_of,
    difference,
    measure_all,
    regret,
    share_no_image,
    stream_of,
)
from benchmarks.lab.tables import LABEL_FREE, LEFT_OUT, PSEUDO, Streams
from benchmarks.words import (
    decimal,
    names,
    numbered,
    percent,
    points,
    span,
    table,
    with_ends,
    wrapped,
)

_CASE = "sketch"  # where the mistakes are shown
_POOR = 0.3  # a purity that is called poor


def how_it_was_made(many: Streams, few: Streams) -> list[str]:
    """The world, the encoders and the meaning of the columns."""
    record = json.loads(
        (Path(marc.__file__).parent / "encoders/weights/training.json").read_text("utf-8")
    )["encoders"]
    budgets = {name: each["plan"] for name, each in record.items() if each["views"]}
    views = span([plan["views"] / 1e6 for plan in budgets.values()], "{:.1f}")
    pictures = span([plan["pictures"] for plan in budgets.values()], "{:,}")
    seeds = span([plan["seed"] for plan in budgets.values()], "{}")
    n_many, n_few = (len(base_of(streams[0])) for streams in (many, few))
    return [
        f"Drawn pictures of 48 kinds of things, {n_many:,} a stream; the 12-class streams show "
        f"{n_few} pictures of twelve classes. {len(budgets)} small encoders were trained once, "
        f"each with one seed ({seeds}), on {pictures} clean pictures and {views} million views "
        "each; none saw a shift. The memory reads before it writes. `captions` is the "
        "image space of the predictor itself. `labels` learned the very labels that are measured: "
        "an upper reference. `labels-half` and `labels-contrastive` learned 24 and 36 of the 48 "
        "labels, none of the twelve. `pixels` and `random` are controls. Label-free means trained "
        f"with neither labels nor captions: {names(LABEL_FREE)}.",
        "*Purity*, *pseudo-purity* (*pseudo*) and *anti-hub* are at ten neighbours, on all images. "
        f"*fixed* is K = {CAPACITY}, w = {WEIGHT:g}, set in advance. *oracle* is the best K and w "
        "of the grid, chosen with the labels of the stream. *held-out* is the K and w that are "
        "best on average over the streams of the other shifts with as many classes, with their "
        "labels; `mixed` shows all shifts, so its K and w come from other pictures of the same "
        "shifts. No picture is in two streams. `docs/protocol.md` says more.",
        "Three orders (seeds 0, 1, 2). Intervals are 95 %, paired, over images, after averaging an "
        "image over orders: [low, high], or (half the width), for they are symmetric. **The "
        "interval of an oracle is not corrected for its choice.** Means over streams take the "
        "shifts as given. *up/down* counts the streams whose interval lies above or below zero.",
    ]


def in_short(many: Streams, few: Streams) -> str:
    """The findings, with their counts."""
    columns = [_findings(streams) for streams in (many, few)]
    rows = [[what, columns[0][what], columns[1][what]] for what in columns[0]]
    return table(["over the eleven streams", "48 classes", "12 classes"], rows)


def _findings(streams: Streams) -> dict[str, str]:
    """The same few numbers for either kind of stream."""
    spaces = [space for space in streams[0].cells if space not in LEFT_OUT["without both"]]
    losses = [regret(streams, spaces, kind, PSEUDO) for kind in KINDS]
    chosen = [choice.chosen for choice in losses[0].choices]
    best = [tables.best_space(stream, "fixed", LABEL_FREE) for stream in streams]

    def gains(names: list[str], kind: str) -> str:
        each = [s.cells[n].gain(kind) for s, n in zip(streams, names, strict=True)]
        values = [gain.estimate for gain in each]
        ends = f"{points(min(values))} to {points(max(values))}"
        return f"{points(float(np.mean(values)))} ({ends}), {tables.signs(each)}"

    own, told = ["captions"] * len(streams), ["labels"] * len(streams)
    pooled = tables.correlations(streams, only_trained=True)
    regrets = " / ".join(f"{percent(each.mean)} ({percent(each.worst)})" for each in losses)
    return {
        "best label-free space, by hindsight, fixed": gains(best, "fixed"),
        "label-free choice without `captions`, `labels`: fixed": gains(chosen, "fixed"),
        "the same, held-out": gains(chosen, "held-out"),
        "its regret (worst): " + " / ".join(KINDS): regrets,
        "`captions`, fixed": gains(own, "fixed"),
        "`captions`, held-out": gains(own, "held-out"),
        "`labels`, fixed": gains(told, "fixed"),
        "rank correlation with purity: " + " / ".join(KINDS): _three(pooled, "purity"),
        "rank correlation with pseudo-purity": _three(pooled, "pseudo_purity"),
    }


def _three(pooled: dict, measure: str) -> str:
    return " / ".join(decimal(pooled[measure, kind][-1]) for kind in KINDS)


def about_weak_streams(many: Streams) -> str:
    """Where the predictor alone is nearly useless."""
    weak = [stream for stream in many if stream.base < _POOR]
    if not weak:
        return ""
    named = ", ".join(f"`{stream.name}` ({percent(stream.base)} %)" for stream in weak)
    return (
        f"The predictor alone is right on fewer than {percent(_POOR)} % of the pictures of "
        f"{named}: there most answers that a memory could store are wrong, whatever the space."
    )


def about_repeated_mistakes(streams: Streams) -> str:
    """Captions on the stream of the case, beside spaces of no higher purity, in words."""
    case = stream_of(streams, _CASE)
    own, spaces = case.cells["captions"], list(case.cells)
    rank = 1 + sum(cell.pseudo_purity > own.pseudo_purity for cell in case.cells.values())
    most = sum(
        max(s.cells, key=lambda space, s=s: s.cells[space].same_mistake) == "captions"
        for s in streams
    )
    chosen = [s.choice(spaces, "held-out", PSEUDO) for s in streams]
    led_astray = [choice for choice in chosen if choice.chosen == "captions"]
    losses = ", ".join(f"`{each.stream}` {percent(each.regret)}" for each in led_astray)
    return (
        f"**{case.n_classes} classes.** On `{_CASE}` `captions` has purity {percent(own.purity)} "
        f"and pseudo-purity {percent(own.pseudo_purity)}, which is place {rank} of {len(spaces)}; "
        f"it gains {with_ends(own.gain('fixed'))} (fixed) and {with_ends(own.gain('held-out'))} "
        f"(held-out). Spaces of no higher purity that gain more, with the paired difference above "
        f"zero: {names(_less_pure_and_better(case, 'fixed'))} (fixed), "
        f"{names(_less_pure_and_better(case, 'held-out'))} (held-out). `captions` repeats mistakes "
        f"more than every other space in {most} of {len(streams)} streams. With all spaces as "
        f"candidates the label-free rule chooses it in {len(led_astray)} of {len(streams)} streams"
        + (f" (held-out regret: {losses})." if losses else ".")
    )


def _less_pure_and_better(stream: Measurements, kind: str) -> list[str]:
    own = stream.cells["captions"]
    return [
        space
        for space, cell in stream.cells.items()
        if cell.purity <= own.purity and difference(cell.right[kind], own.right[kind]).low > 0
    ]


def about_correlations(many: Streams, few: Streams) -> str:
    """Streams on which the label-free measure points the wrong way."""
    wrong = [
        f"`{stream.name}` with {stream.n_classes} classes"
        for streams in (many, few)
        for stream, value in zip(
            streams,
            tables.correlations(streams, only_trained=True)["pseudo_purity", "fixed"][:-1],
            strict=True,
        )
        if value < 0
    ]
    return (
        "Among trained spaces pseudo-purity and the fixed gain are correlated negatively on: "
        f"{', '.join(wrong) or 'no stream'}."
    )


def reservations(many: Streams, few: Streams) -> list[str]:
    """What must stand beside every number."""
    poor = [c for s in (*many, *few) for c in s.cells.values() if c.purity < _POOR]
    harmed = sum(cell.gain("fixed").high < 0 for cell in poor)
    highest = max(cell.gain("oracle").estimate for cell in poor)
    lost = [c for s in (*many, *few) for c in s.cells.values() if c.gain("held-out").high < 0]
    total = sum(len(stream.cells) for stream in (*many, *few))
    return [
        "A laboratory in miniature. Nothing here is evidence about real photographs or about "
        "published models.",
        "`pairs-*` and `vicreg` know that two frames show one thing. That is a standard signal, "
        "but more than a single picture tells; `crops`, `rotation` and `masked-vit` have single "
        "pictures only.",
        "`labels` learned the labels that are measured. It is an upper reference, not a "
        "recommendation. Its own classifier is not measured here.",
        "The twelve classes are held back from labels only. The predictor and the label-free "
        "encoders saw clean pictures of them, and about three quarters of the captions name the "
        "thing. `labels-half` and `labels-contrastive` saw pictures of their own classes only.",
        "One training of each encoder, one seed, one world. Differences between two encoders of "
        "one recipe may be luck of the seed; the intervals are over images and do not cover that.",
        "Budgets are equal in views, not in seconds or in what a recipe would need to converge.",
        "Severities of the shifts were set by eye from drawings before any encoder was trained. "
        "The first eight shifts and the recipes follow a prototype whose results were known; "
        "`halftone` and `mosaic` are new, and nothing was tuned on them.",
        "Weights are rounded to eight bits, so spaces differ a little from those that were "
        "trained.",
        f"Of {len(poor)} cells with a purity below {percent(_POOR)} %, the fixed setting harms "
        f"{harmed} (interval below zero), and the highest oracle gain is {points(highest)}. Weight "
        "0 is among the candidates, so an oracle is never negative; many gains of zero are ties "
        "that limit every rank correlation.",
        f"A held-out setting may harm too: in {len(lost)} of {total} cells its interval is below "
        "zero. It was chosen on streams of the same world, classes and encoders, which is kinder "
        "than another domain would be.",
        "The predictor decides what is stored in every space, so spaces are compared for one "
        "admission only, the default one.",
    ]


def about_spaces(many: Streams, few: Streams) -> list[str]:
    """What the memory is worth in each space, and what that goes with."""
    return [
        "## Streams",
        "Gains at the fixed setting, of the best label-free space (named with hindsight), of the "
        "predictor's own space and of the upper reference.",
        tables.stream_table(many, few),
        about_weak_streams(many),
        "## Spaces",
        "Mean over the ten shifts (`clean` is left out). *up/down* is of the held-out gain.",
        tables.mean_table(many, few),
        "Pairs of spaces, one minus the other: same body with another objective (`vit`), three "
        "sizes of one recipe, other signals. Mean over the eleven streams, with *up/down*; at the "
        "fixed setting also on the two shifts that nothing was tuned on.",
        tables.comparison_table(many, few),
        "## Rank correlation of purity with gain",
        "Spearman's with midranks, of purity (P) and pseudo-purity (PP) with the fixed, the oracle "
        "and the held-out gain, in this order. *all*: fourteen spaces; *trained*: without the "
        "controls. *pooled*: all streams and spaces at once, so differences of streams count too.",
        tables.correlation_table(many, few),
        about_correlations(many, few),
    ]


def about_choices(many: Streams, few: Streams) -> list[str]:
    """What is lost by choosing a space without labels, and why."""
    return [
        "## Regret of the label-free choice",
        "The space of the highest pseudo-purity at ten neighbours is chosen. Regret: the highest "
        "gain among the candidates minus that of the choice; mean and worst over eleven streams, "
        "and on how many it is zero (hits). *By purity*: the same rule with the labels. *Called*: "
        "on how many streams the first place is certain; else it is too close to call. The "
        "choice reads no label of the stream; some candidates learned labels in training.",
        tables.regret_table(many, few),
        "Stream by stream, without `captions` and `labels` among the candidates; 48 classes, then "
        "12. Regret is of the fixed, the oracle and the held-out gain. Last column: the spaces "
        "from which the choice is not told apart by the paired test, and further ones by the "
        "radii.",
        tables.choice_table(many),
        tables.choice_table(few),
        "## Purity and repeated mistakes",
        about_repeated_mistakes(many),
        about_repeated_mistakes(few),
        f"Trained spaces on `{_CASE}`, 48 classes. *same mistake*, *right answer*: where the "
        "predictor errs, the share of the ten neighbours with the same wrong answer, and with the "
        "right one.",
        tables.mistake_table(stream_of(many, _CASE)),
    ]


def document() -> str:
    """The whole text."""
    (many, many_in_turn), (few, few_in_turn) = measure_all(""), measure_all("-12")
    in_turn = [
        [results[name]["own"] for name in results] for results in (many_in_turn, few_in_turn)
    ]
    print("\r" + " " * 60, end="\r", file=sys.stderr)
    if not share_no_image([*many, *few, *in_turn[0], *in_turn[1]]):
        sys.exit("two streams share a picture: no choice made on one is held out from the other")
    parts: list[str] = [
        "# The lab: every stream and space",
        "Printed by `make lab-results`. Shares are in percent, gains and regrets in points over "
        "the same predictor without memory.",
        *how_it_was_made(many, few),
        "## In short",
        "Mean (lowest to highest), and the streams whose interval is above/below zero. "
        "Correlations are pooled over the trained spaces of all streams.",
        in_short(many, few),
        *about_spaces(many, few),
        *about_choices(many, few),
        "## Mixed and drift",
        "`mixed` shows one shift after another, `drift` slides from `clean` into `neon`. Gains at "
        "the fixed setting, in the stream's own order (one order) and shuffled (three).",
        tables.order_table(many_in_turn, few_in_turn),
        "## Reservations",
        numbered(reservations(many, few)),
        "## Every stream and space",
        "`mixed` and `drift` in their own order.",
        tables.whole_table([*many, *in_turn[0]], [*few, *in_turn[1]]),
    ]
    return "\n\n".join(wrapped(part) for part in parts if part)


if __name__ == "__main__":
    print(document())

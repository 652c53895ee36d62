"""What the numbers of class means teach, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.class_means.ablation import Gain
from benchmarks.class_means.cells import ALL, Cell
from benchmarks.class_means.measure import Measured
from benchmarks.class_means.part_tables import chosen, memories, single_all
from benchmarks.class_means.peers import KINDS, Outcome
from benchmarks.class_means.streams import BAD
from benchmarks.class_means.tables import (
    HARM,
    NAMES,
    differences,
    hundredths,
    mean,
    methods_of,
    single_and_all,
)
from benchmarks.class_means.trust import ESTIMATES, correlation
from benchmarks.class_means.variants import OWN
from benchmarks.words import decimal, points, span

AT = ("photographs", "lab", "hostile")
WEAK = 0.3  # accuracy of a predictor below which its memory has little to go on


def lessons(measured: Measured) -> list[str]:
    """At most ten, of what there is."""
    return [
        text for part in (_beside_others, _parts, _limits, _evidence) for text in part(measured)
    ]


def _beside_others(measured: Measured) -> Iterator[str]:
    """Which methods are better, and where."""
    peers = measured.peers
    first, *others = [n for n in methods_of(peers) if not n.startswith("class-means, ")]
    averages = [
        (name, mean(o.gain for o in peers if o.method == name)) for name in (first, *others)
    ]
    better = []
    for name in others:
        found = differences(peers, name)
        lower = [f"{stream} by {-100 * d.estimate:.1f}" for stream, d in found if d.high < 0]
        better += [f"{NAMES.get(name, name)} on {' and '.join(lower)}"] if lower else []
    yield (
        f"**On shuffled photographs class-means gains {points(averages[0][1])} on average, "
        f"the next, {NAMES.get(averages[1][0], averages[1][0])}, {points(averages[1][1])}; it is "
        "not the best everywhere.** Better by more than the 95 % interval: "
        f"{'; '.join(better) or 'none'}."
    )


def _parts(measured: Measured) -> Iterator[str]:
    """What each part is worth."""
    gains = measured.ablation
    yield (
        "**Scaling down the few directions that hold most of a space's variance keeps harm away.** "
        f"Without it, one space changes by {_beside(gains, _UNSCALED)} points on photographs, lab "
        f"and hostile, and cells below -0.3 go from {_harmed(gains, _SHIPPED)} to "
        f"{_harmed(gains, _UNSCALED)}; in the sentences below, brackets hold the same three "
        "numbers."
    )
    yield (
        "**Trust must be relative.** Plain kappa with the predictor is low for every memory where "
        f"the predictor is poor, and holds good memories back {_beside(gains, _PLAIN)}. To hold "
        f"it against what the predictor claims of itself {_beside(gains, _CLAIMED)} depends on a "
        "logit scale that fits the stream."
    )
    yield (
        "**A soft share is a better label than a hard one**: p^2 leaves doubtful images almost "
        f"out without a threshold. With p instead {_beside(gains, 'written with p')}, with the "
        f"hard label {_beside(gains, 'hard labels')}; without centring "
        f"{_beside(gains, 'not centred')}."
    )
    yield (
        "**Some parts are worth little or nothing.** To take away the running mean of z, as "
        f"weight=auto does and an earlier version did {_beside(gains, _BEYOND)}, with sorted "
        f"classes {_in_sorted(gains, _BEYOND)} instead of {_in_sorted(gains, _SHIPPED)}; no "
        f"matched marginals {_beside(gains, 'marginals not matched')}; a grid to 200 "
        f"{_beside(gains, 'grid to 200')}. The exponent trades gain for caution: at 1 "
        f"{_beside(gains, 'exponent 1')}, at 2 {_beside(gains, 'exponent 2')}."
    )


_SHIPPED, _BEYOND = "as it ships", "running mean of z taken away"
_UNSCALED, _PLAIN = "directions not scaled", "plain kappa, k for r"
_CLAIMED = "relative to the confidence"


def _beside(gains: Sequence[Gain], variant: str) -> str:
    """The change of a variant in one space: on photographs, lab and hostile."""
    texts = []
    for group in AT:
        single, shipped = (
            single_all(chosen(gains, name, group))[0] for name in (variant, _SHIPPED)
        )
        texts.append(hundredths(mean(single) - mean(shipped)) if single else "-")
    return f"({', '.join(texts)})"


def _harmed(gains: Sequence[Gain], variant: str) -> str:
    """Cells that lose more than 0.3 points, of all three groups."""
    groups = (single_all(chosen(gains, variant, group))[0] for group in AT)
    return str(sum(gain < HARM for single in groups for gain in single))


def _in_sorted(gains: Sequence[Gain], variant: str) -> str:
    return points(mean(single_all(chosen(gains, variant, "photographs", "sorted"))[0]))


def _limits(measured: Measured) -> Iterator[str]:
    """Where it is safe, and where not."""
    single, every = single_and_all(measured.cells, BAD)
    clean = {c.stream: c.class_means for c in measured.cells if c.space == ALL and c.group != BAD}
    changes = [each.class_means - clean[each.stream] for each in every]
    low, high = (hundredths(end(c.class_means for c in single)) for end in (min, max))
    yield (
        f"**A space that means nothing is given nothing**: {low} to {high} points in the spaces "
        "that are bad on purpose. Among all spaces at once, the two bad ones change the gain by "
        f"{hundredths(mean(changes))} on average and {hundredths(min(changes))} at worst."
    )
    confused = [c for c in measured.cells if "confused" in c.stream and c.space == ALL]
    if confused:
        average = points(mean(c.class_means for c in confused))
        lost = [_confused(measured, each) for each in confused if each.class_means < HARM]
        yield (
            "**Mistakes with a system stay.** Where half of the class names lean towards another "
            f"class, class-means in all spaces gains {average} on average; it loses on "
            f"{'; '.join(lost) or 'none'}. No variant of class means that was tried avoids it: the "
            "means are those of what the predictor says."
        )
    yield (
        "**No order turns the mean into a loss**: in all spaces, the mean gain of class-means is "
        f"{_span_of_orders(measured.orders, 'class-means')} points over the kinds of orders, that "
        f"of ETTA {_span_of_orders(measured.orders, 'etta')}, of OGA "
        f"{_span_of_orders(measured.orders, 'oga')}, of TDA "
        f"{_span_of_orders(measured.orders, 'tda')}, of MARC at w = 10 "
        f"{_span_of_orders(measured.orders, 'marc')}."
    )


def _confused(measured: Measured, cell: Cell) -> str:
    """A stream that loses, beside what the paper's read does there."""
    single = [c for c in measured.cells if c.stream == cell.stream and c.space != ALL]
    auto, oracle = mean(c.auto for c in single), mean(c.oracle for c in single)
    return (
        f"{cell.stream} by {-100 * cell.class_means:.1f} (MARC, auto {points(auto)}, oracle "
        f"{points(oracle)}, means over spaces)"
    )


def _span_of_orders(outcomes: Sequence[Outcome], method: str) -> str:
    """The lowest and highest mean over streams."""
    own = [each for each in outcomes if each.method == method]
    kinds = [kind for kind in KINDS if any(each.kind == kind for each in own)]
    means = [mean(each.gain for each in own if each.kind == kind) for kind in kinds]
    return span([100 * value for value in means], "{:+.1f}")


def _evidence(measured: Measured) -> Iterator[str]:
    """Trust, and what it cannot give."""
    weak = [t.stream for t in measured.trusts if t.space == OWN and t.accuracy < WEAK]
    names = [each.stream for each in measured.peers if each.method == "no-memory"]
    names = [name for name in names if name in weak]
    if names:
        yield _weak(measured, names)
    yield (
        "**How good a memory is can be told without labels; how far to trust it, hardly.** Rank "
        f"correlation over cells: {_ranked(measured, 'photographs')}; "
        f"{_ranked(measured, 'lab')}. The accuracy of the predictor is told better by "
        "three answerers than by its own confidence."
    )


def _ranked(measured: Measured, group: str) -> str:
    """The rank correlations of all estimates with the truth."""
    cells = memories(measured.trusts, group)
    if not cells:
        return f"on {group}, none"
    texts = []
    for of, words in (("accuracy", "accuracy"), ("best_trust", "the best trust")):
        found = {each: correlation(cells, each, of)[0] for each in ESTIMATES}
        first = max(found, key=lambda each: found[each])
        texts.append(f"{words} {span(list(found.values()), '{:.2f}')}, highest *{first}*")
    own = decimal(correlation(cells, "relative", "best_trust")[0])
    return f"on {group}, with {', with '.join(texts)} (*relative* {own})"


def _weak(measured: Measured, names: Sequence[str]) -> str:
    """Of photographs whose predictor is weak."""
    best = [t.best_gain for t in measured.trusts if t.stream in names and t.space == ALL]

    def in_order(method: str, kind: str) -> list[Outcome]:
        return [o for o in measured.orders if (o.method, o.kind) == (method, kind)]

    def gains(method: str, kind: str) -> str:
        return points(mean(o.gain for o in in_order(method, kind)))

    def of_weak(method: str, kind: str) -> list[float]:
        return [o.gain for o in in_order(method, kind) if o.stream in names]

    def each(method: str) -> list[Outcome]:
        return [o for o in measured.peers if o.method == method and o.stream in names]

    def common(method: str) -> str:
        return " and ".join(f"{100 * o.commonest:.0f} %" for o in each(method))

    def listed(values: Iterable[float]) -> str:
        return " and ".join(points(value) for value in values)

    return (
        f"**Where the predictor is weak ({' and '.join(names)}), trust is no longer the limit, the "
        f"evidence is.** Even the best trust chosen with labels gains {listed(best)} there. "
        "Memories with equal numbers a class gain "
        f"{listed(o.gain for o in each('marc'))} (MARC, w = 10) and "
        f"{listed(o.gain for o in each('oga'))} (OGA). They flatten the predictor's preference for "
        f"one class: its commonest answer is given to {common('no-memory')} of the images, that of "
        f"MARC to {common('marc')}, of OGA to {common('oga')}. But so does class-means, "
        f"{common('class-means')}, and that alone does not explain the difference. Where classes "
        f"come sorted, MARC and OGA keep {listed(of_weak('marc', 'sorted'))}, and "
        f"{listed(of_weak('oga', 'sorted'))}; long-tailed, {listed(of_weak('marc', 'long-tail'))}, "
        f"and {listed(of_weak('oga', 'long-tail'))}. Over all photographs MARC goes from "
        f"{gains('marc', 'shuffled')} to {gains('marc', 'sorted')} sorted and "
        f"{gains('marc', 'long-tail')} long-tailed, OGA from {gains('oga', 'shuffled')} to "
        f"{gains('oga', 'sorted')} and {gains('oga', 'long-tail')}, class-means from "
        f"{gains('class-means', 'shuffled')} to {gains('class-means', 'sorted')} and "
        f"{gains('class-means', 'long-tail')}."
    )


def drift_words(measured: Measured) -> str:
    """Which memory holds when the stream drifts, in all spaces."""

    def gain(variant: str, kind: str) -> str:
        found = single_all(chosen(measured.bounded, variant, "photographs", kind))[1]
        return points(mean(found)) if found else "-"

    def all_of(kind: str) -> str:
        return (
            f"half-life 16 {gain('half-life 16', kind)}, half-life 64 "
            f"{gain('half-life 64', kind)}, running {gain('running mean', kind)}, best 64 "
            f"{gain('best 64', kind)}, last 64 {gain('last 64', kind)}"
        )

    return (
        "**A mean that forgets holds best where the domain changes or comes back; elsewhere a long "
        "half-life and the running mean are alike, and a bounded memory is not better anywhere.** "
        f"In all spaces, one domain after the other: {all_of('domains')}; the first comes back: "
        f"{all_of('returning')}; shuffled: {all_of('shuffled')}. Where classes come, go and come "
        f"back (dirichlet): {all_of('dirichlet:gamma=0.1')}; where they come once, sorted: "
        f"{all_of('sorted')}. The running mean ships because it has nothing to set; on these "
        "streams a half-life of 64 would have been as good or better on average. How fast a stream "
        "drifts, no one knows beforehand."
    )

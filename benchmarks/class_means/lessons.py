"""What the numbers of class means teach, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.class_means.ablation import Gain
from benchmarks.class_means.cells import ALL
from benchmarks.class_means.measure import Measured
from benchmarks.class_means.part_tables import chosen, memories, single_all
from benchmarks.class_means.peers import KINDS, Outcome
from benchmarks.class_means.streams import BAD
from benchmarks.class_means.tables import hundredths, mean, single_and_all
from benchmarks.class_means.trust import ESTIMATES, correlation
from benchmarks.class_means.variants import OWN
from benchmarks.words import decimal, points, span

WEAK = 0.3  # accuracy of a predictor below which its memory has little to go on


def lessons(measured: Measured) -> list[str]:
    """At most ten, of what there is."""
    return [text for part in (_parts, _limits, _evidence) for text in part(measured)]


def _parts(measured: Measured) -> Iterator[str]:
    """What each part is worth."""
    gains = measured.ablation
    yield (
        "**Where a few directions hold most of a space's variance, scaling them down is worth more "
        f"than any other part.** Without it, one space changes by {_beside(gains, _UNSCALED)} "
        "points on photographs, lab and hostile; in the sentences below, brackets hold the same "
        "three numbers."
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
    for group in ("photographs", "lab", "hostile"):
        single, shipped = (
            single_all(chosen(gains, name, group))[0] for name in (variant, _SHIPPED)
        )
        texts.append(hundredths(mean(single) - mean(shipped)) if single else "-")
    return f"({', '.join(texts)})"


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
        worst = min(confused, key=lambda each: each.class_means)
        average = points(mean(c.class_means for c in confused))
        yield (
            "**Mistakes with a system stay.** Where half of the class names lean towards another "
            f"class, class-means in all spaces gains {average} on average and "
            f"{points(worst.class_means)} at worst ({worst.stream}): the means are "
            "those of what the predictor says, every memory agrees with them, and no variant and "
            "no estimate of trust that was tried sees it."
        )
    yield (
        "**No order turns the mean into a loss**: in all spaces, the mean gain of class-means is "
        f"{_span_of_orders(measured.orders, 'class-means')} points over the kinds of orders, that "
        f"of ETTA {_span_of_orders(measured.orders, 'etta')}, of OGA "
        f"{_span_of_orders(measured.orders, 'oga')}, of TDA "
        f"{_span_of_orders(measured.orders, 'tda')}, of MARC at w = 10 "
        f"{_span_of_orders(measured.orders, 'marc')}."
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
    best = [
        t.best_gain
        for t in measured.trusts
        if t.stream in weak and t.space == ALL and t.group == "photographs"
    ]
    kernel = [o for o in measured.orders if o.stream in weak and o.method == "marc"]
    if best and kernel:
        names = list(dict.fromkeys(each.stream for each in kernel))
        gains = {kind: [o.gain for o in kernel if o.kind == kind] for kind in KINDS}
        yield (
            f"**Where the predictor is weak ({' and '.join(names)}), trust no longer limits: the "
            "evidence does.** Even the best trust chosen with labels gains "
            f"{_each(best)}. A kernel memory with equal numbers a class, MARC at w = 10, gains "
            f"{_each(gains['shuffled'])} there when shuffled, because it also flattens the "
            "predictor's preference for one class; where classes come sorted or long-tailed, that "
            f"is {_each(gains['sorted'])} and {_each(gains['long-tail'])}."
        )
    photographs, lab = (memories(measured.trusts, group) for group in ("photographs", "lab"))
    texts = []
    for name, cells in (("photographs", photographs), ("the lab", lab)):
        if cells:
            found = {e: correlation(cells, e, "best_trust")[0] for e in ESTIMATES}
            first = max(found, key=lambda each: found[each])
            texts.append(
                f"on {name} *{first}* ranks the best trust best ({decimal(found[first])}; "
                f"*kappa* {decimal(found['kappa'])}, *relative* {decimal(found['relative'])})"
            )
    yield (
        "**How good a memory is and how far it should be trusted are two questions.** Over all "
        f"cells, {', '.join(texts)}."
    )


def _each(gains: Sequence[float]) -> str:
    return " and ".join(points(gain) for gain in gains)


def drift_words(measured: Measured) -> str:
    """Which memory holds when the stream drifts, in all spaces."""

    def gain(variant: str, kind: str) -> str:
        found = single_all(chosen(measured.bounded, variant, "photographs", kind))[1]
        return points(mean(found)) if found else "-"

    def three(kind: str) -> str:
        return (
            f"{gain('half-life 16', kind)} with a half-life of 16, {gain('running mean', kind)} "
            f"with the running mean, {gain('best 64', kind)} with the best 64"
        )

    return (
        f"In all spaces: where domains come one after the other, {three('domains')}; where the "
        f"first comes back, {three('returning')}; shuffled, {three('shuffled')}; sorted by class, "
        f"{three('sorted')}."
    )

"""Repairs and regressions: counts against accuracies, and what an oracle would cover."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.paper.checks import Check, number, over_seeds
from benchmarks.paper.reaches import Reach, exact, reach_of, whole_counts
from marc_paper.printed import BASE_A, N_IMAGES, REPAIRS, SUBSTITUTION, stated
from marc_paper.printed.numbers import Printed

SEEDS = ("0", "1", "2")
BASE = Printed(BASE_A)

_POINTS = Fraction(100, N_IMAGES)  # one image


def repair_checks() -> list[Check]:
    """All of them."""
    return [*regressions(), *means(), *coverage()]


def regressions() -> list[Check]:
    """Regressions of the memory, seed by seed: its repairs less its gain in images."""
    lost = []
    for seed in SEEDS:
        [net] = whole_counts(SUBSTITUTION.at("gain at 1", seed), N_IMAGES)
        lost.append(exact(SUBSTITUTION.at("retrieval repairs", seed).value - net))
    said = REPAIRS.numbers("regressions", "retrieval")
    return over_seeds(REPAIRS.label, "retrieval regressions", lost, said)


def means() -> list[Check]:
    """Means over seeds: accuracies that follow from them, and the partition of the repairs."""
    label = REPAIRS.label
    repaired = {column: reach_of(REPAIRS.at("repairs", column)) for column in REPAIRS.columns}
    broken = {column: reach_of(REPAIRS.at("regressions", column)) for column in REPAIRS.columns}
    checks = []
    for source, row in (("augmentation", "M = 64, no memory"), ("retrieval", "M = 1, DINOv2-B")):
        said = stated("sec:capacity", f"accuracy, A, {row}")
        found = (repaired[source] - broken[source]) * _POINTS + reach_of(BASE)
        checks.append(number("sec:capacity", "accuracy from repairs", source, said, found))
    for source, name in (("augmentation", "views"), ("retrieval", "the memory")):
        said = stated("sec:s_substitution", f"repaired by {name} alone")
        alone = repaired[source] - repaired["shared"]
        checks.append(number(label, "repaired by one source alone", source, said, alone))
    share = repaired["shared"] / repaired["augmentation"] * 100
    said_share = SUBSTITUTION.at("shared share", "mean")
    return [*checks, number(label, "shared over augmentation", "means", said_share, share)]


def coverage() -> list[Check]:
    """An oracle over two sources cannot keep what both of them break."""
    [right] = whole_counts(BASE, N_IMAGES)
    repaired = {
        source: SUBSTITUTION.at(f"{source} repairs", "0").value
        for source in ("augmentation", "retrieval", "shared")
    }
    either = right + repaired["augmentation"] + repaired["retrieval"] - repaired["shared"]
    shared, spread = (reach_of(each) for each in REPAIRS.numbers("regressions", "shared"))
    # one of three values lies within 2 / sqrt 3 sample deviations of their mean
    far = Fraction("1.1548") * spread.high
    broken = Reach(shared.value, shared.low - far, shared.high + far)
    label, what = "sec:s_substitution", "accuracy of an oracle over both sources"
    kept = "with what both break"
    said = stated(label, "coverage of 64 views and DINOv2-B")
    return [
        number(label, what, "seed 0", said, (exact(either) - broken) * _POINTS),
        number(label, f"{what}, {kept}", "seed 0", said, exact(either) * _POINTS),
    ]

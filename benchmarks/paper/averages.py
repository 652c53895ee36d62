"""Averages, differences and counts of the benchmark tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from benchmarks.paper.checks import Check, averages, claim, differences, in_rows, number
from benchmarks.paper.ranks import SIX
from benchmarks.paper.reaches import exact, mean, reach_of
from marc_paper.printed import (
    CROSS_DOMAIN,
    EXTRA,
    OOD,
    PRINTED,
    STATEMENTS,
    TRAINING_FREE,
    TWO_MORE,
    stated,
)
from marc_paper.printed.numbers import Table

SHIFTS = ("A", "V2", "R", "Sketch")


def row_averages() -> list[Check]:
    """Every row, those of other papers included."""
    return [
        *averages(OOD, "average", ("ImageNet", *SHIFTS)),
        *averages(OOD, "OOD average", SHIFTS),
        *averages(EXTRA, "OOD average", SHIFTS),
        *averages(CROSS_DOMAIN, "average", SIX),
        *spreads_of_averages(OOD, "average", ("ImageNet", *SHIFTS)),
        *spreads_of_averages(OOD, "OOD average", SHIFTS),
        *spreads_of_averages(CROSS_DOMAIN, "average", SIX),
    ]


def spreads_of_averages(source: Table, column: str, inputs: tuple[str, ...]) -> Iterator[Check]:
    """Seeds are not printed; but an average varies no more than its parts do on average."""
    for row in source.rows:
        spreads = [n for name in inputs for n in source.numbers(row, name)[1:]]
        if len(spreads) == len(inputs):
            said = source.numbers(row, column)[1]
            most = mean([reach_of(spread) for spread in spreads])
            yield claim(
                source.label,
                f"deviation of {column} against those of its parts",
                row,
                said.text,
                f"at most {float(most.value):.2f}",
                holds=said.low <= most.high,
            )


def gains_of_the_memory() -> list[Check]:
    """What the memory contributes, stream by stream."""
    cell = CROSS_DOMAIN.at
    rows = [
        (s, cell("MARC, M = 64", s), cell("ensemble, M = 64", s), cell("gain, M = 64", s))
        for s in (*SIX, "average")
    ]
    return [
        *differences(CROSS_DOMAIN.label, "gain of the memory, 64 views", rows),
        *in_rows(TWO_MORE, "gain of the memory", ("MARC", "ensemble", "gain")),
    ]


def compared_in_text() -> list[Check]:
    """Differences that the text states."""
    many, few = (
        {s: CROSS_DOMAIN.at(f"MARC, M = {m}", s) for s in (*SIX, "average")} for m in (64, 4)
    )
    lead = [
        (s, many[s], max((CROSS_DOMAIN.at(m, s) for m in TRAINING_FREE), key=float), said)
        for s in ("DTD", "Flowers102", "Pets")
        for said in [stated("sec:s_benchmark", f"lead, {s}")]
    ]
    views = [
        (s, many[s], few[s], stated("sec:s_benchmark", f"cost of four views, {s}"))
        for s in ("average", "EuroSAT")
    ]
    ood = OOD.column("OOD average")
    large, base = EXTRA.at("ViT MARC-L", "OOD average"), ood["ViT MARC, M = 64"]
    one, all_views = ood["RN50 MARC, M = 1"], ood["RN50 MARC, M = 64"]
    views_of_one = stated("sec:benchmark", "OOD average, RN50, M = 64 less M = 1")
    scap = stated("sec:benchmark", "OOD average, MARC less SCAP")
    averages_of_text = [
        ("ResNet-50, 64 views and one", all_views, one, views_of_one),
        ("MARC and SCAP", base, ood["ViT SCAP"], scap),
    ]
    larger = stated("sec:s_benchmark", "OOD average, DINOv2-L less DINOv2-B")
    scale = [("DINOv2-L and DINOv2-B", large, base, larger)]
    return [
        *differences("sec:s_benchmark", "lead over training-free methods", lead),
        *differences("sec:s_benchmark", "cost of four views instead of 64", views),
        *differences("sec:benchmark", "difference of OOD averages", averages_of_text),
        *differences("sec:s_benchmark", "difference of OOD averages", scale),
    ]


def eight_streams() -> list[Check]:
    """Six streams and two more."""
    checks = []
    for column in ("MARC", "ensemble"):
        six = reach_of(TWO_MORE.at("six streams", column)) * 6
        two = reach_of(TWO_MORE.at("Aircraft", column)) + reach_of(TWO_MORE.at("Food101", column))
        said = TWO_MORE.at("eight streams", column)
        found = (six + two) * Fraction(1, 8)
        checks.append(number(TWO_MORE.label, "average of eight streams", column, said, found))
    return checks


def benchmark_claims() -> list[Check]:
    """Counts and places that the text states."""
    better = [
        s
        for s in SIX
        if CROSS_DOMAIN.at("MARC, M = 4", s).value > CROSS_DOMAIN.at("MARC, M = 64", s).value
    ]
    gains = [CROSS_DOMAIN.at("gain, M = 64", s).value for s in SIX]
    lowest, highest = STATEMENTS["sec:benchmark"].numbers(
        "gains of the memory, six streams", PRINTED
    )
    one = OOD.at("RN50 MARC, M = 1", "ImageNet")
    four = stated("sec:benchmark", "accuracy, ImageNet, RN50, M = 4")
    cited = sum(_cited(source) for source in (OOD, CROSS_DOMAIN, EXTRA))
    return [
        number(
            "sec:s_benchmark",
            "streams that improve with four views",
            "of six",
            stated("sec:s_benchmark", "streams better with four views"),
            len(better),
        ),
        number("sec:benchmark", "gains of the memory", "lowest", lowest, exact(min(gains))),
        number("sec:benchmark", "gains of the memory", "highest", highest, exact(max(gains))),
        claim(
            "sec:benchmark",
            f"views of the ResNet-50 result {four.text} on ImageNet",
            "MARC",
            "four",
            f"one view has {one.text} in tab:ood",
            holds=one != four,
        ),
        number(
            "sec:s_ci",
            "values of other papers",
            "three tables",
            stated("sec:s_ci", "values of other papers"),
            cited,
        ),
    ]


def _cited(source: Table) -> int:
    """Numbers in rows of other papers, averages included."""
    ours = ("MARC", "ensemble", "gain", "COSMIC, M = 8")
    rows = [row for row in source.rows if not any(name in row for name in ours)]
    return sum(len(source.numbers(row, column)[:1]) for row in rows for column in source.columns)


def benchmark_checks() -> list[Check]:
    """All of them."""
    return [
        *row_averages(),
        *gains_of_the_memory(),
        *compared_in_text(),
        *eight_streams(),
        *benchmark_claims(),
    ]

"""Averages, differences and counts of the benchmark tables, and fractions of whole images.

What one run prints in percent is an integer number of images, and so is a gain over no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from marc.pictures import NAMED_SETS
from marc_paper.arithmetic.checks import (
    Check,
    Reach,
    Section,
    averages,
    claim,
    differences,
    in_rows,
    number,
)
from marc_paper.arithmetic.choices import N_IMAGES
from marc_paper.arithmetic.ranks import FIVE, SIX
from marc_paper.printed import PRINTED, STATEMENTS, Printed, Table, stated, table
from marc_paper.printed.sheets import common

_SHIFTS = ("A", "V2", "R", "Sketch")
_TRAINING_FREE = ("TDA", "BoostAdapter", "TaTa", "ETTA")  # of the other methods in `cross_domain`
_SEEDS = ("0", "1", "2")
_SPLIT_SIZES = {stream: NAMED_SETS[common()["datasets"][stream]].images for stream in SIX}
"""Test images of the usual splits; the paper does not print them."""
_ONE_RUN: list[tuple[str, Iterable[str], Iterable[str]]] = [  # columns and rows, none for all
    ("spaces16", ("gain A", "anti-hub A"), ()),
    ("seeds16", ("gain",), _SEEDS),
    ("swap", ("accuracy",), FIVE),
    ("eight", ("oracle",), ()),
    ("alone", ("accuracy",), ()),
    ("grid", ("none", "CLIP", "DINOv2"), ("1", "2", "4", "8", "16", "32", "64")),
    ("cosmic", ("MARC", "COSMIC"), _SEEDS),
    ("matched", _SEEDS, ("COSMIC", "MARC")),
    ("substitution", _SEEDS, ("gain at 1",)),
    ("joint", ("accuracy", "oracle"), ("A",)),
    ("pareto", ("accuracy",), ("MARC-L, M = 1", "MARC-L, M = 4")),
    ("extra", ("A",), ("ViT MARC-L",)),
]
_ELSEWHERE = [  # DINOv2-B is said to average two seeds
    ("five_elsewhere", ("MAE", "CLIP", "DINOv2-S", "DINOv2-L")),
    ("three_elsewhere", ("Supervised", "DINO v1", "BEiT")),
]


def _row_averages() -> Iterator[Check]:
    """Every row, those of other papers included."""
    ood, cross_domain, five = table("ood"), table("cross_domain"), ("ImageNet", *_SHIFTS)
    yield from averages(ood, "average", five)
    yield from averages(ood, "OOD average", _SHIFTS)
    yield from averages(table("extra"), "OOD average", _SHIFTS)
    yield from averages(cross_domain, "average", SIX)
    yield from _deviations_of_averages(ood, "average", five)
    yield from _deviations_of_averages(ood, "OOD average", _SHIFTS)
    yield from _deviations_of_averages(cross_domain, "average", SIX)


def _deviations_of_averages(source: Table, column: str, inputs: tuple[str, ...]) -> Iterator[Check]:
    """Seeds are not printed; but an average varies no more than its parts do on average."""
    what = f"deviation of {column} against those of its parts"
    for row in source.rows:
        deviations = [n for name in inputs for n in source.numbers(row, name)[1:]]
        if len(deviations) == len(inputs):
            printed, most = source.numbers(row, column)[1], Reach.mean(deviations)
            text, holds = f"at most {float(most.value):.2f}", printed.low <= most.high
            yield claim(source.label, what, row, printed.text, text, holds=holds)


def _gains_of_the_memory() -> Iterator[Check]:
    """What the memory contributes, stream by stream."""
    source, cell = table("cross_domain"), table("cross_domain").at
    cells = [
        (s, cell("MARC, M = 64", s), cell("ensemble, M = 64", s), cell("gain, M = 64", s))
        for s in (*SIX, "average")
    ]
    yield from differences(source.label, "gain of the memory, 64 views", cells)
    yield from in_rows(table("two_more"), "gain of the memory", ("MARC", "ensemble", "gain"))


def _compared_in_text() -> Iterator[Check]:
    """Differences that the text states."""
    source, large, text = table("cross_domain"), "sec:s_benchmark", "sec:benchmark"
    many, few = ({s: source.at(f"MARC, M = {m}", s) for s in (*SIX, "average")} for m in (64, 4))
    rows = [
        (s, many[s], max((source.at(m, s) for m in _TRAINING_FREE), key=float), printed)
        for s in ("DTD", "Flowers102", "Pets")
        for printed in [stated(large, f"lead, {s}")]
    ]
    yield from differences(large, "lead over training-free methods", rows)
    rows = [
        (s, many[s], few[s], stated(large, f"cost of four views, {s}"))
        for s in ("average", "EuroSAT")
    ]
    yield from differences(large, "cost of four views instead of 64", rows)
    ood, what = table("ood").column("OOD average"), "difference of OOD averages"
    one, all_views = ood["RN50 MARC, M = 1"], ood["RN50 MARC, M = 64"]
    base, larger = ood["ViT MARC, M = 64"], table("extra").at("ViT MARC-L", "OOD average")
    views = stated(text, "OOD average, RN50, M = 64 less M = 1")
    scap = stated(text, "OOD average, MARC less SCAP")
    rows = [
        ("ResNet-50, 64 views and one", all_views, one, views),
        ("MARC and SCAP", base, ood["ViT SCAP"], scap),
    ]
    yield from differences(text, what, rows)
    printed = stated(large, "OOD average, DINOv2-L less DINOv2-B")
    yield from differences(large, what, [("DINOv2-L and DINOv2-B", larger, base, printed)])


def _eight_streams() -> Iterator[Check]:
    """Six streams and two more."""
    source = table("two_more")
    for column in ("MARC", "ensemble"):
        two = Reach.of(source.at("Aircraft", column)) + source.at("Food101", column)
        eight = (Reach.of(source.at("six streams", column)) * 6 + two) * Fraction(1, 8)
        printed = source.at("eight streams", column)
        yield number(source.label, "average of eight streams", column, printed, eight)


def _benchmark_claims() -> Iterator[Check]:
    """Counts and ranges that the text states."""
    source, large, text = table("cross_domain"), "sec:s_benchmark", "sec:benchmark"
    few, many, gains = (
        [source.at(row, s).value for s in SIX]
        for row in ("MARC, M = 4", "MARC, M = 64", "gain, M = 64")
    )
    better = sum(one > other for one, other in zip(few, many, strict=True))
    printed = stated(large, "streams better with four views")
    yield number(large, "streams that improve with four views", "of six", printed, better)
    low, high = STATEMENTS[text].numbers("gains of the memory, six streams", PRINTED)
    yield number(text, "gains of the memory", "lowest", low, min(gains))
    yield number(text, "gains of the memory", "highest", high, max(gains))
    one = table("ood").at("RN50 MARC, M = 1", "ImageNet")
    four = stated(text, "accuracy, ImageNet, RN50, M = 4")
    what = f"views of the ResNet-50 result {four.text} on ImageNet"
    computed = f"one view has {one.text} in tab:ood"
    yield claim(text, what, "MARC", "four", computed, holds=one != four)
    cited, what = sum(map(_n_cited, ("ood", "cross_domain", "extra"))), "values of other papers"
    yield number("sec:s_ci", what, "three tables", stated("sec:s_ci", what), cited)


def _n_cited(name: str) -> int:
    """Numbers in rows of other papers, averages included."""
    source, ours = table(name), ("MARC", "ensemble", "gain", "COSMIC, M = 8")
    rows = [row for row in source.rows if not any(own in row for own in ours)]
    return sum(bool(source.numbers(row, column)) for row in rows for column in source.columns)


def _image_fractions() -> Iterator[Check]:
    """Every value that the paper gives to one run."""
    cells = [
        (table(name), row, column, N_IMAGES)
        for name, columns, rows in _ONE_RUN
        for column in columns
        for row in rows or table(name).rows
    ]
    cells += [
        (table(name), stream, space, n_images)
        for name, spaces in _ELSEWHERE
        for stream, n_images in _SPLIT_SIZES.items()
        for space in spaces
    ]
    for source, row, column, n_images in cells:
        printed = source.at(row, column)
        if printed.value:  # zero is always possible
            yield _integer_count(source.label, f"{row}, {column}", printed, n_images)


def _integer_count(label: str, item: str, printed: Printed, n_images: int) -> Check:
    counts = printed.image_counts(n_images)
    below = int(printed.value * n_images / 100)
    nearest = " and ".join(f"{100 * n / n_images:.4f}" for n in (below, below + 1))
    text = f"{counts[0]} of {n_images:,}" if counts else f"{nearest} are the nearest"
    return claim(label, "a whole number of images", item, printed.text, text, holds=bool(counts))


_AVERAGES = Section(
    "Benchmark tables",
    "Averages of all rows, those of other papers included, and differences of rows.",
    (_row_averages, _gains_of_the_memory, _compared_in_text, _eight_streams, _benchmark_claims),
)
_IMAGES = Section(
    "Whole images",
    "A share of one run is a whole number of images: of 7,500 on ImageNet-A, where three of "
    "four values with two decimals are possible, and of the usual test splits elsewhere (the "
    "paper does not print their sizes), where fewer are.",
    (_image_fractions,),
)
BENCHMARKS = (_AVERAGES, _IMAGES)

"""What the paper prints, recomputed from what it prints: which values do not reproduce."""

import math
from fractions import Fraction

import pytest
from helpers.repository import ROOT

from marc.stats import paired_interval, spearman
from marc_paper.arithmetic import checks as judging
from marc_paper.arithmetic import document, intervals
from marc_paper.arithmetic.benchmarks import _SPLIT_SIZES
from marc_paper.arithmetic.checks import Reach, Verdict
from marc_paper.printed import table
from marc_paper.printed.numbers import Printed, parse_table

# The printed values that their printed inputs contradict; reasons in arithmetic/findings.toml.
CONTRADICTED = {
    # a tie is broken where midranks are promised, or a number was rounded twice
    "tab:s_correlations / rank correlation / five spaces, V2: purity and oracle",
    "tab:s_transfer / rank correlation / purity and held-out",
    "tab:s_scope / nearest correlation that the gains allow / Caltech101",
    "tab:s_scope / nearest correlation that the gains allow / DTD",
    "fig:s_geometry / anti-hubs / DINO v1",
    # two tables, or a table and the text, differ
    "sec:s_newspaces / rank correlation / eight spaces, A: purity and oracle",
    "sec:s_transfer / mean of six / rho, five spaces, oracle",
    "sec:intro / share of the oracle gain / A",
    "tab:s_selection / worst regret / lowest anti-hub, DINOv2-S on A",
    "tab:s_newspaces_results / anti-hubs as in tab:spaces16 / BEiT",
    "sec:s_eurosat / span of an interval over seeds / DINOv2-B, M = 64",
    "sec:s_components / gap of DINOv2-L and DINOv2-B / mean of five policies",
    "sec:s_ci / values of other papers / three tables",
    # a statement does not hold in the table that it speaks of
    "tab:s_rho_checks / near-matched spaces by gain / A",
    "sec:capacity / cross-domain streams with rho of at least 0.80 / eight spaces",
    "sec:s_ci / zero regret at every calibration size / both streams",
    "sec:intro / different best spaces over five streams / sixteen spaces",
    "sec:s_transfer / CLIP memory contributes over one point / EuroSAT",
    "fig:s_geometry / anti-hubs between those of CLIP and of DINOv2 / supervised ViT",
    "sec:benchmark / views of the ResNet-50 result 71.48 on ImageNet / MARC",
    # impossible by construction
    "tab:s_ci_spaces16 / oracle gain, at least the gain at w = 10 / ConvNeXt-B",
    "sec:s_substitution / accuracy of an oracle over both sources / seed 0",
    "tab:s_newspaces_results / a whole number of images / CLIP, oracle",
    "tab:s_newspaces_results / a whole number of images / DINOv2-L, oracle",
}


@pytest.fixture(scope="module")
def checks():
    return [check for section in document._SECTIONS for check in section.checks]


def test_exactly_these_values_do_not_reproduce(checks):
    wrong = {check.name for check in checks if check.verdict == Verdict.DIFFERENT}
    assert wrong == CONTRADICTED


def test_every_contradiction_has_its_reason():
    reasons = document._FINDINGS["reasons"]
    assert set(reasons) == CONTRADICTED
    assert all(reason.endswith(".") for reason in reasons.values())


def test_checks_have_names_of_their_own(checks):
    assert len({check.name for check in checks}) == len(checks)


def test_every_row_of_the_paired_tables_reproduces(checks):
    kinds = ("paired interval", "repairs and regressions", "exact p-value")
    rows = [check for check in checks if check.what in kinds]
    assert len(rows) == 4 * (16 + 3)
    assert {check.verdict for check in rows} == {Verdict.SAME}


def test_the_document_is_what_the_script_prints():
    stored = (ROOT / "docs/results/paper-arithmetic.md").read_text("utf-8")
    assert document._document() == stored


def test_a_printed_number_knows_how_it_was_rounded():
    printed = Printed
    assert printed("1,074").value == 1074
    assert printed("+2.07").low == Fraction("2.065")
    assert printed("9.5e-06").unit == Fraction("1e-7")
    assert printed("18.19").image_counts(7500) == [1364]
    assert printed("20.06").image_counts(7500) == []  # 1504 and 1505 of 7,500 are 20.05 and 20.07


def test_rounded_inputs_reach_as_far_as_their_ends_allow():
    oracle, accuracy = (Reach.of(Printed(text)) for text in ("70.45", "68.39"))
    lost = oracle - accuracy
    assert (lost.low, lost.high) == (Fraction("2.05"), Fraction("2.07"))
    verdicts = [judging.number("", "", "", said, lost).verdict for said in ("2.06", "2.07", "2.08")]
    assert verdicts == [Verdict.SAME, Verdict.ROUNDED, Verdict.DIFFERENT]
    ratio = Reach.of(Printed("1.0")) / Reach.of(Printed("2.0"))
    assert ratio.low < Fraction(1, 2) < ratio.high


@pytest.mark.parametrize(
    ("printed", "log10", "reproduces"),
    [
        ("2e-285", -284.61, True),
        ("2e-285", -284.59, False),
        ("1e-11", math.log10(9.6e-12), True),
        ("0.189", math.log10(0.1894), True),
        ("< 1e-300", -815.3, True),
        ("< 1e-300", -299.0, False),
    ],
)
def test_a_p_value_is_judged_by_its_digits(printed, log10, reproduces):
    verdict = intervals._p_value("", "", "", printed, log10).verdict
    assert verdict == (Verdict.SAME if reproduces else Verdict.DIFFERENT)


def test_a_table_with_a_missing_cell_is_refused():
    with pytest.raises(ValueError, match="CLIP has 2 cells instead of 3"):
        parse_table("tab:x", "space | a | b\nCLIP | 1.0")


def test_remark_on_the_pooled_interval():
    """Half-widths of three orders, and the correlation that a pooled one of 0.46 would need."""
    orders = [(505, 373), (467, 439), (517, 425)]
    intervals = [paired_interval(repairs, regressions, 7500) for repairs, regressions in orders]
    halves = [100 * (interval.high - interval.estimate) for interval in intervals]
    squares = sum(half**2 for half in halves)
    products = sum(halves) ** 2 - squares
    assert round(math.sqrt(squares) / 3, 2) == 0.45
    ends = [round((9 * half**2 - squares) / products, 2) for half in (0.455, 0.465)]
    assert ends == [0.0, 0.02]


def test_remark_on_ties_of_anti_hubs():
    """With five tied gains 0.756 needs two equal fractions of anti-hubs."""
    gains = [0] * 5 + list(range(1, 12))
    scale = 330 / spearman(range(16), gains)  # sums of products of ranks are whole, up to 330
    assert {round(n / scale, 3) for n in (253, 254)} == {0.755, 0.758}
    assert not any(round(n / scale, 3) == 0.756 for n in range(331))
    assert (
        round(spearman([1, 2, 3, 3, 5, 10, 6, 12, 8, 0, 7, 11, 9, 13, 14, 15], gains), 3) == 0.756
    )


def test_remark_on_values_of_one_run():
    for stream, n_images in _SPLIT_SIZES.items():
        assert table("five_elsewhere").at(stream, "DINOv2-B").image_counts(n_images)
        for views in (4, 64):
            assert table("cross_domain").at(f"ensemble, M = {views}", stream).image_counts(n_images)

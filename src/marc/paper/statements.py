"""Measured values that only the text and the captions print, by the label of their place.

What a table prints as well is not repeated, unless it belongs to a series. Words of the text
such as *nine keys* are written in digits.
"""

from __future__ import annotations

from marc.paper.numbers import Printed, Table, table

PRINTED = "printed"  # the one column of every table of statements


def _by_label(text: str) -> dict[str, Table]:
    """Paragraphs of rows under the label of their place."""
    found = {}
    for paragraph in text.strip().split("\n\n"):
        label, rows = paragraph.strip().split("\n", 1)
        found[label] = table(label, f"statement | {PRINTED}\n{rows}")
    return found


def stated(label: str, row: str) -> Printed:
    """The first number of a statement.

    >>> stated("fig:s_flow", "strongest key has the true label, DINOv2-L").text
    '33'
    """
    return STATEMENTS[label].at(row, PRINTED)


STATEMENTS = _by_label(
    """
    sec:intro
    best spaces of five streams, sixteen spaces | 4
    share of the oracle gain, A  | 90
    share of the oracle gain, V2 | 98

    sec:geometry
    highest cost of transfer, A | 0.95

    sec:protocol
    accuracy, A, M = 64, reduced                        | 65.25 ± 0.02
    accuracy, A, M = 64, with refinement                | 64.12 ± 0.26
    accuracy, A, M = 64, with negative memory as well   | 64.14 ± 0.25
    accuracy, A, M = 64, with adaptive fusion as well   | 62.12 ± 0.17

    sec:swap
    oracle gain, A, CLIP centred and whitened | +1.07

    sec:capacity
    correlation of purity and gain, A, 2,000 images        | 0.900 [0.900, 0.900]
    correlation of anti-hub and gain, A, 2,000 images      | 0.547 [0.500, 0.718]
    correlation of anti-hub and capacity, A, 2,000 images  | 0.817 [0.718, 0.872]
    correlation of purity and capacity, A, 2,000 images    | 0.359 [0.359, 0.359]
    streams elsewhere with a correlation of at least 0.80  | 5 of 6
    correlation of purity and gain, projections of DINOv2-B | 0.94
    gains of near-matched spaces, A     | 4.4 to 10.0
    accuracy, A, M = 1, DINOv2-B        | 60.14 ± 0.38
    accuracy, A, M = 64, no memory      | 58.69 ± 0.09
    ensemble over MARC-B, M = 1, seconds | 6.9
    COSMIC over MARC-B, M = 8, seconds  | 2.6 [2.52, 2.64]

    sec:benchmark
    gains of the memory, six streams    | -0.48 to +11.20
    OOD average, RN50, M = 64 less M = 1 | 1.29
    accuracy, ImageNet, RN50, M = 4     | 71.48
    OOD average, MARC less SCAP         | 2.28

    tab:swap
    accuracy, A, M = 1, no memory       | 50.84
    oracle gain, A, DINOv2-B, second sweep | +9.97 ± 0.29

    sec:s_swap
    accuracy, A, CLIP beside another memory, K = 2 | 51.59
    accuracy, A, random projection of DINOv2       | 0.44

    sec:s_substitution
    repaired by views alone                 | 452
    repaired by the memory alone            | 648
    accuracy, A, RN50, M = 1, no memory     | 24.12
    accuracy, A, RN50, M = 64, no memory    | 28.97
    gain of 64 views, A, RN50               | +4.85
    accuracy, A, RN50, M = 1, DINOv2-B      | 34.99
    gain of the memory, A, RN50, M = 1      | +10.87
    accuracy, A, RN50, M = 64, DINOv2-B     | 39.07
    span over seeds, A, M = 64, DINOv2-B    | 0.04
    span over seeds, A, M = 1, DINOv2-B     | 0.76
    span over seeds, A, M = 1, with refinement | 1.08 to 1.61
    coverage of 64 views and DINOv2-B       | 71.01
    accuracy of 64 views and DINOv2-B       | 65.23
    coverage of 64 views and CLIP           | 64.99
    accuracy of 64 views and CLIP           | 58.21

    fig:s_substitution
    accuracy, M = 1, DINOv2-L                   | 68.99
    accuracy, M = 64, DINOv2-B                  | 65.25
    accuracy, M = 64, no memory                 | 58.77
    gain with one view and with 64, DINOv2-B    | 9.30 to 6.56
    gain with one view and with 64, DINOv2-L    | 18.15 to 13.24
    climb from first to last tenth, M = 1, DINOv2-B  | 13.9
    climb from first to last tenth, M = 1, no memory | +0.9

    fig:s_geometry
    anti-hub, CLIP          | 6.3
    capacity, CLIP          | 2
    anti-hub, DINOv2        | 0.7 to 1.7
    capacity, DINOv2        | 8 to 16
    anti-hub, BEiT          | 11.1
    capacity, BEiT          | 1
    anti-hub, DINO v1       | 2.0
    anti-hub, Supervised    | 1.4

    sec:s_capacity
    best weight, A, CLIP, K = 64 | 0

    fig:s_kernel
    active keys of all, CLIP            | 1,493 of 1,586
    active keys, DINOv2-L               | 9
    active keys of the true label, DINOv2-L | 6

    fig:s_flow
    strongest key has the true label, CLIP     | 11
    strongest key has the true label, DINOv2-L | 33

    sec:s_discarded
    correlation of composite and gain, A, five spaces  | 1.00
    correlation of composite and gain, V2, five spaces | 0.87
    rankings of five spaces, at most                   | 11
    correlation of purity at 5 and gain, six streams   | +0.03
    purity at 5, DINOv2-B, five streams                | 0.87 to 1.00
    purity at 5, DINOv2-B, A and V2                    | 0.52 to 0.56
    correlation of anti-hub and gain, six streams      | +0.71
    correlation of skewness and gain, six streams      | +0.66

    tab:s_joint_selection
    configurations, A  | 58
    configurations, V2 | 56

    sec:s_eurosat
    gains over seeds, DINOv2-S, M = 4        | +4.91 to +8.36
    gains over seeds, DINOv2-L, M = 4        | +2.89 to +11.40
    gains over seeds, DTD, DINOv2-B, M = 4   | -3.43 to +1.54
    interval over seeds, DINOv2-L, M = 4     | [47.63, 70.06]
    span of that interval, DINOv2-L, M = 4   | 22.4
    span of that interval, DINOv2-B, M = 64  | 38.6
    gain of the memory, M = 4                | +7.32 [+6.21, +8.43]
    purity range                             | 14.4
    purity ranges elsewhere                  | 47.3 to 85.6
    purity range of four spaces              | 4.4
    purity, MAE                              | 74.6
    oracle gain, DINOv2-L below DINOv2-S     | 5.0

    sec:s_transfer
    cells of space and stream                     | 30
    mean cost, six streams                        | 0.37
    correlation, oracle and held-out, six streams | 0.87 to 0.73
    largest loss, CLIP on EuroSAT                 | -2.44

    sec:s_components
    difference of entropies, at most         | 0.04
    gap of DINOv2-L and DINOv2-B             | 9.6
    least gain without priority, DINOv2-B    | 8.73
    least gain without priority, DINOv2-L    | 18.33

    sec:s_figures
    smallest step between correlations, n = 5 | 0.1
    smallest step between correlations, n = 8 | 0.024
    spaces without gain, V2                   | 5 of 16
    correlation of anti-hub and gain, V2, ties in order | 0.756 to 0.771
    accuracy, A, RN50, no memory              | 24.1
    oracle gains, A, RN50                     | 0.00 to 19.04

    sec:s_benchmark
    lead, DTD                                | 4.7
    lead, Flowers102                         | 6.8
    lead, Pets                               | 2.3
    cost of four views, average              | 0.50
    cost of four views, EuroSAT              | 3.07
    streams better with four views           | 3
    average, ZERO+Ens                        | 67.77
    oracle gain, Aircraft                    | +1.39
    oracle gain, Food101                     | +0.50
    OOD average, DINOv2-L less DINOv2-B      | 2.95

    sec:s_scope
    mean correlation, five streams, five spaces, one seed | 0.91
    lowest correlation, five streams, eight spaces        | 0.78
    mean correlation, five streams, spaces with a gain    | 0.89
    place of DINOv2-L on EuroSAT, eight spaces            | 6
    streams of five without gain, DINO v1                 | 2

    tab:s_scope8
    difference of correlations to five spaces, at most | 0.03

    sec:s_newspaces
    oracle gain, A, K = 8, DINO v1, three seeds    | +0.25 ± 0.20
    oracle gain, A, K = 8, Supervised, three seeds | +4.82 ± 0.20
    oracle gain, V2, Supervised                    | +4.76
    oracle gain, V2, DINO v1                       | +0.51
    correlation of purity and gain, A, eight spaces  | 0.93
    correlation of purity and gain, V2, eight spaces | 0.98
    mean regret of purity, five and eight spaces   | 0.98 to 0.35
    worst regret of purity, five and eight spaces  | 5.02 to 1.65
    correlation of pseudo-purity and purity, A     | 0.98
    correlation of pseudo-purity and purity, V2    | 1.00
    correlation of pseudo-purity and purity, eight streams | 0.93
    hits of pseudo-purity                          | 5/8
    mean regret of pseudo-purity                   | 1.48

    sec:s_ci
    half-width over deviation, three orders | 2.484
    spaces that lose at w = 10, A           | 7 of 16
    tests                                   | 378
    intervals with zero inside              | 50
    p, A, DINOv2-S                          | 0.19
    gain, Caltech101                        | -0.04 [-0.95, +0.87]
    p, Caltech101                           | 1.00
    gain, DTD                               | +0.83 [-1.18, +2.83]
    p, DTD                                  | 0.45
    gain, Aircraft                          | -7.92 [-9.18, -6.66]
    gain, Food101                           | -4.74 [-5.08, -4.40]
    rejected at q = 0.05                    | 328
    false discoveries allowed at q = 0.05   | 16.4
    rejected at q = 0.01                    | 314
    Bonferroni threshold                    | 1.32e-4
    rejected by Bonferroni                  | 296
    advantage over COSMIC, three orders     | +1.12 [-0.62, +2.86]
    critical value of t, three orders       | 4.303
    deviation over orders, COSMIC           | 0.86
    deviation over orders, MARC             | 0.25
    COSMIC over MARC-B, M = 8, seconds      | 2.58 [2.52, 2.64]
    ensemble over MARC-L, M = 1, seconds    | 5.06 [4.95, 5.18]
    values of other papers                  | 216
    critical value of t, two orders         | 12.706
    half-width over deviation, two orders   | 9

    sec:s_timing
    spread over sessions, at most           | 0.008
    spread over sessions, ensemble          | 0.027
    spread over mean, CLIP                  | 31
    COSMIC over MARC-B, M = 8, sessions     | 2.6, 2.6, 2.6
    ensemble over MARC-L, M = 1, sessions   | 5.1, 5.1, 5.0
    """
)

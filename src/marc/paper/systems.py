"""What the paper prints about views, components, benchmarks and time; see `spaces.py`."""

from __future__ import annotations

from marc.paper.numbers import table

ALONE = table(
    "tab:s_cachealone",
    """
    scored alone | accuracy | difference
    no memory    | 50.84 | -
    CLIP         | 27.00 | -23.84
    DINOv2-B     | 49.40 | -1.44
    DINOv2-L     | 64.20 | +13.36
    """,
)
GRID = table(
    "tab:grid",
    """
    views  | none  | CLIP  | DINOv2 | gain
    1      | 50.84 | 49.59 | 59.73  | +8.89
    2      | 53.76 | 52.85 | 61.52  | +7.76
    4      | 55.77 | 55.23 | 62.93  | +7.16
    8      | 57.20 | 56.20 | 63.96  | +6.76
    16     | 59.03 | 57.85 | 64.40  | +5.37
    32     | 58.21 | 57.69 | 64.72  | +6.51
    64     | 58.77 | 58.21 | 65.23  | +6.45
    change | +7.93 | +8.62 | +5.50  | -2.44
    """,
)
SUBSTITUTION = table(
    "tab:s_substitution_seeds",
    """
    quantity             | 0     | 1     | 2     | mean
    gain at 1            | +8.89 | +9.65 | +9.35 | +9.30 ± 0.38
    gain at 4            | +7.16 | +7.60 | +7.06 | +7.27 ± 0.29
    gain at 64           | +6.45 | +6.56 | +6.66 | +6.56 ± 0.10
    Sub(1, 4)            | -1.73 | -2.05 | -2.29 | -2.02 ± 0.28
    Sub(1, 64)           | -2.44 | -3.09 | -2.69 | -2.74 ± 0.33
    augmentation repairs | 881   | 880   | 873   | 878 ± 4
    retrieval repairs    | 1,057 | 1,097 | 1,069 | 1,074 ± 21
    shared repairs       | 425   | 440   | 412   | 426 ± 14
    shared share         | 48.2  | 50.0  | 47.2  | 48.5 ± 1.4
    """,
)
REPAIRS = table(
    "tab:s_repair_regression",
    """
    set         | augmentation | retrieval  | CLIP     | shared
    repairs     | 878 ± 4      | 1,074 ± 21 | 378 ± 30 | 426 ± 14
    regressions | 289 ± 3      | 377 ± 12   | 429 ± 16 | 80 ± 2
    """,
)
SPLITS = table(
    "tab:s_ood_sub",
    """
    split  | none 1 | memory 1 | none 4 | memory 4 | gain 1 | gain 4 | shrink
    A      | 50.84 | 59.73 | 55.77 | 62.93 | +8.89 | +7.16 | -1.73
    Sketch | 49.27 | 55.49 | 50.63 | 56.23 | +6.22 | +5.60 | -0.62
    R      | 77.37 | 81.34 | 79.07 | 82.12 | +3.97 | +3.05 | -0.92
    V2     | 63.66 | 65.25 | 64.49 | 65.64 | +1.59 | +1.15 | -0.44
    """,
)
COMPONENTS = table(
    "tab:s_components_ood",
    """
    component       | A     | V2    | R     | Sketch | mean
    refinement      | -3.27 | -0.58 | -0.10 | -3.81  | -1.94
    negative memory | +0.01 | +0.00 | +0.00 | +0.00  | +0.00
    adaptive fusion | -0.32 | -0.22 | -1.22 | +1.41  | -0.09
    """,
)
CONTROLS = table(
    "tab:s_protocol_controls",
    """
    control            | reference    | variant      | difference
    entropy, DINOv2-B  | 60.14 ± 0.38 | 60.10 ± 0.41 | -0.04
    priority, DINOv2-B | 60.14 ± 0.38 | 60.24 ± 0.14 | +0.11 ± 0.26
    priority, DINOv2-L | 69.93 ± 0.23 | 70.01 ± 0.28 | +0.08 ± 0.22
    """,
)
ADMISSION = table(
    "tab:s_admission_policies",
    """
    policy          | DINOv2-B     | DINOv2-L
    entropy         | 60.14 ± 0.38 | 69.93 ± 0.23
    confidence      | 60.28 ± 0.35 | 70.14 ± 0.17
    reservoir       | 59.60 ± 0.28 | 69.27 ± 0.16
    FIFO            | 59.57 ± 0.15 | 69.17 ± 0.37
    retrieval-aware | 60.24 ± 0.14 | 70.01 ± 0.28
    """,
)
COSMIC = table(
    "tab:s_ci_cosmic",
    """
    order  | MARC  | COSMIC | advantage            | discordant | p
    0      | 63.56 | 61.80  | +1.76 [+0.99, +2.53] | 878 | 9.5e-06
    1      | 63.89 | 63.52  | +0.37 [-0.41, +1.16] | 906 | 0.37
    2      | 64.04 | 62.81  | +1.23 [+0.43, +2.03] | 942 | 3.0e-03
    pooled | 63.83 | 62.71  | +1.12 [+0.66, +1.58] | -   | -
    """,
)
MATCHED = table(
    "sec:s_timing",
    """
    system    | 0     | 1     | 2     | mean
    COSMIC    | 62.89 | 62.60 | 62.76 | 62.75 ± 0.15
    MARC      | 63.95 | 64.53 | 64.03 | 64.17 ± 0.31
    advantage | -     | -     | -     | 1.42 ± 0.45
    """,
)
PARETO = table(
    "tab:pareto",
    """
    configuration  | views | seconds | accuracy
    CLIP           | 1  | 0.021 | 47.87
    ensemble       | 64 | 0.310 | 58.77
    TDA            | 1  | 0.190 | 60.11
    COSMIC         | 8  | 0.181 | 62.75
    MARC-B, M = 1  | 1  | 0.045 | 59.73
    MARC-B, M = 4  | 4  | 0.053 | 62.93
    MARC-B, M = 8  | 8  | 0.070 | 64.17 ± 0.31
    MARC-B, M = 64 | 64 | 0.338 | 65.23
    MARC-L, M = 1  | 1  | 0.061 | 68.99
    MARC-L, M = 4  | 4  | 0.069 | 70.69
    MARC-L against ensemble | - | 5.1 | +10.22
    """,
)
FRONTIER = ("CLIP", "MARC-B, M = 1", "MARC-B, M = 4", "MARC-L, M = 1", "MARC-L, M = 4")  # green
TIMING = table(
    "tab:s_timing",
    """
    configuration  | 1      | 2      | 3      | spread
    CLIP           | 0.0207 | 0.0279 | 0.0207 | 0.0072
    ensemble       | 0.3101 | 0.3272 | 0.3003 | 0.0269
    TDA            | 0.1903 | 0.1918 | 0.1893 | 0.0025
    COSMIC         | 0.1812 | 0.1733 | 0.1787 | 0.0079
    MARC-B, M = 1  | 0.0450 | 0.0447 | 0.0445 | 0.0005
    MARC-B, M = 8  | 0.0701 | 0.0679 | 0.0688 | 0.0022
    MARC-B, M = 64 | 0.3378 | 0.3323 | 0.3355 | 0.0055
    MARC-L, M = 1  | 0.0614 | 0.0640 | 0.0598 | 0.0042
    """,
)
CAPACITIES_AT_64 = table(
    "tab:s_cd_capacity",
    """
    stream     | 8            | 16           | change | ratio
    Caltech101 | 94.69 ± 0.08 | 93.51 ± 0.14 | -1.18  | 10.3
    DTD        | 54.37 ± 0.87 | 50.18 ± 1.24 | -4.20  | 3.9
    Flowers102 | 80.67 ± 0.33 | 79.71 ± 0.39 | -0.96  | 2.6
    Pets       | 92.39 ± 0.19 | 91.66 ± 0.05 | -0.73  | 5.2
    UCF101     | 71.94 ± 0.33 | 70.65 ± 0.52 | -1.29  | 3.0
    EuroSAT    | 58.67 ± 1.52 | 58.67 ± 0.42 | +0.00  | 0.0
    mean       | 75.45        | 74.06        | -1.39  | -
    """,
)

"""What the paper prints about retrieval spaces: its tables as plain data, cell by cell.

Each table has the LaTeX label under which it stands in the paper. Numbers are text, for their
digits say how they were rounded. Systems, views and benchmarks are in `systems.py`.
"""

from __future__ import annotations

from marc.paper.numbers import table

N_IMAGES = 7500  # of ImageNet-A
BASE_A, BASE_V2 = "50.84", "63.66"  # without memory, one view, in percent

SPACES16 = table(
    "tab:spaces16",
    """
    space       | purity A | purity V2 | anti-hub A | gain A | gain V2
    DINOv2-L    | 67.3 | 48.7 | 1.67  | +19.36 | +3.19
    DINOv2-B    | 48.9 | 44.4 | 1.20  | +10.27 | +2.12
    DINOv3-B    | 44.6 | 35.6 | 0.79  | +6.49  | +0.78
    DINOv2-S    | 26.1 | 33.1 | 0.69  | +1.24  | +0.35
    DINO v1     | 16.8 | 29.1 | 1.95  | +0.05  | +0.13
    DeiT-III    | 46.1 | 55.3 | 2.21  | +8.01  | +5.06
    Supervised  | 35.0 | 50.8 | 1.37  | +4.43  | +3.48
    ConvNeXt-B  | 31.0 | 42.1 | 1.16  | +2.85  | +1.63
    ResNet-50   | 12.3 | 35.8 | 2.73  | +0.04  | +1.54
    CLIP-L      | 42.8 | 28.3 | 5.59  | +5.52  | +0.06
    EVA-02 CLIP | 38.9 | 33.9 | 2.28  | +4.15  | +0.10
    SigLIP      | 29.5 | 29.3 | 5.43  | +0.99  | +0.00
    OpenCLIP    | 24.3 | 24.4 | 3.35  | +0.76  | +0.00
    CLIP        | 29.7 | 22.9 | 6.27  | +0.44  | +0.00
    MAE         | 3.2  | 1.5  | 3.44  | +0.03  | +0.00
    BEiT        | 19.1 | 29.0 | 11.00 | +0.00  | +0.00
    """,
)
SPACES16_RANKS = table(
    "tab:spaces16",
    """
    row      | purity A | purity V2 | anti-hub A | gain A | gain V2
    purity   | - | - | - | +0.959 | +0.943
    anti-hub | - | - | - | +0.541 | +0.756
    regret   | - | - | - | 0.00   | 0.00
    """,
)
RANK_CHECKS = table(
    "tab:s_rho_checks",
    """
    set              | n  | rho   | chosen   | regret
    A, all           | 16 | 0.959 | DINOv2-L | 0.00
    A, positive      | 15 | 0.971 | DINOv2-L | 0.00
    V2, all          | 16 | 0.943 | DeiT-III | 0.00
    V2, positive     | 11 | 0.973 | DeiT-III | 0.00
    A, near-matched  | 6  | 0.943 | DINOv2-B | 0.00
    A, ResNet-50     | 16 | 0.968 | DINOv2-L | 0.00
    """,
)
SEEDS16 = table(
    "tab:s_spaces16_seeds",
    """
    seed | rho   | gain          | regret
    0    | 0.959 | +19.36        | 0.00
    1    | 0.961 | +19.71        | 0.00
    2    | 0.967 | +20.16        | 0.00
    mean | 0.962 | +19.74 ± 0.40 | 0.00
    """,
)
PAIRED16 = table(
    "tab:s_ci_spaces16",
    """
    space       | gain at 10               | discordant | p      | oracle
    DINOv2-L    | +18.19 [+17.21, +19.17]  | 1658 | 2e-285  | +19.36 [+18.36, +20.51]
    DINOv2-B    | +9.31 [+8.43, +10.18]    | 1186 | 4e-97   | +10.27 [+9.32, +11.31]
    DeiT-III    | +7.73 [+6.80, +8.67]     | 1322 | 5e-59   | +8.01 [+7.00, +9.11]
    DINOv3-B    | +5.72 [+4.96, +6.48]     | 879  | 3e-49   | +6.49 [+5.67, +7.49]
    Supervised  | +4.13 [+3.38, +4.89]     | 844  | 5e-27   | +4.43 [+3.61, +5.24]
    CLIP-L      | +3.69 [+2.63, +4.75]     | 1657 | 1e-11   | +5.52 [+4.65, +6.39]
    ConvNeXt-B  | +2.88 [+2.20, +3.56]     | 684  | 1e-16   | +2.85 [+2.27, +3.72]
    EVA-02 CLIP | +1.88 [+0.84, +2.92]     | 1577 | 4e-04   | +4.15 [+3.44, +4.93]
    DINOv2-S    | +0.53 [-0.24, +1.31]     | 882  | 0.189   | +1.24 [+0.85, +1.75]
    DINO v1     | -2.27 [-3.01, -1.52]     | 810  | 3e-09   | +0.05 [+0.00, +0.48]
    OpenCLIP    | -6.16 [-7.17, -5.15]     | 1536 | 2e-32   | +0.76 [+0.39, +1.21]
    ResNet-50   | -7.05 [-7.98, -6.13]     | 1289 | 2e-50   | +0.04 [+0.00, +0.32]
    BEiT        | -8.60 [-9.37, -7.83]     | 933  | 2e-108  | +0.00 [+0.00, +0.03]
    SigLIP      | -9.40 [-10.55, -8.25]    | 2003 | 6e-57   | +0.99 [+0.47, +1.56]
    CLIP        | -10.28 [-11.38, -9.18]   | 1861 | 2e-73   | +0.44 [+0.12, +0.87]
    MAE         | -43.68 [-44.88, -42.48]  | 3556 | < 1e-300 | +0.03 [+0.00, +0.33]
    """,
)

# Five and eight spaces, ImageNet-A, each at its own best capacity.
SWAP = table(
    "tab:swap",
    """
    space    | purity | anti-hub | capacity | weight | accuracy | gain at 10 | oracle | held-out
    MAE      | 3.2  | 3.4 | 1  | 0.1 | 32.93 | -17.91 | +0.09 ± 0.07  | +0.00
    CLIP     | 29.7 | 6.3 | 2  | 1   | 46.84 | -4.00  | +0.62 ± 0.10  | +0.00
    DINOv2-S | 26.1 | 0.7 | 16 | 3   | 50.40 | -0.44  | +1.33 ± 0.09  | +0.45
    DINOv2-B | 48.9 | 1.2 | 8  | 15  | 60.01 | +9.17  | +9.88 ± 0.38  | +9.73
    DINOv2-L | 67.3 | 1.7 | 8  | 20  | 68.99 | +18.15 | +20.06 ± 0.34 | +19.16
    span     | -    | -   | -  | -   | -     | -      | 19.97         | 19.16
    """,
)
EIGHT = table(
    "tab:s_newspaces_results",
    """
    space      | purity | anti-hub | capacity | oracle
    BEiT       | 19.1 | 11.1 | 1  | +0.01
    MAE        | 3.2  | 3.4  | 1  | +0.09
    DINO v1    | 16.8 | 1.9  | 1  | +0.17
    CLIP       | 29.7 | 6.3  | 2  | +0.62
    DINOv2-S   | 26.1 | 0.7  | 16 | +1.33
    Supervised | 35.0 | 1.4  | 8  | +4.75
    DINOv2-B   | 48.9 | 1.2  | 8  | +9.88
    DINOv2-L   | 67.3 | 1.7  | 8  | +20.06
    """,
)
CORRELATIONS = table(
    "tab:s_correlations",
    """
    measure      | oracle               | capacity
    purity, A    | 0.90 [0.900, 0.900]  | 0.36 [0.359, 0.359]
    anti-hub, A  | 0.50 [0.500, 0.718]  | 0.87 [0.718, 0.872]
    purity, V2   | 0.98 [0.975, 0.975]  | 0.95 [0.949, 0.949]
    anti-hub, V2 | 0.95 [0.564, 0.872]  | 0.97 [0.632, 0.949]
    """,
)
TRANSFER = table(
    "tab:s_transfer",
    """
    space       | oracle | held-out | cost
    MAE         | +0.09  | +0.00  | 0.09
    CLIP        | +0.56  | +0.00  | 0.56
    DINOv2-S    | +1.33  | +0.45  | 0.88
    DINOv2-B    | +9.88  | +9.73  | 0.16
    DINOv2-L    | +20.06 | +19.16 | 0.90
    span        | 19.97  | 19.16  | 0.81
    correlation | 0.90   | 0.90   | 0.00
    """,
)
JOINT = table(
    "tab:s_joint_selection",
    """
    stream | chosen   | capacity, weight | accuracy | gain | oracle | regret
    A      | DINOv2-L | 4, 20 | 68.39 | +17.55 | 70.45 | 2.07
    V2     | DeiT-III | 8, 15 | 68.62 | +4.96  | 68.72 | 0.10
    """,
)
SELECTION = table(
    "tab:s_selection",
    """
    rule            | labels | hits | mean | worst
    purity at 5     | yes    | 7/8  | 0.14 | 1.14
    purity at 10    | yes    | 6/8  | 0.35 | 1.65
    lowest skewness | no     | 4/8  | 4.14 | 19.89
    lowest anti-hub | no     | 0/8  | 6.45 | 18.71
    """,
)
BATCHES = table(
    "tab:s_bootstrap_selection",
    """
    stream and n | rho                  | no regret
    A, 250   | 0.953 [0.925, 0.974] | 1.00
    A, 500   | 0.959 [0.944, 0.971] | 1.00
    A, 1000  | 0.959 [0.950, 0.968] | 1.00
    A, 2000  | 0.957 [0.956, 0.962] | 1.00
    V2, 250  | 0.749 [0.420, 0.932] | 0.60
    V2, 500  | 0.871 [0.753, 0.951] | 0.88
    V2, 1000 | 0.917 [0.864, 0.952] | 0.99
    V2, 2000 | 0.937 [0.906, 0.958] | 1.00
    """,
)
RANK_INTERVALS = table(
    "tab:s_rho_ci",
    """
    measure      | full   | at 2000
    purity, A    | +0.959 | +0.957 [+0.956, +0.962]
    anti-hub, A  | +0.541 | +0.575 [+0.472, +0.682]
    purity, V2   | +0.943 | +0.937 [+0.906, +0.958]
    anti-hub, V2 | +0.756 | +0.809 [+0.743, +0.883]
    """,
)

# Cross-domain streams, four views.
SIXTEEN_ELSEWHERE = table(
    "tab:cd16",
    """
    stream     | range | ties | rho    | best     | chosen      | regret
    Flowers102 | 85.6  | 2    | +0.922 | DINOv2-L | DINOv2-L    | 0.00
    DTD        | 50.5  | 4    | +0.736 | DINOv3-B | DINOv3-B    | 0.00
    EuroSAT    | 16.7  | 1    | +0.400 | DINOv3-B | EVA-02 CLIP | 1.98
    """,
)
FIVE_ELSEWHERE = table(
    "tab:s_scope",
    """
    stream     | MAE   | CLIP  | DINOv2-S | DINOv2-B | DINOv2-L | rho  | range
    Pets       | +0.03 | +0.11 | +1.94    | +2.45    | +3.60    | 1.00 | 82.2
    Caltech101 | +0.00 | +0.00 | +0.28    | +0.89    | +1.46    | 1.00 | 63.1
    DTD        | +0.00 | +0.00 | +2.19    | +3.25    | +4.14    | 0.90 | 47.3
    UCF101     | +0.05 | +1.24 | +2.80    | +2.62    | +4.55    | 0.90 | 50.0
    Flowers102 | +0.08 | +0.00 | +6.33    | +8.61    | +9.26    | 0.80 | 85.6
    mean       | -     | -     | -        | -        | -        | 0.92 | 65.6
    EuroSAT    | +0.00 | +0.07 | +8.63    | +7.54    | +3.60    | 0.10 | 14.4
    """,
)
THREE_ELSEWHERE = table(
    "tab:s_scope8",
    """
    stream     | Supervised | DINO v1 | BEiT  | rho
    Pets       | +2.59 | +1.94 | +0.00 | 0.84
    Caltech101 | +0.00 | +0.00 | +0.00 | 0.79
    DTD        | +0.06 | +0.00 | +0.00 | 0.91
    UCF101     | +2.83 | +2.67 | +0.00 | 0.79
    Flowers102 | +5.64 | +2.15 | +0.00 | 0.78
    mean       | -     | -     | -     | 0.82
    EuroSAT    | +5.31 | +9.72 | +6.35 | 0.26
    """,
)

"""Why some printed values do not reproduce, and what could not be checked: words beside checks."""

from __future__ import annotations

REASONS = {
    "tab:s_rho_checks / near-matched spaces by gain / A": (
        "The correlation of that row, 0.943, belongs to six spaces whose gains in tab:spaces16 "
        "lie outside the range at both ends. The range may be one of means over seeds: that of "
        "DINOv2-B is printed as +9.97."
    ),
    "tab:s_correlations / rank correlation / five spaces, V2: purity and oracle": (
        "Rounded twice: the interval beside it has 0.975 at both ends. Computed from the gains at "
        "K = 8, for those at the best capacities are not printed; with two of five tied, 0.97 is "
        "possible and 0.98 is not."
    ),
    "sec:s_newspaces / rank correlation / eight spaces, A: purity and oracle": (
        "The eight purities and gains of tab:s_newspaces_results give 0.90, and those of "
        "tab:spaces16 the same."
    ),
    "tab:s_transfer / rank correlation / purity and held-out": (
        "MAE and CLIP tie at exactly zero, because their transferred weight is 0. The paper uses "
        "midranks throughout; 0.90 needs the tie broken in favour of CLIP."
    ),
    "tab:s_scope / nearest correlation that the gains allow / Caltech101": (
        "MAE and CLIP tie at zero (one image would be 0.04 points), so that with midranks no "
        "purities can give 1.00. The mean of 0.91 in sec:s_scope is the one with midranks."
    ),
    "tab:s_scope / nearest correlation that the gains allow / DTD": (
        "The same tie (one image would be 0.06 points): 0.90 is not among the possible values."
    ),
    "sec:capacity / cross-domain streams with rho of at least 0.80 / eight spaces": (
        "Five of six holds for the five spaces of tab:s_scope. Over eight spaces tab:s_scope8 "
        "prints 0.84, 0.79, 0.91, 0.79, 0.78 and 0.26."
    ),
    "sec:s_transfer / mean of six / rho, five spaces, oracle": (
        "The six correlations of tab:s_scope have this mean, and 0.92 without EuroSAT. Another "
        "capacity may be meant; its correlations are not printed."
    ),
    "sec:s_ci / zero regret at every calibration size / both streams": (
        "tab:s_bootstrap_selection prints 0.60, 0.88 and 0.99 for ImageNet-V2 below 2,000 images."
    ),
    "sec:intro / share of the oracle gain / A": (
        "With two digits it is 89 %. The second time the paper writes about 90 %."
    ),
    "tab:s_selection / worst regret / lowest anti-hub, DINOv2-S on A": (
        "The space with the fewest anti-hubs on ImageNet-A is DINOv2-S, and the worst of eight "
        "streams cannot be below the regret there. Other seeds may be meant."
    ),
    "sec:intro / different best spaces over five streams / sixteen spaces": (
        "tab:spaces16 and tab:cd16 name the best of sixteen spaces on five streams."
    ),
    "sec:s_transfer / CLIP memory contributes over one point / EuroSAT": (
        "In tab:s_scope the only CLIP memory above one point is that on UCF101."
    ),
    "tab:s_newspaces_results / anti-hubs as in tab:spaces16 / BEiT": (
        "The other seven fractions agree in both tables."
    ),
    "fig:s_geometry / anti-hubs / DINO v1": (
        "Rounded twice: 1.95 in tab:spaces16 is 146 images; tab:s_newspaces_results has 1.9."
    ),
    "fig:s_geometry / anti-hubs between those of CLIP and of DINOv2 / supervised ViT": (
        "It lies inside the range of the three DINOv2 spaces; DINO v1 does lie between."
    ),
    "tab:s_ci_spaces16 / oracle gain, at least the gain at w = 10 / ConvNeXt-B": (
        "10 is on the grid of weights, so the best weight cannot do worse; K, M and stream are "
        "the same. Two images apart: 214 and 216 of 7,500. The other fifteen rows are in order."
    ),
    "sec:s_eurosat / span of an interval over seeds / DINOv2-B, M = 64": (
        "tab:crossdomain and tab:s_cd_capacity print a deviation of 1.52 for this cell; 38.6 "
        "needs one of 7.77. No other printed deviation on EuroSAT is above 2.93."
    ),
    "sec:s_substitution / accuracy of an oracle over both sources / seed 0": (
        "71.01 keeps about 80 images that the predictor alone had right and both sources break, "
        "so it covers three sources, the predictor included."
    ),
    "sec:s_components / gap of DINOv2-L and DINOv2-B / mean of five policies": (
        "Printed as approximate. The five gaps are 9.60 to 9.86; 9.6 is the smallest."
    ),
    "sec:benchmark / views of the ResNet-50 result 71.48 on ImageNet / MARC": (
        "The table has no ResNet-50 row with four views."
    ),
    "sec:s_ci / values of other papers / three tables": (
        "225 with all averages, 176 without any; 216 counts the averages of two of the tables."
    ),
    "tab:s_newspaces_results / a whole number of images / CLIP, oracle": (
        "The caption says seed 0, but no run on 7,500 images has this gain; tab:swap prints the "
        "same value as a mean over three seeds."
    ),
    "tab:s_newspaces_results / a whole number of images / DINOv2-L, oracle": ("The same."),
}
"""By name of the check: what stands against the printed value."""

REMARKS = [
    "The pooled interval of tab:s_ci_cosmic needs answers image by image. Its half-width, 0.46, is "
    "that of three independent orders (0.45 from the rows) to within rounding: an image's "
    "differences in two orders would have a correlation of 0.00 to 0.02.",
    "tab:s_transfer: two seeds in the caption, three in the text. Its oracle gains of MAE and "
    "DINOv2-S at K = 8 equal those of tab:swap at K = 1 and K = 16.",
    "60.14 ± 0.38 stands for K = 8 and for K = 16 in tab:s_protocol_controls. It follows from the "
    "gains of tab:s_substitution_seeds, whose seed 0 is 59.73; tab:s_ci_spaces16 has +9.31, so "
    "60.15, for seed 0 at K = 8.",
    "Eight views, seed 0: 63.96 in tab:grid; the three seeds of sec:s_timing are 63.95, 64.53 and "
    "64.03. One image apart; the paper does not say that it is one run.",
    "sec:benchmark words +0.84 as the average on two additional streams. It is the average over "
    "all eight (tab:cd_extra); that of the two is -6.63.",
    "tab:s_scope is said to average two seeds for DINOv2-B; all six of its values are shares that "
    "one run can have, as if there were one seed. Nor do the twelve values without memory of "
    "tab:crossdomain, which have no deviation, need more than one run.",
    "The leads of sec:s_benchmark over the best published results are those over training-free "
    "methods; CoCoOp with 90.46 on Pets leaves 1.9 instead of 2.3.",
    "sec:geometry gives 0.95 as a bound on the cost of transfer. The largest printed cost is 0.90.",
    "Differences that are off by one last digit, such as 70.45 - 68.39 printed as 2.07, are right "
    "where counts are known: 5,284 - 5,129 = 155 of 7,500 images is 2.0667.",
]
"""Not counted: wording, and what is odd without being wrong."""

UNCHECKED = [
    "Anti-hubs and best capacities of ImageNet-V2 are not printed: 0.756 and 0.771 (sixteen "
    "spaces), 0.95 and 0.97 (five), and 0.87 for the composite. With five tied gains and no two "
    "equal fractions of anti-hubs, 0.755 and 0.758 are possible, 0.756 is not; with two equal "
    "ones it is. The same holds for 0.95.",
    "Cross-domain purities are not printed: the correlations of tab:cd16 not at all, those of "
    "tab:s_scope and tab:s_scope8 only as far as ties exclude values.",
    "Intervals of oracle gains, and all calibration-subsample intervals: they need images.",
    "The 378 p-values behind the counts of 328, 314 and 296 rejections.",
    "The choices of each rule of tab:s_selection, stream by stream; pseudo-purity and its regret.",
    "Deviations whose seeds are not printed: only that an average varies no more than its parts.",
    "Coverage of the CLIP memory (64.99): its shared repairs are not printed.",
    "The ResNet-50 row of tab:s_rho_checks, the seeds 1 and 2 of tab:s_spaces16_seeds, projections "
    "(0.94), centring and whitening (+1.07), transfer across domains (0.37, 0.73), and the "
    "cross-domain average of ZERO+Ens (67.77).",
    "The paired losses on Aircraft and Food101, averaged over seeds; only that their intervals are "
    "symmetric.",
]
"""What is printed without the inputs from which it follows."""

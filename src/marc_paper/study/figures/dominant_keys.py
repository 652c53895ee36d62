"""What the strongest key says of base errors, capacity by capacity: fig:s_flow.

For each image that the base prediction gets wrong, the retained key of the largest kernel weight
is looked up in the predictor's own space and in the strong one, at every capacity of the grid, in
the first order. Its stored label is what it votes for; its true label is what it shows.
Cost: two sweeps that other experiments share, and one product of queries and items a space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.replay.lifetimes import History
from marc.replay.sweep import Sweep
from marc.report.style import INK, LINE, Look
from marc.scores import Int
from marc.stats import wilson
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Page
from marc_paper.study.plan import Plan
from marc_paper.study.queries import FirstOrder
from marc_paper.study.work import Experiment, Work

_NAME = "dominant-keys"

_BANDS = (
    "stored as the true class",
    "of the true class, stored as another",
    "stored as the base prediction",
    "neither",
)
"""What the strongest key is to the query: the first of these that holds."""
_COLORS = (Look.PALETTE[2], Look.PALETTE[5], Look.PALETTE[1], LINE)
_HATCHES = ("", "....", "////", "")

_COLUMNS = columns(
    "stream | space | K | base errors: count | stored label true: percent",
    "true label true: percent | stored as base prediction: percent | none of these: percent",
    "median cosine: number | repaired at w: percent fixed",
)


_BLOCK = 2**22  # cosines of one block: 16 MiB
_MOST = 1024  # queries of a block


@final
@dataclass(frozen=True)
class _Votes:
    """What the strongest keys of some queries are to them; each (capacities, queries)."""

    stored_true: NDArray[np.bool_]
    """The stored label is the query's true class."""
    shows_true: NDArray[np.bool_]
    """The true label is the query's true class."""
    stored_predicted: NDArray[np.bool_]
    """The stored label is the query's base prediction."""

    @property
    def neither(self) -> NDArray[np.bool_]:
        """None of the three."""
        return ~(self.stored_true | self.shows_true | self.stored_predicted)

    @property
    def bands(self) -> NDArray[np.float64]:
        """Shares of `_BANDS` at each capacity, (capacities, 4); they add up to one."""
        place = np.select([self.stored_true, self.shows_true, self.stored_predicted], [0, 1, 2], 3)
        return np.stack([(place == band).mean(axis=1) for band in range(len(_BANDS))], axis=1)


def _votes_of(strongest: Int, stored: Int, labels: Int, true: Int, predicted: Int) -> _Votes:
    """What the strongest keys (capacities, Q) are to Q queries of some classes and predictions.

    `stored` and `labels` are the labels of keys by stored row, (N,).
    """
    return _Votes(
        stored_true=stored[strongest] == true,
        shows_true=labels[strongest] == true,
        stored_predicted=stored[strongest] == predicted,
    )


def _rows_of(
    stream: str,
    space: str,
    votes: _Votes,
    cosines: NDArray[np.float64],
    repaired: NDArray[np.bool_],
    capacities: Sequence[int],
) -> list[Row]:
    """One row a capacity: shares of the base errors with Wilson intervals."""
    counted = (votes.stored_true, votes.shows_true, votes.stored_predicted, votes.neither)
    return [
        (
            *(stream, space, str(capacity), cosines.shape[1]),
            *(_share(each[place]) for each in counted),
            float(np.median(cosines[place])),
            _share(repaired[place]),
        )
        for place, capacity in enumerate(capacities)
    ]


def _draw(
    capacities: Sequence[int], bands: Mapping[str, NDArray[np.float64]], n_queries: int
) -> Any:
    """A panel a space: bands over the capacity; bars are intervals of the first band."""
    figure, [row] = Page.panels(1, len(bands), height=2.6, sharey=True)
    # half a step more on both sides, so that the bars stand inside
    x = np.array([capacities[0] / 1.3, *capacities, 1.3 * capacities[-1]])
    for axes, (space, shares) in zip(row, bands.items(), strict=True):
        wide = np.concatenate([shares[:1], shares, shares[-1:]])
        edges = 100 * np.cumsum(np.column_stack([np.zeros(len(wide)), wide]), axis=1)
        for band, (color, hatch) in enumerate(zip(_COLORS, _HATCHES, strict=True)):
            axes.fill_between(
                *(x, edges[:, band], edges[:, band + 1]),
                facecolor=color,
                edgecolor="white",
                hatch=hatch,
                linewidth=0.6,
            )
        _first_band(axes, capacities, shares[:, 0], n_queries)
        axes.set_title(space, fontsize=9)
        axes.set_xscale("log", base=2)
        axes.set_xticks(capacities, [str(capacity) for capacity in capacities])
        axes.minorticks_off()
        axes.set(xlabel="capacity K", xlim=(x[0], x[-1]), ylim=(0, 100))
    row[0].set_ylabel("share of base errors, %")
    _legend(figure)
    return figure


def _first_band(
    axes: Any, capacities: Sequence[int], shares: NDArray[np.float64], n_queries: int
) -> None:
    ends = np.array([wilson(round(share * n_queries), n_queries)[1:] for share in shares]).T
    axes.errorbar(
        *(capacities, 100 * shares),
        yerr=100 * np.abs(ends - shares),
        color=INK,
        linewidth=0.9,
        marker="o",
        markersize=3,
        capsize=2,
        clip_on=False,
        zorder=3,
    )
    for place in dict.fromkeys((0, len(shares) - 1)):
        axes.annotate(
            *(f"{100 * shares[place]:.1f}", (capacities[place], 100 * ends[1, place])),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
        )


def _legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    keys = [
        Patch(facecolor=color, edgecolor="white", hatch=hatch, linewidth=0)
        for color, hatch in zip(_COLORS, _HATCHES, strict=True)
    ]
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.5)
    figure.legend(keys, _BANDS, loc="outside lower center", ncols=2, fontsize=8)


def _strongest_keys(keys: NDArray[np.float32], history: History) -> Int:
    """The nearest readable item of every query at every capacity, (capacities, N) by stored row.

    -1 where the memory held nothing; equal cosines keep the lower row.

    Args:
        keys: unit features (N, D) of the space that is read.
        history: what the memory held along one order, at some capacities.
    """
    strongest = np.full((len(history.last), len(keys)), -1)
    by_time = np.argsort(history.time)
    size = max(1, min(_MOST, _BLOCK // max(1, len(history.items))))
    for start in range(0, len(by_time), size):
        queries = by_time[start : start + size]
        alive = history.between(start, start + len(queries))
        if len(alive.items):
            strongest[:, queries] = _of_block(keys, alive, queries, start)
    return strongest


def _of_block(keys: NDArray[np.float32], alive: History, queries: Int, start: int) -> Int:
    """The same for the queries at positions from `start` on, (capacities, queries)."""
    ascending = np.argsort(alive.items)  # the first of equal values is then the lower row
    items, arrivals = alive.items[ascending], alive.arrivals[ascending]
    cosines = keys[queries] @ keys[items].T
    times = alive.time[queries][:, np.newaxis]
    found = np.full((len(alive.last), len(queries)), -1)
    for index, last in enumerate(alive.last[:, ascending]):
        kept = np.flatnonzero((last > arrivals) & (last >= start))
        if not len(kept):
            continue
        readable = (arrivals[kept] < times) & (times <= last[kept])
        masked = np.where(readable, cosines[:, kept], -np.inf)
        best = masked.argmax(axis=1)
        found[index] = np.where(readable.any(axis=1), items[kept][best], -1)
    return found


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    sweep = work.sweep(plan.main, _spaces(plan))
    stream, trajectory = FirstOrder.of(work)
    # the first image of a stream finds an empty memory, whose strongest key is none
    queries = np.setdiff1d(np.flatnonzero(~sweep.base_correct), stream.order[:1])
    if not len(queries):
        return [FirstOrder.none_chosen(plan, _NAME, f"{_NAME}-bands", "base prediction wrong")]
    history = History.trace(trajectory, plan.grids.capacities, stream.n_classes)
    features, labels = stream.features, stream.row_labels
    assert labels is not None  # a study has checked
    stored = trajectory.label[np.argsort(trajectory.order)]
    rows: list[Row] = []
    bands = {}
    for space in sweep.spaces:
        keys = features.keys(space)
        strongest = _strongest_keys(keys, history)[:, queries]
        votes = _votes_of(strongest, stored, labels, labels[queries], features.base.label[queries])
        cosines = np.array([(keys[queries] * keys[found]).sum(axis=1) for found in strongest])
        repaired = _repaired(sweep, space, plan)[:, queries]
        rows += _rows_of(plan.main, space, votes, cosines, repaired, plan.grids.capacities)
        bands[space] = votes.bands
    settings = plan.protocol("weight views seeds", seeds=plan.seeds.orders[:1])
    return [_figure(plan, bands, len(queries)), Table.of(plan, _NAME, _COLUMNS, rows, settings)]


def _repaired(sweep: Sweep, space: str, plan: Plan) -> NDArray[np.bool_]:
    """Whether each image is right at the weight of the plan, (capacities, N)."""
    return np.array(
        [
            sweep.correct(space, capacity, plan.grids.weight, plan.seeds.orders[0])
            for capacity in sweep.capacities
        ]
    )


def _share(chosen: NDArray[np.bool_]) -> Estimate:
    return Estimate.within(wilson(int(chosen.sum()), len(chosen)))


def _figure(plan: Plan, bands: Mapping[str, NDArray[np.float64]], n_queries: int) -> Figure:
    capacities = plan.grids.capacities
    return Figure.of(
        plan,
        f"{_NAME}-bands",
        partial(_draw, capacities, bands, n_queries),
        {"capacities": capacities, "bands": _BANDS, "shares": bands, "images": n_queries},
        n_queries=n_queries,
    )


def _spaces(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((plan.spaces.own, plan.spaces.strong)))


_EXPERIMENT = Experiment.of(_NAME, _make, FirstOrder.pieces)

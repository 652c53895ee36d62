"""Methods side by side: tab:ood, tab:crossdomain, tab:cd_extra and tab:s_extra.

Every method of the plan answers the same images, prompts and orders as MARC, and stands beside its
own pipeline without memory. Cost: for each order of each main, shift, domain and extra stream one
run of every method, online for most, and a replay of MARC at each of up to four view budgets; on
main and shift streams one more at the most views, in the strong space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from marc.errors import MarcError
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Mean, Runs, span
from marc_paper.study.work import Experiment, Piece, Work

_METHOD_COLUMNS = columns(
    "method | order | sees | views | second encoder | settings here | tuned by its authors"
)

_ORDER = {True: "answers, then stores", False: "stores, then answers", None: "stores nothing"}


def _method_row(plan: Plan, card: MethodCard) -> Row:
    if card.name == "marc":
        settings = "the paper's, the same for all streams"
    elif "published" in plan.peer_settings(card.name):
        settings = f"published for {plan.benchmark.published}"
    else:
        settings = "its defaults"
    return (
        card.name,
        _ORDER[card.reads_before_writes],
        {"image": "one image", "batch": "a batch", "stream": "the whole stream"}[card.sees],
        card.views,
        "yes" if "space" in card.needs else "no",
        settings,
        card.tuned,
    )


_NAME = "benchmark"
_TABLES = {_NAME: ("main", "shift"), f"{_NAME}-domains": ("domain", "extra")}
"""Groups of streams by table."""

_COLUMNS = columns(
    "stream | method | space | views | no memory: percent | accuracy: percent fixed",
    "gain: points fixed | MARC minus method: points fixed",
    "ECE, no memory: number | ECE: number | log-loss, no memory: number | log-loss: number",
)
_MEASURES = ("base_ece", "ece", "base_log_loss", "log_loss")


@final
@dataclass(frozen=True)
class _Entry:
    """A line of the benchmark: a method at its views on each stream."""

    method: str
    views: Mapping[str, int]
    """By stream."""
    settings: Mapping[str, Any]
    space: str = ""


_Found = Mapping[tuple[int, str], Runs]
"""Runs by place of the entry and stream; what refused the features is not there."""


def _entries(plan: Plan, streams: Sequence[str]) -> list[_Entry]:
    """The methods of the plan, then MARC at one, few and many views, then in the strong space.

    MARC also has the views of COSMIC where it is compared with it. Streams of other classes have
    the smaller capacity and the deployed space alone.
    """
    methods, grids, spaces = plan.benchmark.methods, plan.grids, plan.spaces
    found = [_peer(plan, streams, name) for name in methods if name != "marc"]
    is_domain = bool(streams) and plan.streams[streams[0]].group in ("domain", "extra")
    capacity = grids.capacity if is_domain else grids.benchmark_capacity
    graph = [plan.graph_views] if "cosmic" in methods else []
    counts = [lambda stream: 1, plan.few_views, *graph, plan.most_views]
    asked = [(spaces.deployed, count) for count in counts]
    if not is_domain and spaces.strong != spaces.deployed:
        asked.append((spaces.strong, plan.most_views))
    for space, count in asked:
        views = {stream: count(stream) for stream in streams}
        entry = _Entry("marc", views, plan.marc_settings(space, capacity), space)
        if entry not in found:
            found.append(entry)
    return found


def _run_rows(
    plan: Plan, streams: Sequence[str], lines: Sequence[_Entry], found: _Found
) -> list[Row]:
    rows: list[Row] = []
    for stream in streams:
        for place, entry in enumerate(lines):
            here = (entry.method, entry.space, entry.views[stream])
            before = [(each.method, each.space, each.views[stream]) for each in lines[:place]]
            if here in before or (place, stream) not in found:
                continue
            runs = found[place, stream]
            rows.append(
                (
                    *(stream, entry.method, entry.space, str(entry.views[stream])),
                    *(runs.no_memory, runs.accuracy, runs.gain),
                    _advantage(plan, lines, found, place, [stream]),
                    *map(runs.calibration.get, _MEASURES),
                )
            )
    return rows


def _mean_rows(
    plan: Plan, streams: Sequence[str], lines: Sequence[_Entry], found: _Found
) -> list[Row]:
    """Averages over streams, of entries that answered all of them."""
    rows: list[Row] = []
    for name, several in plan.averages(streams).items():
        for place, entry in enumerate(lines):
            if any((place, stream) not in found for stream in several):
                continue
            mean = Mean([found[place, stream] for stream in several])
            rows.append(
                (
                    *(name, entry.method, entry.space),
                    span([entry.views[stream] for stream in several]),
                    *(mean.no_memory, mean.accuracy, mean.gain),
                    _advantage(plan, lines, found, place, several),
                    *map(mean.calibration.get, _MEASURES),
                )
            )
    return rows


def _advantage(
    plan: Plan, lines: Sequence[_Entry], found: _Found, place: int, streams: Sequence[str]
) -> Estimate | None:
    """MARC in the deployed space minus another method, at the views of that method."""
    if lines[place].method == "marc":
        return None
    pairs = []
    for stream in streams:
        ours = next(
            number
            for number, entry in enumerate(lines)
            if (entry.method, entry.space) == ("marc", plan.spaces.deployed)
            and entry.views[stream] == lines[place].views[stream]
        )
        pairs.append((found[ours, stream].correct, found[place, stream].correct))
    return Estimate.over_streams(pairs)


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    tables = []
    for name, groups in _TABLES.items():
        streams = plan.group(*groups)
        if not streams:
            continue
        lines = _entries(plan, streams)
        found, refusals = _answers(work, streams, lines)
        rows = _run_rows(plan, streams, lines, found) + _mean_rows(plan, streams, lines, found)
        capacity = {"capacity": lines[-1].settings["capacity"]}
        settings = capacity | plan.protocol("weight seeds", published=plan.benchmark.published)
        tables.append(Table.of(plan, name, _COLUMNS, rows, settings, notes=refusals, **capacity))
    methods = [METHODS[name] for name in plan.benchmark.methods if name != "marc"]
    uses = [_method_row(plan, card) for card in (*methods, METHODS["marc"])]
    return [*tables, Table.of(plan, f"{_NAME}-methods", _METHOD_COLUMNS, uses)]


def _answers(
    work: Work, streams: Sequence[str], lines: Sequence[_Entry]
) -> tuple[dict[tuple[int, str], Runs], list[str]]:
    """Runs of every entry on every stream, and what refused a stream's features, with the reason.

    Every order of a method that refuses is tried: it does so at its first image.
    """
    found: dict[tuple[int, str], Runs] = {}
    refusals: dict[tuple[str, str], list[str]] = {}
    for place, entry in enumerate(lines):
        for stream in streams:
            answered, reasons = [], []
            for seed in work.plan.seeds.orders:
                try:
                    views = entry.views[stream]
                    answered.append(work.run(stream, entry.method, seed, views, **entry.settings))
                except MarcError as error:
                    if entry.method == "marc":
                        raise
                    reasons.append(error.problem)
            if reasons:
                refusals.setdefault((entry.method, reasons[0]), []).append(stream)
            else:
                found[place, stream] = Runs(tuple(answered))
    notes = [
        f"{method} has no row for {', '.join(several)}: {reason}."
        for (method, reason), several in refusals.items()
    ]
    return found, notes


def _pieces(plan: Plan) -> list[Piece]:
    entries = [each for groups in _TABLES.values() for each in _entries(plan, plan.group(*groups))]
    return Piece.runs(
        plan.seeds.orders,
        (
            (stream, entry.method, views, entry.settings)
            for entry in entries
            for stream, views in entry.views.items()
        ),
    )


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


def _peer(plan: Plan, streams: Sequence[str], method: str) -> _Entry:
    settings = plan.peer_settings(method)
    views = {stream: plan.method_views(stream, method) for stream in streams}
    return _Entry(method, views, settings, settings.get("space", ""))

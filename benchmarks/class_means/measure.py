"""Every part measured, streams divided among processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

from benchmarks.class_means.ablation import Gain, ablation_of, bounded_of
from benchmarks.class_means.cells import Cell, cells_of
from benchmarks.class_means.peers import Outcome, orders_of, peers_of
from benchmarks.class_means.streams import Plan, Source
from benchmarks.class_means.trust import Trusted, trusts_of

Work = Callable[[Source, Plan], Iterator[Any]]


@dataclass(frozen=True)
class Measured:
    """What the page is made of."""

    plan: Plan
    peers: list[Outcome]
    orders: list[Outcome]
    bounded: list[Gain]
    ablation: list[Gain]
    cells: list[Cell]
    trusts: list[Trusted]


def measure(plan: Plan) -> Measured:
    """All parts; the slowest first, so that no process waits for another at the end."""
    photographs, lab = plan.photographs(), plan.lab()
    parts: dict[str, tuple[Work, list[Source]]] = {
        "peers": (peers_of, photographs),
        "orders": (orders_of, photographs),
        "bounded": (bounded_of, photographs),
        "ablation": (ablation_of, [*photographs, *plan.hostile("-12"), *plan.lab(["-12"])]),
        "cells": (cells_of, [*photographs, *plan.hostile(), *lab]),
        "trusts": (trusts_of, [*photographs, *lab]),
    }
    jobs = [(name, work, each) for name, (work, sources) in parts.items() for each in sources]
    works, sources = [job[1] for job in jobs], [job[2] for job in jobs]
    found: dict[str, list[Any]] = {each.name: [] for each in fields(Measured)[1:]}
    with ProcessPoolExecutor(plan.processes) as pool:
        several = pool.map if plan.processes > 1 else map
        results = several(_done, works, sources, [plan] * len(jobs))
        for (name, _, source), result in zip(jobs, results, strict=True):
            print(f"{name}: {source.group}, {source.address}", file=sys.stderr)
            found[name].extend(result)
    return Measured(plan, **found)


def _done(work: Work, source: Source, plan: Plan) -> list[Any]:
    return list(work(source, plan))

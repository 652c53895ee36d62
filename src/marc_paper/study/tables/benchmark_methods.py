"""What each method of the benchmark uses: the part of its card that decides a comparison."""

from __future__ import annotations

from marc.peers.cards import MethodCard
from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import card_of, peer_settings

_COLUMNS = columns(
    "method | order | sees | views | second encoder | settings here | tuned by its authors"
)

_ORDER = {
    True: "answers, then stores",
    False: "stores, then answers",
    None: "stores nothing",
}


def _method_row(plan: Plan, card: MethodCard) -> Row:
    """One method in words."""
    if card.name == "marc":
        settings = "the paper's, the same for all streams"
    elif "published" in peer_settings(plan, card.name):
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


def method_table(plan: Plan, name: str, answers: tuple[str, ...]) -> Table:
    """The methods of a plan, and MARC."""
    methods = [method for method in plan.benchmark.methods if method != "marc"]
    return Table(
        name=name,
        title="What the methods use",
        caption="Order: whether an image is answered before it is stored. Sees: what is answered "
        "together. A method that stores first, sees more than one image, or was tuned on labels "
        "is not matched with one that does not.",
        columns=_COLUMNS,
        rows=tuple(_method_row(plan, card_of(method)) for method in (*methods, "marc")),
        answers=answers,
    )

"""Settings of a method as they are typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marc.errors import MarcError
from marc.peers.cards import MethodCard


def refuse_options(options: Mapping[str, Any], card: MethodCard) -> None:
    """Refuse options, by the names that were typed, of which a method has no setting."""
    known = {*card.settings, *(["space"] if "spaces" in card.settings else [])}
    for option, value in options.items():
        if value != "" and option not in known:
            raise MarcError(
                f"{card.name} takes no --{option}",
                got=f"--{option} {value}",
                hint=f"marc list methods --card {card.name}",
            )


def number_or_text(text: str) -> int | float | str:
    """A typed value: an integer or a number where it can be read as one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

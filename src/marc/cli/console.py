"""What the commands share on the terminal: tables, progress, errors and lists of values."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from marc.errors import MarcError
from marc.report.text import count as count
from marc.report.text import interval as interval
from marc.report.text import p_value as p_value
from marc.report.text import percent as percent
from marc.report.text import points as points
from marc.report.text import score as score
from marc.report.text import score_change as score_change
from marc.report.text import worst as worst
from marc.types import visible

_out = Console(highlight=False, emoji=False)
_err = Console(stderr=True, highlight=False, emoji=False)

_SEVERAL = {
    "adapt": ("--encoder", "--prompts", "--weights"),
    "check": ("--encoder", "--weights"),
    "embed": ("--encoder", "--prompts", "--weights"),
    "geometry": ("--space", "--neighbors"),
    "judge": ("--labels",),
    "select": ("--space",),
    "report": ("--held-out",),
    "run": ("--seed", "--set", "--space"),
    "study": ("--only",),
    "sweep": ("--space", "--capacity", "--weight", "--seed", "--held-out"),
}
"""Options that take several values after one flag, by command: `--seed 0 1 2`."""


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat a flag before each of its values, which is how the parser wants several values.

    >>> spread(["sweep", "arrays/a.npz", "--seed", "0", "1", "--json"])
    ['sweep', 'arrays/a.npz', '--seed', '0', '--seed', '1', '--json']
    """
    for argument in arguments:
        try:
            odd = b"\0" in os.fsencode(argument)
        except UnicodeEncodeError:
            odd = True
        if odd:
            problem = "an argument has characters that no name of a file can have"
            raise MarcError(problem, got=ascii(argument)[:80])
    several = _SEVERAL.get(arguments[0] if arguments else "", ())
    spread_out: list[str] = []
    flag, fresh = "", False
    for argument in arguments:
        if argument.startswith("-"):
            flag, fresh = (argument if argument in several else ""), True
        elif flag and not fresh:
            spread_out.append(flag)
        else:
            fresh = False
        spread_out.append(argument)
    return spread_out


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table; with `numbers`, all columns but the first are set to the right."""
    grid = Table(header_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        right = numbers and position > 0
        grid.add_column(
            escape(_visible(column)), justify="right" if right else "left", no_wrap=True
        )
    for row in rows:
        grid.add_row(*(escape(_visible(cell)) for cell in row))
    # half a number is worse than a long line, so a narrow terminal does not cut the table
    needed = Measurement.get(_out, _out.options.update(max_width=400), grid).maximum
    Console(highlight=False, emoji=False, width=max(needed, _out.width)).print(grid)


def tally(words: Iterable[str]) -> str:
    """How often each occurs, the most frequent first.

    >>> tally(["empty", "damaged", "empty"])
    '2 empty, 1 damaged'
    """
    return ", ".join(f"{number} {word}" for word, number in Counter(words).most_common())


def say(text: str, *, bold: bool = False, err: bool = False) -> None:
    """A line for a person, printed as it is: a path may look like markup."""
    style = "bold" if bold else None
    (_err if err else _out).print(_visible(text), soft_wrap=True, markup=False, style=style)


def complain(error: MarcError) -> None:
    """Print an error."""
    words = Text.assemble(("error:", "bold red"), f" {_visible(str(error))}")
    _err.print(words, soft_wrap=True)


def _visible(text: str) -> str:
    """A text that only writes; halves of characters, which no terminal takes, are spelled out."""
    return visible(text).encode("utf-8", "backslashreplace").decode()


def as_json(value: Mapping[str, Any]) -> None:
    """The whole result for a machine."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def notes() -> Iterator[None]:
    """Print what the library warns of as notes, each once, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(each.message) for each in caught):
        note(text)


def note(message: Warning | str, *_: object) -> None:
    """Print a warning of the library as a note."""
    say(f"note: {message}", err=True)


class _Bar(Progress):
    def report(self, what: str, done: int, total: int) -> None:
        """Show how far a named piece of work has come, in place of the pieces before it."""
        what = escape(_visible(what))
        tasks = {task.description: task.id for task in self.tasks}
        if what not in tasks:
            for task in tasks.values():
                self.update(task, visible=False)
            tasks[what] = self.add_task(what, total=total, note="")
        self.update(tasks[what], completed=done)


def progress() -> _Bar:
    """A progress bar on standard error; silent when that is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    return _Bar(*columns, console=_err, transient=True, disable=not _err.is_terminal)

"""What the commands share on the terminal: tables, progress, errors and lists of values."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from marc.cli._layout import folded, wrapped
from marc.errors import MarcError
from marc.report.text import count as count
from marc.report.text import duration as duration
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

SCHEMA = 1
"""The version of what `--json` prints: a key that is there stays, and keeps its meaning."""
_ANYWHERE = ("-v", "--verbose", "-q", "--quiet")
"""Options of every command, which the parser wants before its name."""
_SEVERAL = {
    "adapt": ("--encoder", "--prompts", "--weights"),
    "check": ("--encoder", "--weights"),
    "embed": ("--encoder", "--prompts", "--weights"),
    "export": ("--space",),
    "geometry": ("--space", "--neighbors"),
    "judge": ("--labels",),
    "select": ("--space",),
    "report": ("--held-out",),
    "run": ("--seed", "--set", "--space", "--weights"),
    "serve": ("--encoder", "--memories", "--prompts", "--quota", "--weights"),
    "study": ("--only",),
    "sweep": ("--space", "--capacity", "--weight", "--seed", "--held-out"),
}
"""Options that take several values after one flag, by command: `--seed 0 1 2`."""
_ALONE = {
    "adapt": ("--track",),
    "run": ("--track",),
    "study": ("--ray",),
    "sweep": ("--ray", "--track"),
}
"""Options whose value may be left out, by command."""


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat a flag before each of its values, which is how the parser wants several values.

    What may stand anywhere, --quiet and --verbose, goes to the front.

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
    end = arguments.index("--") if "--" in arguments else len(arguments)
    spread_out = [each for each in arguments[:end] if each in _ANYWHERE]
    arguments = [*(e for e in arguments[:end] if e not in _ANYWHERE), *arguments[end:]]
    command = arguments[0] if arguments else ""
    several, alone = _SEVERAL.get(command, ()), _ALONE.get(command, ())
    flag, fresh = "", False
    for argument, following in zip(arguments, [*arguments[1:], "-"], strict=False):
        if argument in alone and _is_no_value(argument, following):
            argument += "="
        if argument.startswith("-"):
            flag, fresh = (argument if argument in several else ""), True
        elif flag and not fresh:
            spread_out.append(flag)
        else:
            fresh = False
        spread_out.append(argument)
    return spread_out


def _is_no_value(option: str, following: str) -> bool:
    return following.startswith("-") or (option == "--ray" and not following.isdecimal())


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: bool = True,
    keys: int = 1,
    always: bool = False,
) -> None:
    """Print a table; with `numbers`, all columns but the first are set to the right.

    What is too wide for a terminal goes on below, where the first `keys` columns stand again.
    `always`: quietly too, because the table is the result and lies nowhere else.
    """
    if _is_silent(always):
        return
    columns = [*map(_visible, columns)]
    rows = [[*map(_visible, row)] for row in rows]
    width = _terminal_width() or sys.maxsize
    for part in folded(columns, rows, width, keys=keys, text=not numbers):
        grid = Table(header_style="bold", box=None, pad_edge=False)
        for index, size in part.items():
            grid.add_column(
                escape(columns[index]),
                justify="right" if numbers and index > 0 else "left",
                vertical="bottom" if numbers else "top",
                width=size,
            )
        for row in rows:
            grid.add_row(*(escape(row[index]) for index in part))
        # half a number is worse than a long line, so a table may be wider than its terminal
        needed = sum(size + 2 for size in part.values())
        wide = Console(highlight=False, emoji=False, width=max(needed, _out.width))
        if sys.stdout.isatty():
            wide.print(grid)
            continue
        with wide.capture() as captured:
            wide.print(grid)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _terminal_width() -> int | None:
    """How many columns a line may have; none where the output goes into a pipe or a file."""
    return _out.width if sys.stdout.isatty() else None


def is_narrow() -> bool:
    """Whether a table of several columns of text would not fit."""
    return (_terminal_width() or sys.maxsize) < 120


def _is_silent(always: bool) -> bool:
    """Quietly nothing is said but what always is; before quiet JSON, nothing at all."""
    return _how.quiet and (_how.json or not always)


def paragraph(text: str) -> None:
    """Print sentences: in a pipe with the breaks they have, in a terminal as they fit."""
    say(text if _terminal_width() is None else " ".join(text.split()))


def tally(words: Iterable[str]) -> str:
    """How often each occurs, the most frequent first.

    >>> tally(["empty", "damaged", "empty"])
    '2 empty, 1 damaged'
    """
    return ", ".join(f"{number} {word}" for word, number in Counter(words).most_common())


def say(text: str, *, bold: bool = False, err: bool = False, always: bool = False) -> None:
    """A line for a person, printed as it is: a path may look like markup."""
    if not _is_silent(always):
        _print(text, "bold" if bold else "", err=err)


def _print(text: str, style: str = "", *, err: bool = False) -> None:
    stream, console = (sys.stderr, _err) if err else (sys.stdout, _out)
    shown = _visible(text)
    if stream.isatty():
        shown = wrapped(shown, console.width)
    console.print(shown, soft_wrap=True, markup=False, style=style or None)


def done(path: object, *, was_there: bool = False, more: str = "") -> None:
    """Say where a result is; quietly, nothing but that."""
    word = "already there" if was_there else "written"
    say(str(path) if _how.quiet else f"{word}: {path}{more}", always=True)


def complain(error: MarcError) -> None:
    """Print an error; for a machine that asked for JSON, as an object on standard output too."""
    words = f"error: {_visible(str(error))}"
    words = wrapped(words, _err.width) if sys.stderr.isatty() else words
    _err.print(Text.assemble(("error:", "bold red"), words.removeprefix("error:")), soft_wrap=True)
    parts = {name: getattr(error, name) for name in ("problem", "got", "allowed", "hint")}
    told = {name: None if part is None else str(part) for name, part in parts.items()}
    tell_error(told)


def tell_error(parts: Mapping[str, str | None]) -> None:
    """An error as an object, if JSON was asked for."""
    if _how.json:
        as_json("error", {"error": parts})


def _visible(text: str) -> str:
    """A text that only writes; halves of characters, which no terminal takes, are spelled out."""
    return visible(text).encode("utf-8", "backslashreplace").decode()


def as_json(kind: str, value: Mapping[str, Any]) -> None:
    """The whole result for a machine, under the version of its layout and what it is."""
    whole = {"schema": SCHEMA, "kind": kind, **value}
    sys.stdout.write(json.dumps(whole, indent=2, allow_nan=False) + "\n")


@dataclass
class _How:
    """How much the commands say, for the time of one call."""

    quiet: bool = False
    verbose: bool = False
    json: bool = False


_how = _How()


def speak(
    *, quiet: bool | None = None, verbose: bool | None = None, json: bool | None = None
) -> None:
    """Set how much is said: quietly, only errors and where a result is; verbosely, times too."""
    given = {"quiet": quiet, "verbose": verbose, "json": json}
    for name, value in given.items():
        if value is not None:
            setattr(_how, name, value)


def is_verbose() -> bool:
    """Whether times and whole tracebacks are wanted."""
    return _how.verbose


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
    def report(self, what: str, done: int, total: int, note: str = "") -> None:
        """Show how far a named piece of work has come, in place of the pieces before it."""
        what = escape(_visible(what))
        tasks = {task.description: task.id for task in self.tasks}
        if what not in tasks:
            for task in tasks.values():
                self.stop_task(task)
                self.update(task, visible=False)
            tasks[what] = self.add_task(what, total=total, note="")
        self.update(tasks[what], completed=done, note=note)

    def stop(self) -> None:
        """Take the bar away; verbosely, say what took how long."""
        super().stop()
        for task in self.tasks if _how.verbose else ():
            self.stop_task(task.id)
            if task.description:
                say(f"time: {task.description}: {duration(task.elapsed or 0.0)}", err=True)
        for number in self.task_ids:
            self.remove_task(number)


def progress() -> _Bar:
    """A progress bar on standard error; silent when that is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    silent = _how.quiet or not _err.is_terminal
    return _Bar(*columns, console=_err, transient=True, disable=silent)

"""The command line: parse, call the library, print. `marc VERB SOURCE [options]`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs
import typer

from marc.cli import console
from marc.cli.adapt import adapt
from marc.cli.check import check
from marc.cli.compare import compare
from marc.cli.embed import embed_pictures
from marc.cli.export import export
from marc.cli.judge import judge
from marc.cli.listing import list_names
from marc.cli.report import report
from marc.cli.run import run
from marc.cli.select import select
from marc.cli.send import send
from marc.cli.serve import serve
from marc.cli.spaces import geometry
from marc.cli.sweep import sweep
from marc.errors import MarcError, Registry
from marc.files import versions

_INTERRUPTED = 130  # the parser's exit status for Ctrl-C

_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="MARC: a memory for zero-shot CLIP, and the instrument to study it.",
    epilog="Example:  marc sweep arrays/photos.npz --space dinov2-b clip-b16",
)
_ORDER = (
    *("demo", "adapt", "embed", "geometry", "select", "run"),
    *("sweep", "compare", "judge", "serve", "send", "study", "verify"),
)
_OWN: dict[str, Callable[..., None] | str] = {
    "adapt": adapt,
    "embed": embed_pictures,
    "geometry": geometry,
    "select": select,
    "run": run,
    "sweep": sweep,
    "compare": compare,
    "judge": judge,
    "serve": serve,
    "send": send,
    "report": report,
    "export": export,
    "check": check,
    "list": list_names,
}


def _command(name: str, thing: Any) -> Callable[..., None]:
    if not callable(thing):
        raise MarcError(f"the command {name!r} is no function", got=type(thing).__name__)
    return thing


_COMMANDS = Registry("command", "marc.commands", _OWN, _command)
"""Every command by name: ours, and those that installed packages bring."""
_usable, _broken = _COMMANDS.load_all()
_usable |= {name: own for name, own in _OWN.items() if callable(own)}  # ours stay
for _name in sorted(_usable, key=lambda each: _ORDER.index(each) if each in _ORDER else 99):
    _app.command(name=_name)(_usable[_name])


def _print_version(wanted: bool) -> None:
    if wanted:
        console.say(f"marc {version('marc-clip')}")
        raise typer.Exit


@_app.callback()
def _options(
    show_version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    quiet: bool = typer.Option(
        False,
        "-q",
        "--quiet",
        help="Print errors and the result, or where it is, and nothing else.",
    ),
    verbose: bool = typer.Option(
        False, "-v", "--verbose", help="Say what took how long; whole tracebacks of bugs."
    ),
) -> None:
    del show_version
    console.speak(quiet=quiet or None, verbose=verbose or None)


def main() -> None:
    """Entry point: 0 done, 1 failed, 2 bad use."""
    warnings.showwarning = console.note  # type: ignore[assignment]
    console.speak(quiet=False, verbose=False, json="--json" in sys.argv)
    for error in _broken.values():  # the commands of others must not stop ours
        console.complain(error)
    try:
        _app(console.spread(sys.argv[1:]), prog_name="marc")
    except MarcError as error:
        console.complain(error)
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            kept = "; what is finished is kept: the same command goes on from it"
            resumes = sys.argv[1:2] and sys.argv[1] in (
                "adapt",
                "demo",
                "embed",
                "run",
                "send",
                "study",
                "sweep",
            )
            console.say("stopped" + (kept if resumes else ""), err=True)
        usage = getattr(stop.__context__, "format_message", None)  # of the parser, shown already
        if usage is not None:
            problem = {"problem": usage(), "got": None, "allowed": None, "hint": "marc --help"}
            console.tell_error(problem)
        raise
    except (OSError, MemoryError) as error:
        console.complain(MarcError(f"the system refused: {str(error) or type(error).__name__}"))
        sys.exit(1)
    except Exception as error:  # what nobody foresaw: one line, and the rest where it can be sent
        if console.is_verbose():
            traceback.print_exception(error)
        console.complain(
            MarcError(
                "marc stopped at something that it was not prepared for",
                got=f"{type(error).__name__}: {str(error)[:200]}",
                hint=f"a bug report with {_write_log(error)}",
            )
        )
        sys.exit(1)


def _write_log(error: Exception) -> str:
    """Where the whole story of an error is: a file of the user's, or one of the system's."""
    story = [
        f"marc {' '.join(map(ascii, sys.argv[1:]))}\n{versions(encoding=True)}\n\n",
        *traceback.format_exception(error),
    ]
    name = f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (platformdirs.user_log_path("marc"), Path(tempfile.gettempdir())):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text("".join(story), encoding="utf-8", errors="backslashreplace")
            return str(path)
    return "what it printed (no folder for a log can be written to)"

"""`marc run --method all`: every method that a source's features allow, on the same images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marc.cli import console
from marc.cli.compare import read_run, table_of
from marc.cli.compare_tables import row_of, show_runs
from marc.cli.running import Wanted, execute, warm_up
from marc.errors import MarcError, one_of
from marc.peers.registry import METHODS
from marc.results.folder import CONFIG, Folder, read_result
from marc.stream import Stream


@dataclass(frozen=True)
class EveryMethod:
    """What is asked of all methods together."""

    source: str
    stream: Stream
    orders: list[int | None]
    options: Mapping[str, Any]
    """`space` for each method that needs one; capacity, weight and policy for MARC alone."""
    settings: Mapping[str, Any]
    """A setting goes to each other method that has it, METHOD.setting to that method alone."""
    published: str | None

    def __post_init__(self) -> None:
        cards = METHODS.load_all()[0].values()
        for key in self.settings:
            name, dot, setting = key.rpartition(".")
            if dot:
                card = METHODS.known(name)
                one_of(f"setting of {name}", setting, card.settings)
            else:
                known = {each for card in cards for each in card.settings}
                one_of("setting of any method", setting, known, "marc list methods --card NAME")
        if self.published is not None:
            known = {name for card in cards for name in card.published}
            one_of("data set with published settings", self.published, known)

    @property
    def default_folder(self) -> str:
        """Where the runs go if no place is named."""
        name = f"{self.stream.name}-m{self.stream.n_views}-all"
        return "runs/" + name.replace("/", "_")

    def one(self, name: str) -> Wanted:
        """The run of one method."""
        card = METHODS[name]
        mine = dict(self.options) if name == "marc" else {}
        if "space" in card.needs:
            mine["space"] = self.options.get("space") or only_space(self.stream)
        for key, value in self.settings.items():
            of, _, setting = key.rpartition(".")
            if setting in card.settings and (of == name or (not of and name != "marc")):
                mine[setting] = value
        published = self.published if self.published in card.published else None
        return Wanted(self.source, self.stream, self.orders, name, mine, published)

    def refusal(self, name: str) -> str | None:
        """Why a method cannot run on these features; None if it can. Bad settings are an error.

        Whatever goes wrong in a method that another package brings is a reason to leave it out.
        """
        try:
            return self._refusal(name)
        except Exception as error:
            if name in METHODS.own and name not in METHODS.load_all()[1]:
                raise
            return reason_of(error)

    def _refusal(self, name: str) -> str | None:
        card = METHODS[name]
        if "prompts" in card.needs and self.stream.features.predictor.prompts is None:
            return "needs the embedding of every prompt; a store has them, a pack may have them"
        if "shots" in card.needs and not {"shots", f"{name}.shots"} & set(self.settings):
            return "needs labelled few-shot features: --set shots=FILE.npz"
        wanted = self.one(name)
        wanted.protocol()
        try:
            warm_up(wanted)
        except MarcError as error:
            return reason_of(error).replace("--set ", f"--set {name}.")
        return None


def reason_of(error: Exception) -> str:
    """What was wrong, and what to try, in a line."""
    if not isinstance(error, MarcError):
        return f"{type(error).__name__}: {error}"
    problem = f"{error.problem} ({error.got})" if "cannot be" in error.problem else error.problem
    return "; try ".join(filter(None, (problem, error.hint)))


def run_all(every: EveryMethod, folder: Path, *, force: bool, dry_run: bool, json: bool) -> None:
    """Run what can be run, each into a folder of its own, and say why for the rest."""
    if (folder / CONFIG).exists():
        raise MarcError(
            "this folder is one result, not a place for several", got=folder, hint="-o ANOTHER"
        )
    every.one("marc").protocol()  # a wrong option is an error, not a reason to leave MARC out
    refused = {name: reason for name in METHODS if (reason := every.refusal(name)) is not None}
    names = [name for name in METHODS if name not in refused]
    if dry_run:
        _foresee(every, folder, names, refused, json=json)
        return
    for name in names:
        Folder(folder / name, every.one(name).protocol(), force=force, begin=False)  # may refuse
    failed = _execute_each(every, folder, names, force=force)
    done = [name for name in names if name not in failed]
    if json:
        found = {name: read_result(folder / name, "run")[1] for name in done}
        told = {"folder": str(folder), "runs": found, "left_out": refused, "failed": failed}
        if every.stream.row_labels is not None and len(done) > 1:
            reference, *others = [read_run(folder / name) for name in done]
            rows = table_of(reference, others)
            told["comparison"] = {"reference": row_of(reference), "runs": rows}
        console.as_json(told)
    else:
        _tell(every, folder, done)
        for name, reason in refused.items():
            console.say(f"left out: {name}: {reason}")
    if failed:
        reasons = "\n        ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise MarcError(f"{len(failed)} of {len(names)} methods did not finish", got=reasons)


def _execute_each(
    every: EveryMethod, folder: Path, names: list[str], *, force: bool
) -> dict[str, str]:
    """Run the methods, and give the reasons of those that did not finish."""
    failed = {}
    for name in names:
        try:
            execute(every.one(name), folder / name, force=force)
        except Exception as error:  # of this method or its folder: the others go on
            if name in METHODS.own and not isinstance(error, MarcError):
                raise
            failed[name] = reason_of(error)
    return failed


def _foresee(
    every: EveryMethod, folder: Path, names: list[str], refused: dict[str, str], *, json: bool
) -> None:
    """What would be run, and what not."""
    if json:
        console.as_json({"folder": str(folder), "would_run": names, "left_out": refused})
        return
    console.say(f"{len(every.stream)} images in {len(every.orders)} order(s), into {folder}/")
    console.say(f"would run: {', '.join(names)}")
    for name, reason in refused.items():
        console.say(f"left out: {name}: {reason}")


def _tell(every: EveryMethod, folder: Path, names: list[str]) -> None:
    """The comparison, or without labels what can be said."""
    if every.stream.row_labels is None:
        for name in names:
            _, metrics = read_result(folder / name, "run")
            shares = ", ".join(console.percent(share) for share in metrics["changed"])
            console.say(f"{name}: {shares} % of its answers differ from those without memory")
    elif len(names) > 1:
        reference, *others = [read_run(folder / name) for name in names]  # MARC is listed first
        show_runs(reference, table_of(reference, others))
    for key, value in every.settings.items():
        if "." not in key:
            takers = [n for n in names if n != "marc" and key in METHODS[n].settings]
            console.say(f"{key}={value} went to {', '.join(takers)}")
    again = "" if every.stream.row_labels is None else f"; compare again: marc compare {folder}/*"
    console.say(f"written: {folder}{again}")


def only_space(stream: Stream) -> str:
    """The stream's space if there is no choice to make."""
    if len(stream.spaces) == 1:
        return stream.spaces[0]
    raise MarcError(
        "the stream has several spaces, and the choice decides the result",
        got="no --space",
        allowed=", ".join([*stream.spaces, "predictor"]),
        hint="marc select SOURCE to choose without labels, then --space NAME",
    )

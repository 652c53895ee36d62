"""Every method over one stream, each into a run folder of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marc.errors import MarcError, one_of
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc.results.folder import Folder
from marc.results.run import RunPlan
from marc.stream import Stream

_FROM_FILES = {
    "shots": "labelled few-shot features",
    "unlabelled": "features of unlabelled images that are not in the stream",
}
"""What a method may need that no stream has, in words."""
_NETWORKS = {"text-tower", "image-tower"}


@dataclass(frozen=True)
class AllMethods:
    """Every method that a stream's features allow, on the same images and orders."""

    stream: Stream
    orders: Sequence[int | None]
    options: Mapping[str, Any]
    """`spaces`, of which a method of one reads the first; the others, as weight, for MARC alone."""
    settings: Mapping[str, Any]
    """A setting goes to each other method that has it, METHOD.setting to that method alone. One
    that does not take the value of such a setting is left out; none may take it is an error."""
    published: str | None = None

    def check(self) -> None:
        """Refuse settings that no method has."""
        cards = METHODS.load_all()[0].values()
        for key in self.settings:
            name, dot, setting = key.rpartition(".")
            if dot:
                card = METHODS.known(name)
                one_of(f"setting of {name}", setting, card.settings)
            else:
                known = {each for card in cards for each in card.settings}
                one_of("setting of any method", setting, known, "marc list methods --card NAME")
                self._refuse_what_no_method_takes(setting)
        if self.published is not None:
            known = {name for card in cards for name in card.published}
            one_of("data set with published settings", self.published, known)
        self.plan("marc").config()  # a wrong option is an error, not a reason to leave MARC out

    def _refuse_what_no_method_takes(self, setting: str) -> None:
        takers = [name for name in METHODS.own if setting in METHODS[name].settings]
        made = [name for name in takers if name != "marc" and not self._missing_file(METHODS[name])]
        refusals = [self._refused_setting(name) for name in made]
        if refusals and all(refusals):
            raise refusals[0]  # type: ignore[misc]

    def _refused_setting(self, name: str) -> MarcError | None:
        """Why a method does not take the settings that name no method; None if it does."""
        card = METHODS[name]
        given = {key: value for key, value in self.settings.items() if key in card.settings}
        needed = {key for key, value in card.settings.items() if value == "required"}
        if not given or needed - {"space"}:
            return None  # features in a file are read once, where the method is made
        try:
            card.factory(**dict.fromkeys(needed, "any"), **given)
        except MarcError as error:
            return error
        return None

    def plan(self, name: str) -> RunPlan:
        """The run of one method."""
        card = METHODS[name]
        settings = dict(self.options) if name == "marc" else {}
        spaces = settings.pop("spaces", self.options.get("spaces", []))
        if "space" in card.needs:
            settings["space"] = RunPlan.only_space(self.stream, name, spaces[:1])
        elif "spaces" in card.settings and spaces:
            settings["spaces"] = spaces
        for key, value in self.settings.items():
            of, _, setting = key.rpartition(".")
            if setting in card.settings and (of == name or (not of and name != "marc")):
                settings[setting] = value
        published = self.published if self.published in card.published else None
        return RunPlan(self.stream, self.orders, name, settings, published)

    def refusal(self, name: str) -> str | None:
        """Why a method cannot run on these features; None if it can. Bad settings are an error.

        Whatever goes wrong in a method that another package brings is a reason to leave it out.
        """
        try:
            return self._refusal(name)
        except Exception as error:
            if name in METHODS.own and name not in METHODS.load_all()[1]:
                raise
            return self.reason(error)

    def _refusal(self, name: str) -> str | None:
        card = METHODS[name]
        if "prompts" in card.needs and self.stream.features.predictor.prompts is None:
            return "needs the embedding of every prompt; a store has them, a pack may have them"
        if missing := self._missing_file(card):
            return missing
        if refused := self._refused_setting(name):
            return f"{self.reason(refused)}, got {refused.got}; try --set {name}.SETTING=VALUE"
        if missing := self._missing_network(card):
            return missing
        plan = self.plan(name)
        plan.method(self.orders[0])  # a bad setting is an error
        learns_in_network = bool(_NETWORKS & {*card.needs})
        if not learns_in_network:
            plan.config()
        try:
            if learns_in_network:
                plan.config()  # not every network has the parts that a method learns in
            plan.warm_up()
        except MarcError as error:
            return self.reason(error).replace("--set ", f"--set {name}.")
        return None

    def _missing_file(self, card: MethodCard) -> str | None:
        """What a method needs of a file that no setting leads to; None if nothing."""
        for need, words in _FROM_FILES.items():
            if need in card.needs and not {need, f"{card.name}.{need}"} & set(self.settings):
                return f"needs {words}: --set {need}=FILE.npz"
        return None

    def _missing_network(self, card: MethodCard) -> str | None:
        """What a method that learns in the predictor's networks lacks here; None if nothing."""
        towers = self.stream.features.predictor.towers
        for need, tower in {"text-tower": towers.text, "image-tower": towers.image}.items():
            if need in card.needs and tower is None:
                encoder = need.partition("-")[0]
                return f"needs the predictor's {encoder} encoder, which a lab/ or store/ stream has"
        if "image-tower" in card.needs and self.stream.features.pixels is None:
            return "needs the pictures, which a lab/ or store/ stream has"
        if _NETWORKS & {*card.needs} and importlib.util.find_spec("torch") is None:
            return "needs torch; try pip install 'marc-clip[encoders]'"
        return None

    def write(
        self,
        path: Path,
        names: Sequence[str],
        watch: RunPlan.Watch = lambda *_: None,
        *,
        force: bool = False,
    ) -> dict[str, str]:
        """Run methods, each into a folder of its own; why it failed, of each that did."""
        plans = {name: self.plan(name) for name in names}
        folders = {n: Folder.open(path / n, plans[n].config(), force=force) for n in names}
        failed = {}
        for name, folder in folders.items():
            try:
                if not folder.done:
                    plans[name].write(folder, watch)
            except Exception as error:  # of this method or its folder: the others go on
                if name in METHODS.own and not isinstance(error, MarcError):
                    raise
                failed[name] = self.reason(error)
        return failed

    @staticmethod
    def reason(error: Exception) -> str:
        """What was wrong, and what to try, in a line."""
        if not isinstance(error, MarcError):
            return f"{type(error).__name__}: {error}"
        problem = (
            f"{error.problem} ({error.got})" if "cannot be" in error.problem else error.problem
        )
        return "; try ".join(filter(None, (problem, error.hint)))

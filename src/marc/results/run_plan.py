"""What decides a run before it starts: a method, its settings, a stream and its orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError, one_of
from marc.loop import AnyMethod, Checking, Replayable, iter_steps, run
from marc.method import MARC
from marc.peers.registry import METHODS, create_method
from marc.peers.weight_search import WeightSearch
from marc.replay.replay import replay
from marc.results.folder import Folder
from marc.results.run import run_config, write_runs
from marc.stream import Stream
from marc.types import Run, Step

_WARM = 4  # images that a method answers before its time is taken
Watch = Callable[[str, Stream], Callable[[Step], None] | None]
"""Called with a method's name and a stream in its order: what is called after each step of it."""


@dataclass(frozen=True)
class RunPlan:
    """One method over one stream in some orders."""

    stream: Stream
    orders: Sequence[int | None]
    name: str
    settings: Mapping[str, Any]
    published: str | None = None
    oracle: bool = False
    """Choose the weights that the authors chose on labels, on the labels of this stream."""

    def method(self, seed: int | None) -> AnyMethod:
        """The method for one order: a reservoir draws from the seed that draws the order."""
        draws = self.name in METHODS and "seed" in METHODS[self.name].settings
        drawn: dict[str, Any] = {"seed": seed or 0} if draws else {}
        return create_method(self.name, published=self.published, **self.settings, **drawn)

    def run(
        self,
        seed: int | None,
        on_step: Callable[[Step], None] | None = None,
        *,
        at_once: bool = False,
    ) -> Run:
        """One order; `at_once`, whole streams are replayed where that gives the same answers."""
        stream, method = self.stream.in_order(seed), self.method(seed)
        if not self.oracle:
            exact = isinstance(method, MARC | Replayable) and not method.varies_with
            return replay(method, stream) if at_once and exact else run(method, stream, on_step)
        search = WeightSearch(METHODS[self.name].searched, len(stream))

        def take(step: Step) -> None:
            search.take(step)
            if on_step is not None:
                on_step(step)

        result = run(method, stream, take)
        assert stream.labels is not None  # `config` has refused
        chosen, predictions = search.best(stream.labels)
        return replace(result, predictions=predictions, chosen=chosen)

    def config(self) -> dict[str, Any]:
        """Everything that decides the result, as data; what cannot be run is refused."""
        method = self.method(self.orders[0])
        if self.oracle:
            self._refuse_oracle()
        if isinstance(method, Checking):
            method.check(self.stream)
        config = method.config()
        if "space" in config:
            self.stream.features.keys(config["space"])  # refuse a wrong name before writing
        return run_config(self.stream, self.orders, config, self.published, oracle=self.oracle)

    def _refuse_oracle(self) -> None:
        if self.stream.row_labels is None:
            raise MarcError(
                "an oracle needs labels, and this stream has none",
                got=self.stream.source or self.stream.name,
                hint="leave --oracle out, or add labels to the source",
            )
        if not METHODS[self.name].searched:
            known = [name for name in METHODS.own if METHODS[name].searched]
            raise MarcError(
                f"{self.name} has no weights that were chosen on labels",
                got="--oracle",
                allowed=", ".join(known) or "no method",
                hint=f"--method {known[0]} --oracle" if known else None,
            )

    def write(self, folder: Folder, watch: Watch = lambda *_: None) -> None:
        """Run the orders that the folder does not have yet, then write the result."""
        self.warm_up()  # a method that refuses these features does so before anything is written
        chosen = tuple(METHODS[self.name].searched) if self.oracle else ()
        write_runs(
            folder,
            self.stream,
            lambda seed: self.run(seed, watch(self.name, self.stream.in_order(seed))),
            chosen,
        )

    def warm_up(self) -> None:
        """Answer the first images and forget them: libraries load and compile at their first use.

        A few images need not be enough for a method that answers many together; that is no refusal.
        """
        few = replace(self.stream, order=self.stream.order[:_WARM])
        try:
            for _ in iter_steps(self.method(self.orders[0]), few):
                pass
        except MarcError:
            if METHODS[self.name].sees == "image":
                raise

    @staticmethod
    def default_folder(config: Mapping[str, Any]) -> str:
        """A name that says what is inside: settings that are not the usual ones are named."""
        settings = dict(config["method"])
        name = settings.pop("method")
        usual = METHODS[name].settings
        parts = [config["stream"], f"m{config['n_views']}", name]
        if name == "marc":
            parts += [settings.pop("space")]
            capacity, weight = settings.pop("capacity"), settings.pop("weight")
            parts += [f"k{capacity}", f"w{weight if weight == 'auto' else format(weight, 'g')}"]
        parts += [f"{key}-{value}" for key, value in settings.items() if value != usual[key]]
        if config["selection"] == "oracle":
            parts += ["oracle"]
        if config["seeds"] == [None]:
            parts += ["in-order"]
        elif config["seeds"] != [0, 1, 2]:
            parts += ["seeds", *map(str, config["seeds"])]
        return "runs/" + "-".join(parts).replace("/", "_")


@dataclass(frozen=True)
class AllMethods:
    """Every method that a stream's features allow, on the same images and orders."""

    stream: Stream
    orders: Sequence[int | None]
    options: Mapping[str, Any]
    """`space` for each method that needs one; capacity, weight and policy for MARC alone."""
    settings: Mapping[str, Any]
    """A setting goes to each other method that has it, METHOD.setting to that method alone."""
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
        if self.published is not None:
            known = {name for card in cards for name in card.published}
            one_of("data set with published settings", self.published, known)
        self.plan("marc").config()  # a wrong option is an error, not a reason to leave MARC out

    def plan(self, name: str) -> RunPlan:
        """The run of one method."""
        card = METHODS[name]
        settings = dict(self.options) if name == "marc" else {}
        if "space" in card.needs:
            settings["space"] = self.options.get("space") or only_space(self.stream)
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
            return reason_of(error)

    def _refusal(self, name: str) -> str | None:
        card = METHODS[name]
        if "prompts" in card.needs and self.stream.features.predictor.prompts is None:
            return "needs the embedding of every prompt; a store has them, a pack may have them"
        if "shots" in card.needs and not {"shots", f"{name}.shots"} & set(self.settings):
            return "needs labelled few-shot features: --set shots=FILE.npz"
        plan = self.plan(name)
        plan.config()
        try:
            plan.warm_up()
        except MarcError as error:
            return reason_of(error).replace("--set ", f"--set {name}.")
        return None

    def write(
        self,
        path: Path,
        names: Sequence[str],
        watch: Watch = lambda *_: None,
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
                failed[name] = reason_of(error)
        return failed


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


def reason_of(error: Exception) -> str:
    """What was wrong, and what to try, in a line."""
    if not isinstance(error, MarcError):
        return f"{type(error).__name__}: {error}"
    problem = f"{error.problem} ({error.got})" if "cannot be" in error.problem else error.problem
    return "; try ".join(filter(None, (problem, error.hint)))

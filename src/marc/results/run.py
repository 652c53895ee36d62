"""Runs: what decides one before it starts, and its folder, one method over some orders."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from marc.errors import MarcError, instance
from marc.files import Arrays, write_whole
from marc.loop import AnyMethod, Checking, Replayable, iter_steps
from marc.loop import run as run_online
from marc.method import MARC
from marc.peers.registry import METHODS, create_method
from marc.peers.weight_search import WeightSearch
from marc.replay.replay import replay
from marc.results.answers import answers_of
from marc.results.begun import paused
from marc.results.by_row import joined, run_arrays, seed_array
from marc.results.folder import Folder, Stored
from marc.results.metrics import (
    certainty_of,
    metrics_of,
    space_weights_of,
)
from marc.results.orders import of_one_method, same_orders
from marc.stream import Stream, digest
from marc.stream.orders import Ordering
from marc.types import Run, Step, Trajectory

_WARM = 4  # images that a method answers before its time is taken


@dataclass(frozen=True)
class RunPlan:
    """One method over one stream in some orders."""

    OnStep = Callable[[Step], None]
    Watch = Callable[[str, Stream, int], OnStep | None]
    """Called with a method's name, a stream in its order and how many images are answered already:
    what is called after each step."""

    stream: Stream
    orders: Sequence[int | None]
    name: str
    settings: Mapping[str, Any]
    published: str | None = None
    oracle: bool = False
    """Choose the weights that the authors chose on labels, on the labels of this stream."""

    def method(self, seed: int | None) -> AnyMethod:
        """The method for one order: a reservoir draws from the seed that draws the order."""
        drawn = _seed_of_order(self.name, seed)
        if drawn.keys() & self.settings.keys():
            raise MarcError(
                f"{self.name} takes the seed of its order",
                got=f"seed={self.settings['seed']}",
                hint=f"--seed {self.settings['seed']}",
            )
        return create_method(self.name, published=self.published, **self.settings, **drawn)

    def run(self, seed: int | None, on_step: OnStep | None = None, *, at_once: bool = False) -> Run:
        """One order; `at_once`, whole streams are replayed where that gives the same answers."""
        stream, method = self.stream.in_order(seed), self.method(seed)
        if not self.oracle:
            exact = isinstance(method, MARC | Replayable) and not method.varies_with
            return (
                replay(method, stream) if at_once and exact else run_online(method, stream, on_step)
            )
        search = WeightSearch(METHODS[self.name].searched, len(stream))

        def take(step: Step) -> None:
            search.take(step)
            if on_step is not None:
                on_step(step)

        result = run_online(method, stream, take)
        assert stream.labels is not None  # `config` has refused
        chosen, predictions = search.best(stream.labels)
        # at the chosen weights a search has answers and no probabilities
        return replace(result, predictions=predictions, chosen=chosen, certainty=None)

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
        return _config(self.stream, self.orders, config, self.published, oracle=self.oracle)

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
        # it may learn from files for long
        watch(self.name, self.stream.in_order(self.orders[0]), 0)
        self.warm_up()  # a method that refuses these features does so before anything is written

        def run_of(seed: int | None) -> Run:
            stream = self.stream.in_order(seed)
            if self.oracle:  # what a search has seen is not kept
                return self.run(seed, watch(self.name, stream, 0))
            method, pauses = paused(folder, _part_name(seed), self.method(seed))
            done = 0 if pauses.kept is None else len(pauses.kept["prediction"])
            on_step = watch(self.name, stream, done)
            return run_online(method, stream, on_step, pauses=pauses)

        chosen = tuple(METHODS[self.name].searched) if self.oracle else ()
        _write(folder, self.stream, run_of, chosen)

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
        if "spaces" in settings:
            settings.pop("spaces")
            parts += [_short(",".join(named_spaces(config["method"])))]
        changed = (f"{key}-{value}" for key, value in settings.items() if value != usual[key])
        parts += map(_short, changed)
        if config["selection"] == "oracle":
            parts += ["oracle"]
        if "ordering" in config:
            parts += [Ordering.parse(config["ordering"]).file_name]
        if config["seeds"] == [None]:
            parts += ["in-order"]
        elif config["seeds"] != [0, 1, 2]:
            parts += ["seeds", *map(str, config["seeds"])]
        name = re.sub(r'[/\\\\<>:"|?*]', "_", "-".join(parts))  # no system refuses the rest
        return f"runs/{name.rstrip('. ')}"

    @staticmethod
    def only_space(stream: Stream, method: str, spaces: Sequence[str] = ()) -> str:
        """The one space for a method of one: that was given, or that the stream has."""
        if len(spaces) == 1:
            return spaces[0]
        if spaces:
            raise MarcError(
                f"{method} reads one space",
                got=", ".join(spaces),
                hint=f"--space {spaces[0]}; several at once: --method class-means",
            )
        if len(stream.spaces) == 1:
            return stream.spaces[0]
        raise MarcError(
            "the stream has several spaces, and the choice decides the result",
            got="no --space",
            allowed=", ".join([*stream.spaces, "predictor"]),
            hint="marc select SOURCE to choose without labels, then --space NAME; "
            "all of them: --method class-means",
        )


def _short(text: str) -> str:
    """A part of a file name, which has its limit."""
    which = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text if len(text) <= 60 else f"{text[:50]}-{which}"


def _seed_of_order(method: str, seed: int | None) -> dict[str, int]:
    """The setting that the seed of an order decides: only MARC's, for its policies that draw."""
    return {"seed": seed or 0} if method == MARC.name else {}


def _own_settings(method: Mapping[str, Any]) -> dict[str, Any]:
    """A method's name and settings, less what the order decides."""
    decided = _seed_of_order(method["method"], 0)
    return {name: value for name, value in method.items() if name not in decided}


def named_spaces(method: Mapping[str, Any]) -> list[str]:
    """The retrieval spaces that a method's settings name; `all` where it reads every one.

    >>> named_spaces({"method": "marc", "space": "dinov2-b"}), named_spaces({"method": "tda"})
    (['dinov2-b'], [])
    """
    spaces = method.get("spaces", method.get("space", []))
    return [spaces] if isinstance(spaces, str) else list(spaces)


def save_run(
    runs: Run | Sequence[Run],
    path: str | Path,
    stream: Stream,
    *,
    published: str | None = None,
    force: bool = False,
) -> Path:
    """Write the folder that `marc run` writes.

    Args:
        runs: a run, or one method over several orders.
        path: the folder; one that holds these runs already is left as it is.
        stream: what was run over, in any order of any kind.
        published: the data set whose published settings were taken.
        force: replace another run that is there.
    """
    runs, stream = same_orders(runs, stream)
    instance("published", published, str, type(None))
    seeds, chosen = [run.seed for run in runs], tuple(runs[0].chosen)
    config = _config(stream, seeds, runs[0].method, published, oracle=bool(chosen))
    folder = Folder.open(Path(path), config, force=force)
    if not folder.done:
        _write(folder, stream, {run.seed: run for run in runs}.__getitem__, chosen)
    stored = Stored.read(folder.path, "run").arrays["prediction"]
    if not np.array_equal(stored, [run.by_image().predictions for run in runs]):
        raise MarcError("this folder holds other answers", got=folder.path, hint="force=True")
    return folder.path


def _config(
    stream: Stream,
    orders: Sequence[int | None],
    method: Mapping[str, Any],
    published: str | None,
    *,
    oracle: bool,
) -> dict[str, Any]:
    """The configuration of a run; `method` is its name and settings."""
    card = METHODS.get(method["method"])
    sees_stream = card is not None and card.sees == "stream"
    return {
        **Folder.describe("run", stream.source or stream.name, stream),
        "method": _own_settings(method),
        "seeds": list(orders),
        "selection": "oracle" if oracle else "fixed",
        "transductive": any("+" in name for name in named_spaces(method)) or sees_stream,
        **({"published": published} if published else {}),
    }


def _write(
    folder: Folder,
    stream: Stream,
    run_of: Callable[[int | None], Run],
    chosen: Sequence[str] = (),
) -> None:
    """Write a run folder, resuming where an earlier call stopped.

    `run_of` gives the run of an order that the folder does not have yet; `chosen` are names of the
    weights that an oracle chooses.
    """
    with folder.begin() as wanted:
        if not wanted:
            return
        parts: list[Arrays] = []
        for seed in folder.config["seeds"]:
            name = _part_name(seed)
            part = folder.part(name)
            if part is None:
                part = run_arrays(run_of(seed))
                folder.keep_part(name, part)
                folder.drop_begun(name)
            parts.append(part)
        arrays, timing = joined(parts)
        arrays |= {
            "ids": np.array(stream.features.ids),
            "seeds": seed_array(folder.config["seeds"]),
            "class_names": np.array(stream.features.class_names),
        }
        if stream.row_labels is not None:
            arrays["label"] = stream.row_labels
        metrics = metrics_of(arrays, chosen)
        if len(parts) == 1:  # one answer per image: a table that anybody can open
            [run] = _runs(Stored(folder.work, folder.config, metrics, arrays, timing))
            write_whole(folder.work / Folder.ANSWERS, answers_of(run, stream).csv())
        folder.finish(metrics, arrays, timing)


def _part_name(seed: int | None) -> str:
    """What the part of one order is called."""
    return "order-stored" if seed is None else f"order-{seed}"


def load_run(path: str | Path) -> list[Run]:
    """The runs of a finished folder, one per order.

    A folder holds no logits and no memories, and of a method that is not known here not what its
    trajectory varies with; seconds are not a number where no time was taken.
    """
    instance("a run folder", path, str, Path)
    return _runs(Stored.read(Path(path), "run"))


def _runs(stored: Stored) -> list[Run]:
    """The runs of a folder's numbers and arrays."""
    arrays, seeds = stored.arrays, stored.config["seeds"]
    settings = {name: v for name, v in stored.config["method"].items() if name != "method"}
    name, varies_with = stored.config["method"]["method"], frozenset[str]()
    with suppress(MarcError):  # its package, policy or shots may not be had here
        if name in METHODS:
            varies_with = create_method(name, **settings).varies_with
    seconds = stored.timing.get("seconds") or [math.nan] * len(seeds)
    chosen = stored.metrics.get("chosen") or [{}] * len(seeds)
    by_space = space_weights_of(arrays)
    runs = []
    for index, (seed, order) in enumerate(zip(seeds, arrays["order"], strict=True)):
        label, priority = (arrays[name][index][order] for name in ("pseudo_label", "priority"))
        runs.append(
            Run(
                method={**stored.config["method"], **_seed_of_order(name, seed)},
                predictions=arrays["prediction"][index][order],
                base_predictions=arrays["base_prediction"][order],
                trajectory=Trajectory(order, label, priority, varies_with),
                labels=arrays["label"][order] if "label" in arrays else None,
                weights=arrays["weight"][index][order],
                space_weights={s: each[index][order] for s, each in by_space.items()},
                seconds=seconds[index],
                memory_bytes=stored.timing.get("memory_bytes"),
                seed=seed,
                chosen=chosen[index],
                ordering=stored.config.get("ordering", "shuffled"),
                certainty=certainty_of(arrays, rows=(index, order)),
                base_certainty=certainty_of(arrays, "base_", order),
            )
        )
    return runs


def stored_run(run: str | Path | Run | Sequence[Run]) -> Stored:
    """A run folder, or runs as such a folder would hold them, less what only a stream knows."""
    if isinstance(run, str | Path):
        return Stored.read(Path(run), "run")
    runs = of_one_method(run)
    answers, chosen = runs[0].by_image(), tuple(runs[0].chosen)
    rows = np.arange(len(answers.order))
    if not all(np.array_equal(np.sort(each.order), rows) for each in runs):
        raise MarcError("runs over a part of a stream cannot be paired", got=runs[0].method)
    arrays, timing = joined([run_arrays(each) for each in runs])
    arrays |= {"ids": rows.astype(str), "seeds": seed_array([each.seed for each in runs])}
    config: dict[str, Any] = {
        "stream": "not stored",
        "n_images": len(rows),
        "n_classes": 1 + max(int(arrays[n].max()) for n in ("prediction", "base_prediction")),
        "method": _own_settings(runs[0].method),
        "seeds": [each.seed for each in runs],
        "fingerprint": {},
        **({"ordering": runs[0].ordering} if runs[0].ordering != "shuffled" else {}),
    }
    if answers.labels is not None:
        arrays["label"] = answers.labels
        config["fingerprint"] = {"labels": digest(answers.labels)}
        config["n_classes"] = max(config["n_classes"], 1 + int(answers.labels.max()))
    path = Path(config["method"]["method"])
    return Stored(path, config, metrics_of(arrays, chosen), arrays, timing)

"""Finished results in MLflow, where it is installed: settings, numbers and small files.

They go to the store that the user has set up, by default a file on this machine, and nowhere else:
what MLflow would report to its makers is turned off before it is loaded.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from marc.errors import MarcError
from marc.files import file_digest, flatten, read_json
from marc.results.answers import optional
from marc.results.folder import Folder, Stored, called

_EXTRA = "marc-clip[track]"
_LARGEST = 5_000_000  # bytes of a file that goes along
_LONGEST = 500  # characters of a setting


@dataclass(frozen=True)
class Tracked:
    """A result in MLflow."""

    run_id: str
    experiment: str
    store: str
    was_there: bool
    """Whether this very result was there before."""


@dataclass(frozen=True)
class Tracker:
    """An experiment of MLflow that takes finished results."""

    EXPERIMENT: ClassVar = "marc"
    """The experiment, unless another is named here or in `MLFLOW_EXPERIMENT_NAME`."""

    client: Any
    experiment: str
    experiment_id: str

    @classmethod
    def open(cls, where: str = "") -> Tracker:
        """Open an experiment by its name, or a store by its address; what cannot be is refused.

        Without an address the store is MLflow's own: `MLFLOW_TRACKING_URI`, or a file here.
        """
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # of minutes, else
        address = where if ":" in where else None
        named = os.environ.get("MLFLOW_EXPERIMENT_NAME") or cls.EXPERIMENT
        name = named if address or not where else where
        tracking = optional("mlflow.tracking", "--track", _EXTRA)
        logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # errors are told as ours
        with _refusals("the store cannot be opened", address or "MLflow's own store"):
            client = tracking.MlflowClient(tracking_uri=address)
            found = client.get_experiment_by_name(name)
            number = client.create_experiment(name) if found is None else found.experiment_id
        return cls(client, name, number)

    def log(self, folder: str | Path) -> Tracked:
        """Log the folder of a finished run or sweep, once: it is known by its files' digests."""
        folder = Path(folder)
        kind = read_json(folder / Folder.CONFIG).get("kind", "run")
        config, metrics = Stored.numbers(folder, kind)  # refuse what is damaged
        digest = file_digest(folder / "digests.json")
        about = self.experiment, str(self.client.tracking_uri)
        with _refusals("the result was not logged, and is whole", folder):
            for run in self._known(digest):
                return Tracked(run.info.run_id, *about, was_there=True)
            words = {f"marc.{n}": v for n, v in flatten(metrics).items() if isinstance(v, str)}
            tags = {"marc.digest": digest, "marc.kind": kind, **words}
            run = self.client.create_run(self.experiment_id, tags=tags, run_name=called(folder))
            run_id = run.info.run_id
            try:
                self._fill(run_id, folder, config, metrics)
            except BaseException:
                self.client.set_terminated(run_id, "FAILED")
                raise
            self.client.set_terminated(run_id)
        return Tracked(run_id, *about, was_there=False)

    def _known(self, digest: str) -> list[Any]:
        """Runs that hold this result; one that was stopped half way does not."""
        query = f"tags.`marc.digest` = '{digest}' and attributes.status = 'FINISHED'"
        return list(self.client.search_runs([self.experiment_id], query))

    def _fill(
        self, run_id: str, folder: Path, config: Mapping[str, Any], metrics: Mapping[str, Any]
    ) -> None:
        settings = {name: value for name, value in config.items() if name != "fingerprint"}
        for name, value in flatten(settings).items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            self.client.log_param(run_id, _plain(name), text[:_LONGEST])
        now = int(time.time() * 1000)
        for name, value, step in _numbers(metrics):
            self.client.log_metric(run_id, _plain(name), value, timestamp=now, step=step)
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.stat().st_size <= _LARGEST:
                self.client.log_artifact(run_id, str(path))


def _numbers(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float, int]]:
    """Name, value and step; the orders of a run are the steps of what each order has.

    >>> for number in _numbers({"gain_interval": [0.1, 0.9], "orders": [{"gain": 0.5}]}):
    ...     print(number)
    ('gain_interval.low', 0.1, 0)
    ('gain_interval.high', 0.9, 0)
    ('order.gain', 0.5, 0)
    """
    for name, value in flatten(metrics).items():
        values = value if isinstance(value, list) else [value]
        if "interval" in name and len(values) == 2:
            yield from zip((f"{name}.low", f"{name}.high"), values, (0, 0), strict=True)
            continue
        for step, each in enumerate(values):
            if isinstance(each, dict):
                one = flatten(each, f"{name.removesuffix('s')}.")
                yield from ((n, v, step) for n, v in one.items() if isinstance(v, float | int))
            elif isinstance(each, float):
                yield name, each, step


def _plain(name: str) -> str:
    """A name with the characters that MLflow takes."""
    return re.sub(r"[^\w.\-/ ]", "_", name)


@contextmanager
def _refusals(problem: str, what: object) -> Iterator[None]:
    """What MLflow, or the database or server behind it, refuses is an error of ours.

    What it warns of is its own matter. Where warnings are errors, one in its first call would leave
    its tables half made for the rest of the process.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:  # mlflow-skinny comes without a database
        problem = f"--track needs the package {error.name}, which is not installed"
        raise MarcError(problem, hint=f'pip install "{_EXTRA}"') from error
    except (MarcError, OSError):
        raise
    except Exception as error:
        said = f"{what}: {' '.join(str(error).split())[:300]}"
        hint = "--track EXPERIMENT, or an address such as sqlite:///mlflow.db"
        raise MarcError(f"MLflow: {problem}", got=said, hint=hint) from error

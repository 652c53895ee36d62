"""Ray: a cluster, or processes of this machine, for work that falls into independent pieces.

What workers compute has the bytes of one process. Those of a matrix product depend on the number of
threads and on the kind of processor, so workers are given the threads of this process, and one that
computes other bytes is refused.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from marc.errors import MarcError, integer
from marc.files import versions
from marc.replay.evidence import n_threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_FEW = 2  # workers where there is one machine
_MOST = 1024
_LIVES = 3  # times that a worker which was lost is started again, and its piece with it
_THREADS = "OMP_NUM_THREADS"
_DECISIVE = (_THREADS, "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS")
"""Variables that decide in which order products are summed."""


@contextmanager
def joined() -> Iterator[Any]:
    """Ray, joined to the cluster of `RAY_ADDRESS` or started here; it reports home to nobody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # or it replaces `print` for good
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise _missing(error) from error
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False  # we have our own
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def check_workers(ray: object) -> int | None:
    """How many workers are asked for: None for none, 0 for as many as there are machines, or two.

    Refused before any work where Ray is not installed.
    """
    if ray is None:
        return None
    count = integer("--ray", ray, 0, _MOST)
    if find_spec("ray") is None:
        raise _missing(None)
    return count


def spread(
    begin: Callable[[], Callable[[_Item], _Result]], items: Iterable[_Item], n_workers: int
) -> Generator[tuple[_Item, _Result]]:
    """Every item with its result, in the order in which workers finish them.

    A worker that is lost is started again; `contextlib.closing` ends the workers where the caller
    stops early.

    Args:
        begin: called once in each worker, and gives what computes an item there.
        items: independent of each other.
        n_workers: 0 for as many as there are machines, or two.
    """
    items = list(items)
    here = {name: os.environ[name] for name in _DECISIVE if name in os.environ}
    here.setdefault(_THREADS, str(n_threads()))  # or Ray would say 1
    with joined() as ray:
        from ray.util import ActorPool

        count = n_workers or max(_FEW, sum(node["Alive"] for node in ray.nodes()))
        actor = ray.remote(_Worker).options(
            max_restarts=_LIVES,
            max_task_retries=_LIVES,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": here},
        )
        shared, folder, machine = ray.put(begin), Path.cwd(), _machine()
        workers = [actor.remote(folder, machine) for _ in range(min(count, len(items)))]
        try:
            pool = ActorPool(workers)
            yield from pool.map_unordered(lambda each, item: each.do.remote(shared, item), items)
        except ray.exceptions.RayTaskError as error:
            found = error.cause
            if not isinstance(found, MarcError):
                raise
            raise MarcError(
                found.problem, got=found.got, allowed=found.allowed, hint=found.hint
            ) from error
        except ray.exceptions.RayError as error:
            raise MarcError(
                "a Ray worker was lost again and again",
                got=str(error).partition("\n")[0],
                hint="fewer workers: each has its inputs in memory",
            ) from error
        finally:
            for worker in workers:
                ray.kill(worker)


class _Worker:
    """One process of a cluster; its inputs are opened for the first item, which reports errors."""

    def __init__(self, folder: Path, machine: Mapping[str, str]) -> None:
        self._folder, self._machine = folder, machine
        self._work: Callable[[Any], Any] | None = None

    def do(self, begin: Callable[[], Callable[[Any], Any]], item: Any) -> tuple[Any, Any]:
        """An item and its result."""
        if self._work is None:
            _refuse_other(self._machine, _machine())
            if self._folder.is_dir():  # sources may be relative to where the command was called
                os.chdir(self._folder)
            self._work = begin()
        return item, self._work(item)


def _machine() -> dict[str, str]:
    """What decides the bytes of a result beside its inputs."""
    rows = np.random.default_rng(0).standard_normal((700, 513), dtype=np.float32)
    products = hashlib.sha256((rows @ rows[:300].T).tobytes()).hexdigest()
    return {**versions(), "matrix products": products[:8]}


def _refuse_other(there: Mapping[str, str], here: Mapping[str, str]) -> None:
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if differing:
        told = (f"{name} {here.get(name)} instead of {there.get(name)}" for name in differing)
        raise MarcError(
            "a worker would not compute the bytes of this machine",
            got=", ".join(told),
            hint="the same libraries everywhere; for processors of different kinds "
            f"OPENBLAS_CORETYPE=Haswell {_THREADS}=1 before the command",
        )


def _missing(error: ImportError | None) -> MarcError:
    return MarcError(
        "--ray needs Ray, which is not installed",
        got=error,
        hint="pip install 'marc-clip[ray]'",
    )

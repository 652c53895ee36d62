"""Memories that are served from a folder, and every state that they ever were in."""

import os
import shutil
import signal
import sys
import warnings
from contextlib import contextmanager

import numpy as np

from marc.results.snapshot import _digest
from marc.scores import unit
from marc.serve.memory import operations
from marc.serve.memory.config import Limits, MemoryConfig, StepRequest
from marc.serve.memory.served import Served
from marc.stream.predictor import Predictor

N_CLASSES, DIM, SPACE_DIM = 5, 8, 6
METHODS = {
    "marc": {"name": "marc", "space": "s", "capacity": 3},
    "marc-auto": {"name": "marc", "space": "s", "capacity": 3, "weight": "auto"},
    "marc-negative": {"name": "marc", "space": "s", "capacity": 3, "negative_weight": 0.117},
    "class-means": {"name": "class-means"},
    "tda": {"name": "tda", "fraction": 1.0},
}


def config_of(method, **limits):
    draw = np.random.default_rng(1)
    predictor = Predictor(unit(draw.standard_normal((N_CLASSES, DIM)).astype(np.float32)), 5.0)
    classes = tuple("abcde")
    return MemoryConfig(method, classes, {"s": SPACE_DIM}, predictor, Limits(**limits))


def request(number, **more):
    """The same image for the same number."""
    draw = np.random.default_rng([7, number])
    label = int(draw.integers(N_CLASSES))
    prototypes = config_of({}).predictor.prototypes
    views = prototypes[label] + 0.4 * draw.standard_normal((1 + number % 2, DIM))
    key = np.eye(SPACE_DIM)[label] + 0.4 * draw.standard_normal(SPACE_DIM)
    picture = b"picture %d" % number
    arrays = views.astype(np.float32), {"s": key.astype(np.float32)}
    return StepRequest(f"id-{number}", *arrays, thumbnail=picture, **more)


def create(folder, method="marc", **limits):
    settings = METHODS[method] if isinstance(method, str) else method
    Served.create(folder, config_of(settings, **limits), "shadow", None)
    return folder


def step(served, number):
    """The answer to one image."""
    [answer] = served.steps([request(number)])
    assert isinstance(answer, bytes), answer
    return answer


def label(served, number):
    return operations.label(served, [{"id": f"id-{number}", "label": number % N_CLASSES}])


def state_of(served):
    """Everything that a memory knows, in memory and on disk, but when it was; a few characters."""
    learner, head = served.learner, dict(served.head)
    state, arrays = learner.method.state() if head["n_seen"] else {}, {}
    arrays |= {f"method/{name}": array for name, array in state.pop("arrays", {}).items()}
    record, more = learner.record.state() if learner.record else ({}, {})
    rows = [served.log.step(seq) for seq in range(1, served.seq + 1)]
    rows = [None if row is None else [row.id, row.prediction, row.answer.decode()] for row in rows]
    log = served.log
    pictures = [str(log.thumbnail(seq)) for seq in range(1, served.seq + 1)]
    held = served.held()
    known = {
        "seq": served.seq,
        "n_seen": head["n_seen"],
        "counts": [head[name] for name in ("steps", "disagreements", "admitted", "mode")],
        "method": state,
        "record": record,
        "steps": rows,
        "pictures": pictures,
        "labels": [list(row) for row in log.labels()],
        "history": served.history.state(),
        "items": sorted([item, *at] for item, at in served._items.items() if item in held),
    }
    return _digest(known, {**arrays, **more})


def remembered_of(served):
    """What answers depend on, without the rest of the log."""
    state = served.learner.method.state() if served.head["n_seen"] else {"arrays": {}}
    return _digest({"seq": served.seq, "n_seen": served.head["n_seen"]}, state["arrays"])


@contextmanager
def opened(folder):
    served = Served(folder)
    try:
        yield served
    finally:
        served.close()


def lived(folder, method="marc", *, n=24, snapshot_at=9, closed_at=14, labelled=(4, 12, 17, 20)):
    """A memory with a snapshot, half of its log in the file and half before it; still open.

    Also its state after each commit, and its answers.
    """
    served = Served(create(folder, method))
    states, answers = [state_of(served)], []
    for number in range(1, n + 1):
        answers.append(step(served, number))
        states.append(state_of(served))
        if number in labelled:
            label(served, number - 1)
            states.append(state_of(served))
        if number == snapshot_at:
            operations.snapshot(served)
            states.append(state_of(served))
        if number == closed_at:
            served.close()
            served = Served(folder)
    return served, states, answers


def killed_copy(served, folder):
    """The files of a memory as a kill leaves them now."""
    shutil.copytree(served.folder, folder)
    return folder


class Injected:
    """Counts what is done to files below a folder, and lets one of those things fail.

    For a process that ends soon: an audit hook stays for ever.
    """

    _EVENTS = (
        *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "os.truncate"),
        *("os.link", "os.symlink", "shutil.rmtree", "sqlite3.connect"),
    )

    def __init__(self, folder, at, fail):
        self.count, self._at, self._fail, self._folder = 0, at, fail, str(folder)
        fsync, write = os.fsync, os.write

        def noted_fsync(descriptor):
            self._note("fsync")
            fsync(descriptor)

        def noted_write(descriptor, content):
            self._note("write")
            return write(descriptor, content)

        self._real = fsync, write
        os.fsync, os.write = noted_fsync, noted_write
        self._on = True
        sys.addaudithook(self._audit)

    def off(self):
        """Count no more."""
        self._on = False
        os.fsync, os.write = self._real

    def _audit(self, event, arguments):
        if event in self._EVENTS and str(arguments[0]).startswith(self._folder):
            self._note(event)

    def _note(self, event):
        if not self._on:
            return
        self.count += 1
        if self.count == self._at:
            self._fail(event)


def in_child(work, seconds=30):
    """What `work()` returned, a small number, or minus the signal, of a forked process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads of the matrix library
        child = os.fork()
    if child == 0:
        status = 99
        try:
            signal.alarm(seconds)  # which ends it
            status = work()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

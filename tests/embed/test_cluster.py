"""Work on Ray workers: every item once, errors as they were raised, and no other bytes."""

import os
import signal

import pytest

from marc import MarcError
from marc.embed import cluster
from marc.embed.cluster import check_workers, joined, spread

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray has warnings of its own


@pytest.fixture(scope="module")
def ray():
    """One Ray for all tests of this file: it takes long to start."""
    pytest.importorskip("ray")
    with joined() as ray:
        yield ray


def test_every_item_comes_back_once_with_its_result(ray):
    def begin():
        begun = []  # in each worker

        def double(item):
            begun.append(item)
            return 2 * item, len(begun), os.getpid(), os.environ["OMP_NUM_THREADS"]

        return double

    found = dict(spread(begin, range(20), 2))
    assert {item: result[0] for item, result in found.items()} == {n: 2 * n for n in range(20)}
    pids = {pid for _, _, pid, _ in found.values()}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    counts = {pid: max(n for _, n, p, _ in found.values() if p == pid) for pid in pids}
    assert sum(counts.values()) == 20  # a worker begins once
    expected = os.environ.get("OMP_NUM_THREADS", str(cluster.n_threads()))
    assert {threads for *_, threads in found.values()} == {expected}


def test_the_print_of_python_stays(ray):
    from ray.experimental import tqdm_ray

    tqdm_ray.instance()
    assert print.__module__ == "builtins"


def test_no_item_needs_no_worker(ray):
    assert list(spread(lambda: None, [], 0)) == []


def test_an_error_keeps_its_four_parts(ray):
    def begin():
        raise MarcError("it cannot be", got=3, allowed="1 or 2", hint="--two")

    with pytest.raises(MarcError) as caught:
        list(spread(begin, [1], 1))
    error = caught.value
    parts = (error.problem, error.got, error.allowed, error.hint)
    assert parts == ("it cannot be", 3, "1 or 2", "--two")


def test_a_bug_is_no_bad_input(ray):
    def begin():
        return lambda item: 1 / item

    with pytest.raises(ZeroDivisionError):
        list(spread(begin, [0], 1))


def test_a_machine_that_computes_other_bytes_is_refused(ray, monkeypatch):
    found = {**cluster._machine(), "numpy": "1.0"}
    monkeypatch.setattr(cluster, "_machine", lambda: found)
    with pytest.raises(MarcError, match=r"numpy \S+ instead of 1\.0\n(?s:.*)OPENBLAS_CORETYPE"):
        list(spread(lambda: None, [1], 1))


def test_a_worker_that_is_lost_again_and_again_is_told(ray, monkeypatch):
    monkeypatch.setattr(cluster, "_LIVES", 0)

    def begin():
        return lambda item: os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(MarcError, match="lost again and again"):
        list(spread(begin, [1], 1))


@pytest.mark.parametrize("odd", [-1, 1.5, "two", True, 10**6])
def test_no_odd_number_of_workers(odd):
    with pytest.raises(MarcError, match="--ray must be an integer"):
        check_workers(odd)


def test_without_ray_it_is_said_before_any_work(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    assert check_workers(None) is None
    with pytest.raises(MarcError, match=r"not installed(?s:.*)marc-clip\[ray\]"):
        check_workers(0)

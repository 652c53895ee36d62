"""The turns of a memory: in order, bounded, together where several wait, and never lost."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.serving import request, run

from marc.errors import MarcError
from marc.serve.memory.config import Chain
from marc.serve.refused import Refused
from marc.serve.turns import BLOCK, Turns


class _Worker:
    """What a memory would do: it writes down the blocks that came, one thread at a time."""

    def __init__(self):
        self.blocks, self.go, self.inside = [], threading.Event(), 0
        self.go.set()

    def __call__(self, requests):
        self.inside += 1
        assert self.inside == 1
        self.go.wait(5)
        self.blocks.append([each.id for each in requests])
        self.inside -= 1
        odd = {"bad": MarcError("no"), "busy": Refused(503, "away for now", retry_after=1)}
        return [odd.get(each.id) or each.id.encode() for each in requests]


def _run(scenario, limit=100):
    async def main():
        worker = _Worker()
        with ThreadPoolExecutor(3) as pool:
            turns = Turns(pool, worker, limit)
            try:
                await asyncio.wait_for(scenario(turns, worker), 10)
            finally:
                worker.go.set()
                await turns.drained()

    run(main())


def test_what_waits_goes_in_together_and_in_order():
    async def scenario(turns, worker):
        worker.go.clear()
        first = turns.step(request(0, "first"))
        await asyncio.sleep(0.01)
        steps = [turns.step(request(n)) for n in range(BLOCK + 5)]
        assert len(turns) == BLOCK + 5
        assert turns.oldest_age >= 0.01
        worker.go.set()
        assert await first == b"first"
        assert await asyncio.gather(*steps) == [str(n).encode() for n in range(BLOCK + 5)]
        assert [len(block) for block in worker.blocks] == [1, BLOCK, 5]
        assert (len(turns), turns.oldest_age) == (0, 0.0)

    _run(scenario)


def test_what_comes_in_the_same_moment_goes_in_together():
    async def scenario(turns, worker):
        async def soon(n):
            for _ in range(2):  # passes of the event loop, as of a request that is being read
                await asyncio.sleep(0)
            return await turns.step(request(n))

        await asyncio.gather(*map(soon, range(2)), turns.step(request(2)))
        assert worker.blocks == [["2", "0", "1"]]

    _run(scenario)


def test_work_is_done_between_the_steps_around_it():
    async def scenario(turns, worker):
        order = [turns.step(request(1)), turns.do(lambda: worker.blocks.append("work"))]
        order += [turns.step(request(2)), turns.step(request(3))]
        await asyncio.gather(*order)
        assert worker.blocks == [["1"], "work", ["2", "3"]]

    _run(scenario)


def test_one_too_many_is_refused_and_the_others_answered():
    async def scenario(turns, worker):
        worker.go.clear()
        turns.step(request(0))
        await asyncio.sleep(0.01)
        waiting = [turns.step(request(n)) for n in (1, 2)]
        with pytest.raises(Refused) as refused:
            turns.step(request(3))
        assert (refused.value.status, refused.value.retry_after) == (429, 1)
        with pytest.raises(Refused):
            turns.do(lambda: None)
        always = turns.do(lambda: "closed", always=True)
        worker.go.set()
        assert await asyncio.gather(*waiting, always) == [b"1", b"2", "closed"]

    _run(scenario, limit=2)


def test_errors_reach_those_whom_they_concern():
    async def scenario(turns, worker):
        steps = [turns.step(request(1, name)) for name in ("a", "bad", "b")]
        results = await asyncio.gather(*steps, return_exceptions=True)
        assert results[0] == b"a"
        assert isinstance(results[1], MarcError)
        assert results[2] == b"b"

        def fails():
            raise KeyError("x")

        with pytest.raises(KeyError):
            await turns.do(fails)
        with pytest.raises(RuntimeError):  # no future can raise it
            await turns.do(lambda: next(iter([])))
        assert await turns.step(request(2)) == b"2"

    _run(scenario)


def test_a_deadline_that_has_passed_is_refused_before_the_step():
    async def scenario(turns, worker):
        late = turns.step(request(1, deadline=time.monotonic() - 0.001))
        soon = turns.step(request(2, deadline=time.monotonic() + 5))
        with pytest.raises(Refused) as refused:
            await late
        assert refused.value.status == 504
        assert await soon == b"2"
        assert worker.blocks == [["2"]]

    _run(scenario)


def test_who_goes_away_while_waiting_is_left_out_and_while_answered_is_not():
    async def scenario(turns, worker):
        worker.go.clear()
        answered = asyncio.ensure_future(turns.step(request(1)))
        await asyncio.sleep(0.01)
        waiting = turns.step(request(2))
        last = turns.step(request(3))
        answered.cancel()
        waiting.cancel()
        worker.go.set()
        assert await last == b"3"
        assert worker.blocks == [["1"], ["3"]]

    _run(scenario)


def test_nobody_waits_for_threads_that_are_gone():
    async def scenario():
        pool = ThreadPoolExecutor(1)
        turns = Turns(pool, _Worker(), 10)
        pool.shutdown()
        results = await asyncio.wait_for(
            asyncio.gather(turns.step(request(1)), turns.do(lambda: None), return_exceptions=True),
            5,
        )
        assert [type(each) for each in results] == [RuntimeError, RuntimeError]
        assert turns.oldest_age == 0.0

    run(scenario())


def test_after_a_step_that_is_refused_for_now_none_of_its_chain_is_taken():
    async def scenario(turns, worker):
        worker.go.clear()
        chain = Chain()
        names = ["busy", *map(str, range(1, BLOCK))]
        steps = [turns.step(request(0, name, chain=chain)) for name in names]
        await asyncio.sleep(0.05)
        later = [turns.step(request(n, f"later {n}", chain=chain)) for n in range(3)]
        other = turns.step(request(0, "other"))
        worker.go.set()
        assert await other == b"other"
        for each in later:
            with pytest.raises(Refused, match="for now"):
                await each
        assert await steps[1] == b"1"  # it was in the same block, and taken
        with pytest.raises(Refused, match="for now"):
            await steps[0]
        assert worker.blocks[-1] == ["other"]

    _run(scenario)

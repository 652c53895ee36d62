"""Listeners get events in order; a slow one learns how many it missed."""

import asyncio

from helpers.serving import run

from marc.serve.listeners import _MOST, Listener


def test_events_come_in_order_and_end():
    async def scenario():
        everyone = set()
        listener = Listener(everyone)
        assert everyone == {listener}
        listener.tell("step", {"seq": 1})
        waiting = asyncio.ensure_future(listener.get())
        assert await waiting == ("step", {"seq": 1})
        waiting = asyncio.ensure_future(listener.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        listener.tell("step", {"seq": 2})
        assert await waiting == ("step", {"seq": 2})
        listener.tell("step", {"seq": 3})
        waiting = asyncio.ensure_future(listener.get())
        listener.close()
        assert await waiting == ("step", {"seq": 3})  # what was sent before the end arrives
        assert await listener.get() is None
        assert everyone == set()
        listener.close()

    run(scenario())


def test_who_waits_is_woken_by_the_end():
    async def scenario():
        listener = Listener(set())
        waiting = asyncio.ensure_future(listener.get())
        await asyncio.sleep(0)
        listener.close()
        assert await asyncio.wait_for(waiting, 1) is None

    run(scenario())


def test_a_slow_listener_is_bounded_and_learns_what_it_missed():
    async def scenario():
        listener = Listener(set())
        for number in range(_MOST + 7):
            listener.tell("step", {"seq": number})
        received = [await listener.get() for _ in range(_MOST + 1)]
        assert [data["seq"] for _, data in received[:-1]] == list(range(_MOST))
        assert received[-1] == ("missed", {"count": 7})
        listener.tell("step", {"seq": "next"})
        assert await listener.get() == ("step", {"seq": "next"})

    run(scenario())

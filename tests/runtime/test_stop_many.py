"""Stopping many children that wait for one thing: the time grows with their number only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, final

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor

MANY = 200


@final
class Line(deque[Any]):
    """A queue of waiters in asyncio that counts the steps of each search."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def remove(self, value: Any, /) -> None:
        self.steps += self.index(value)
        super().remove(value)


def at_an_event(line: Line) -> Callable[[], Awaitable[object]]:
    event = asyncio.Event()
    setattr(event, "_waiters", line)  # noqa: B010 - it is not declared
    return event.wait


def at_a_queue(line: Line) -> Callable[[], Awaitable[object]]:
    queue: asyncio.Queue[object] = asyncio.Queue()
    setattr(queue, "_getters", line)  # noqa: B010 - it is not declared
    return queue.get


@pytest.mark.parametrize("make", [at_an_event, at_a_queue])
@pytest.mark.parametrize("kill", [False, True])
async def test_nobody_is_sought_among_all_who_wait(
    make: Callable[[Line], Callable[[], Awaitable[object]]], kill: bool
) -> None:
    """Children leave in the order in which they came, so asyncio finds each one at once."""
    line = Line()
    wait = make(line)

    async def child() -> None:
        await wait()

    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        for _ in range(MANY):
            await pool.start_child(ChildSpec("c", child))
        await asyncio.sleep(0)
        assert len(line) == MANY
        if kill:
            pool.kill()
            await pool.wait()
    assert not line
    assert line.steps == 0

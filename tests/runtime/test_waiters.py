"""Waiting among many: a waiter that leaves, in any way, leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from otpy._runtime.waiters import Waiters, wait_among


class Somebody:
    path = "app/somebody"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), LookupError("injected")])
async def test_a_wait_that_is_disturbed_leaves_nothing_behind(error: BaseException) -> None:
    """An error other than a cancellation may end a wait."""
    waiters: Waiters[None] = {}
    waiting = wait_among(waiters, asyncio.get_running_loop(), Somebody())
    waiting.send(None)
    assert len(waiters) == 1
    with pytest.raises(type(error)):
        waiting.throw(error)
    assert not waiters


class _Compared(asyncio.Future[None]):
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        _Compared.comparisons += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)


async def test_one_of_many_leaves_without_being_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of leaving, the total time grows with the number of waiters only."""
    waiters: Waiters[None] = {}
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_future", _Compared)
    waits = [wait_among(waiters, loop, Somebody()) for _ in range(100)]
    for waiting in waits:
        waiting.send(None)
    for waiting in reversed(waits):
        with pytest.raises(asyncio.CancelledError):
            waiting.throw(asyncio.CancelledError())
    assert not waiters
    assert _Compared.comparisons < 100

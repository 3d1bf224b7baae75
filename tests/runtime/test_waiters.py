"""Waiting among many: who stops to wait, in whatever way, leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from otpy._runtime.waiters import wait_among


class Somebody:
    path = "app/somebody"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), LookupError("injected")])
async def test_a_wait_that_is_disturbed_leaves_nothing_behind(error: BaseException) -> None:
    """A fault may end a wait by another error than a cancellation."""
    waiters: list[asyncio.Future[None]] = []
    waiting = wait_among(waiters, asyncio.get_running_loop(), Somebody())
    waiting.send(None)
    assert len(waiters) == 1
    with pytest.raises(type(error)):
        waiting.throw(error)
    assert waiters == []

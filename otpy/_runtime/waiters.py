"""Waiting for something that many may wait for, and that each may stop to wait for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def wait_among(waiters: list[asyncio.Future[T]], loop: asyncio.AbstractEventLoop) -> T:
    """Wait until `release` is called on the same list; disturbed, leave nothing behind in it."""
    waiter: asyncio.Future[T] = loop.create_future()
    waiters.append(waiter)
    try:
        return await waiter
    except BaseException:  # a cancellation, or what a fault puts in its place
        with suppress(ValueError):  # released in the same turn
            waiters.remove(waiter)
        raise


def release(waiters: list[asyncio.Future[T]], value: T) -> None:
    """Hand `value` to all who wait, and forget them."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(value)
    waiters.clear()

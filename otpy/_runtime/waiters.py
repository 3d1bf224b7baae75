"""Waiting for something that many may wait for, and that each may stop to wait for."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeAlias, TypeVar

from otpy.errors import WrongThread

T = TypeVar("T")

Waiters: TypeAlias = dict[asyncio.Future[T], None]
"""The waiting tasks, in order of arrival; one of many leaves without a search."""


class HasPath(Protocol):
    """A process or a supervisor."""

    @property
    def path(self) -> str:
        """Its path in its tree."""
        ...


def check_loop(loop: asyncio.AbstractEventLoop, of: HasPath) -> None:
    """Refuse to wait for `of` outside the loop of its tree: no waiter is woken elsewhere.

    Raises:
        WrongThread: If another loop runs in this thread, or none does.
    """
    if asyncio._get_running_loop() is not loop:  # without an error where none runs
        raise WrongThread(of.path)


async def wait_among(waiters: Waiters[T], loop: asyncio.AbstractEventLoop, of: HasPath) -> T:
    """Wait until `release` is called on the same; disturbed, leave nothing behind in it.

    Raises:
        WrongThread: If `loop`, in which `of` lives, is not the one that runs here.
    """
    check_loop(loop, of)
    waiter: asyncio.Future[T] = loop.create_future()
    waiters[waiter] = None
    try:
        return await waiter
    except BaseException:  # a cancellation, or what a fault puts in its place
        waiters.pop(waiter, None)  # it may have been released in the same turn
        raise


def release(waiters: Waiters[T], value: T) -> None:
    """Hand `value` to all waiters, and forget them."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(value)
    waiters.clear()

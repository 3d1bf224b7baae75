"""Waits for ends: of work that is carried to it in spite of cancellation, and beside a tree."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

if TYPE_CHECKING:
    from otpy import DynamicSupervisor, Supervisor

__all__ = ["OpenedWhole", "to_completion", "wait_beside"]

T = TypeVar("T")


async def to_completion(
    work: Coroutine[Any, Any, T], *, on_cancel: Callable[[], None] | None = None
) -> T:
    """Run `work` to its end, then deliver whatever cancellation arrived meanwhile.

    Cancelling the caller never cancels `work`. The caller goes on waiting, so `work` must end
    by itself in bounded time.

    Args:
        work: A coroutine that has not been started.
        on_cancel: Called at each cancellation, for work that can be hurried.

    Returns:
        The result of `work`, if the caller was not cancelled.

    Raises:
        asyncio.CancelledError: Once, after `work` has ended, if the caller was cancelled at least
            once. An error of `work` takes precedence over it.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    # The shield is for anyio scopes, which cancel again on each turn of the loop until they are
    # obeyed; without it they would make a busy loop of the one below.
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
                if on_cancel is not None:
                    on_cancel()
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


async def wait_beside(
    root: Supervisor | DynamicSupervisor, over: Coroutine[Any, Any, object]
) -> None:
    """Wait until something is over that a tree works on, or the tree itself is.

    Args:
        root: The root of the tree; neither it nor its work is disturbed by a cancellation.
        over: Waits for the first; it is cancelled if the tree ends before.
    """
    either = [asyncio.ensure_future(over), asyncio.ensure_future(root.wait())]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in either:
            one.cancel()


class OpenedWhole(ABC):
    """An async context manager that opens and closes as a whole, however often it is cancelled."""

    @abstractmethod
    async def _open(self) -> None:
        """Open it; `_close` follows if this fails."""

    @abstractmethod
    async def _close(self) -> None:
        """Close what is open of it."""

    async def __aenter__(self) -> Self:
        try:
            await to_completion(self._open())
        except BaseException:
            await to_completion(self._close())
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await to_completion(self._close())

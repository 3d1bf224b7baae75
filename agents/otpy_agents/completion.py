"""Work that, once begun, is carried to its end however often its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

__all__ = ["to_completion"]

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

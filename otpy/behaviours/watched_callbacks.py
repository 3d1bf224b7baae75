"""The callbacks of a server that has a `max_step`: each call of one is a step."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, final

from otpy._runtime.preemption import Steps
from otpy.behaviours.callbacks import RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.callbacks import Callbacks
    from otpy.behaviours.mailbox import Caller


@final
class WatchedCallbacks:
    """Stands for the callbacks of one life of a server; so do its awaitables for theirs."""

    __slots__ = ("_callbacks", "_watched")

    def __init__(self, process: LiveProcess, make: Callable[[], Callbacks]) -> None:
        """Make the callbacks, in a step of `process`.

        Raises:
            CannotInterrupt: If no step could be interrupted.
        """
        self._watched = process.parent.tree.watched(process)
        self._callbacks: Callbacks = self._watched.call(make)

    def _step(self, callback: Callable[..., Any], *args: Any) -> Any:
        try:
            result: Any = self._watched.call(callback, *args)
            if isinstance(result, RESULTS) or not inspect.isawaitable(result):
                return result
            return Steps(self._watched, result)
        except BaseException:
            del self, callback, args  # the frames of a crash must not keep the process
            raise

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Call `init`."""
        return self._step(partial(self._callbacks.init, *args, **kwargs))

    def handle_call(self, request: Any, caller: Caller[Any], state: Any) -> Any:
        """Call `handle_call`."""
        return self._step(self._callbacks.handle_call, request, caller, state)

    def handle_cast(self, request: Any, state: Any) -> Any:
        """Call `handle_cast`."""
        return self._step(self._callbacks.handle_cast, request, state)

    def handle_info(self, message: Any, state: Any) -> Any:
        """Call `handle_info`."""
        return self._step(self._callbacks.handle_info, message, state)

    def handle_continue(self, value: Any, state: Any) -> Any:
        """Call `handle_continue`."""
        return self._step(self._callbacks.handle_continue, value, state)

    def terminate(self, reason: ExitReason, state: Any) -> Any:
        """Call `terminate`."""
        return self._step(self._callbacks.terminate, reason, state)

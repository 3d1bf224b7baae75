"""A behaviour, such as `GenServer`, as the runtime sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otpy._core.reason import ExitReason
    from otpy._runtime.handles import Process


class TaskLike(Protocol):
    """What a process lives in: its task, or a behaviour that needs none yet and stands for one.

    Not to be mixed up with `Life`, which is what a task runs.
    """

    def done(self) -> bool:
        """Whether it is over, even if its end was not told yet."""
        ...

    def cancel(self) -> object:
        """End it, at the latest when the code that it runs just now returns or awaits."""
        ...

    def get_coro(self) -> Any:
        """Return the suspended coroutine in it, for drawing its stack; None if there is none."""
        ...


class Behaviour(Protocol):
    """Takes messages for a process, is told of its stop and of its end, and can be looked into."""

    @property
    def process(self) -> Process:
        """The process; a behaviour stands for that life in its contexts (`OneLife`)."""
        ...

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Start the life that the spec describes, soon, and without a task as long as possible.

        None of its code runs inside this call. It puts itself in the place of a task by
        `Process.task`, and tells by `Process.record_end` that it is over; or it goes on in a task,
        by `Tree.run`. It makes its own copy of the tree's context, and sets `CURRENT` to itself in
        it.
        """
        ...

    def stop(self, reason: ExitReason) -> None:
        """Be asked to end with `reason`; the shutdown limit runs from now on.

        The behaviour is asked by this instead of by cancelling its task, so that it can finish
        what it is doing. When the limit is over its task is cancelled all the same.
        """
        ...

    def expect_stop(self, *, kill: bool) -> None:
        """Take no more requests: a stop is on its way; run no more code if it is a kill."""
        ...

    def ended(self, reason: ExitReason) -> None:
        """Tell waiting callers that the process has ended or was given up."""
        ...

    async def suspend(self, timeout: float | None) -> None:
        """Serve no message until `resume`; wait at most `timeout` seconds for the suspension."""
        ...

    async def resume(self, timeout: float | None) -> None:
        """Go on, with the messages that came meanwhile; wait at most `timeout` seconds for that."""
        ...

    async def get_state(self, timeout: float | None) -> Any:
        """Return its state; wait at most `timeout` seconds for it."""
        ...

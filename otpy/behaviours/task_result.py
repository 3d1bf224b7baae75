"""How a task ended, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, final

from attrs import frozen

from otpy._core.reason import Crashed, Exit, signal_of
from otpy.errors import OtpyError

if TYPE_CHECKING:
    from otpy._core.reason import ExitReason

_T_co = TypeVar("_T_co", covariant=True)


@final
@frozen
class Ok(Generic[_T_co]):
    """The task returned. Elixir's `{:ok, value}`.

    Attributes:
        value: Its result.
    """

    value: _T_co


@final
@frozen
class Exited:
    """The task ended without a result. Elixir's `{:exit, reason}`.

    Attributes:
        reason: Why, as its supervisor saw it.
    """

    reason: ExitReason


@final
class TaskFailed(OtpyError, Exit):
    """An awaited task ended without a result; `__cause__` is its exception.

    Left alone, it ends the process that awaits with the reason of the task (TSK-07), because it
    is an `Exit`: that is what Elixir's `await` does to its caller. A task that had to be given up
    counts as killed.

    Attributes:
        path: Path of the task.
        reason: The exit reason that it hands on.
    """

    def __init__(self, path: str, reason: ExitReason) -> None:
        """Tell that the task at `path` ended with `reason`."""
        super().__init__(signal_of(reason) or reason)
        self.args = (f"{path}: the task ended without a result: {reason}",)
        self.path = path
        if isinstance(reason, Crashed):
            self.__cause__ = reason.error

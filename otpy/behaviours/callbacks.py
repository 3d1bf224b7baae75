"""The callbacks of a server, and their possible results (GEN-01, GEN-09)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

from otpy._core.checks import is_number
from otpy._core.reason import ExitReason
from otpy.behaviours.mailbox import Call, Cast, Continue, Info
from otpy.behaviours.results import NO_ANSWER, Init, NoReply, Reply, Stop
from otpy.errors import StepOverran

if TYPE_CHECKING:
    from otpy.behaviours.results import CallResult

Served: TypeAlias = Call | Cast | Info | Continue
"""The messages that have a callback."""

CRASHES: Final = (Exception, SystemExit, StepOverran)
"""The exceptions that crash a server, after its `terminate` (GEN-21)."""

RESULTS: Final[Any] = (Reply, NoReply, Stop)
"""What a `handle_…` may return; for `isinstance`, which takes a union three times as long."""


TURN: Final = range(64)
"""Messages in a row before the rest of the loop has its turn."""

MORE: Final = object()
"""Why a server pauses whose turn is over."""


class Callbacks(Protocol):
    """What serves the messages of a server: a `GenServer`, or what stands around one."""

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Return the first state."""
        ...

    def handle_call(self, request: Any, caller: Any, state: Any, /) -> Any:
        """Serve a call."""
        ...

    def handle_cast(self, request: Any, state: Any, /) -> Any:
        """Serve a cast."""
        ...

    def handle_info(self, message: Any, state: Any, /) -> Any:
        """Serve any other message."""
        ...

    def handle_continue(self, value: Any, state: Any, /) -> Any:
        """Go on."""
        ...

    def terminate(self, reason: ExitReason, state: Any, /) -> Any:
        """Clean up."""
        ...


def kind_of(message: Served) -> str:
    """Return the name of what `message` is."""
    return "Cast" if isinstance(message, tuple) else type(message).__name__


def is_init(result: object) -> TypeGuard[Init[Any]]:
    """Whether `result` is what only `init` may return."""
    return isinstance(result, Init)


def is_stop(came: object) -> TypeGuard[Stop[Any, Any]]:
    """Whether a callback has said that it is over."""
    return isinstance(came, Stop)


def fits(result: CallResult[Any, Any], message: Served) -> bool:
    """Whether `result` may be returned for `message`: only a call can be replied to."""
    if isinstance(result, Stop):
        answers = isinstance(message, Call) or result.reply is NO_ANSWER
        return answers and isinstance(result.reason, ExitReason)  # pyright: ignore[reportUnnecessaryIsInstance]
    if result.timeout is not None and not is_time(result.timeout):
        return False
    return isinstance(result, NoReply) or isinstance(message, Call)


def is_time(timeout: object) -> bool:
    """Whether `timeout` is an idle timeout."""
    return timeout is None or (is_number(timeout) and timeout >= 0)

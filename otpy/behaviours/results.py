"""The results of a `GenServer`'s callbacks (GEN-01, GEN-09), as immutable values.

`Reply` and `NoReply` are made for nearly every message, and attrs takes three times as long to make
a frozen object as one that is not. So what they are made of is in attributes with other names,
which only the server reads, and the public ones are properties, which nobody can set.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Generic, Never, TypeAlias, TypeVar, final

from attrs import define, field, fields, frozen

from otpy._core.reason import ExitReason

ReplyT_co = TypeVar("ReplyT_co", covariant=True)
StateT_co = TypeVar("StateT_co", covariant=True)
R = TypeVar("R")
S = TypeVar("S")


class IdleTimeout(Enum):
    """The type of `TIMEOUT`."""

    TIMEOUT = "timeout"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


TIMEOUT: Final = IdleTimeout.TIMEOUT
"""What `handle_info` gets when no message came within the idle timeout (GEN-18)."""


class Unreplied(Enum):
    """The type of `NO_ANSWER`."""

    NO_ANSWER = "no answer"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


NO_ANSWER: Final = Unreplied.NO_ANSWER
"""As `Stop.reply`: do not reply; None is an answer."""


def _shown(result: Any) -> str:
    """Return a result as it was made."""
    made = result.__class__
    given = (f"{one.alias}={getattr(result, one.name)!r}" for one in fields(made))
    return f"{made.__name__}({', '.join(given)})"


@final
@frozen
class Init(Generic[StateT_co]):
    """From `init`: the server is ready, and there is more to say than its state.

    Attributes:
        state: The first state.
        continue_with: Handed to `handle_continue`, after the starter was told and before any
            message is served (GEN-07); None is nothing. OTP's `{continue, Value}`.
        timeout: Idle timeout, in seconds: if no message comes for so long, `handle_info` gets
            `TIMEOUT`; None is none (GEN-18).
    """

    state: StateT_co
    continue_with: Any = field(default=None, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)


@final
@define(unsafe_hash=True, repr=False, match_args=False)
class Reply(Generic[ReplyT_co, StateT_co]):
    """From `handle_call`: reply to the caller and go on."""

    __match_args__ = ("value", "state")

    value_: ReplyT_co = field(alias="value")
    state_: StateT_co = field(alias="state")
    next_: Any = field(default=None, alias="continue_with", kw_only=True)
    timeout_: float | None = field(default=None, alias="timeout", kw_only=True)

    @property
    def value(self) -> ReplyT_co:
        """The reply; it is sent before anything else is done."""
        return self.value_

    @property
    def state(self) -> StateT_co:
        """The new state."""
        return self.state_

    @property
    def continue_with(self) -> Any:
        """Handed to `handle_continue` before any further message; None is nothing."""
        return self.next_

    @property
    def timeout(self) -> float | None:
        """Idle timeout, in seconds; None is none."""
        return self.timeout_

    def __repr__(self) -> str:
        """Return how it was made."""
        return _shown(self)


@final
@define(unsafe_hash=True, repr=False, match_args=False)
class NoReply(Generic[StateT_co]):
    """From any `handle_…`: go on. A caller is replied to later, by `Caller.reply`."""

    __match_args__ = ("state",)

    state_: StateT_co = field(alias="state")
    next_: Any = field(default=None, alias="continue_with", kw_only=True)
    timeout_: float | None = field(default=None, alias="timeout", kw_only=True)

    @property
    def state(self) -> StateT_co:
        """The new state."""
        return self.state_

    @property
    def continue_with(self) -> Any:
        """Handed to `handle_continue` before any further message; None is nothing."""
        return self.next_

    @property
    def timeout(self) -> float | None:
        """Idle timeout, in seconds; None is none."""
        return self.timeout_

    def __repr__(self) -> str:
        """Return how it was made."""
        return _shown(self)


@final
@frozen
class Stop(Generic[ReplyT_co, StateT_co]):
    """From any `handle_…`: call `terminate` and end.

    Attributes:
        reason: The exit reason its supervisor will see.
        state: The state that `terminate` gets.
        reply: From `handle_call`: the reply, sent when `terminate` is over, also if it failed
            (GEN-10). Without one the caller gets `CallFailed` with the reason (GEN-11).
    """

    reason: ExitReason
    state: StateT_co
    reply: ReplyT_co | Unreplied = NO_ANSWER


CallResult: TypeAlias = Reply[R, S] | NoReply[S] | Stop[R, S]
"""What `handle_call` returns, of a server that replies `R` and keeps `S`."""

Result: TypeAlias = NoReply[S] | Stop[Never, S]
"""The result of the other callbacks, for a server with state `S`."""

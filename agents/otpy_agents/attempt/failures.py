"""The classes a failed attempt may fall into, and what each of them means for the run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from attrs import frozen

__all__ = [
    "ACCOUNT_FAILURES",
    "ERROR_TYPES",
    "Classification",
    "Detail",
    "ErrorType",
    "error_table",
]


class ErrorType(StrEnum):
    """The five classes of RUN-37; the run decides by these."""

    RETRYABLE = "retryable"
    """Trying again may help."""
    RATE_LIMIT = "rate_limit"
    """Waiting helps; it is not a crash and sets a cooldown (C-15)."""
    AGENT_FAILURE = "agent_failure"
    """This agent cannot do it; the next one in the chain may (C-04)."""
    FATAL = "fatal"
    """No retry helps: somebody has to act first (RUN-50)."""
    CONTAINER_CRASH = "container_crash"
    """The process or its container was killed from outside or broke down (RUN-40)."""


class Detail(StrEnum):
    """What went wrong, finer than `ErrorType`."""

    AUTH = "auth"
    """No credentials, wrong ones, or ones that may not do this."""
    BILLING = "billing"
    """The account cannot pay: no credit, no plan, no service in this country."""
    QUOTA = "quota"
    """An allowance is used up; waiting takes long."""
    RATE_LIMIT = "rate_limit"
    """Too many requests at once; waiting is short."""
    OVERLOADED = "overloaded"
    """The vendor has no capacity at the moment."""
    SERVER_ERROR = "server_error"
    """The vendor's server failed."""
    NETWORK = "network"
    """No connection, a lost one, or no answer in time."""
    PROTOCOL = "protocol"
    """An answer that cannot be read, or that stopped half-way."""
    CONTEXT_OVERFLOW = "context_overflow"
    """Prompt and history do not fit into the model."""
    MODEL_UNAVAILABLE = "model_unavailable"
    """The model does not exist, or not for this account."""
    USAGE = "usage"
    """The CLI was called wrongly, cannot be started or refuses its folder."""
    SESSION_INVALID = "session_invalid"
    """The session to resume is not there."""
    SESSION_CONFLICT = "session_conflict"
    """The session is in use by somebody else."""
    BUDGET = "budget"
    """A limit that was set for this run: money or turns."""
    NO_RESULT = "no_result"
    """The CLI claims success and has no answer, or never said that it was done."""
    TOOLS_DENIED = "tools_denied"
    """The CLI claims success, and tools it wanted were refused."""
    CRASH = "crash"
    """Killed for its memory, by a signal, or broken down."""
    UNKNOWN = "unknown"
    """It failed, and nothing says why."""


ERROR_TYPES: Final[Mapping[Detail, ErrorType]] = MappingProxyType(
    {
        Detail.AUTH: ErrorType.FATAL,
        Detail.BILLING: ErrorType.FATAL,
        Detail.QUOTA: ErrorType.RATE_LIMIT,
        Detail.RATE_LIMIT: ErrorType.RATE_LIMIT,
        Detail.OVERLOADED: ErrorType.RETRYABLE,
        Detail.SERVER_ERROR: ErrorType.RETRYABLE,
        Detail.NETWORK: ErrorType.RETRYABLE,
        Detail.PROTOCOL: ErrorType.RETRYABLE,
        Detail.CONTEXT_OVERFLOW: ErrorType.FATAL,
        Detail.MODEL_UNAVAILABLE: ErrorType.FATAL,
        Detail.USAGE: ErrorType.AGENT_FAILURE,
        Detail.SESSION_INVALID: ErrorType.RETRYABLE,
        Detail.SESSION_CONFLICT: ErrorType.RETRYABLE,
        Detail.BUDGET: ErrorType.FATAL,
        Detail.NO_RESULT: ErrorType.AGENT_FAILURE,
        Detail.TOOLS_DENIED: ErrorType.AGENT_FAILURE,
        Detail.CRASH: ErrorType.CONTAINER_CRASH,
        Detail.UNKNOWN: ErrorType.RETRYABLE,
    }
)
"""What the run does about each detail (C-03); complete."""

ACCOUNT_FAILURES: Final = frozenset({Detail.AUTH, Detail.BILLING})
"""What is wrong with the account, whatever it is asked: a person has to act, no time helps."""


def error_table() -> str:
    """Return `ERROR_TYPES` as text for people, one line for each detail."""
    width = max(len(detail) for detail in Detail)
    return "\n".join(f"{detail:<{width}}  {ERROR_TYPES[detail]}" for detail in Detail)


@frozen(kw_only=True)
class Classification:
    """The verdict on one ended attempt.

    Attributes:
        detail: What went wrong; None for success.
        message: The words it was judged by, or a sentence of ours; empty for success.
        retry_after: Seconds the vendor asks to wait; None if nothing says so.
        named: Whether they end at a moment that the vendor named, as "3pm", by the wall clock.
    """

    detail: Detail | None = None
    message: str = ""
    retry_after: float | None = None
    named: bool = False

    @property
    def error_type(self) -> ErrorType | None:
        """The class of RUN-37 the detail belongs to; None for success."""
        return None if self.detail is None else ERROR_TYPES[self.detail]

    @property
    def succeeded(self) -> bool:
        """Whether the attempt succeeded, as far as the CLI can tell."""
        return self.detail is None

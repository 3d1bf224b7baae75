"""The messages of an operator socket: one line of JSON in, one line of JSON out."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from otpy_agents.errors import CommandRefused

__all__ = [
    "ANSWER_LIMIT",
    "LINE_LIMIT",
    "VERSION",
    "Answer",
    "Argument",
    "CommandRefusal",
    "OperatorRequest",
    "refused",
]

VERSION: Final = 1
"""Version of the messages; both ends must speak the same."""

LINE_LIMIT: Final = 64 * 1024
"""Bytes that a request may have, with its line end."""

ANSWER_LIMIT: Final = 4 * 1024 * 1024
"""Bytes that an answer may have, with its line end."""

# bool before the numbers: early pydantic 2 takes the first that `true` can be turned into.
Argument: TypeAlias = str | bool | int | float | None

_SHOWN: Final = 60


class CommandRefusal(StrEnum):
    """Why a command was not, or not wholly, carried out: `CommandRefused.reason`."""

    MALFORMED = "malformed"
    """The line was not a request of our version, was too long, or did not come."""
    FOREIGN = "foreign"
    """The socket is another user's."""
    BUSY = "busy"
    """Too many are talking to the host; try again."""
    UNKNOWN = "unknown"
    """This host has no such command."""
    NOT_FOUND = "not_found"
    """There is nobody of the name it is about."""
    REFUSED = "refused"
    """The command cannot be done, for the reason given."""
    FAILED = "failed"
    """It was tried, and failed or took too long."""


class _Message(BaseModel):
    """A field's description is the wanted value in its error message."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, allow_inf_nan=False)


class _Versioned(_Message):
    version: int = Field(description=f"the number {VERSION}")


class OperatorRequest(_Message):
    """A command.

    Attributes:
        version: See `VERSION`.
        command: Its name.
        arguments: By name.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid")

    version: int = VERSION
    command: str = Field(min_length=1, max_length=100, description="the name of a command")
    arguments: dict[str, Argument] = Field(
        default_factory=dict[str, Argument],
        description="an object of texts, numbers, true, false or null",
    )

    def line(self) -> bytes:
        """Return it as it is sent.

        Raises:
            CommandRefused: If it is too long.
        """
        line = self.model_dump_json().encode() + b"\n"
        if len(line) > LINE_LIMIT:
            raise CommandRefused(too_long(), CommandRefusal.MALFORMED)
        return line

    @classmethod
    def read(cls, line: bytes) -> OperatorRequest:
        """Return the request of a line.

        Raises:
            CommandRefused: If it is none; the message names the first thing to mend.
        """
        text = line.decode("utf-8", "replace").rstrip("\n")
        try:
            version = _Versioned.model_validate_json(text).version
            if version != VERSION:
                wanted = f"wanted {VERSION}; use one otpy-tree on both ends"
                raise CommandRefused(f"version: got {version}, {wanted}", CommandRefusal.MALFORMED)
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise CommandRefused(_explain(error), CommandRefusal.MALFORMED) from None


class Answer(_Message):
    """What became of a command.

    Attributes:
        version: See `VERSION`.
        ok: Whether it was carried out.
        answer: Its answer; None if it was not carried out.
        reason: Why it was not; empty if it was.
        message: The same in words.
    """

    version: int = VERSION
    ok: bool
    answer: JsonValue = None
    reason: str = ""
    message: str = ""

    def line(self) -> bytes:
        """Return it as a line to send, or an error if that is too long."""
        line = self.model_dump_json().encode() + b"\n"
        if len(line) > ANSWER_LIMIT:
            message = f"got an answer of {len(line)} bytes, wanted at most {ANSWER_LIMIT}"
            return refused(CommandRefusal.FAILED, message).line()
        return line


def refused(reason: str, message: str) -> Answer:
    """Return the answer to a command that was not carried out."""
    return Answer(ok=False, reason=reason, message=message)


def too_long() -> str:
    """Return the error for a line that is too long."""
    return f"got a line of more than {LINE_LIMIT} bytes, wanted a shorter one"


def _explain(error: ValidationError) -> str:
    """Return the first finding in one line."""
    details = error.errors(include_url=False)[0]
    if not details["loc"]:
        return f"got {_shown(details['input'])}, wanted a line with one JSON object"
    name = str(details["loc"][0])
    place = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return (
            f"{place}: got an unknown key, wanted one of {', '.join(OperatorRequest.model_fields)}"
        )
    field = (
        OperatorRequest.model_fields[name] if name != "version" else _Versioned.model_fields[name]
    )
    got = "nothing" if details["type"] == "missing" else _shown(details["input"])
    return f"{name}: got {got}, wanted {field.description}"


def _shown(value: Any) -> str:
    """Return a value as JSON, which has no control characters, cut to a readable length."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

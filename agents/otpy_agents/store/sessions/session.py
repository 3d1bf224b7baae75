"""A stored session as a value, and as text with a version and a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from attrs import Attribute, field, fields, frozen, validators

from otpy_agents.errors import InvalidSession

__all__ = ["CHECKPOINT_LIMIT", "JSON", "NEWEST", "Broken", "StoredSession", "decode", "encode"]

JSON: TypeAlias = (
    "bool | int | float | str | tuple[JSON, ...] | list[JSON] | Mapping[str, JSON] | None"
)
"""The type of a checkpoint. A tuple comes back as a list."""

NEWEST: Final = 1
"""Version this code writes. It is raised with every change of the fields, with an upcaster."""

UPCASTERS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""What makes the fields of a version into those of the next one, by the older version."""

CHECKPOINT_LIMIT: Final = 16_384
"""Most characters a checkpoint may have as JSON; it is shown to the agent as a whole."""


class Broken(Exception):
    """The stored session is corrupt; the message says what was found instead."""


def _text(session: StoredSession, attribute: Attribute[str], value: str) -> None:
    empty = not value and attribute.name != "summary"
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidSession(session.agent, attribute.name, repr(value), "Unicode text") from None
    if empty:
        raise InvalidSession(session.agent, attribute.name, "''", "some text")


def _json(session: StoredSession, _attribute: object, value: JSON) -> None:
    try:
        length = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        got = f"{value!r:.100} ({error})"
        raise InvalidSession(session.agent, "checkpoint", got, "a JSON value") from None
    if length > CHECKPOINT_LIMIT:
        wanted = f"at most {CHECKPOINT_LIMIT}"
        raise InvalidSession(session.agent, "checkpoint", f"of {length} characters", wanted)


def _version(session: StoredSession, _attribute: object, value: int) -> None:
    if value != NEWEST:
        raise InvalidSession(session.agent, "version", repr(value), str(NEWEST))


@frozen(kw_only=True)
class StoredSession:
    """The data that an agent's next life needs to continue where the last one ended.

    Attributes:
        agent: Unique key of the agent, for example `project/assignment`.
        cli: Name of the adapter whose CLI made the session; no other can resume it.
        session_id: The id by which that CLI resumes it.
        summary: Where the agent stood, in a few words for it to read; may be empty.
        saved_at: When it was saved, in Unix seconds.
        checkpoint: A value the agent has left for itself; None if it has not.
        version: Version of these fields; older stored ones are turned into the newest on loading.

    Raises:
        InvalidSession: If a text is empty or not Unicode, the checkpoint is not JSON or longer than
            `CHECKPOINT_LIMIT`, or the version is not the newest.
    """

    agent: str = field(validator=_text)
    cli: str = field(validator=_text)
    session_id: str = field(validator=_text)
    summary: str = field(default="", validator=_text)
    saved_at: float = field(converter=float)
    checkpoint: JSON = field(default=None, validator=validators.optional(_json))
    version: int = field(factory=lambda: NEWEST, validator=_version)


def encode(session: StoredSession) -> str:
    """Return a session as one line of JSON."""
    kept = {name: getattr(session, name) for name in _NAMES}
    return json.dumps(
        {"version": session.version, "checksum": _checksum(session.version, kept), "session": kept}
    )


def decode(text: bytes, agent: str | None) -> StoredSession:
    """Return the session that `encode` made into `text`, perhaps an older version of it.

    Args:
        text: As it was stored.
        agent: The agent that it must belong to; None for any.

    Raises:
        Broken: It is none.
    """
    try:
        read = cast("object", json.loads(text.decode()))
    except (ValueError, RecursionError) as error:
        raise Broken(f"{len(text)} bytes that are not JSON ({error})") from error
    if not isinstance(read, dict):
        raise Broken("JSON that is not an object")
    outer = cast("dict[str, object]", read)
    version, kept = outer.get("version"), outer.get("session")
    if type(version) is not int or version < 1 or not isinstance(kept, dict):
        raise Broken("an object without version and session")
    inner = cast("dict[str, Any]", kept)
    if outer.get("checksum") != _checksum(version, inner):
        raise Broken("a wrong checksum")
    if version > NEWEST:
        raise Broken(f"version {version}, newer than {NEWEST}")
    for older in range(version, NEWEST):
        inner = UPCASTERS[older](inner)
    if inner.keys() != set(_NAMES):
        raise Broken(f"the fields {', '.join(sorted(inner))}")
    if agent is not None and inner["agent"] != agent:
        raise Broken(f"the session of {inner['agent']!r}")
    try:
        return StoredSession(**inner)
    except (TypeError, ValueError, AttributeError) as error:
        raise Broken(f"fields that do not fit ({error})") from error


def _checksum(version: int, kept: Mapping[str, Any]) -> str:
    """Return the checksum of the fields, which does not depend on how they were laid out."""
    canonical = json.dumps([version, kept], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


_NAMES: Final = tuple(one.name for one in fields(StoredSession) if one.name != "version")

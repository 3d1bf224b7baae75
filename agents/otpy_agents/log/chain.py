"""The chain of hashes: each event carries the hash of itself and of the one before it (G-14).

Pure. The text that is hashed is the JSON list of what the event says, so that any program can
compute it again: position, stream, version, event_type, schema, timestamp, workflow_id, role,
step_id, component, status, the payload as text, actor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final

from otpy_agents.errors import LogTampered

__all__ = ["FIRST", "HASHED", "Chain", "canonical", "hash_of", "line_of", "row_of", "verified"]

HASHED: Final = (
    *("position", "stream", "version", "event_type", "schema", "timestamp"),
    *("workflow_id", "role", "step_id", "component", "status", "payload", "actor"),
)
"""The columns that are hashed, in this order."""

FIRST: Final = bytes(32)
"""The hash before the first event."""


def canonical(value: object) -> str:
    """Return the one JSON text for a value: sorted keys, no spaces, every character as it is.

    Raises:
        ValueError: It holds a number that JSON has not.
    """
    return _ENCODER.encode(value)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


_quoted: Final = json.encoder.encode_basestring


def hash_of(previous: bytes, values: Sequence[object]) -> bytes:
    """Return the hash of an event.

    Args:
        previous: That of the one before it; `FIRST` before the first.
        values: Of its columns, in the order of `HASHED`; the payload as text.
    """
    # What `canonical` returns for such a list, in half the time: it is done for each event.
    text = ",".join(
        [_quoted(v) if isinstance(v, str) else "null" if v is None else repr(v) for v in values]
    )
    return hashlib.sha256(previous + f"[{text}]".encode("utf-8", "surrogatepass")).digest()


def line_of(previous: bytes, row: Mapping[str, Any]) -> str:
    """Return an event as a line of JSON that carries the chain; `row_of` reads it."""
    told = {name: row[name] for name in HASHED} | {"payload": json.loads(row["payload"])}
    return canonical({**told, "previous": previous.hex(), "hash": row["hash"].hex()})


def row_of(line: str) -> tuple[bytes, dict[str, Any]]:
    """Return the hash before an event, and the event, of a line.

    Raises:
        ValueError: It is no such line.
    """
    try:
        told = json.loads(line)
        row = {name: told[name] for name in HASHED}
        row["payload"] = canonical(row["payload"])
        row["hash"] = bytes.fromhex(told["hash"])
        return bytes.fromhex(told["previous"]), row
    except (KeyError, TypeError, AttributeError) as error:
        message = f"got {line[:80]!r}, wanted an event with its chain ({error!r})"
        raise ValueError(message) from error


@final
class Chain:
    """Follows a chain, event by event, and finds the first that does not fit.

    Args:
        position: Of the event before the first one that is shown.
        last: Its hash.
    """

    def __init__(self, position: int = 0, last: bytes = FIRST) -> None:
        self.position = position
        self.last = last

    def take(self, row: Mapping[str, Any]) -> None:
        """Take the next event.

        Raises:
            LogTampered: It is not the next one, or is not what was written.
        """
        position = int(row["position"])
        if position != self.position + 1:
            raise LogTampered(position, f"it after event {self.position}", "none left out")
        wanted = hash_of(self.last, [row[name] for name in HASHED])
        if row["hash"] != wanted:
            got = f"the hash {row['hash'].hex()[:12]}"
            raise LogTampered(position, got, f"{wanted.hex()[:12]}: it was changed or replaced")
        self.position, self.last = position, wanted

    def skip(self, position: int, last: bytes) -> None:
        """Skip an archived event, of which only the hash is kept.

        Raises:
            LogTampered: It is not the next one.
        """
        if position != self.position + 1:
            raise LogTampered(position, f"it after event {self.position}", "none left out")
        self.position, self.last = position, last


def verified(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of exported lines, each checked against the hash before it.

    Lines of one stream alone have gaps, so each line is checked by itself, and where one position
    follows the other also against the line before.

    Raises:
        LogTampered: A line was changed, or put elsewhere.
        ValueError: A line is not an event.
    """
    before: tuple[int, bytes] | None = None
    for line in lines:
        previous, row = row_of(line)
        position = int(row["position"])
        if before is not None and position <= before[0]:
            raise LogTampered(position, f"it after event {before[0]}", "events in their order")
        if before is not None and position == before[0] + 1 and previous != before[1]:
            raise LogTampered(position, "another event before it", "the one it was written after")
        Chain(position - 1, previous).take(row)
        before = position, row["hash"]
        yield row

"""An event as it stands in the log, and events that are to stand there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from attrs import field, frozen

from otpy_agents.log.chain import HASHED
from otpy_agents.log.types import COLUMNS

if TYPE_CHECKING:
    from otpy_agents.log.types import Catalogue, Plain

__all__ = ["ROW", "Append", "Stored"]

ROW: Final = (*HASHED, "hash")
"""The columns of `events`, in the order in which they stand there."""

_decode: Final = json.JSONDecoder().raw_decode  # a payload is what `canonical` made: no spaces


@final
@frozen
class Append:
    """The events to append to one stream.

    Attributes:
        stream: Which; it begins with its first event.
        events: In their order, each of a type of the log's catalogue.
        expected: Version the stream must have, 0 for a new one; None if any will do.
        actor: The author; empty for the program itself.
    """

    stream: str
    events: Sequence[object]
    expected: int | None = None
    actor: str = ""


@final
@frozen
class Stored:
    """An event of the log.

    Attributes:
        position: From 1, without gaps, in the order of all events.
        stream: Its stream.
        version: Its number within the stream, from 1.
        name: Of its type.
        schema: Version of the form it is stored in.
        at: When it was appended, in Unix seconds.
        actor: Who did it; empty for the program itself.
        fields: Its content, as stored, without secrets.
        hash: Of it and of all before it.
        types: The types that `event` knows.
    """

    position: int
    stream: str
    version: int
    name: str
    schema: int
    at: float
    actor: str
    fields: Plain
    hash: bytes
    types: Catalogue = field(repr=False, eq=False)

    @property
    def event(self) -> object:
        """The event itself, in the form its type has now.

        Raises:
            UnknownEvent: Its type is unknown here.
            EventTooNew: A newer program wrote it.
            EventCorrupt: It has not the fields of its type.
        """
        return self.types.event(self.position, self.name, self.schema, self.fields)

    def plain(self) -> Plain:
        """Return it as `json.dumps` takes it: the columns of `events`, the payload as an object."""
        columns = {name: self.fields.get(name) for name in COLUMNS}
        rest = {key: value for key, value in self.fields.items() if columns.get(key) is None}
        return {
            "position": self.position,
            "stream": self.stream,
            "version": self.version,
            "event_type": self.name,
            "schema": self.schema,
            "timestamp": self.at,
            **columns,
            "payload": rest,
            "actor": self.actor,
            "hash": self.hash.hex(),
        }

    @classmethod
    def of(cls, values: Iterable[Any], types: Catalogue) -> Stored:
        """Return the event of a row of `events`: its values in the order of `ROW`."""
        position, stream, version, name, schema, at, *rest = values
        workflow_id, role, step_id, component, status, payload, actor, hashed = rest
        fields: Plain = _decode(payload)[0]
        if workflow_id is not None:  # one by one, for speed: this is done for each event read
            fields["workflow_id"] = workflow_id
        if role is not None:
            fields["role"] = role
        if step_id is not None:
            fields["step_id"] = step_id
        if component is not None:
            fields["component"] = component
        if status is not None:
            fields["status"] = status
        return cls(position, stream, version, name, schema, at, actor, fields, hashed, types)

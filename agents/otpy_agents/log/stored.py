"""An event as it stands in the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from attrs import field, frozen

from otpy_agents.log.types import COLUMNS

if TYPE_CHECKING:
    from otpy_agents.log.types import Catalogue, Plain

__all__ = ["Stored"]


@final
@frozen(kw_only=True)
class Stored:
    """An event of the log.

    Attributes:
        position: From 1, without gaps, in the order of all events.
        stream: What it belongs to.
        version: Its number within the stream, from 1.
        name: Of its type.
        schema: Version of the form it is stored in.
        at: When it was appended, in Unix seconds.
        actor: Who did it; empty for the program itself.
        fields: What it says, as stored, secrets left out.
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
    def of(cls, row: Mapping[str, Any], types: Catalogue) -> Stored:
        """Return the event of a row of `events`."""
        columns = {name: row[name] for name in COLUMNS if row[name] is not None}
        fields = {**json.loads(row["payload"]), **columns}
        return cls.new(row, fields, types)

    @classmethod
    def new(cls, row: Mapping[str, Any], fields: Plain, types: Catalogue) -> Stored:
        """Return the event of a row whose fields are known."""
        return cls(
            position=row["position"],
            stream=row["stream"],
            version=row["version"],
            name=row["event_type"],
            schema=row["schema"],
            at=row["timestamp"],
            actor=row["actor"],
            fields=fields,
            hash=row["hash"],
            types=types,
        )

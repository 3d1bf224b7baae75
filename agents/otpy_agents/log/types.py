"""Types of events: their names, the versions of their forms, and how old forms are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, cast, final

import attrs
from attrs import frozen

from otpy_agents.attrs_json import from_plain, to_plain
from otpy_agents.errors import (
    EventCorrupt,
    EventTooNew,
    InvalidEventType,
    RunStateCorrupt,
    UnknownEvent,
)

__all__ = ["COLUMNS", "Catalogue", "Plain", "Told", "Upcaster", "event_type"]

Plain: TypeAlias = dict[str, Any]
"""The fields of an event as JSON has them."""
Upcaster: TypeAlias = Callable[[Plain], Plain]
"""Makes the fields of one version into those of the next."""
T = TypeVar("T")

COLUMNS: Final = ("workflow_id", "role", "step_id", "component", "status")
"""Fields that have a column of their own in the table `events` (ENG-09)."""


@final
@frozen
class _Type:
    name: str
    version: int
    kind: type
    upcasters: Mapping[int, Upcaster]


_TYPES: dict[type, _Type] = {}


def event_type(
    name: str, *, version: int = 1, upcasters: Mapping[int, Upcaster] | None = None
) -> Callable[[type[T]], type[T]]:
    """Make a frozen attrs class a type of event; a decorator.

    Its fields are what `attrs_json` can store. Those called `workflow_id`, `role`, `step_id`,
    `component` and `status` are columns of `events`, and so text or None; the rest is the payload.

    Args:
        name: As it stands in the log, `step_completed`; it never changes.
        version: Of the form the class has now, from 1.
        upcasters: For each older version, how its fields become those of the next (G-15).

    Raises:
        InvalidEventType: An older version could not be read.
    """
    known = dict(upcasters or {})
    if set(known) != set(range(1, version)):
        wanted = f"one for each version before {version}"
        raise InvalidEventType(name, f"upcasters for {sorted(known)}", wanted)

    def decorate(kind: type[T]) -> type[T]:
        if not attrs.has(cast("type", kind)):
            raise InvalidEventType(name, kind.__name__, "an attrs class")
        _TYPES[kind] = _Type(name, version, kind, MappingProxyType(known))
        return kind

    return decorate


@final
@frozen
class Told:
    """An event of a type without a class, because only people read it.

    Attributes:
        name: Of the type.
        fields: As JSON has them.
    """

    name: str
    fields: Plain


@final
class Catalogue:
    """The types that a program knows.

    Args:
        kinds: Classes that `event_type` has decorated.

    Raises:
        InvalidEventType: One of them is none, or two have the same name.
    """

    def __init__(self, kinds: Iterable[type]) -> None:
        self._by_name: dict[str, _Type] = {}
        for kind in kinds:
            found = _TYPES.get(kind)
            if found is None:
                raise InvalidEventType(kind.__name__, "a class", "one with @event_type")
            if found.name in self._by_name:
                raise InvalidEventType(found.name, "the name twice", "one class for each name")
            self._by_name[found.name] = found

    def plain(self, event: object) -> tuple[str, int, Plain]:
        """Return name, version and fields of an event.

        Raises:
            InvalidEventType: It is of no type of this catalogue.
        """
        if isinstance(event, Told):
            return event.name, 1, event.fields
        found = _TYPES.get(type(event))
        if found is None or self._by_name.get(found.name) is not found:
            raise InvalidEventType(type(event).__name__, "an event", "one of a known type")
        return found.name, found.version, to_plain(event)

    def event(self, position: int, name: str, version: int, fields: Plain) -> object:
        """Return the event that was stored, in the form its type has now.

        Raises:
            UnknownEvent: Its type is not in this catalogue.
            EventTooNew: It was stored in a version that is not known yet.
            EventCorrupt: It has not the fields of its type.
        """
        found = self._by_name.get(name)
        if found is None:
            raise UnknownEvent(position, name)
        if version > found.version:
            raise EventTooNew(position, name, version, found.version)
        try:
            for older in range(version, found.version):
                fields = found.upcasters[older](fields)
            return cast("object", from_plain(found.kind, fields, name))
        except (RunStateCorrupt, KeyError, TypeError, ValueError) as error:
            raise EventCorrupt(position, name, str(error)) from error

"""In which order the components of a plan are worked on: phase by phase, then by `depends_on`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, Protocol, TypeAlias

from attrs import frozen

__all__ = [
    "ID",
    "IDS",
    "Dependent",
    "OrderFault",
    "PhasedComponents",
    "order_fault",
    "requirements",
]

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""The id of a component, of a phase or of a feature."""
IDS: Final = "an id of letters, digits, '.', '_' and '-', at most 80"
"""The same in words, for errors."""

_CUT: Final = 60


class Dependent(Protocol):
    """A component, as far as its place in the order goes."""

    @property
    def id(self) -> str:
        """What others name it by."""
        ...

    @property
    def depends_on(self) -> Sequence[str]:
        """Ids of those that have to be complete before it begins."""
        ...


PhasedComponents: TypeAlias = Sequence[Sequence[Dependent]]
"""The components of one feature, phase by phase."""


@frozen
class OrderFault:
    """Why the components of a plan have no order.

    Attributes:
        component: Id of the one at fault.
        got: What it says.
        wanted: What would have been accepted.
    """

    component: str
    got: str
    wanted: str


def requirements(phases: PhasedComponents) -> Mapping[str, frozenset[str]]:
    """Return for each component of a feature the ids of those that have to be complete before it.

    A component waits for all components of the phase before its own, and for those it names.
    """
    required: dict[str, frozenset[str]] = {}
    before: frozenset[str] = frozenset()
    for phase in phases:
        for component in phase:
            required[component.id] = before | frozenset(component.depends_on)
        before = frozenset(component.id for component in phase) or before
    return required


def order_fault(features: Sequence[PhasedComponents]) -> OrderFault | None:
    """Return why components have no order, or None if they have one.

    Ids are unique in the whole plan. A component may depend only on components of its own feature,
    because a feature is worked on by itself.
    """
    seen: set[str] = set()
    for phases in features:
        own = [component for phase in phases for component in phase]
        for component in own:
            if component.id in seen:
                return OrderFault(component.id, "the id twice", "an id for one component")
            seen.add(component.id)
        for component in own:
            for name in component.depends_on:
                if name not in {one.id for one in own}:
                    wanted = "ids of components of the same feature"
                    return OrderFault(component.id, f"depends_on {name[:_CUT]!r}", wanted)
        try:
            TopologicalSorter(requirements(phases)).prepare()
        except CycleError as error:
            # `graphlib` names each one before the one that needs it, and the first one twice.
            circle: list[str] = error.args[1][:0:-1]
            start = circle.index(next(one.id for one in own if one.id in circle))
            path = " -> ".join((*circle[start:], *circle[:start], circle[start]))
            wanted = "no circle; a component depends on none of a later phase"
            return OrderFault(circle[start], f"the circle {path}", wanted)
    return None

"""Changing the spec of a supervisor that runs (SUP-122)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy._core.child import Child
from otpy._core.spec import ChildSpec, SupervisorSpec

if TYPE_CHECKING:
    from otpy._core.effects import Effects
    from otpy._core.spec import AnySpec


def rearranged(
    children: dict[str, Child], spec: SupervisorSpec, specs: tuple[AnySpec, ...], out: Effects
) -> dict[str, Child]:
    """Return the child table of a supervisor that goes by `spec`, and has `specs`, from now on.

    Known ids get their new spec and keep their life, unknown ones are added and not started, ids
    that vanished are kept. The order is that of the new list, then the vanished ones.
    """
    table: dict[str, Child] = {}
    for new in specs:
        child = children.get(new.id)
        if child is None:
            child = Child(new, new.id)
        else:
            if child.restart_state is not None and _intensity(child.spec) != _intensity(new):
                child.restart_state.window = None  # another limit, another count
            child.spec = new  # its present life ends by the limits of that
        table[new.id] = child
    out.limit(spec.intensity, spec.period)
    return table | {key: child for key, child in children.items() if key not in table}


def remembered(old: AnySpec, new: SupervisorSpec) -> AnySpec:
    """Return the spec by which a supervisor is restarted that goes by `new`, and began by `old`.

    Its role as a child is the business of the one above it. And where a function makes its children
    they are made by that, until another function takes its place.
    """
    if not isinstance(old, SupervisorSpec) or (
        old.children_by is not None and new.children_by is None
    ):
        return old
    return new.replace(
        restart=old.restart,
        shutdown=old.shutdown,
        significant=old.significant,
        backoff=old.backoff,
    )


def _intensity(spec: AnySpec) -> object:
    return spec.intensity if isinstance(spec, ChildSpec) else None

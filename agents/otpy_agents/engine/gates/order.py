"""The order of gates: what runs before what, and what at the same time (ENG-30)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from otpy_agents.engine.gates.gate import Gate
from otpy_agents.errors import GateCycle, UnknownGate

__all__ = ["due_gates", "gate_stages", "needed_gates"]


def gate_stages(gates: Mapping[str, Gate], wanted: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return gates, and their dependencies, in stages; each stage needs only earlier ones.

    Args:
        gates: All gates by name.
        wanted: Names of those that are wanted.

    Raises:
        UnknownGate: There is none of that name.
        GateCycle: Some depend on each other in a circle.
    """
    needed = _closure(gates, wanted)
    sorter = TopologicalSorter(
        {name: gate.depends_on for name, gate in gates.items() if name in needed}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        # Its path goes from each gate to one that depends on it.
        raise GateCycle(tuple(reversed(error.args[1]))) from error
    stages: list[tuple[str, ...]] = []
    places = {name: place for place, name in enumerate(gates)}
    while sorter.is_active():
        stages.append(tuple(sorted(sorter.get_ready(), key=places.__getitem__)))
        sorter.done(*stages[-1])
    return tuple(stages)


def needed_gates(gates: Mapping[str, Gate], wanted: Iterable[str]) -> dict[str, Gate]:
    """Return gates, and those they depend on, each behind those.

    Raises:
        UnknownGate: As `gate_stages`.
        GateCycle: As `gate_stages`.
    """
    return {name: gates[name] for stage in gate_stages(gates, wanted) for name in stage}


def due_gates(
    gates: Mapping[str, Gate], done: Collection[str], running: Collection[str], most: int
) -> tuple[Gate, ...]:
    """Return the gates to start now.

    Args:
        gates: All that are needed, each behind those it depends on.
        done: Names of those that have ended.
        running: Names of those that run.
        most: How many may run at the same time.
    """
    if not all(gates[name].parallel_safe for name in running):
        return ()
    begun = {*done, *running}
    ready = [
        gate
        for gate in gates.values()
        if gate.name not in begun and all(name in done for name in gate.depends_on)
    ]
    together = [gate for gate in ready if gate.parallel_safe][: max(0, most - len(running))]
    return tuple(together if together or running else ready[:1])


def _closure(gates: Mapping[str, Gate], wanted: Iterable[str]) -> set[str]:
    found: set[str] = set()
    pending = list(wanted)
    while pending:
        name = pending.pop()
        if name not in gates:
            raise UnknownGate(name, tuple(gates))
        if name not in found:
            found.add(name)
            pending += gates[name].depends_on
    return found

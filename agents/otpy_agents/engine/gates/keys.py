"""The key under which the pass of a gate is kept: all that decides whether it passes (ENG-31)."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from otpy_agents.engine.gates.gate import Gate
from otpy_agents.engine.gates.inputs import inputs_digest

__all__ = ["gate_keys", "replayable"]

_VERSION: Final = 1


def gate_keys(
    gates: Mapping[str, Gate], folder: Path, sandbox: str, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the keys of gates by name, without those that cannot be kept.

    Args:
        gates: The gates that are needed, each behind those it depends on.
        folder: The work tree; it is read.
        sandbox: Where they run.
        variables: What each gets of the environment.
    """
    digests: dict[tuple[str, ...], str | None] = {}
    keys: dict[str, str] = {}
    for gate in gates.values():
        if not gate.cache:
            continue
        if gate.cache_inputs not in digests:
            digests[gate.cache_inputs] = inputs_digest(folder, gate.cache_inputs)
        digest = digests[gate.cache_inputs]
        makers = sorted(_makers(gates, gate))
        if digest is None or any(name not in keys for name in makers):
            continue
        described = [
            _VERSION,
            [gate.command, sorted(gate.env.items()), gate.working_dir, gate.allowed_writes],
            [sandbox, sorted(variables.items()), _program(gate, variables)],
            [digest, [keys[name] for name in makers]],
        ]
        keys[gate.name] = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    return keys


def replayable(gates: Mapping[str, Gate], passed: Collection[str]) -> frozenset[str]:
    """Return the gates that need not be run again.

    A gate that writes what a later one reads is run again if that one is.

    Args:
        gates: The gates that are needed, each behind those it depends on.
        passed: Names of those that passed before with the same key.
    """
    found = set(passed)
    for gate in reversed(tuple(gates.values())):
        if gate.name not in found:
            found.difference_update(_makers(gates, gate))
    return frozenset(found)


def _makers(gates: Mapping[str, Gate], gate: Gate) -> Iterator[str]:
    """Yield the gates before one whose writings it sees, because it may write there too."""
    writes = set(gate.allowed_writes)
    seen: set[str] = set()
    pending = list(gate.depends_on) if writes else []
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        pending += gates[name].depends_on
        if writes.intersection(gates[name].allowed_writes):
            yield name


def _program(gate: Gate, variables: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Return which program it is, so that another version of it has another key."""
    places = gate.env.get("PATH", variables.get("PATH"))
    if places is None or "/" in gate.command[0]:  # it is in an image, or in the work tree
        return None
    path = shutil.which(gate.command[0], path=places)
    if path is None:
        return None
    state = Path(path).stat()
    return path, state.st_size, state.st_mtime_ns

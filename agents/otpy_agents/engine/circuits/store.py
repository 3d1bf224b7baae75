"""Circuits of a repository, shared by all processes of a user.

They stand in the event log: an event for each change, with all that the circuit is afterwards, and
a projection with the last of them. Two processes that change one at the same time are told apart by
the version of its stream, and the second decides again.

`.supervisor/circuits.json` is written after each change, for people. Deleting it resets all
circuits of the repository, as soon as somebody looks at one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

from attrs import frozen

from otpy_agents.attrs_json import from_plain
from otpy_agents.clock import CLOCK
from otpy_agents.engine.circuits.circuit import (
    CLOSED,
    Circuit,
    CircuitKey,
    CircuitRules,
    CircuitState,
)
from otpy_agents.errors import VersionConflict
from otpy_agents.log import Append, EventStore, Projection, Stored, event_type
from otpy_agents.log.projection import Row

__all__ = ["CIRCUITS", "CIRCUITS_FILE", "CircuitChanged", "CircuitStore"]

CIRCUITS_FILE: Final = ".supervisor/circuits.json"
"""Where circuits are written for people, below the top of the repository."""

_DELETED: Final = f"{CIRCUITS_FILE} was deleted"


@event_type("circuit_changed")
@final
@frozen(kw_only=True)
class CircuitChanged:
    """A circuit is another one than before.

    Attributes:
        repository: Top folder of the repository.
        key: What it guards.
        circuit: What it is now.
        status: Its state at that moment.
        reason: Why it changed.
        shown: Whether it stands in `.supervisor/circuits.json`, so that deleting that resets it.
    """

    repository: str
    key: CircuitKey
    circuit: Circuit
    status: str
    reason: str
    shown: bool


def _key(event: Stored) -> str | None:
    return event.stream if event.name == "circuit_changed" else None


def _fold(_: Row | None, event: Stored) -> Row:
    said = event.fields
    key, circuit = said["key"], said["circuit"]
    return {
        "repository": said["repository"],
        **{name: key[name] for name in ("agent", "model", "step")},
        "status": said["status"],
        "failures": json.dumps(circuit["failures"]),
        "until": circuit["until"],
        "trial": circuit["trial"],
        "reason": said["reason"],
        "shown": int(said["shown"]),
        "at": event.at,
        "version": event.version,
    }


CIRCUITS: Final = Projection(
    name="circuits",
    columns={
        **dict.fromkeys(("repository", "agent", "model", "step", "status", "failures"), "TEXT"),
        "until": "REAL",
        "trial": "REAL",
        "reason": "TEXT",
        "shown": "INTEGER",
        "at": "REAL",
        "version": "INTEGER",
    },
    key=_key,
    fold=_fold,
)
"""A row for each circuit that ever changed."""


@frozen
class _Row:
    circuit: Circuit
    version: int
    shown: bool


@final
class CircuitStore:
    """The circuits of one repository.

    Args:
        log: An event log that knows `CircuitChanged` and `CIRCUITS`.
        repository: Top folder of its main work tree; absolute.
        rules: When circuits open and close.
        clock: Unix seconds.
    """

    def __init__(
        self,
        log: EventStore,
        repository: Path,
        rules: CircuitRules | None = None,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self._log, self._repository = log, str(repository)
        self._rules, self._clock = rules or CircuitRules(), clock
        self._file = repository / CIRCUITS_FILE

    async def circuits(self) -> Mapping[CircuitKey, Circuit]:
        """Return all circuits that ever changed, by their keys, sorted.

        Raises:
            LedgerError: The log cannot be used.
        """
        return {key: row.circuit for key, row in sorted((await self._rows()).items())}

    async def admit(self, key: CircuitKey, *, within: float) -> bool:
        """Return whether an attempt may be made; in a half-open circuit one of all that ask.

        Args:
            key: What is to make it.
            within: Seconds after which nothing more is expected of it; then another may be made.

        Raises:
            LedgerError: The log cannot be used.
        """
        while True:
            row = (await self._rows()).get(key)
            now = self._clock()
            if row is None or row.circuit.state(now) is CircuitState.CLOSED:
                return True
            if not row.circuit.admits(now):
                return False
            tried = row.circuit.tried(now + within)
            if await self._change(key, row, tried, "an attempt decides"):
                return True

    async def failed(self, key: CircuitKey, reason: str) -> CircuitState:
        """Take in that an attempt failed; return the state of the circuit.

        Args:
            key: What made it.
            reason: Why, in a line.

        Raises:
            LedgerError: The log cannot be used.
        """
        return await self._take(key, lambda one, now: one.failed(self._rules, now), reason)

    async def succeeded(self, key: CircuitKey) -> CircuitState:
        """Take in that an attempt succeeded; return the state of the circuit.

        Raises:
            LedgerError: The log cannot be used.
        """
        return await self._take(key, Circuit.succeeded, "an attempt succeeded")

    async def reset(self, *keys: CircuitKey, actor: str = "") -> tuple[CircuitKey, ...]:
        """Close circuits and forget their failures; return those that this changed.

        Args:
            keys: Which; none for all.
            actor: The person who wants it.

        Raises:
            LedgerError: The log cannot be used.
        """
        rows = await self._rows()
        changed: list[CircuitKey] = []
        for key in sorted(keys or rows):
            row = rows.get(key)
            while row is not None and row.circuit != CLOSED:
                if await self._change(key, row, CLOSED, "reset", actor):
                    changed.append(key)
                    break
                row = (await self._rows()).get(key)
        return tuple(changed)

    # --- the log ----------------------------------------------------------------------------------

    async def _take(
        self, key: CircuitKey, change: Callable[[Circuit, float], Circuit], reason: str
    ) -> CircuitState:
        while True:
            row = (await self._rows()).get(key, _Row(CLOSED, 0, shown=False))
            now = self._clock()
            after = change(row.circuit, now)
            if after == row.circuit or await self._change(key, row, after, reason):
                return after.state(now)

    async def _rows(self) -> dict[CircuitKey, _Row]:
        """Return the circuits, after applying the reset that a deleted file asks for."""
        rows = await self._stored()
        deleted = {key: row for key, row in rows.items() if row.shown and row.circuit != CLOSED}
        if deleted and not self._file.exists():
            for key, row in deleted.items():
                await self._change(key, row, CLOSED, _DELETED)
            rows = await self._stored()
        return rows

    async def _stored(self) -> dict[CircuitKey, _Row]:
        rows = (await self._log.rows(CIRCUITS.name)).values()
        return dict(_read(row) for row in rows if row["repository"] == self._repository)

    async def _change(
        self, key: CircuitKey, row: _Row, after: Circuit, reason: str, actor: str = ""
    ) -> bool:
        """Append a change and show it; False if another process was quicker."""
        # Before the event, for a kill between the two: what was never shown was never deleted.
        shown = self._file.exists() or self._show({})
        event = CircuitChanged(
            repository=self._repository,
            key=key,
            circuit=after,
            status=after.state(self._clock()),
            reason=reason,
            shown=shown,
        )
        stream = f"circuit/{self._repository}/{key}"
        try:
            await self._log.append(Append(stream, [event], expected=row.version, actor=actor))
        except VersionConflict:
            return False
        rows = await self._stored()
        while shown and self._show({one: found.circuit for one, found in rows.items()}):
            before, rows = rows, await self._stored()
            if rows == before:  # who writes last has read last
                break
        return True

    # --- the file ---------------------------------------------------------------------------------

    def _show(self, circuits: Mapping[CircuitKey, Circuit]) -> bool:
        """Write the file; return False, without a message, if it cannot be written."""
        now = self._clock()
        told = {str(key): _told(circuit, now) for key, circuit in sorted(circuits.items())}
        fresh = self._file.with_suffix(f".{os.getpid()}")
        try:
            if self._file.parent.is_symlink():
                return False
            self._file.parent.mkdir(exist_ok=True)
            fresh.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
            fresh.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()
            return False
        return True


def _read(row: Row) -> tuple[CircuitKey, _Row]:
    plain = {"failures": json.loads(row["failures"]), "until": row["until"], "trial": row["trial"]}
    circuit = from_plain(Circuit, plain, "circuit")
    key = CircuitKey(row["agent"], row["model"], row["step"])
    return key, _Row(circuit, row["version"], shown=bool(row["shown"]))


def _told(circuit: Circuit, now: float) -> dict[str, Any]:
    told: dict[str, Any] = {"state": circuit.state(now), "failures": len(circuit.failures)}
    if circuit.failures:
        told["last_failure"] = _moment(circuit.failures[-1])
    if circuit.until is not None:
        told["open_until"] = _moment(circuit.until)
    return told


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

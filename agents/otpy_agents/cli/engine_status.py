"""Where workflows stand, now or at an earlier time, and what their numbers are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast

from otpy_agents.cli.engine_start import EnginePlace
from otpy_agents.cli.engine_words import metric_rows, table, told_line, workflow_rows
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import harmless, money, one_line, span
from otpy_agents.clock import CLOCK
from otpy_agents.engine.circuits import CircuitStore
from otpy_agents.engine.events import EngineEvent
from otpy_agents.engine.projections import place_of, plan_key
from otpy_agents.engine.server.site import stream_of
from otpy_agents.errors import AgentsError
from otpy_agents.log import EventLog

__all__ = ["show_metrics", "show_status"]

_INTERRUPTED: Final = 130
_LINE: Final = 100
_TABLES: Final = (
    *("workflows", "steps", "gates", "features", "phases", "components", "approvals"),
)


def show_status(
    place: EnginePlace, name: str | None, *, at: str | None, follow: bool, as_json: bool
) -> None:
    """Print where the workflows of a repository stand, or one of them.

    Args:
        place: The repository.
        name: Id of a workflow; None for all.
        at: A position of the log, or a moment; None for now.
        follow: Whether to go on with what comes.
        as_json: Whether it is JSON.
    """

    async def work() -> None:
        async with place.log() as log:
            until = await _position(log, at)
            end = await log.end()  # before the look, so that nothing is missed between
            rows = await _rows(log, until)
            ours = _ours(rows, place)
            if name is not None and name not in ours["workflows"]:
                fail(f"{name}: got no workflow of that name here, wanted {_known(ours)}", 1)
            for line in _lines(ours, name, as_json=as_json):
                print(harmless(line), flush=follow)
            if follow:
                async for line in _followed(log, place, name, end, as_json=as_json):
                    print(harmless(line), flush=True)

    try:
        asyncio.run(work())
    except AgentsError as error:
        fail(error, 1)
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


async def _position(log: EventLog, at: str | None) -> int | None:
    if at is None:
        return None
    if at.isdigit():
        return int(at)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        fail(f"--at: got {at!r}, wanted a position of the log or a time like 2026-11-26 14:30", 1)
    return await log.position_at(moment.timestamp())


_ROLES: Final = ("ROLE", "STEPS", "COMPLETED", "RETRIES")
_AGENTS: Final = ("ROLE", "AGENT", "TASKS", "ATTEMPTS", "GOOD", "SECONDS", "TOKENS", "COST")
_GATES: Final = ("GATE", "RUNS", "PASSED", "KNOWN", "SECONDS")
_CIRCUITS: Final = ("CIRCUIT", "STATE", "FAILURES")

Tables: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]


async def _rows(log: EventLog, until: int | None) -> Tables:
    if until is None:
        return {name: await log.rows(name) for name in _TABLES}
    return {name: await log.state(name, until=until) for name in _TABLES}


def _ours(rows: Tables, place: EnginePlace) -> Tables:
    """Return the rows of one repository."""
    flows = {
        name: row
        for name, row in rows["workflows"].items()
        if row["repository"] == str(place.repository)
    }
    prefix = plan_key(place_of(place.repository), "")
    return {
        table: {
            key.removeprefix(prefix): row
            for key, row in found.items()
            if (key if table == "workflows" else row["workflow_id"]) in flows
        }
        for table, found in rows.items()
    }


def _known(rows: Tables) -> str:
    return ", ".join(list(rows["workflows"])[-5:]) or "one that was begun; none was"


def _lines(rows: Tables, name: str | None, *, as_json: bool) -> list[str]:
    if name is not None:
        rows = {
            table: {
                key: row
                for key, row in found.items()
                if name in {key, row.get("workflow_id"), rows["workflows"][name]["feature"]}
                or _belongs(table, key, rows["workflows"][name]["feature"])
            }
            for table, found in rows.items()
        }
    if as_json:
        return [json.dumps(rows, ensure_ascii=False, indent=2)]
    if name is None:
        if not rows["workflows"]:
            return ["no workflow was begun in this repository"]
        head = ("WORKFLOW", "KIND", "STATUS", "BEGAN", "")
        lines = [*table(head, workflow_rows(rows["workflows"], CLOCK()))]
    else:
        lines = [*_one(name, rows)]
    waiting = [
        f"{key} waits for a person: {row['reason']}"
        for key, row in rows["approvals"].items()
        if row["status"] == "requested"
    ]
    return lines + waiting


def _belongs(table: str, key: str, feature: str | None) -> bool:
    return (
        feature is not None
        and table in {"phases", "components"}
        and (key.startswith(f"{feature}/"))
    )


def _one(name: str, rows: Tables) -> list[str]:
    row = rows["workflows"][name]
    until = row["ended"] or CLOCK()
    said = f": {row['reason']}" if row["reason"] else ""
    lines = [f"{name}  {row['kind']}  {row['status']}  {span(until - row['started'])}{said}"]
    steps = [
        (
            *(one["step_id"], one["role"], one["status"], str(one["attempts"])),
            *(one["cli"] or "-", (one["commit_id"] or "-")[:10]),
            one_line(one["component"] or one["task"], _LINE),
        )
        for one in rows["steps"].values()
    ]
    head = ("STEP", "ROLE", "STATUS", "ATTEMPTS", "AGENT", "COMMIT", "")
    lines += table(head, sorted(steps)) if steps else ()
    gates = [
        (one["step_id"], one["gate"], one["status"], f"attempt {one['attempt']}", _took(one))
        for one in rows["gates"].values()
    ]
    return [*lines, *(table(("STEP", "GATE", "STATUS", "", ""), sorted(gates)) if gates else ())]


def _took(gate: Mapping[str, Any]) -> str:
    return "known from before" if gate["cached"] else span(gate["seconds"])


async def _followed(
    log: EventLog, place: EnginePlace, name: str | None, after: int, *, as_json: bool
) -> AsyncIterator[str]:
    stream = None if name is None else stream_of(place.repository, name)
    prefix = stream_of(place.repository, "")
    async for stored in log.follow(after=after, stream=stream):
        if not stored.stream.startswith(prefix):
            continue
        line = json.dumps(stored.plain(), ensure_ascii=False)
        if not as_json:
            line = told_line(cast("EngineEvent", stored.event)) or ""
        if line:
            yield line


# --- metrics --------------------------------------------------------------------------------------


def show_metrics(place: EnginePlace, *, days: int, role: str | None, as_json: bool) -> None:
    """Print the numbers of the last days (ENG-45).

    Args:
        place: The repository.
        days: How many, today included.
        role: Of this role alone; None for all.
        as_json: Whether it is JSON.
    """

    async def work() -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
        async with place.log() as log:
            ours = plan_key(place_of(place.repository), "")
            counted = (await log.rows("metrics")).items()
            rows = [row for key, row in counted if key.startswith(ours)]
            return rows, await _circuits(log, place)

    try:
        rows, circuits = asyncio.run(work())
    except AgentsError as error:
        fail(error, 1)
    first = (datetime.fromtimestamp(CLOCK(), UTC) - timedelta(days=days - 1)).date()
    rows = [row for row in rows if row["day"] >= first.isoformat()]
    if role is not None:
        rows = [row for row in rows if row["role"] == role]
    found = {
        "roles": metric_rows(rows, kind="step", by=["role"]),
        "agents": metric_rows(rows, kind="worker", by=["role", "cli", "task_type"]),
        "gates": metric_rows(rows, kind="gate", by=["gate"]),
        "circuits": circuits,
    }
    if as_json:
        print(json.dumps({"days": days, **found}, ensure_ascii=False, indent=2))
        return
    for line in _metric_lines(found):
        print(harmless(line))


async def _circuits(log: EventLog, place: EnginePlace) -> list[dict[str, Any]]:
    now = CLOCK()
    found = await CircuitStore(log, place.repository).circuits()
    return [
        {"key": str(key), "state": str(one.state(now)), "failures": len(one.failures)}
        for key, one in found.items()
    ]


def _metric_lines(found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    lines: list[str] = []
    if not any(found.values()):
        return ["no step has ended in these days"]
    for head, name, row in (
        (_ROLES, "roles", _role),
        (_AGENTS, "agents", _agent),
        (_GATES, "gates", _gate),
        (_CIRCUITS, "circuits", _circuit),
    ):
        if found[name]:
            lines += ["", *table(head, map(row, found[name]))]
    return lines[1:]


def _rate(one: Mapping[str, Any]) -> str:
    rate = one["success_rate"]
    return "-" if rate is None else f"{100 * rate:.0f} %"


def _mean(one: Mapping[str, Any]) -> str:
    return f"{one['seconds'] / one['count']:.1f}" if one["count"] else "-"


def _role(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (one["role"], str(one["count"]), _rate(one), str(one["retries"]))


def _circuit(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (one["key"], one["state"], str(one["failures"]))


def _agent(one: Mapping[str, Any]) -> tuple[str, ...]:
    tokens = f"{one['tokens_in']:,}+{one['tokens_out']:,}"
    cost = money(one["cost_usd"]) if one["cost_usd"] else "-"
    count = str(one["count"])
    return (one["role"], one["cli"], one["task_type"], count, _rate(one), _mean(one), tokens, cost)


def _gate(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (one["gate"], str(one["count"]), _rate(one), str(one["cached"]), _mean(one))

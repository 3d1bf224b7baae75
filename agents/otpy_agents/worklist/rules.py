"""What keys of a work list go together, each of them sound by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from otpy_agents.adapters.registry import BUILT_IN, adapter_names
from otpy_agents.run.host.walls import COMMAND, OPEN, Flaw, flaw_in
from otpy_agents.store.redaction import is_secret_name
from otpy_agents.worklist.diagnosis import ListProblem

__all__ = ["contradictions"]

_AGENT_ONLY: Final = (
    *("prompt", "fallback", "model", "access", "context", "changeset", "tokens", "cost_usd"),
    *("stall_warn", "long_tools", "on_exceed", "verify", "verify_deadline"),
    *("sandbox", "network", "secrets", "artifacts"),
)
_SHARED: Final = ("tokens", "cost_usd", "wall_seconds", "output_bytes")

_Path: TypeAlias = tuple[str | int, ...]
_Found: TypeAlias = tuple[_Path, str, str]


def contradictions(raw: Mapping[str, Any], sandbox: str | None = None) -> list[ListProblem]:
    """Return what does not go together in a work list whose keys are sound one by one.

    Args:
        raw: The parsed text, in which only what was written stands.
        sandbox: Where all agents work, whatever is written; None for what is written.
    """
    gangs = [gang["name"] for gang in raw.get("gang", ())]
    whole = raw.get("list", {})
    return [
        ListProblem(("assignment", number, *path), got, wanted)
        for number, table in enumerate(raw["assignment"])
        for path, got, wanted in (
            *_in_assignment(table, whole, gangs),
            *_walls(table, whole, sandbox),
        )
    ]


def _in_assignment(
    table: Mapping[str, Any], whole: Mapping[str, Any], gangs: list[str]
) -> Iterator[_Found]:
    agent = table.get("agent")
    if agent is None:
        for key in _AGENT_ONLY:
            if key in table:
                yield (key,), "it without an agent", "it together with `agent`"
        if "argv" not in table:
            yield ("argv",), "nothing", "a list of texts, the program first, or an `agent`"
    else:
        if "prompt" not in table:
            yield ("prompt",), "nothing", "the task for the agent"
        if agent == "command" and "argv" not in table:
            yield ("argv",), "nothing", "a list of texts, the program first"
        if agent != "command" and "argv" in table:
            yield ("argv",), f"it beside {json.dumps(agent)}", 'it with `agent = "command"` only'
        if "verify_deadline" in table and "verify" not in table:
            yield ("verify_deadline",), "it without `verify`", "it together with `verify`"
        yield from _adapters(agent, table.get("fallback", ()))
    yield from _limits(table, whole)
    warn, stall = table.get("stall_warn"), table.get("stall")
    if warn is not None and agent is not None and (stall is None or warn >= stall):
        got = "nothing" if stall is None else f"{stall:g}"
        yield ("stall_warn",), f"{warn:g} with a `stall` of {got}", "less than `stall`"
    if "long_tools" in table and agent is not None and stall is None:
        yield ("long_tools",), "it without `stall`", "it together with `stall`"
    gang = table.get("gang")
    if gang is not None and gang not in gangs:
        yield ("gang",), json.dumps(gang), "the name of a [[gang]]"


def _adapters(agent: str, fallback: Sequence[str]) -> Iterator[_Found]:
    """Yield the agents without an adapter."""
    named: list[tuple[_Path, str]] = [(("agent",), agent)]
    named += [(("fallback", number), name) for number, name in enumerate(fallback)]
    for path, name in named:
        if name not in BUILT_IN and name not in adapter_names():
            yield path, json.dumps(name), f"one of {', '.join(adapter_names())}"


def _walls(
    table: Mapping[str, Any], whole: Mapping[str, Any], sandbox: str | None
) -> Iterator[_Found]:
    """Yield the limits that an agent's sandbox cannot hold, and the settings that it lacks."""
    if "agent" not in table:
        return
    place = sandbox or table.get("sandbox") or whole.get("sandbox") or OPEN
    clis = (table["agent"], *table.get("fallback", ()))
    written: bool | list[str] | None = table.get("network", whole.get("network"))
    network = tuple(written) if isinstance(written, list) else written
    match flaw_in(place, clis, network=network):
        case Flaw.NO_WALL:
            wanted = 'a `sandbox` of "bubblewrap" or "docker:IMAGE", here or in [list]'
            yield ("network",), f"{json.dumps(written)} in the sandbox {json.dumps(place)}", wanted
        case Flaw.NETWORK_UNSAID:
            online = next(cli for cli in clis if cli != COMMAND)
            wanted = f"true, or false if {online} needs none, here or in [list]"
            yield ("network",), f"nothing with the sandbox {json.dumps(place)}", wanted
        case _:
            pass
    secrets = (*whole.get("secrets", ()), *table.get("secrets", ()))
    for name in table.get("env", {}):
        if name in secrets or is_secret_name(name):
            wanted = "it in `secrets`, with its value in the environment of the host alone"
            yield ("env",), f"a value for the secret {json.dumps(name)}", wanted


def _limits(table: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[_Found]:
    """Yield the budgets that are wider than that of the list they are a part of."""
    for key in _SHARED:
        limit = whole.get(key)
        if limit is not None and table.get(key, 0) > limit:
            yield (key,), f"{table[key]:g}", f"at most the {limit:g} of the whole list"

"""`otpy-agents engine circuits`: which agents are left alone, and how to ask them again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from otpy_agents.cli.actor import actor
from otpy_agents.cli.engine_repository import repository_option, top_of
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import ago, at, harmless, span
from otpy_agents.clock import CLOCK
from otpy_agents.engine.circuits import (
    Circuit,
    CircuitKey,
    CircuitState,
    CircuitStore,
)
from otpy_agents.engine.server.site import engine_log
from otpy_agents.errors import AgentsError
from otpy_agents.log import log_beside
from otpy_agents.store import default_state

__all__ = ["circuits"]

T = TypeVar("T")

_WORDS: Final = {
    CircuitState.CLOSED: "closed",
    CircuitState.HALF_OPEN: "half open: the next attempt decides",
}
_EPILOG: Final = """\b
An agent that fails at steps of a role five times within five minutes is left alone for a
minute; then one attempt decides whether it is asked again. circuit_failures, circuit_window
and circuit_reset in .supervisor/limits.yaml change these numbers.

\b
  otpy-agents engine circuits
  otpy-agents engine circuits --reset claude:opus/implementer

\b
The same is in .supervisor/circuits.json; deleting that file resets all circuits.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--reset",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Ask this agent again at once: AGENT/ROLE, as it is listed; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per circuit.")
@repository_option
def circuits(repo: Path, *, keys: tuple[str, ...], as_json: bool) -> None:
    """List the circuit breakers of a repository, or reset some of them."""
    top = top_of(repo)
    none: Mapping[CircuitKey, Circuit] = {}
    known = _look(top, lambda store: store.circuits(), otherwise=none)
    if keys:
        _reset(top, known, keys)
        return
    now = CLOCK()
    for key, circuit in known.items():
        if as_json:
            print(json.dumps(_plain(key, circuit, now)))
        else:
            print(harmless(f"{key}  {_told(circuit, now)}"))
    if not known and not as_json:
        click.echo("otpy-agents: no agent has failed here so far", err=True)


def _reset(top: Path, known: Mapping[CircuitKey, Circuit], keys: tuple[str, ...]) -> None:
    chosen = {text: CircuitKey.parsed(text) for text in keys}
    for text, key in chosen.items():
        if key not in known:
            listed = ", ".join(map(str, known)) or "one that is listed; there is none"
            fail(f"--reset: got {text!r}, wanted {listed}", 1)
    wanted = [key for key in chosen.values() if key is not None]
    who = actor()
    none: tuple[CircuitKey, ...] = ()
    changed = _look(top, lambda store: store.reset(*wanted, actor=who), otherwise=none)
    for key in wanted:
        print(harmless(f"{key}: {'reset' if key in changed else 'was closed, and stays'}"))


def _look(top: Path, work: Callable[[CircuitStore], Awaitable[T]], *, otherwise: T) -> T:
    path = log_beside(default_state(os.environ))
    if not path.exists():
        return otherwise

    async def looking() -> T:
        async with engine_log(path) as log:
            return await work(CircuitStore(log, top))

    try:
        return asyncio.run(looking())
    except AgentsError as error:
        fail(error, 1)


def _told(circuit: Circuit, now: float) -> str:
    state = circuit.state(now)
    said = _WORDS.get(state) or f"open for {span((circuit.until or now) - now)} more"
    if not circuit.failures:
        return said
    count = len(circuit.failures)
    failures = "1 failure" if count == 1 else f"{count} failures"
    return f"{said}; {failures}, the last {ago(circuit.failures[-1], now)}"


def _plain(key: CircuitKey, circuit: Circuit, now: float) -> dict[str, Any]:
    return {
        "key": str(key),
        "agent": key.agent,
        "model": key.model or None,
        "role": key.step,
        "state": circuit.state(now),
        "failures": [at(one) for one in circuit.failures],
        "open_until": None if circuit.until is None else at(circuit.until),
    }

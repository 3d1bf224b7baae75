"""Stored runs as a person or a program sees them: the list, and one run with its history.

Everything here is pure; `runs.py` fetches and prints.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen
from rich.table import Table
from rich.text import Text

from otpy_agents.attrs_json import to_plain
from otpy_agents.cli.run_lookup import typed
from otpy_agents.cli.run_words import ago, at, ended_as, one_line, span, spent
from otpy_agents.cli.view import printable
from otpy_agents.log import GivenCommand
from otpy_agents.run.decide.chain import AgentChain
from otpy_agents.run.decide.cooldown import CooldownTable
from otpy_agents.run.decide.result import AttemptRecord, RunResult
from otpy_agents.run.host.stored_form import StoredForm
from otpy_agents.store import HostRecord, RunRecord, StoredRun

__all__ = [
    "Listed",
    "Shown",
    "attempts_table",
    "history",
    "list_object",
    "list_table",
    "shown_object",
]

INTERRUPTED: Final = "interrupted"
"""What a run is called whose host is dead."""

_PROMPT: Final = 48
_LINE: Final = 400
_STYLES: Final = {"done": "green", "failed": "red", "running": "cyan", INTERRUPTED: "magenta"}


@frozen(kw_only=True)
class Listed:
    """A run in the list.

    Attributes:
        record: As it is stored.
        attempts: How many were begun.
        interrupted: Whether it is not over and its host is dead.
    """

    record: RunRecord
    attempts: int
    interrupted: bool

    @property
    def status(self) -> str:
        """Where it stands, in words."""
        return INTERRUPTED if self.interrupted else self.record.status


def list_table(runs: Sequence[Listed], now: float) -> Table:
    """Render the list, newest first as it comes."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("id", "status", "agent"):
        table.add_column(name, no_wrap=True)
    table.add_column("attempts", no_wrap=True, justify="right")
    table.add_column("age", no_wrap=True, justify="right")
    table.add_column("cwd", no_wrap=True, overflow="ellipsis", max_width=40)
    table.add_column("prompt", no_wrap=True, overflow="ellipsis")
    for run in runs:
        record = run.record
        table.add_row(
            Text(record.id),
            Text(printable(run.status), style=_STYLES.get(run.status, "yellow")),
            Text(printable(record.agent)),
            Text(str(run.attempts)),
            Text(span(now - record.created)),
            Text(printable(record.cwd)),
            Text(one_line(record.prompt, _PROMPT)),
        )
    return table


def list_object(run: Listed) -> str:
    """Render a run of the list as one JSON object."""
    record = run.record
    return json.dumps(
        {
            "id": record.id,
            "status": run.status,
            "agent": record.agent,
            "attempts": run.attempts,
            "interrupted": run.interrupted,
            "created": record.created,
            "changed": record.changed,
            "finished": record.finished,
            "exit_code": record.exit_code,
            "cwd": record.cwd,
            "prompt": record.prompt,
        }
    )


@frozen(kw_only=True)
class Shown:
    """One run with all that is known of it.

    Attributes:
        stored: As it is stored.
        form: Its order and its state; None if they cannot be read.
        trouble: Why not; empty if it can.
        answer: What the agent answered in the last attempt, as far as it came.
        host: Who works on it, or was the last to do so.
        commands: What operators told it.
        cooldowns: Of accounts of its chain, those that other runs have set too.
        now: Unix seconds.
    """

    stored: StoredRun
    form: StoredForm | None
    trouble: str
    answer: str
    host: HostRecord
    commands: Sequence[GivenCommand]
    cooldowns: CooldownTable
    now: float

    @property
    def interrupted(self) -> bool:
        """Whether it is not over and its host is dead."""
        return self.stored.record.finished is None and not self.host.lives()

    @property
    def status(self) -> str:
        """Where it stands, in words."""
        return INTERRUPTED if self.interrupted else self.stored.record.status


def history(shown: Shown) -> Iterator[tuple[str, str]]:
    """Yield the facts about a run, as label and text, without its attempts."""
    record, now = shown.stored.record, shown.now
    yield "status", shown.status
    yield "prompt", one_line(record.prompt, _LINE)
    yield "cwd", record.cwd
    yield "created", f"{at(record.created)}, {ago(record.created, now)}"
    if record.finished is not None:
        took = span(record.finished - record.created)
        yield "finished", f"{at(record.finished)}, after {took}, exit code {record.exit_code}"
    elif shown.interrupted:
        yield "host", f"process {shown.host.pid} is gone: `{typed('runs', 'resume', record.id)}`"
    else:
        yield "host", f"process {shown.host.pid}"
    if shown.form is None:
        yield "state", shown.trouble
    else:
        yield from _state(shown, shown.form)
    for command in shown.commands:
        yield "command", f"{at(command.at)}  {command.name} by {command.actor}: {_answer(command)}"


def _state(shown: Shown, form: StoredForm) -> Iterator[tuple[str, str]]:
    order, state = form.order, form.state
    yield "agents", _chain(state.chain)
    if order.argv:
        yield "argv", one_line(shlex.join(order.argv), _LINE)
    yield "sandbox", f"{order.sandbox.name} {order.sandbox.image}".rstrip()
    yield "liveness", str(state.liveness)
    if state.budget_usd is not None:
        yield "budget", f"${state.budget_usd:g}"
    if state.wait is not None:
        left = span(state.wait.until - shown.now)
        cut = f": `{typed('runs', 'retry-now', shown.stored.record.id)}`"
        # A run whose host is dead hears no command.
        yield "waits", f"for the {state.wait.reason}, {left} more{'' if shown.interrupted else cut}"
    for one in shown.cooldowns.pruned(shown.now).entries:
        yield "cooldown", f"{one.account} until {at(one.until)}, {span(one.until - shown.now)} more"
    if used := spent(state.usage):
        yield "spent", used
    if state.ending is not None:
        yield from _result(state.result())
    if order.artifacts is not None:
        yield "artifacts", str(order.artifacts)
        yield from (("", name) for name in state.artifacts)


def _result(result: RunResult) -> Iterator[tuple[str, str]]:
    yield "ending", f"{result.ending}, last agent {result.agent_id}"
    if result.error is not None:
        yield "error", one_line(result.error, _LINE)
    if result.session is not None:
        yield "session", result.session


def _chain(chain: AgentChain) -> str:
    return " -> ".join(agent.agent_id for agent in chain.agents)


def _answer(command: GivenCommand) -> str:
    """Return the answer to the operator."""
    if command.answer is None:
        return "not answered"
    try:
        told = json.loads(command.answer)
    except ValueError:  # cut, because it was long
        return one_line(command.answer, _LINE)
    return one_line(str(told.get("message") or told.get("answer") or "done"), _LINE)


def attempts_table(shown: Shown) -> Table:
    """Render the attempts, in order."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("#", no_wrap=True, justify="right")
    for name in ("agent", "cause", "began"):
        table.add_column(name, no_wrap=True)
    table.add_column("took", no_wrap=True, justify="right")
    table.add_column("ended", no_wrap=True)
    table.add_column("why", overflow="fold")
    records = shown.form.state.attempts if shown.form is not None else ()
    over = {record.number: record for record in records}
    for attempt in shown.stored.attempts:
        record = over.get(attempt.number)
        if record is None:
            texts = _unended(attempt.agent, attempt.started, shown)
        else:
            texts = _ended(record)
        table.add_row(Text(str(attempt.number)), *(Text(printable(text)) for text in texts))
    return table


def _unended(agent: str, began: float, shown: Shown) -> tuple[str, ...]:
    state = INTERRUPTED if shown.interrupted else "running"
    return agent, "", at(began), span(shown.now - began), state, ""


def _ended(record: AttemptRecord) -> tuple[str, ...]:
    took = span(record.ended - record.began)
    why = one_line(record.message, _LINE)
    return record.agent_id, str(record.cause), at(record.began), took, ended_as(record), why


def shown_object(shown: Shown) -> str:
    """Render a run as one JSON object."""
    record = shown.stored.record
    return json.dumps(
        {
            "id": record.id,
            "status": shown.status,
            "agent": record.agent,
            "interrupted": shown.interrupted,
            "created": record.created,
            "changed": record.changed,
            "finished": record.finished,
            "exit_code": record.exit_code,
            "cwd": record.cwd,
            "prompt": record.prompt,
            "host": {"pid": shown.host.pid, "lives": shown.host.lives()},
            "attempts": [
                {
                    "number": attempt.number,
                    "agent": attempt.agent,
                    "started": attempt.started,
                    "ended": attempt.ended,
                    "outcome": json.loads(attempt.outcome) if attempt.outcome else None,
                }
                for attempt in shown.stored.attempts
            ],
            "answer": shown.answer,
            "order": None if shown.form is None else to_plain(shown.form.order),
            "state": None if shown.form is None else to_plain(shown.form.state),
            "trouble": shown.trouble,
        }
    )

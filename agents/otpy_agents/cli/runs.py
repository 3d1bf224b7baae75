"""`otpy-agents runs`: look at runs, and command them from a second terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from otpy_agents.cli.foreground import follow
from otpy_agents.cli.policy_options import policy_from, policy_options
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_lookup import find_run, look, state_file, state_option, typed
from otpy_agents.cli.run_table import (
    Listed,
    Shown,
    attempts_table,
    history,
    list_object,
    list_table,
    shown_object,
)
from otpy_agents.cli.run_words import harmless
from otpy_agents.cli.view import printable
from otpy_agents.clock import CLOCK
from otpy_agents.errors import AgentsError, CommandRefused, RunStateError
from otpy_agents.log import CommandLog, log_beside
from otpy_agents.operator import ask
from otpy_agents.run.decide.cooldown import CooldownTable
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.run.host.dismissal import dismiss
from otpy_agents.run.host.host import RunHandle, RunHost
from otpy_agents.run.host.stored_form import AttemptOutcome, StoredForm, cooldown_table
from otpy_agents.store import RunStore, StoredRun
from otpy_agents.store.retention import Retention, outgrown, seconds_of

__all__ = ["runs"]

_ENDS: Final = {"cancel": RunControl.CANCEL, "kill": RunControl.KILL}
_DISMISSED: Final = {RunControl.CANCEL: "cancelled", RunControl.KILL: "killed"}
_WIDE: Final = 200  # columns where their number is unknown

_EPILOG = """\b
Exit status:
  0  done
  1  the run, or its host, did not do it; the line says why
  2  no such run, or the command line is wrong

\b
Examples:
  otpy-agents runs
  otpy-agents runs show 3f
  otpy-agents runs retry-now 3f
  otpy-agents runs cancel 3f
  otpy-agents runs --all --json | jq -r 'select(.status == "failed") | .id'
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@state_option
@click.option("--all", "everything", is_flag=True, help="List those that are over, too.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per run.")
@click.pass_context
def runs(context: click.Context, *, everything: bool, as_json: bool) -> None:
    """List runs, and look at one or command it with the commands below.

    A run is named by its id or by any beginning of it that no other has. `interrupted` is a run
    whose host was killed: `otpy-agents runs resume ID` goes on with it, `runs cancel ID` ends it.
    """
    if context.invoked_subcommand is not None:
        return
    listed: list[Listed] = look(lambda store: _listed(store, everything=everything), otherwise=[])
    if as_json:
        for run in listed:
            print(list_object(run))
    elif listed:
        _print(list_table(listed, CLOCK()))
    else:
        what = "no run is stored" if everything else "no run is going on; --all lists the others"
        print(f"otpy-agents: {what}", file=sys.stderr)
    for run in listed:
        if run.interrupted and not as_json:
            line, end = (typed("runs", word, run.record.id) for word in ("resume", "cancel"))
            ways = f"`{line}` goes on with it, `{end}` ends it"
            print(f"{run.record.id} was interrupted; {ways}", file=sys.stderr)


async def _listed(store: RunStore, *, everything: bool) -> list[Listed]:
    dead = {record.id for record in await store.dead_runs()}
    return [
        Listed(
            record=record,
            attempts=len((await store.run(record.id)).attempts),
            interrupted=record.id in dead,
        )
        for record in await store.runs(unfinished=not everything)
    ]


@runs.command()
@state_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.argument("id")
def show(id: str, *, as_json: bool) -> None:
    """Show a run: its attempts, what it waits for, how it ended."""
    shown = look(lambda store: _shown(store, id))
    if as_json:
        print(shown_object(shown))
        return
    lines = [("run", shown.stored.record.id), *history(shown)]
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        print(f"{label:<{width}}  {printable(text)}")
    if shown.stored.attempts:
        print()
        _print(attempts_table(shown))
    if shown.answer:
        print(f"\n{harmless(shown.answer)}")


async def _shown(store: RunStore, beginning: str) -> Shown:
    stored = await store.run(await find_run(store, beginning))
    form, trouble = _form_of(stored)
    now = CLOCK()
    cooldowns = CooldownTable()
    if form is not None:
        accounts = {agent.account for agent in form.state.chain.agents}
        cooldowns = cooldown_table(await store.cooldowns.at(now)).only(accounts)
    return Shown(
        stored=stored,
        form=form,
        trouble=trouble,
        answer=_answer_of(stored),
        host=await store.holder(stored.record.id),
        commands=await CommandLog(log_beside(store.path)).of(stored.record.id),
        cooldowns=cooldowns,
        now=now,
    )


def _form_of(stored: StoredRun) -> tuple[StoredForm | None, str]:
    try:
        return StoredForm.from_json(stored.state), ""
    except RunStateError as error:
        return None, str(error)


def _answer_of(stored: StoredRun) -> str:
    outcomes = [attempt.outcome for attempt in stored.attempts if attempt.outcome is not None]
    try:
        return AttemptOutcome.from_json(outcomes[-1]).answer if outcomes else ""
    except RunStateError:
        return ""


@runs.command()
@state_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object for each event.")
@click.option("-q", "--quiet", is_flag=True, help="Write nothing but the answer and errors.")
@click.argument("id")
def resume(id: str, *, as_json: bool, quiet: bool) -> None:
    """Go on in the foreground with a run whose host is dead.

    Counters and what is left of a wait are those of the dead host; an attempt that was cut costs no
    retry.
    """
    if as_json and quiet:
        raise click.UsageError("--json and --quiet contradict each other")

    async def go_on(host: RunHost, store: RunStore) -> RunHandle:
        return await host.resume(await find_run(store, id))

    follow(state_file(), go_on, as_json=as_json, quiet=quiet)


@runs.command()
@policy_options
def policy(**options: Any) -> None:
    """Print what follows which failure, and how often; with the options of `otpy-agents run`."""
    try:
        print(policy_from(options).table())
    except AgentsError as error:
        fail(error, 2)


@runs.command(
    epilog="""\b
Examples:
  otpy-agents runs forget 3f
  otpy-agents runs forget --older-than 30d
"""
)
@state_option
@click.option(
    "--older-than",
    "age",
    metavar="AGE",
    help="All that ended longer ago, for example 30d, 12h or 0s, but for those of work lists.",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
def forget(ids: tuple[str, ...], *, age: str | None) -> None:
    """Delete runs that are over, with their attempts and answers.

    What their agents did stays, and so do the sessions of their CLIs. `otpy-agents run` does so by
    itself with runs that ended 30 days ago, and with the oldest where all have over 200 MB;
    $OTPY_KEEP_RUNS says otherwise: an age, a size, both as in "90d 1GB", or all.
    """
    if bool(ids) == (age is not None):
        raise click.UsageError("Got no run, or runs and --older-than; wanted one of the two.")
    seconds = None if age is None else seconds_of(age)
    if age is not None and seconds is None:
        raise click.UsageError(f"--older-than: got {age!r}, wanted an age such as 30d or 12h.")
    print(look(lambda store: _forgotten(store, ids, seconds), otherwise="no run is stored"))


async def _forgotten(store: RunStore, ids: tuple[str, ...], seconds: float | None) -> str:
    """Forget runs, all or none of those that are named; return what to say.

    Raises:
        CommandRefused: One of them is not over.
    """
    if seconds is not None:
        gone = outgrown(await store.runs(), {}, Retention(seconds=seconds, size=None), CLOCK())
    else:
        gone = tuple(dict.fromkeys([await find_run(store, one) for one in ids]))
        for run in gone:
            record = (await store.run(run)).record
            if record.finished is None:
                message = f"run {run!r}: got one that is {record.status}, wanted one that is over;"
                raise CommandRefused(f"{message} `{typed('runs', 'cancel', run)}` ends it")
    number = await store.forget(gone)
    return f"forgot {number} run{'' if number == 1 else 's'}"


# --- commands to a host ---------------------------------------------------------------------------


def _command(name: str, help: str) -> None:
    """Add the command `name`, carried out by the host of the run."""

    @runs.command(name, help=help, short_help=help.partition(":")[0])
    @state_option
    @click.argument("id")
    def command(id: str) -> None:
        print(look(lambda store: _asked(store, name, id)))


_command("cancel", "End a run in good order: its agent is asked to end, then it is killed.")
_command("kill", "End a run at once: its agent is killed.")
_command("retry-now", "Stop waiting: begin the next attempt now.")
_command("cancel-retry", "Cancel the pending retry: end with the last result.")
_command("force-fallback", "Switch to the next agent now, whatever the current one does.")


async def _asked(store: RunStore, name: str, beginning: str) -> str:
    """Let the host of a run perform a command, and return its answer.

    Raises:
        CommandRefused: It does not do it, or is gone.
    """
    run = await find_run(store, beginning)
    record = (await store.run(run)).record
    if record.finished is not None:
        message = f"run {run!r}: got {name}, wanted a run that is not over; it is {record.status}"
        raise CommandRefused(message)
    holder = await store.holder(run)
    if not holder.lives():
        if name in _ENDS:
            return await _dismissed(store, run, _ENDS[name])
        message = f"run {run!r}: its host (process {holder.pid}) is gone;"
        raise CommandRefused(f"{message} `{typed('runs', 'resume', run)}` goes on with it")
    answer = await ask(Path(holder.socket), name, run=run)
    return f"{run}: {answer if isinstance(answer, str) else json.dumps(answer)}"


async def _dismissed(store: RunStore, run: str, control: RunControl) -> str:
    """End a run whose host is gone, and return the messages about it."""
    async with RunStore(store.path) as own:
        left = await dismiss(own, run, control)
    ended = f"; ended {', '.join(map(str, left))}" if left else ""
    return f"{run}: {_DISMISSED[control]}; its host was gone already{ended}"


def _print(table: Table) -> None:
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)

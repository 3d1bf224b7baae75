"""`otpy-agents up`: work a list off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import anyio.to_thread
import click

import otpy
from otpy import Backoff, ChildSpec, OtpyError, SupervisorSpec
from otpy_agents.agent.exits import forget_exits, settle
from otpy_agents.agent.preflight import unheld_agents
from otpy_agents.cli.event_log import EventLog
from otpy_agents.cli.notices import notice
from otpy_agents.cli.reporter import Reporter, outcomes_of
from otpy_agents.cli.steady import SteadyView
from otpy_agents.cli.tree_lookup import tree_of
from otpy_agents.cli.view import Outcome, View, open_view
from otpy_agents.errors import AgentsError, InvalidRunSetting, InvalidWorkList, SocketUnusable
from otpy_agents.operator import operator_supervisor
from otpy_agents.operator.place import bound
from otpy_agents.process.orphans import Recorded, end
from otpy_agents.run.host.dismissal import dismiss
from otpy_agents.run.host.walls import SANDBOXES, is_sandbox
from otpy_agents.sandbox.marker import list_marker
from otpy_agents.store import RunStore, default_state
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.redaction import Redaction, is_secret_name
from otpy_agents.store.sessions import SqliteSessions
from otpy_agents.store.tree_register import TreeRegister, socket_beside
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.budgets import BudgetDocument
from otpy_agents.tree.commands import QuietLog, TreeCommands
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.project import Project, label_of
from otpy_agents.tree.workplace import Workplace
from otpy_agents.worklist.reader import read
from otpy_monitors import BudgetError, InvalidRules, load_ledger, read_rules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from otpy import Supervisor
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.worklist.assignment import WorkList

_FRAME: Final = 0.2  # seconds between two drawings of the tree
_ORPHAN_GRACE: Final = 2.0

_EPILOG = """\b
Exit status:
  0    every assignment ended as the list expects
  1    some did not, or the list could not be worked on
  2    the list, or the command line, is wrong
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM

\b
Examples:
  otpy-agents up examples/workshop.toml
  otpy-agents up examples/workshop.toml --fresh --chaos 2
  otpy-agents up examples/workshop.toml --json | jq -c 'select(.event == "summary")'
"""


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--fresh",
    is_flag=True,
    help="Start over: forget what is done, empty its folders; changesets go to branches.",
)
@click.option(
    "--sandbox",
    metavar="WHERE",
    help=f"Where all agents work, whatever the list says: {SANDBOXES}.",
)
@click.option(
    "--chaos",
    type=click.FloatRange(min=0),
    metavar="RATE",
    default=0.0,
    help="Kill random workers and attempts with SIGKILL, RATE a second on average.",
)
@click.option(
    "--hygiene-dry-run",
    is_flag=True,
    help="Only tell what the cleanup daemon would delete; it deletes nothing.",
)
@click.option(
    "--budget-strict",
    is_flag=True,
    help="Refuse agents that cost_usd may not hold: nobody knows their price.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per event.")
def up(
    file: Path,
    *,
    fresh: bool,
    sandbox: str | None,
    chaos: float,
    hygiene_dry_run: bool,
    budget_strict: bool,
    as_json: bool,
) -> None:
    """Work off the list in FILE, a TOML file.

    Every assignment is run as a process of its own. One that fails is started again, within the
    limits of its policy; one that uses them up is reaped, with the reason. What is finished is kept
    in an SQLite file beside FILE: run the command again after a crash, and it goes on where it
    stopped. Ctrl-C stops everything in order; once more kills. While it works, `otpy-agents status`
    and its companions look at it and command it from another terminal.
    """
    if sandbox is not None and not is_sandbox(sandbox):
        _fail(InvalidRunSetting("--sandbox", repr(sandbox), SANDBOXES), 2)
    try:
        work = read(file, sandbox=sandbox)
        if budget_strict:
            _check_prices(work)
    except InvalidWorkList as error:
        _fail(error, 2)
    view = SteadyView(open_view(sys.stdout, partial(notice, tree=tree_of(work)), as_json=as_json))
    outcomes: list[Outcome] = []
    try:
        otpy.run(
            lambda: _working(
                work, view, outcomes, fresh=fresh, chaos=chaos, dry_run=hygiene_dry_run
            )
        )
    except InvalidRules as error:
        _fail(error, 2)
    except (AgentsError, BudgetError) as error:
        _fail(error, 1)
    finally:
        view.close(outcomes)
    if not outcomes or not all(outcome.as_expected for outcome in outcomes):
        raise SystemExit(1)


@contextlib.asynccontextmanager
async def _working(
    work: WorkList,
    view: View,
    outcomes: list[Outcome],
    *,
    fresh: bool,
    chaos: float,
    dry_run: bool,
) -> AsyncGenerator[Supervisor]:
    """Yield the root of the tree at work; fill `outcomes` when it has ended."""
    clock = asyncio.get_running_loop().time
    async with (
        Ledger(work.state, clock=clock) as ledger,
        contextlib.AsyncExitStack() as stack,
    ):
        journal = Journal(_redaction(work))
        log = None if work.logs is None else EventLog(work.logs, work.name)
        reporter = Reporter(work, view, clock, journal, log)
        await _clear_up(work, ledger, reporter, fresh=fresh)
        records = await ledger.summary()
        over = await ledger.finished_ids()
        reporter.already(over)
        for name, free in unheld_agents(work):
            if name not in over:
                reporter.on_event("budget.unheld", name, {"detail": str(free)})
        agents = await ledger.agents.all()
        workplace, sessions = await _workplace(work, ledger, stack, fresh=fresh)
        workplace.hygiene_dry_run = dry_run
        project = Project(
            work,
            ledger,
            records,
            reporter.on_event,
            agents=agents,
            workplace=workplace,
            sessions=sessions,
        )
        stack.enter_context(TreeRegister(default_state(os.environ)).listing(work.file, work.state))
        commands = TreeCommands(workplace, journal, reporter.began)
        app = app_supervisor(project, chaos=chaos, operator=_operator(project, commands))
        try:
            async with otpy.start(app, hooks=[reporter.on_report]) as root:
                drawing = asyncio.create_task(_draw(root, reporter))
                try:
                    yield root
                finally:
                    drawing.cancel()
        finally:
            await project.write_endings()  # Jake may have been away when the last ones came
            await ledger.close_interrupted("interrupted: the run was stopped")
            outcomes += outcomes_of(work, await ledger.summary())


def _check_prices(work: WorkList) -> None:
    for name, one in unheld_agents(work):
        got = f"{one.agent_id} with " + (f"the model {one.model!r}" if one.model else "no model")
        wanted = "one whose price is known, for --budget-strict"
        raise InvalidWorkList(work.file, None, f"assignment {name!r}.model", got, wanted)


def _redaction(work: WorkList) -> Redaction:
    """Return what keeps the secrets of all assignments out of what other terminals see."""
    own = {
        f"{assignment.id}: {name}": text
        for assignment in work.assignments
        for name, text in assignment.env.items()
        if is_secret_name(name)
    }
    works = (assignment.agent for assignment in work.assignments)
    names = {name for agent in works if agent is not None for name in agent.secrets}
    return Redaction(os.environ, names=names, values=own)


def _operator(project: Project, commands: TreeCommands) -> SupervisorSpec | None:
    """Return what listens for an operator; None where there can be no socket, which is told."""
    path = socket_beside(project.work.state)
    try:
        with bound(path):
            pass
    except SocketUnusable as error:
        project.tell("operator.unreachable", "list", reason=str(error))
        return None
    spec = operator_supervisor(path, commands.handlers(), QuietLog(project.ledger.commands))
    children = [*spec.children, ChildSpec("farewell", commands.farewell)]
    # The work must not suffer from it, however often it crashes: it never gives up.
    pause = Backoff.exponential(0.5, max=30.0)
    return SupervisorSpec(
        spec.id,
        [child.replace(backoff=pause) for child in children if isinstance(child, ChildSpec)],
        intensity=20,
        period=300,
    )


async def _workplace(
    work: WorkList, ledger: Ledger, stack: contextlib.AsyncExitStack, *, fresh: bool
) -> tuple[Workplace, SessionStore | None]:
    """Open what agents need, if there are any: the store of runs, their sessions, their budgets."""
    if all(assignment.agent is None for assignment in work.assignments):
        return Workplace(rate=work.start_rate, watch_loop=True), None
    store = await stack.enter_async_context(RunStore(default_state(os.environ)))
    sessions = await stack.enter_async_context(
        SqliteSessions(work.state.with_suffix(".sessions.sqlite"))
    )
    if fresh:
        for session in await sessions.all():
            await sessions.forget(session.agent)
    await _drop_runs(work, ledger, store, fresh=fresh)
    places = [one.cwd for one in work.assignments if one.agent is not None and one.cwd is not None]
    places.append(work.state.with_suffix(".work"))
    workplace = Workplace(
        store,
        rate=work.start_rate,
        rules=None if work.rule_file is None else read_rules(work.rule_file, writable=places),
        budget=await load_ledger(BudgetDocument(ledger.agents)),
        watch_loop=True,
    )
    return workplace, sessions


async def _drop_runs(work: WorkList, ledger: Ledger, store: RunStore, *, fresh: bool) -> None:
    """Give up what a killed host has left at work and nobody will take up any more."""
    over = await ledger.finished_ids()
    labels = {label_of(ledger.list_id, one) for one in work.assignments if one.id not in over}
    wanted = frozenset[str]() if fresh else labels
    dead = [
        run
        for run in await store.dead_runs()
        if run.label.startswith(f"{ledger.list_id}/") and run.label not in wanted
    ]
    for run in dead:
        await dismiss(store, run.id)


async def _clear_up(work: WorkList, ledger: Ledger, reporter: Reporter, *, fresh: bool) -> None:
    """End what a killed host has left behind, before anything is begun (G-03)."""
    recorded = [
        Recorded(attempt.pid, attempt.create_time)
        for attempt in await ledger.live_attempts()
        if attempt.pid is not None and attempt.create_time is not None
    ]
    orphans = await end(list_marker(ledger.list_id), _ORPHAN_GRACE, recorded=recorded)
    for orphan in orphans:
        detail = {"process": str(orphan)}
        reporter.on_event("orphan.ended", orphan.assignment or work.name, detail)
    await settle(ledger, {orphan.pid for orphan in orphans})
    await ledger.close_interrupted()
    await forget_exits(work.state)
    if fresh:
        await ledger.forget_all()
        for folder in map(work.state.with_suffix, (".work", ".messages")):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
    await ledger.declare({assignment.id: assignment.digest for assignment in work.assignments})
    untold = await ledger.untold()
    for one in untold:
        reporter.on_event(f"mortal.{one.state}", one.id, {"reason": one.reason, "earlier": True})
    await ledger.record_told(one.id for one in untold)


async def _draw(root: Supervisor, reporter: Reporter) -> None:
    while True:
        reporter.draw(root.snapshot())
        await asyncio.sleep(_FRAME)


def _fail(error: OtpyError, status: int) -> NoReturn:
    print(f"otpy-agents: {error}", file=sys.stderr)
    raise SystemExit(status)

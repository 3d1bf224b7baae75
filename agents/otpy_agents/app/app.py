"""`open_app`: a work list at work in your program, with all that `otpy-agents up` does."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

import otpy
from otpy import Backoff, ChildSpec, SupervisorSpec
from otpy.specs import DynamicSpec
from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.agent.failures import FailureTable
from otpy_agents.agent.preflight import unheld_agents
from otpy_agents.agent.workplace import Workplace
from otpy_agents.app.chronicle import Chronicle
from otpy_agents.app.conclusion import conclusions_of
from otpy_agents.app.remains import clear_up, drop_runs
from otpy_agents.errors import InvalidTreeSetting, SocketUnusable
from otpy_agents.log import CommandLog, Teller, list_stream, log_beside
from otpy_agents.operator import operator_supervisor
from otpy_agents.operator.place import bound
from otpy_agents.run.host.log_listener import told_to
from otpy_agents.store import RunStore, default_state
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.redaction import Redaction, is_secret_name
from otpy_agents.store.sessions import SqliteSessions
from otpy_agents.store.tree_register import TreeRegister, socket_beside
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.commands import QuietLog, TreeCommands
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.project import Project
from otpy_agents.worklist.assignment import WorkList
from otpy_agents.worklist.reader import read
from otpy_agents.workspace import Fates
from otpy_monitors import load_ledger, read_rules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from otpy import Supervisor
    from otpy.reports import ReportHook
    from otpy_agents.agent.verification import Verifier
    from otpy_agents.app.chronicle import Event
    from otpy_agents.app.conclusion import Conclusion
    from otpy_agents.run.host.facts import Listener
    from otpy_agents.store.sessions import SessionStore

__all__ = ["App", "open_app"]

_SPECS: Final = (ChildSpec, SupervisorSpec, DynamicSpec)


@final
class App:
    """A work list at work; made by `open_app`.

    Attributes:
        work: The list.
        root: The supervisor of the tree.
        project: Commands its agents: `project.pool` spawns, pauses, answers.
        journal: The latest events, and who waits for what.
        finished: Ids of what earlier hosts have finished.
        conclusions: How each assignment came out, in the order of the list; empty until the block
            is left.
    """

    def __init__(
        self,
        work: WorkList,
        root: Supervisor,
        project: Project,
        journal: Journal,
        finished: frozenset[str],
    ) -> None:
        self.work = work
        self.root = root
        self.project = project
        self.journal = journal
        self.finished = finished
        self.conclusions: tuple[Conclusion, ...] = ()

    async def wait(self) -> None:
        """Wait until nothing of the list is left to do; cancelling disturbs nothing."""
        await self.root.wait()


@contextlib.asynccontextmanager
async def open_app(
    work: WorkList | Path | str,
    *,
    fresh: bool = False,
    chaos: float = 0.0,
    hygiene_dry_run: bool = False,
    failures: FailureTable | None = None,
    verifier: Verifier | None = None,
    fates: Fates | None = None,
    branches: Sequence[ChildSpec | SupervisorSpec | DynamicSpec] = (),
    hooks: Sequence[ReportHook] = (),
    listen: Callable[[Event], object] = lambda _: None,
) -> AsyncGenerator[App]:
    """Work a list off for the length of an `async with` block; `app.wait()` waits for its end.

    What is finished is kept in an SQLite file beside the list: opened again after a crash, it goes
    on where it stopped, when the processes that the killed host has left are ended. Meanwhile
    `otpy-agents status` and its companions look at it and command it from a terminal. Leaving the
    block stops everything in order.

    Args:
        work: The list, or its TOML file.
        fresh: Start over: forget what is done, empty its folders; changesets go to branches.
        chaos: Workers, and attempts of agents, to be killed at random, per second; 0 for none.
        hygiene_dry_run: Whether the cleanup daemon only tells what it would delete.
        failures: What failures of agents mean; None for the default table.
        verifier: Looks into what an agent did that says that it is done: called with its
            assignment, its work directory and its answer, it returns what is wrong, or None.
            That is awaited; what cannot be awaited ends the agent, with that as the reason.
        fates: What becomes of the work of an agent that is restarted; None for the default.
        branches: Specs of more children of the root, started last and stopped first.
        hooks: More receivers of the tree's reports.
        listen: Called with each event, from the clean-up on; must not block. What it raises goes
            to the loop's exception handler, and disturbs nobody.

    Raises:
        InvalidWorkList: The list is wrong, or cannot be read.
        InvalidRules: Its rules are wrong.
        InvalidTreeSetting: One of the other arguments can never work; nothing was opened.
        AlreadyRunning: Another host works on it.
        LedgerError: Its ledger, or the store of runs, cannot be used.
        BudgetError: What the last host has left of the budgets cannot be read.

    Cancellation:
        As leaving the block: what runs is stopped, and what came out is written down.
    """
    _check(chaos, failures, verifier, fates, branches, hooks, listen)
    work = work if isinstance(work, WorkList) else read(Path(work))
    clock = asyncio.get_running_loop().time
    async with (
        Ledger(work.state) as ledger,
        contextlib.AsyncExitStack() as stack,
    ):
        redaction, events = _redaction(work), log_beside(default_state(os.environ))
        stream = list_stream(work.name)

        def tell(name: str, fields: Mapping[str, Any]) -> None:
            teller.tell(stream, name, {**fields, "workflow_id": ledger.list_id})

        chronicle = Chronicle(work, Journal(redaction), clock, listen, tell)

        def complain(line: str) -> None:
            chronicle.on_event("log.unwritable", work.name, {"reason": line})

        teller = Teller(events, clean=redaction, complain=complain)
        await stack.enter_async_context(teller)
        await clear_up(work, ledger, chronicle, fresh=fresh)
        records, over = await ledger.summary(), await ledger.finished_ids()
        for name, free in unheld_agents(work):
            if name not in over:
                chronicle.on_event("budget.unheld", name, {"detail": str(free)})
        agents = await ledger.agents.all()
        workplace, sessions = await _workplace(
            work, ledger, stack, failures, told_to(teller), fresh=fresh
        )
        workplace.hygiene_dry_run = hygiene_dry_run
        project = Project(
            work,
            ledger,
            records,
            chronicle.on_event,
            agents=agents,
            workplace=workplace,
            verifier=verifier,
            sessions=sessions,
            fates=fates,
        )
        stack.enter_context(TreeRegister(default_state(os.environ)).listing(work.file, work.state))
        commands = TreeCommands([project], chronicle.journal, chronicle.began)
        written = CommandLog(events, stream, clean=redaction)
        operator = _operator(project, commands, written)
        spec = app_supervisor(project, chaos=chaos, operator=operator)
        spec = spec.replace(children=[*spec.children, *branches])
        app: App | None = None
        try:
            async with otpy.start(spec, hooks=[chronicle.on_report, *hooks]) as root:
                app = App(work, root, project, chronicle.journal, over)
                yield app
        finally:
            await project.write_outcomes()  # Jake may have been away when the last ones came
            await ledger.close_interrupted("interrupted: the run was stopped")
            if app is not None:
                app.conclusions = conclusions_of(work, await ledger.summary())


def _check(
    chaos: object,
    failures: object,
    verifier: object,
    fates: object,
    branches: object,
    hooks: object,
    listen: object,
) -> None:
    """Refuse what would fail when agents have worked, or never be heard of."""
    rate = isinstance(chaos, int | float) and not isinstance(chaos, bool) and 0 <= chaos < math.inf
    for name, got, right, wanted in (
        ("chaos", chaos, rate, "kills per second as a number from 0"),
        ("failures", failures, isinstance(failures, FailureTable | None), "a FailureTable"),
        ("verifier", verifier, verifier is None or callable(verifier), "a function"),
        ("fates", fates, isinstance(fates, Fates | None), "a Fates"),
        ("branches", branches, _are_specs(branches), "a list of specs of children"),
        ("hooks", hooks, isinstance(hooks, Sequence), "a list of functions of one report"),
        ("listen", listen, callable(listen) and not _is_async(listen), "a plain function"),
    ):
        if not right:
            raise InvalidTreeSetting(name, f"{got!r:.100}", wanted)


def _are_specs(listed: object) -> bool:
    return isinstance(listed, Sequence) and all(
        isinstance(one, _SPECS) for one in cast("Sequence[object]", listed)
    )


def _is_async(called: object) -> bool:
    """Whether it is an async function, or an object that is called as one."""
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(type(called).__call__)


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


def _operator(
    project: Project, commands: TreeCommands, written: CommandLog
) -> SupervisorSpec | None:
    """Return what listens for an operator; None where there can be no socket, which is told."""
    path = socket_beside(project.work.state)
    try:
        with bound(path):
            pass
    except SocketUnusable as error:
        project.desk.tell("operator.unreachable", "list", reason=str(error))
        return None
    spec = operator_supervisor(path, commands.handlers(), QuietLog(written))
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
    work: WorkList,
    ledger: Ledger,
    stack: contextlib.AsyncExitStack,
    failures: FailureTable | None,
    listener: Listener,
    *,
    fresh: bool,
) -> tuple[Workplace, SessionStore | None]:
    """Open the budgets, and what agents need, if there are any: runs, and their sessions."""
    places = [one.cwd for one in work.assignments if one.agent is not None and one.cwd is not None]
    places.append(work.state.with_suffix(".work"))
    rules = None if work.rule_file is None else read_rules(work.rule_file, writable=places)
    settled = partial(
        Workplace,
        failures=failures,
        rate=work.start_rate,
        rules=rules,
        budget=await load_ledger(BudgetDocument(ledger.agents)),
        watch_loop=True,
    )
    if all(assignment.agent is None for assignment in work.assignments):
        return settled(), None
    store = await stack.enter_async_context(RunStore(default_state(os.environ)))
    sessions = await stack.enter_async_context(
        SqliteSessions(work.state.with_suffix(".sessions.sqlite"))
    )
    if fresh:
        for session in await sessions.all():
            await sessions.forget(session.agent)
    await drop_runs(work, ledger, store, fresh=fresh)
    return settled(store, listeners=[listener]), sessions

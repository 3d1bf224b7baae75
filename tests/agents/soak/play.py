"""A soak: a long time of a project in which everything goes wrong, and the books kept of it."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, final
from unittest.mock import patch

from attrs import frozen

import otpy
from otpy.testing import MockClock
from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.agent.verification import Complaint
from otpy_agents.agent.workplace import Workplace
from otpy_agents.run import RetryPolicy
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.store import RunStore
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.sessions import SqliteSessions
from otpy_agents.testing import memory_stores
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.project import Project
from otpy_agents.worklist.assignment import Assignment
from otpy_agents.worklist.reader import parse
from otpy_monitors import load_ledger, parse_rules
from tests.agents.soak.audit import audit
from tests.agents.soak.books import Books
from tests.agents.soak.faults import Faults
from tests.agents.soak.plans import UNPROVEN, Plan, plans_of, rules_of
from tests.agents.soak.stage import Stage

T = TypeVar("T")

__all__ = ["Soak", "play"]

_QUICK: Final = RetryPolicy(max_retries=0, crash_restarts=0)
_PATIENCE: Final = 24 * 3600.0  # seconds within which everything comes out once the harm is over


@final
@frozen(kw_only=True)
class Soak:
    """The settings of a soak.

    Attributes:
        seed: Of all chance: the same seed is the same history.
        hours: The time in which there is harm, in virtual hours.
        agents: The number that work at the same time.
        hosts: The number of hosts that work on it, one after the other.
    """

    seed: int
    hours: float = 4.0
    agents: int = 200
    hosts: int = 3


def play(what: Soak, folder: Path) -> Books:
    """Play a soak in virtual time, and return its books.

    Args:
        what: The soak.
        folder: An empty one.
    """
    with (
        memory_stores(),
        _in_one_thread(),
        _without_a_socket(),
        _drawn_by(what.seed),
        patch("otpy_agents.hygiene.chores.find", return_value=()),  # no process is started
        patch("otpy_monitors.budget.daemon.EVERY", 60.0),  # each save is of all accounts
    ):
        return MockClock().run(_play(what, folder))


async def _play(what: Soak, folder: Path) -> Books:
    plans = plans_of(what.seed, what.agents, what.hours * 3600)
    books = Books(plans, Stage(plans))
    asyncio.get_running_loop().set_exception_handler(books.on_trouble)
    for plan in plans:
        if plan.kind.keys.get("cwd") == "{id}":
            (folder / plan.id).mkdir()
    for host in range(what.hosts):
        last = host == what.hosts - 1
        until = what.hours * 3600 * (host + 1) / what.hosts
        async with _host(what, folder, books, f"{what.seed}/{host}") as root:
            waiting = asyncio.ensure_future(root.wait())
            await asyncio.wait({waiting}, timeout=until - asyncio.get_running_loop().time())
            if last:
                books.harm_over()
                await asyncio.wait({waiting}, timeout=_PATIENCE)
                if not waiting.done():
                    books.wrong.append("it never came to an end")
            waiting.cancel()
    await audit(books, folder)
    return books


@asynccontextmanager
async def _host(what: Soak, folder: Path, books: Books, seed: str) -> AsyncGenerator[Any]:
    """Yield the root of a host that works on the list, as `up` makes it, with all its harm."""
    work = parse(_list(what, books.plans), folder / "w.toml")
    async with (
        RunStore(folder / "state" / "runs.sqlite3") as store,
        Ledger(work.state) as ledger,
        SqliteSessions(folder / "sessions.sqlite") as sessions,
    ):
        await ledger.close_interrupted()
        await ledger.declare({one.id: one.digest for one in work.assignments})
        workplace = Workplace(
            store,
            sandboxes={"scripted": books.stage.sandbox},
            sandbox=SandboxChoice(name="scripted"),
            policy=_QUICK if what.seed % 2 else None,
            rules=parse_rules(rules_of(), folder / "rules.yaml"),
            budget=await load_ledger(BudgetDocument(ledger.agents)),
        )
        project = Project(
            work,
            ledger,
            await ledger.summary(),
            books.on_event,
            agents=await ledger.agents.all(),
            workplace=workplace,
            verifier=_look_into,
            sessions=sessions,
        )
        try:
            async with otpy.start(app_supervisor(project), hooks=[books.on_report]) as root:
                faults = Faults(seed, project, root, books.stage, what.agents)
                with books.of_host(project, faults):
                    yield root
        finally:
            await project.write_outcomes()
            await ledger.close_interrupted("interrupted: the run was stopped")
            books.workplace = workplace


def _list(what: Soak, plans: tuple[Plan, ...]) -> str:
    action = "restart" if what.seed % 3 else "ask"
    gang = f'[[gang]]\nname = "g"\nwithin = 60\naction = "{action}"\n'
    return f"[list]\nparallel = {what.agents}\n{''.join(plan.table for plan in plans)}{gang}"


async def _look_into(assignment: Assignment, cwd: Path, answer: str) -> Complaint | None:
    await asyncio.sleep(0)
    if answer.strip() == UNPROVEN:
        return Complaint(name="tests_failed", message="Two tests fail.")
    return None


# --- so that a seed is a history ------------------------------------------------------------------


@contextmanager
def _in_one_thread() -> Generator[None]:
    """Do the work of other threads in the thread of the loop, as no seed sets their pace."""

    async def run_sync(work: Callable[..., T], *args: Any, **_: Any) -> T:
        await asyncio.sleep(0)
        return work(*args)

    with patch("anyio.to_thread.run_sync", run_sync):
        yield


@contextmanager
def _without_a_socket() -> Generator[None]:
    """Do not listen for operators: the clock would wait a real moment for a client."""

    @asynccontextmanager
    async def nobody(path: Path, *_: object) -> AsyncGenerator[Path]:
        yield path

    with patch("otpy_agents.operator.server._listening", nobody):
        yield


@contextmanager
def _drawn_by(seed: int) -> Generator[None]:
    """Draw every random value from the seed."""
    before = random.getstate()
    random.seed(seed)
    try:
        with patch("uuid.uuid4", lambda: uuid.UUID(int=random.getrandbits(128))):
            yield
    finally:
        random.setstate(before)

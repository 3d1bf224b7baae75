"""The current activity of a tree, as plain data for another terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otpy_agents.agent.pause import OPERATOR, AgentPause
from otpy_agents.process.process import WorkerProcess
from otpy_agents.store.records import State
from otpy_monitors import Kind, tree_health

if TYPE_CHECKING:
    from otpy import Supervisor
    from otpy.snapshot import TreeSnapshot
    from otpy_agents.store.records import AssignmentRecord
    from otpy_agents.tree.journal import Journal
    from otpy_agents.tree.project import Project
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Plain", "status_of", "tree_of"]

Plain: TypeAlias = dict[str, Any]

_OF_PROGRAMS: Final = (Kind.SECONDS, Kind.OUTPUT_BYTES)


def tree_of(node: TreeSnapshot) -> Plain:
    """Return a supervisor or a worker, and everything below it."""
    return {
        "id": node.id,
        "path": node.path,
        "type": str(node.type.name).lower(),
        "state": node.state,
        "incarnation": node.incarnation,
        "restarts": node.restarts,
        "last_exit": None if node.last_exit is None else str(node.last_exit),
        "due_in": node.due_in,
        "children": [tree_of(child) for child in node.children],
    }


async def status_of(
    projects: Sequence[Project], root: Supervisor, journal: Journal, seconds: float, now: float
) -> Plain:
    """Return what projects do that work at one place.

    Args:
        projects: All of them, at least one.
        root: Of the tree.
        journal: The journal of events.
        seconds: Since the run began.
        now: Unix seconds.

    Raises:
        LedgerError: A ledger, or the store of runs, cannot be read.
    """
    workplace = projects[0].workplace
    workplace.budgets.bookkeeper.settle()
    snapshot = root.snapshot()
    nodes = {node.path: node for node in _all(snapshot)}
    health = tree_health(root, workplace.feed)
    store = workplace.store
    cooldowns = () if store is None else await store.cooldowns.at(now)
    agents: list[Plain] = []
    for project in projects:
        records = {record.id: record for record in await project.desk.memory.ledger.summary()}
        for assignment in project.assignments:
            look = _Look(project, assignment, records.get(assignment.id), nodes, journal, seconds)
            agents.append(look.row())
    return {
        "host": {"pid": os.getpid(), "seconds": seconds},
        "alive": health.alive,
        "ready": health.ready,
        "not_ready": [str(one) for one in health.not_ready],
        "projects": [_project(project, agents) for project in projects],
        "agents": agents,
        "jakes": [_part(node) for node in nodes.values() if node.id == "Jake"],
        "monitors": [_part(node) for node in _monitors(snapshot)],
        "cooldowns": [
            {
                "agent": one.agent_cli,
                "account": one.credential,
                "for_seconds": one.until - now,
                "reason": one.reason,
            }
            for one in cooldowns
        ],
    }


def _all(node: TreeSnapshot) -> Iterator[TreeSnapshot]:
    yield node
    for child in node.children:
        yield from _all(child)


def _monitors(root: TreeSnapshot) -> Iterator[TreeSnapshot]:
    for child in root.children:
        if child.id == "MonitorSupervisor":
            yield from (node for node in _all(child) if not node.children and node is not child)


def _part(node: TreeSnapshot) -> Plain:
    return {
        "name": node.id,
        "path": node.path,
        "state": node.state,
        "alive": node.state == "running",
        "restarts": node.restarts,
        "last_exit": None if node.last_exit is None else str(node.last_exit),
    }


def _project(project: Project, agents: list[Plain]) -> Plain:
    mine = [row for row in agents if row["project"] == project.key]
    return {
        "project": project.key,
        "list": os.fspath(project.work.file.absolute()),
        "total": len(mine),
        "finished": sum(row["over"] for row in mine),
        "closed": project.workplace.budgets.spent(project.key),
        **_accounted(project, project.key),
        "seconds": sum(row["seconds"] or 0.0 for row in mine),
    }


def _accounted(project: Project, account: str, kinds: Iterable[Kind] = Kind) -> Plain:
    """Return the usage and the remainder of an account; None stands for an unknown value."""
    ledger = project.workplace.budgets.ledger
    plain: Plain = {"tokens": None, "cost_usd": None, "seconds": 0.0, "output_bytes": 0, "left": {}}
    if account not in ledger:
        return plain
    for kind in kinds:
        balance = ledger.balance(account, kind)
        plain[kind.value] = balance.spent
        if balance.remaining is not None:
            plain["left"][kind.value] = balance.remaining
    return plain


class _Look:
    """One look at one assignment."""

    def __init__(
        self,
        project: Project,
        assignment: Assignment,
        record: AssignmentRecord | None,
        nodes: Mapping[str, TreeSnapshot],
        journal: Journal,
        seconds: float,
    ) -> None:
        self._project = project
        self._assignment = assignment
        self._name = assignment.id
        self._record = record
        self._node = nodes.get(f"{project.pool.path}/{assignment.id}")
        self._post = project.pool.posts.get(assignment.id)
        self._journal = journal
        self._seconds = seconds

    def row(self) -> Plain:
        """Return the row to show."""
        project, assignment, record, name = (
            self._project,
            self._assignment,
            self._record,
            self._name,
        )
        since = self._journal.since.get(name)
        return {
            "agent": name,
            "project": project.key,
            "role": str(assignment.role),
            "by": "program" if assignment.agent is None else assignment.agent.cli,
            "state": self._state(),
            "over": self._over(),
            "doing": self._doing(),
            "for_seconds": None if since is None else self._seconds - since,
            "attempts": 0 if record is None else record.attempts,
            "restarts": 0 if record is None else record.restarts,
            "paused": self._paused(),
            "reason": self._reason(),
            **_accounted(
                project,
                project.desk.account(name),
                _OF_PROGRAMS if assignment.agent is None else Kind,
            ),
        }

    def _over(self) -> bool:
        """Whether it has come out, for good or until the next host."""
        final = self._record is not None and self._record.state.final
        return final or self._project.pool.courses.outcome(self._name) is not None

    def _state(self) -> str:
        ending = self._project.pool.courses.outcome(self._name)
        if ending is not None:
            return str(ending.state)
        if self._post is not None:
            return str(self._post.agent.state)
        return str(State.PENDING if self._record is None else self._record.state)

    def _reason(self) -> str:
        ending = self._project.pool.courses.outcome(self._name)
        if ending is not None:
            return ending.reason
        return "" if self._record is None else self._record.reason

    def _doing(self) -> str:
        """Return its current activity in one line."""
        post, node = self._post, self._node
        if (
            post is None
            or post.agent.state.final
            or self._project.pool.courses.outcome(self._name) is not None
        ):
            return ""
        if node is not None and node.due_in is not None:
            return f"begins again in {node.due_in:.1f} s; {node.last_exit}"
        if post.pause is not None:
            return post.pause.why
        if self._name in self._journal.in_line:
            return f"waits for a place of `parallel` ({self._project.pool.places.capacity})"
        held = self._journal.held.get(self._name, 0.0) - self._seconds
        if held > 0:
            return f"held back for {held:.1f} s: many of its vendor were restarted"
        feed = self._project.workplace.feed
        if any(card.agent == post.key for card in feed.cards()):
            waits, now = feed.waiting(post.key), asyncio.get_running_loop().time()
            if waits is not None:
                return waits
            if tools := feed.tools(post.key):
                return f"[{tools[-1].tool}] for {now - tools[-1].at:.0f} s"
        return self._journal.lines.get(self._name, "")

    def _paused(self) -> Plain | None:
        post = self._post
        if post is None or self._over() or (post.pause is None and not post.frozen):
            return None
        worker = self._project.pool.worker(self._name)
        pause = post.pause or AgentPause(by=OPERATOR, why="")
        return {
            "by": pause.by,
            "why": pause.why,
            "account": pause.account,
            "kind": pause.kind,
            "frozen": bool(post.frozen) or (isinstance(worker, WorkerProcess) and worker.pid > 0),
            "resting": str(post.agent.state).startswith("waiting"),
        }

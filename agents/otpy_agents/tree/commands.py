"""What an operator may ask of a running tree over its socket (G-16).

Commands that change something are told as `operator.command`, with who gave them and what came of
them. All are written down before they are carried out, or later if the disk does not take that, but
for the later pages of a journal that somebody follows.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from pydantic import JsonValue

import otpy
from otpy import Supervisor
from otpy_agents.clock import CLOCK
from otpy_agents.errors import AgentRefused, CommandRefused, LedgerError, LedgerUnwritable
from otpy_agents.operator import CommandRefusal, Handler, OperatorCommand
from otpy_agents.operator.server import CommandKeeper
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.tree.grants import amounts_of, grant_each
from otpy_agents.tree.status import status_of, tree_of

if TYPE_CHECKING:
    from otpy_agents.tree.journal import Journal
    from otpy_agents.tree.project import Project

__all__ = ["FOLLOW", "QuietLog", "TreeCommands"]

FOLLOW: Final = "more"
"""The command that asks for the next page of the journal."""

_LOOKS: Final = frozenset({"status", "tree", "logs"})
_FOLLOWERS: Final = 16  # half of those whom a socket serves
_PATIENCE: Final = 20.0
_ENDING: Final = 5.0
_FAREWELL: Final = 1.0
_TICK: Final = 0.01
_WORDS: Final = ("text", "why", "now", "tokens", "usd", "minutes", "bytes")


@final
class QuietLog:
    """Records every command except `FOLLOW`, which comes many times for one typed command."""

    def __init__(self, log: CommandKeeper) -> None:
        self._log = log
        self._looks: set[int] = set()

    async def begin(self, *, name: str, run: str, arguments: str, actor: str) -> int:
        """Write down a command that is about to be carried out, and return its number."""
        if name == FOLLOW:
            return 0
        try:
            number = await self._log.begin(name=name, run=run, arguments=arguments, actor=actor)
        except LedgerUnwritable:
            if name in _LOOKS:
                return 0  # who only looks changes nothing that must be known
            raise
        if name in _LOOKS:
            self._looks.add(number)
        return number

    async def end(self, number: int, answer: str) -> None:
        """Record the answer; the output of a pure query is not repeated."""
        if number in self._looks:
            self._looks.discard(number)
            answer = json.dumps({"ok": json.loads(answer)["ok"]})
        if number:
            await self._log.end(number, answer)


@final
class TreeCommands:
    """Carries commands out, for projects that work at one place.

    Args:
        projects: All of them, at least one.
        journal: The journal of events.
        began: When the run began, in seconds of the loop.
        clock: Unix seconds.
    """

    def __init__(
        self,
        projects: Sequence[Project],
        journal: Journal,
        began: float,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self._projects = projects
        self._budgets = projects[0].workplace.budgets
        self._journal = journal
        self._began = began
        self._clock = clock
        self._answered: dict[int, float] = {}  # who follows, by process; and when told last
        self._ending = asyncio.Event()

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each command."""
        looking: dict[str, Handler] = {
            "status": self._status,
            "tree": self._tree,
            "logs": self._logs,
            FOLLOW: self._more,
        }
        acting = {
            "pause": self._pause,
            "resume": self._resume,
            "answer": self._reply,
            "reap": self._reap,
            "retry": self._retry,
            "warn": self._warn,
            "grant": self._grant,
        }
        return looking | {name: self._told(work) for name, work in acting.items()}

    # --- looking ----------------------------------------------------------------------------------

    async def _status(self, _: OperatorCommand) -> JsonValue:
        seconds = asyncio.get_running_loop().time() - self._began
        return await status_of(self._projects, _root(), self._journal, seconds, self._clock())

    async def _tree(self, _: OperatorCommand) -> JsonValue:
        return tree_of(_root().snapshot())

    async def _logs(self, command: OperatorCommand) -> JsonValue:
        """Return the first page, and up to which number there are events by now."""
        about = command.arguments.get("agent")
        if about is not None:
            self._find(command)
        return self._page(0, str(about or ""), ended=False)

    async def _more(self, command: OperatorCommand) -> JsonValue:
        """Return the next page; wait for it, for a while, if there is none yet."""
        after, about = command.arguments.get("after"), command.arguments.get("agent")
        if not isinstance(after, int) or after < 0:
            raise CommandRefused(f"{FOLLOW}: after: got {after!r}, wanted a number of an event")
        who, clock = command.actor.pid or 0, asyncio.get_running_loop().time
        self._answered[who] = math.inf
        try:
            if self._journal.last <= after and not self._ending.is_set():
                await self._wait(after)
        finally:
            self._answered[who] = clock()
        ended = self._ending.is_set() and self._journal.read(after).after >= self._journal.last
        if ended:
            del self._answered[who]
        return self._page(after, str(about or ""), ended=ended)

    async def _wait(self, after: int) -> None:
        if sum(one == math.inf for one in self._answered.values()) > _FOLLOWERS:
            message = f"{FOLLOW}: {_FOLLOWERS} others follow the tree"
            raise CommandRefused(message, CommandRefusal.BUSY)
        waits = [
            asyncio.ensure_future(self._journal.beyond(after)),
            asyncio.ensure_future(self._ending.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def farewell(self) -> None:
        """Stay until the tree ends; then wait a moment until all followers were told so.

        A child of the tree, to be stopped just before the socket: a follower that was between two
        pages would else find nobody, and could not tell whether it has missed something.
        """
        self._ending.clear()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if isinstance(otpy.current().requested, otpy.Shutdown):
                self._ending.set()
                await self._until_told()

    async def _until_told(self) -> None:
        """Wait until the followers of a moment ago have left, at most for a moment."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while clock() < began + _FAREWELL:
            if all(one < began - _FAREWELL for one in self._answered.values()):
                return
            await asyncio.sleep(_TICK)

    def _page(self, after: int, about: str, *, ended: bool) -> JsonValue:
        page = self._journal.read(after, about)
        events: list[JsonValue] = [
            {
                "event": entry.name,
                "id": entry.id,
                "seconds": entry.seconds,
                "detail": dict(entry.detail),
            }
            for entry in page.entries
        ]
        return {
            "events": events,
            "after": page.after,
            "last": self._journal.last,
            "lost": page.lost,
            "ended": ended,
        }

    # --- acting -----------------------------------------------------------------------------------

    async def _pause(self, command: OperatorCommand) -> str:
        project, name = self._find(command)
        why, post = f"paused by {command.actor.user}", project.pool.posts[name]
        rests = post.pause is not None and str(post.agent.state).startswith("waiting")
        if command.arguments.get("now") is True:
            if await project.pool.freeze(name, why):
                return "frozen"
        else:
            project.pool.pause(name, why)
        if post.assignment.agent is None:
            return "frozen"
        if rests:
            return "rests already, and is paused too"
        return "will rest at the next boundary of a turn"

    async def _resume(self, command: OperatorCommand) -> str:
        project, name = self._find(command)
        post = project.pool.posts[name]
        if post.pause is None and not post.frozen and post.run is not None:
            # It may wait for its account, or for a retry: that is what is wanted then.
            answered = await post.run.ask(RunControl.RETRY_NOW)
            if answered.accepted:
                return "tries again now"
        rests = project.pool.resume(name)
        return "goes on" if rests is None else f"stays paused: {rests.needs(name)}"

    async def _reply(self, command: OperatorCommand) -> str:
        project, name = self._find(command)
        rests = project.pool.answer(name, command.text("text"))
        if rests is not None:
            return f"has your answer, and stays paused: {rests.needs(name)}"
        return "goes on with your answer"

    async def _warn(self, command: OperatorCommand) -> str:
        project, name = self._find(command)
        try:
            project.pool.warn(name, command.text("text"))
        except OSError as error:
            raise CommandRefused(f"warn: its notes: {error.strerror or error}") from None
        agent = project.pool.posts[name].assignment.agent is not None
        return "told" + (", in its notes now and in its next prompt" if agent else ", in its notes")

    async def _reap(self, command: OperatorCommand) -> str:
        project, name = self._find(command, begun=False)
        pool, why = project.pool, command.text("why")
        if pool.courses.outcome(name) is not None or not await project.desk.memory.is_open(name):
            raise AgentRefused(name, "it has come out already")
        pool.reap(name, f"{why} (by {command.actor.user})")
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING):
                while (outcome := pool.courses.outcome(name)) is None:
                    await pool.courses.until_news(pool.courses.version)
                return str(outcome.state)
        return "is being ended"

    async def _retry(self, command: OperatorCommand) -> str:
        project, name = self._find(command, begun=False)
        await project.retry(name)
        return "begins again"

    async def _grant(self, command: OperatorCommand) -> str:
        wanted = amounts_of(command.arguments)
        project, account = self._account(command)
        key = project.desk.account(account) if account else project.key
        said = grant_each(wanted, partial(project.grant, account), self._budgets.ledger, key)
        try:
            await self._budgets.save()
        except LedgerError as error:
            return f"{said}; not on disk yet: {error}"
        return said

    # --- finding ----------------------------------------------------------------------------------

    def _account(self, command: OperatorCommand) -> tuple[Project, str]:
        """Return the project, and the name, whose budget is meant; no name for all of it."""
        wanted = command.text("agent")
        keys = {project.key: project for project in self._projects}
        try:
            return self._find(command, begun=False)
        except CommandRefused:
            if wanted in keys:
                return keys[wanted], ""
            raise

    def _find(self, command: OperatorCommand, *, begun: bool = True) -> tuple[Project, str]:
        """Return the agent that is meant: by its name, or by `project/name`."""
        wanted = command.text("agent")
        known = {
            project.desk.account(one.id): (project, one.id)
            for project in self._projects
            for one in project.assignments
        }
        found = (
            [known[wanted]]
            if wanted in known
            else [one for one in known.values() if one[1] == wanted]
        )
        if len(found) > 1:
            names = ", ".join(project.desk.account(name) for project, name in found)
            raise CommandRefused(
                f"agent: got {wanted!r}, wanted one of {names}", CommandRefusal.NOT_FOUND
            )
        if not found:
            near = sorted({name for _, name in known.values()} | set(known))
            raise CommandRefused(_unknown(wanted, near), CommandRefusal.NOT_FOUND)
        project, name = found[0]
        if begun and command.name != "logs" and name not in project.pool.posts:
            outcome = project.pool.courses.outcome(name)
            why = "it has not begun" if outcome is None else f"it is {outcome.state}"
            raise AgentRefused(name, why)
        return project, name

    def _told(self, work: Callable[[OperatorCommand], Awaitable[str]]) -> Handler:
        """Return a handler that tells all listeners who did what (G-16)."""

        async def handler(command: OperatorCommand) -> JsonValue:
            detail: dict[str, Any] = {"command": command.name, "by": str(command.actor)}
            given = {key: command.arguments.get(key) for key in _WORDS}
            words = {key: value for key, value in given.items() if value is not None}
            about = command.arguments.get("agent")
            who = about if isinstance(about, str) else "list"
            tell = self._projects[0].desk.tell
            try:
                answer = await work(command)
            except (CommandRefused, AgentRefused) as error:
                tell("operator.command", who, **detail, **words, refused=str(error))
                if isinstance(error, AgentRefused):
                    raise CommandRefused(str(error)) from None
                raise
            tell("operator.command", who, **detail, **words, answer=answer)
            return answer

        return handler


def _unknown(wanted: str, names: list[str]) -> str:
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.4)
    if near:
        return f"agent: got {wanted!r}, which is none of this tree; did you mean {near[0]!r}?"
    return f"agent: got {wanted!r}, wanted one of {', '.join(sorted(names)[:20])}"


def _root() -> Supervisor:
    """Return the root of the tree in which the socket is served."""
    root = otpy.current().root
    assert isinstance(root, Supervisor)  # noqa: S101 - `app_supervisor` says so
    return root

"""A mortal whose assignment an agent takes: it has runs made, one after the other, and waits."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, final

import anyio.to_thread
from attrs import evolve

import otpy
from otpy_agents.agent.card import shown
from otpy_agents.agent.failures import Consequence, failure_of
from otpy_agents.agent.life_record import LifeRecord, end_here, end_if_given_up, living
from otpy_agents.agent.order import order_of, sandbox_for
from otpy_agents.agent.pause import BUDGET, QUESTION, AgentPause
from otpy_agents.agent.persistence import HOST
from otpy_agents.agent.post import Post
from otpy_agents.agent.preflight import Needs, needs_of, obstacles
from otpy_agents.agent.prompts import first_prompt, next_prompt, question_in
from otpy_agents.agent.state import Happening
from otpy_agents.agent.verification import run_verify
from otpy_agents.errors import (
    AgentsError,
    ChangesetError,
    ChangesetTaken,
    DeadlinePassed,
    GitMissing,
    InvalidChangeset,
    InvalidRunSetting,
    InvalidTreeSetting,
    LedgerError,
    LedgerUnwritable,
    NotARepository,
    PreflightFailed,
    RunFailed,
    SandboxUnavailable,
    SymlinkInPath,
    VerificationFailed,
)
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.run.decide.result import Ending, RunResult
from otpy_agents.run.host.admission import make_artifacts
from otpy_agents.run.host.walls import OPEN
from otpy_agents.store.records import State
from otpy_agents.worklist.assignment import Role
from otpy_monitors import activity

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.runs import Run, Runs
    from otpy_agents.agent.verification import Complaint
    from otpy_agents.sandbox import Mount
    from otpy_agents.worklist.assignment import AgentWork, Assignment

__all__ = ["agent_life"]


_REFUSED: Final = (
    *(ChangesetTaken, GitMissing, InvalidChangeset, InvalidRunSetting, NotARepository),
    SymlinkInPath,
)
"""What a person has to see to before an agent can begin. Other errors of git pass."""


async def agent_life(desk: Desk, assignment: Assignment, *, task_status: TaskStatus[Post]) -> None:
    """Live one life of the mortal, or drone, whose assignment an agent takes.

    It is ready when nothing speaks against it. Then it takes up the run that a killed life, or a
    killed host, has left at work, or submits one; and again after a pause, a question or a limit of
    the account (C-15). It returns when the agent has succeeded and that is written down.

    A failure ends it by its class (TREE-32): with an error, so that it is restarted by its policy,
    or for good.

    Raises:
        PreflightFailed: Before it is ready, if the agent cannot be started (TREE-40).
        RunFailed: Its agent failed, and may be restarted.
        DeadlinePassed: A run took longer than the deadline.
        AgentsError: The host of runs cannot make the run.

    Cancellation:
        Its run is stopped in order. Killed, it leaves the run at work for its next life.
    """
    me = otpy.current()
    work, runs = assignment.agent, desk.workplace.runs
    if work is None or runs is None:
        raise PreflightFailed(assignment.id, ["got no host of runs, wanted one for an agent"])
    post = desk.posts.of(assignment)
    await end_if_given_up(desk, assignment.id, partial(task_status.started, post))
    cwd = assignment.cwd or desk.folders.work(assignment.id)
    environment = {**os.environ, **assignment.env}
    async with contextlib.AsyncExitStack() as held:
        await _preflight(desk, assignment, cwd, environment, held)
        task_status.started(post)
        if me.incarnation > 1 and not await desk.memory.is_open(assignment.id):
            if await desk.memory.is_done(assignment.id):
                return  # it was killed between that and its own end
            await end_here(desk, assignment.id, "it is no longer open")
        if me.incarnation > 1:
            await desk.workplace.starts.take(desk.tell, assignment.id, work.cli)
        reason = desk.memory.last_exit(assignment.id, me.last_exit)
        try:
            cwd = await _beginning(desk, post, work, reason) or cwd
            mounts = await _mounts(desk, assignment, work)
        except _REFUSED as error:  # something came in its way since: no restart can mend that
            await end_here(desk, assignment.id, str(error), State.FAILED)
        feed, parent = desk.workplace.feed, desk.children.parent(assignment.id)
        folders = (cwd, desk.folders.work(assignment.id))
        async with living(desk, assignment.id) as life:
            with shown(feed, post, cwd, parent=parent, directories=folders):
                await _AgentLife(desk, post, work, runs, cwd, mounts, life).live(reason)
            life.reason = "done"
    # Once it is written down it is done, even if somebody ends us at this very moment.
    with contextlib.suppress(asyncio.CancelledError, LedgerError):  # else Jake writes it down
        await desk.memory.ledger.finish(assignment.id, State.DONE)
        await desk.memory.write_moves()


async def _preflight(
    desk: Desk,
    assignment: Assignment,
    cwd: Path,
    environment: Mapping[str, str],
    held: contextlib.AsyncExitStack,
) -> None:
    """Raise if the agent cannot be started as things stand, with all that is in its way.

    Its changeset is its own from here on: what was free a moment ago could be taken by then.

    Args:
        desk: The desk of its list.
        assignment: Its assignment.
        cwd: Where it works unless it has a work tree.
        environment: Its environment.
        held: Takes what keeps everybody else from its changeset.

    Raises:
        PreflightFailed: With all obstacles at once.
    """
    found: list[str] = []
    work = assignment.agent
    choice = desk.workplace.sandbox
    if work is not None:
        try:
            choice = sandbox_for(choice, assignment, work, environment)
            if choice.name != OPEN and await desk.memory.is_new(assignment.id):
                await desk.workplace.try_sandbox(choice)
            if work.artifacts is not None:
                await anyio.to_thread.run_sync(make_artifacts, work.artifacts, "artifacts")
        except (InvalidRunSetting, SandboxUnavailable) as error:
            found.append(str(error))
    found += obstacles(_needs(desk, assignment, choice.name), cwd, environment)
    repository = None if work is None else work.changeset
    if repository is not None:
        try:
            begun = not await desk.memory.is_new(assignment.id)
            changesets = desk.keeping.changesets(repository)
            hold = changesets.hold(assignment.id, digest=assignment.digest, begun=begun)
            await held.enter_async_context(hold)
        except ChangesetError as error:
            found.append(str(error))
    if found:
        raise PreflightFailed(assignment.id, found)
    if otpy.current().incarnation == 1:
        desk.tell_walls(assignment, choice)


async def _mounts(desk: Desk, assignment: Assignment, work: AgentWork) -> tuple[Mount, ...]:
    """Return the mounts from its repository that an agent behind walls needs."""
    own = desk.workplace.sandbox
    if work.changeset is None or sandbox_for(own, assignment, work, os.environ).name == OPEN:
        return ()
    return await desk.keeping.changesets(work.changeset).mounts(assignment.id)


async def _beginning(desk: Desk, post: Post, work: AgentWork, reason: str | None) -> Path | None:
    """Return the work tree of an agent, if it is to have one.

    The first life of a definition finds neither work nor a session of others. That nothing is known
    of another attempt says so, however often a host was killed on the way here.
    """
    name, keeping = post.assignment.id, desk.keeping
    new = await desk.memory.is_new(name)
    if new:
        await keeping.begin_anew(post.key)
    if work.changeset is None:
        return None
    if new:
        return await keeping.new_work_tree(work.changeset, name)
    restarted = None if reason is None else post.fell or HOST
    return await keeping.work_tree(work.changeset, name, restarted)


def _needs(desk: Desk, assignment: Assignment, sandbox: str) -> Needs:
    """Return the needs of the worker, without those that a sandbox supplies itself."""
    needs = evolve(needs_of(assignment), budget_left=desk.budget_left(assignment))
    return needs if sandbox in {"process", "bubblewrap"} else evolve(needs, program="", cli="")


@final
class _AgentLife:
    """One life: run after run, until one has completed the agent's work."""

    def __init__(
        self,
        desk: Desk,
        post: Post,
        work: AgentWork,
        runs: Runs,
        cwd: Path,
        mounts: tuple[Mount, ...],
        life: LifeRecord,
    ) -> None:
        self._desk = desk
        self._post = post
        self._work = work
        self._runs = runs
        self._cwd = cwd
        self._mounts = mounts
        self._life = life
        self._label = desk.memory.label(post.assignment)

    async def live(self, reason: str | None) -> None:
        """Work until it is done.

        Args:
            reason: Why the life before this one ended; None if there was none.
        """
        post, desk = self._post, self._desk
        for failure in post.failures:  # its host may have ended before it was given up for one
            await self._give_up_if_spent(failure, f"{failure}, under an earlier host")
        desk.workplace.narrator.follow(self._label, post)
        desk.workplace.turns.follow(self._label, desk.places, post.assignment.id)
        stored = await desk.keeping.recall(post, self._work.context)
        if post.pause is not None:  # under an earlier host: that of a dead one is not resumed yet
            await self._rest()
        # A run that ended after its life was killed is good work too.
        run = await self._find() or post.run
        if run is not None:
            desk.tell("agent.taken_up", post.assignment.id, run=run.id)
        await self._rest()
        prompt: Callable[..., str] = partial(first_prompt, self._work, reason=reason, stored=stored)
        while True:
            if run is None:
                run = await self._submit(prompt)
            await desk.memory.write_run(post, run.id)
            try:
                result = await self._result(run)
            except LedgerUnwritable:
                # Its host cannot go on with it before there is room; that is not a failure.
                run = await self._find()
                continue
            answer, run = run.answer, None
            await desk.memory.disk.until_written(partial(self._learn, result, answer))
            succeeded = result.ending is Ending.SUCCEEDED
            question = question_in(answer) if succeeded else None
            if succeeded and question is None:
                await self._verify(answer)
                return
            post.run = None  # what it came to is taken in
            await desk.memory.write_run(post, "")
            if question is not None:
                self._ask(question)
            elif result.ending is not Ending.STOPPED:
                await self._failed(result)
            elif post.pause is None:
                # Somebody else stopped it, as a host of runs that restarts does: begin again.
                await desk.workplace.starts.take(desk.tell, post.assignment.id, self._work.cli)
            await self._rest()
            prompt = partial(next_prompt, self._work)

    # --- runs -------------------------------------------------------------------------------------

    async def _submit(self, prompt: Callable[..., str]) -> Run:
        """Begin a run; only then has the agent been told what others have to say to it."""
        post, said, messages = self._post, self._post.reply, tuple(self._post.messages)
        order = order_of(
            self._desk,
            post.assignment,
            self._work,
            prompt=prompt(said=said, messages=messages),
            cwd=self._cwd,
            session=post.session,
            mounts=self._mounts,
        )
        run = await self._desk.memory.disk.until_written(partial(self._runs.submit, order))
        post.drop_told(said, len(messages))
        self._desk.keep_messages(post)
        return run

    async def _find(self) -> Run | None:
        """Return the run that is at work for it, was left unfinished, or was not taken in."""
        find = partial(self._runs.find, self._label, self._post.last)
        return await self._desk.memory.disk.until_written(find)

    async def _result(self, run: Run) -> RunResult:
        """Wait for the end of a run; end it when the agent is told to rest."""
        self._post.run = run
        stopping = asyncio.create_task(self._stop_at_boundary(run))
        try:
            async with asyncio.timeout(self._post.assignment.deadline):
                result = await run.wait()
        except TimeoutError:
            result = await self._stop(run)
            if result.ending is Ending.SUCCEEDED:
                return result
            deadline = self._post.assignment.deadline or 0.0
            raise DeadlinePassed(self._post.assignment.id, deadline) from None
        except asyncio.CancelledError:
            if not isinstance(otpy.current().requested, otpy.Killed):
                await self._stop(run)
            raise
        except AgentsError:
            self._post.run = None  # the host of runs could not go on with it
            raise
        finally:
            stopping.cancel()
        return result

    async def _stop_at_boundary(self, run: Run) -> None:
        await self._post.until_it_may_be_stopped(self._post.assignment.grace)
        await run.ask(RunControl.STOP)

    async def _learn(self, result: RunResult, answer: str) -> None:
        # First what is spent: of a run that was taken in no later host hears.
        with contextlib.suppress(LedgerError):  # it is tried again every few seconds
            await self._desk.workplace.budgets.save()
        await self._desk.keeping.remember(self._post, result, answer)
        last = answer.strip().rpartition("\n")[2]
        self._life.last_line = last or self._life.last_line

    async def _stop(self, run: Run) -> RunResult:
        """Stop a run in order, and wait until nothing of it is alive.

        One that had answered before stays at the post: the next life takes its work up.
        """
        await run.ask(RunControl.STOP)
        result = await run.wait()
        with contextlib.suppress(LedgerUnwritable):  # who ends waits for no disk
            await self._learn(result, run.answer)
        self._post.run = run if result.ending is Ending.SUCCEEDED else None
        return result

    # --- ends -------------------------------------------------------------------------------------

    async def _verify(self, answer: str) -> None:
        """Accept its work, or fail (TREE-29)."""
        post = self._post
        post.move(Happening.CLAIMED)
        await self._write_down()
        failure = await self._complaint(answer)
        if failure is None:
            keeping, disk = self._desk.keeping, self._desk.memory.disk
            await disk.until_written(partial(keeping.forget, post))
            post.messages.clear()
            self._desk.keep_messages(post)
            post.move(Happening.ACCEPTED)
            return
        post.run = None
        post.messages.append(failure.feedback)
        self._desk.keep_messages(post)
        await self._desk.memory.write_run(post, "")
        await self._fail(VerificationFailed(failure.name, failure.message))

    async def _complaint(self, answer: str) -> Complaint | None:
        """Return the complaint of the command, or else of `desk.verify`."""
        post, desk = self._post, self._desk
        feed, clock = desk.workplace.feed, asyncio.get_running_loop().time
        if self._work.verify:
            # The agent itself does nothing meanwhile, which must not be taken for a stall.
            feed.tell(activity.RestBegan(post.key, clock(), "it is verified"))
            failure = await run_verify(
                post.assignment,
                self._work,
                self._cwd,
                list_id=desk.memory.ledger.list_id,
                folders=desk.folders,
            )
            feed.tell(activity.RestEnded(post.key, clock()))
            if failure is not None:
                return failure
        try:
            return await desk.verify(post.assignment, self._cwd, answer)
        except InvalidTreeSetting as error:  # no other life could verify its work either
            await end_here(desk, post.assignment.id, str(error), failed=True)

    async def _failed(self, result: RunResult) -> None:
        failure, message = failure_of(result), result.error or ""
        if self._desk.workplace.failures.row(failure).waits:
            # The next run waits for the account by itself; this is not a crash and not counted.
            self._desk.tell("agent.limited", self._post.assignment.id, reason=message)
            await self._desk.workplace.starts.take(
                self._desk.tell, self._post.assignment.id, self._work.cli
            )
            return
        await self._fail(RunFailed(failure, message))

    async def _fail(self, error: RunFailed) -> NoReturn:
        """Crash, to be restarted; or be given up, where a restart cannot help."""
        self._post.failures[error.failure] += 1
        with contextlib.suppress(LedgerError):  # then it counts under this host only
            await self._desk.memory.write_failures(self._post)
        await self._give_up_if_spent(error.failure, error)
        raise error

    async def _give_up_if_spent(self, failure: str, what: object) -> None:
        """Be given up if a failure has come too often."""
        post, table = self._post, self._desk.workplace.failures
        times = post.failures[failure]
        follows = table.follows(failure, times, drone=post.assignment.role is Role.DRONE)
        if follows.ends:
            name, why = post.assignment.id, f"{table.kind(failure, times)} failure: {what}"
            if follows is Consequence.ESCALATE:
                self._desk.tell("agent.escalated", name, reason=why)
            self._desk.tell("operator.notified", name, detail=why)
            await end_here(self._desk, name, why, failed=True)

    # --- rests ------------------------------------------------------------------------------------

    def _ask(self, question: str) -> None:
        """Ask a person, and rest until there is an answer."""
        self._desk.tell("operator.asked", self._post.assignment.id, question=question)
        self._post.pause_for(AgentPause(by=QUESTION, why=question))

    async def _rest(self) -> None:
        """Rest as long as anything wants that, or there is nothing left to spend."""
        post, pause = self._post, self._reason_to_rest()
        if pause is None:
            turns = self._desk.workplace.turns
            if not turns.rests(self._label):  # its last life may have ended while it rested
                await self._desk.places.take(post.assignment.id)
            if turns.rests(self._label):  # what this life was begun with is not needed yet
                self._desk.places.leave(post.assignment.id)
            if not self._desk.workplace.narrator.waits(post):
                self._post.wakes()  # its last life may have been killed while it rested
            return
        feed, clock = self._desk.workplace.feed, asyncio.get_running_loop().time
        feed.tell(activity.RestBegan(post.key, clock(), pause.why))
        while pause is not None:
            if pause.by == BUDGET:
                # First what is spent: else a host that is killed now would let it be spent again.
                with contextlib.suppress(LedgerError):
                    await self._desk.workplace.budgets.save()
            post.rests(pause)
            self._desk.places.leave(post.assignment.id)
            spent = {"account": pause.account, "kind": pause.kind} if pause.by == BUDGET else {}
            self._desk.tell(
                "mortal.paused", post.assignment.id, by=pause.by, detail=pause.why, **spent
            )
            await self._write_down()
            await post.until_over(pause)
            # Who lets it go on need not know that others have spent its budget meanwhile.
            pause = self._reason_to_rest()
            if pause is None:
                await self._desk.places.take(post.assignment.id)
                pause = self._reason_to_rest()  # it may have been paused while it waited
        self._post.wakes()
        feed.tell(activity.RestEnded(post.key, clock()))
        self._desk.tell("mortal.resumed", post.assignment.id)
        await self._write_down()

    def _reason_to_rest(self) -> AgentPause | None:
        spent = self._desk.workplace.budgets.spent_up(self._post.key)
        if spent:
            self._post.pause_for(spent)
        return self._post.pause

    async def _write_down(self) -> None:
        """Store its state at once: Jake, who does so otherwise, may be away."""
        with contextlib.suppress(LedgerError):  # then Jake tries again
            await self._desk.memory.write_moves()

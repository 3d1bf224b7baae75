"""A mortal: one assignment, run as an operating system process; and how it is supervised."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from attrs import evolve

import otpy
from otpy import Backoff, ChildSpec, Intensity, Restart
from otpy.specs import GIVE_UP
from otpy_agents.agent import preflight
from otpy_agents.agent.card import Program, shown
from otpy_agents.agent.folders import exit_file
from otpy_agents.agent.life import agent_life
from otpy_agents.agent.life_record import end_here, end_if_given_up, living
from otpy_agents.errors import DeadlinePassed, LedgerError, LedgerUnwritable, WorkerFailed
from otpy_agents.process.process import WorkerProcess, spawn
from otpy_agents.run.host.attempt import MARGIN
from otpy_agents.sandbox.marker import worker_environment
from otpy_agents.store.records import State
from otpy_agents.store.redaction import Redaction
from otpy_agents.worklist.assignment import Assignment, Role

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.post import Post
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["mortal_spec"]


async def mortal(
    desk: Desk, assignment: Assignment, *, task_status: TaskStatus[WorkerProcess | None]
) -> None:
    """Live one life of the mortal, or drone, that takes `assignment`.

    Checks what can be checked before, waits for its place among restarts (G-17), starts the
    worker in a session of its own, is ready when it runs, streams its output, and returns when it
    has succeeded and that is written down. However this ends, cancelled several times over too,
    nothing the worker started is alive afterwards.

    One that is paused when it is to begin is ready at once, and begins when it is resumed.

    A restarted worker learns from its environment that it was, and why (TREE-36, TREE-37).

    Raises:
        PreflightFailed: Before it is ready, if the worker cannot be started (TREE-40).
        SpawnFailed: Before it is ready, if the system refused to start it.
        WorkerFailed: If the worker ended otherwise than with exit code 0.
        DeadlinePassed: If it took longer than its deadline.
        LedgerError: If something could not be written down.
    """
    me = otpy.current()
    post = desk.posts.of(assignment)
    await end_if_given_up(desk, assignment.id, partial(task_status.started, None))
    work = desk.folders.work(assignment.id)
    environment = worker_environment(
        os.environ,
        assignment.env,
        list_id=desk.memory.ledger.list_id,
        assignment=assignment.id,
        incarnation=me.incarnation,
        restarts=me.restarts,
        work=work,
        notes=desk.folders.notes(assignment.id),
        last_exit=desk.memory.last_exit(assignment.id, me.last_exit),
    )
    cwd = assignment.cwd or work
    needs = evolve(preflight.needs_of(assignment), budget_left=desk.budget_left(assignment))
    preflight.check(assignment, cwd, environment, needs)
    redacted = Redaction(environment)

    feed = desk.workplace.feed
    program = Program(feed, post.key)

    def on_line(line: str) -> None:
        program.line()
        desk.tell("mortal.output", assignment.id, line=redacted(line))

    def on_pause(frozen: bool) -> None:  # noqa: FBT001 - as `spawn` wants it
        program.tell_frozen(frozen)
        if not frozen and post.pause is not None:  # somebody outside let it go on (`kill -CONT`)
            post.go_on()
            post.wakes()
            desk.places.enter(assignment.id)  # that word goes before the bound
            desk.tell("mortal.resumed", assignment.id)

    if me.incarnation > 1 and not await desk.memory.is_open(assignment.id):
        task_status.started(None)
        if await desk.memory.is_done(assignment.id):
            return  # it was killed between that and its own end
        await end_here(desk, assignment.id, "it is no longer open")
    record = exit_file(desk.folders.state, assignment.id)
    worker = spawn(
        assignment.argv,
        cwd=cwd,
        env=environment,
        grace=assignment.grace,
        on_line=on_line,
        on_chunk=program.chunk,
        on_pause=on_pause,
        record=record,
    )
    rested = post.pause is not None
    if rested:  # it was paused between two lives; others need not wait until it goes on
        task_status.started(worker)
        await _rest(desk, post, worker)
    if me.incarnation > 1:
        await desk.workplace.starts.take(desk.tell, assignment.id)
    async with living(desk, assignment.id) as life:
        try:
            async with worker:
                # Without this row the next host finds it all the same, by its marker.
                with contextlib.suppress(LedgerUnwritable):
                    await desk.memory.ledger.record_spawn(
                        life.attempt, worker.pid, worker.pgid, worker.create_time
                    )
                with shown(feed, post, cwd, parent=desk.children.parent(assignment.id)):
                    if post.pause is not None:  # that came while it was begun
                        worker.pause()
                    if not rested:
                        task_status.started(worker)
                    program.run(" ".join(assignment.argv))
                    await _succeed(worker, assignment, redacted)
            life.reason = "exit code 0"
        finally:
            life.exit_code = worker.status.code if worker.status is not None else None
            life.last_line = redacted(worker.last_line)
            life.output_bytes = worker.output_bytes
            for orphan in worker.left_over:
                desk.tell("mortal.left_over", assignment.id, ended=str(orphan))
    # Once it is written down it is done, even if somebody ends us at this very moment.
    with contextlib.suppress(asyncio.CancelledError, LedgerError):  # else Jake writes it down
        await desk.memory.ledger.finish(assignment.id, State.DONE)
        with contextlib.suppress(OSError):  # nobody reads it any more
            record.unlink(missing_ok=True)


async def _rest(desk: Desk, post: Post, worker: WorkerProcess) -> None:
    """Wait until its pauses are over; there is no process yet."""
    worker.pause()
    pause = post.pause
    while pause is not None:
        desk.places.leave(post.assignment.id)
        await post.until_over(pause)
        pause = post.pause
        if pause is None:
            await desk.places.take(post.assignment.id)
            pause = post.pause  # it may have been paused while it waited
    worker.resume()


async def _succeed(worker: WorkerProcess, assignment: Assignment, redacted: Redaction) -> None:
    """Wait for the worker to end well."""
    try:
        async with asyncio.timeout(assignment.deadline):
            status = await worker.wait()
    except TimeoutError:
        raise DeadlinePassed(assignment.id, assignment.deadline or 0.0) from None
    if not status.succeeded:
        raise WorkerFailed(assignment.id, str(status), redacted(worker.last_line))


_MARGIN: Final = 5.0
"""Seconds beyond its grace in which a worker's process group is certainly gone."""


def mortal_spec(desk: Desk, assignment: Assignment) -> ChildSpec:
    """Return the spec of the mortal, or drone, that takes `assignment` (TREE-17, TREE-18).

    Transient, with a restart window of its own: when that is used up, this one is reaped and its
    siblings work on.
    """
    if assignment.backoff is not None:
        backoff = Backoff.sequence(*assignment.backoff) if assignment.backoff else Backoff.none()
    elif assignment.role is Role.DRONE:
        backoff = Backoff.none()
    else:
        backoff = Backoff.exponential(2.0, max=60.0)
    # An agent waits for the end of its attempt, which has the margin of attempts.
    more = _MARGIN if assignment.agent is None else MARGIN + _MARGIN
    return ChildSpec(
        assignment.id,
        mortal if assignment.agent is None else agent_life,
        (desk, assignment),
        restart=Restart.TRANSIENT,
        shutdown=assignment.grace + more,
        backoff=backoff,
        intensity=Intensity(assignment.restarts, assignment.within, then=GIVE_UP),
    )

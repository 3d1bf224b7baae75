"""The child that makes one attempt: from the launch to the verdict, with nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import anyio.to_thread
from attrs import evolve

from otpy import ChildSpec, Restart
from otpy_agents.adapters.adapter import Adapter
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.attempt.events import SessionSeen, Spent
from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.classify.classification import classify
from otpy_agents.errors import (
    AdapterError,
    InvalidJob,
    InvalidRequest,
    SandboxUnavailable,
    SpawnFailed,
)
from otpy_agents.run.decide.prices import priced
from otpy_agents.run.decide.protocol import AttemptGone
from otpy_agents.run.host.facts import AgentEvent, LogLine, OutputLine
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.job import job_of
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.session_tail import SessionTail, tail_of
from otpy_agents.sandbox.behaviour import Ended, Job, Running
from otpy_agents.sandbox.output import OUTPUT_LIMIT

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from otpy_agents.attempt.events import Event

__all__ = ["MARGIN", "attempt_id", "attempt_spec", "judge_unheard"]

MARGIN: Final = 20.0
"""Seconds beyond its grace in which an attempt is certainly gone: force removal takes 10."""

_START_LIMIT: Final = 60.0
_SIGNAL_BASE: Final = 128
_NOT_FOUND: Final = 127
_MUCH: Final = 256 * 1024  # characters whose judgement would hold the loop up


def attempt_id(number: int) -> str:
    """Return the id of the child that makes attempt `number`."""
    return f"attempt-{number}"


def attempt_spec(run: LiveRun, flight: Flight) -> ChildSpec:
    """Return the spec of a temporary child that makes an attempt, or goes on with one.

    The start of one that goes on fails with `CannotAdopt` if that is not possible; any other is
    started at once, and its flight tells the rest.
    """
    adopt = flight.identity is not None
    return ChildSpec(
        attempt_id(flight.number),
        _adopted if adopt else _made,
        (run, flight),
        restart=Restart.TEMPORARY,
        shutdown=run.order.sandbox.limits.grace + MARGIN,
        start_timeout=_START_LIMIT if adopt else None,
    )


async def _made(run: LiveRun, flight: Flight) -> None:
    """Make an attempt; raises nothing that is the agent's or the machine's fault."""
    if run.flight is not flight:  # given up before its turn came
        return
    try:
        outcome = await _fly(run, flight, lambda: None)
    except (AdapterError, InvalidJob, InvalidRequest, SandboxUnavailable, SpawnFailed) as error:
        verdict = _not_started(run, flight, error)
        outcome = AttemptGone(number=flight.number, classification=verdict)
    flight.finish(outcome)


async def _adopted(run: LiveRun, flight: Flight, *, task_status: TaskStatus[None]) -> None:
    """Go on with an attempt of an earlier host."""
    flight.finish(await _fly(run, flight, task_status.started))


def _not_started(run: LiveRun, flight: Flight, error: Exception) -> Classification:
    """Return the failure of an attempt that could not be started (RUN-45, C-03)."""
    message = run.clean(str(error))
    if isinstance(error, SandboxUnavailable):
        return Classification(detail=Detail.NETWORK, message=message)
    if (
        isinstance(error, InvalidRequest) and error.field == "prompt"
    ):  # too long; an empty one is none
        return Classification(detail=Detail.CONTEXT_OVERFLOW, message=message)
    if isinstance(error, SpawnFailed):
        with contextlib.suppress(AdapterError):
            message += f"; {find_adapter(flight.order.agent.agent_cli).install_hint}"
    return Classification(detail=Detail.USAGE, message=message)


async def _fly(run: LiveRun, flight: Flight, ready: Callable[[], object]) -> AttemptGone:
    """Make one attempt and return how it ended; nothing of it is alive then."""
    adapter, job = await _job(run, flight)
    ears = _ears(run, flight, adapter, job)
    if job.egress is not None:
        job = evolve(job, egress=evolve(job.egress, on_refused=partial(_refused, run, flight)))
    start = run.sandbox.run
    if flight.identity is not None:
        start = partial(run.sandbox.adopt, flight.identity)
    async with start(job, on_stdout=ears.stdout, on_stderr=ears.stderr) as running:
        flight.began(running)
        ready()
        ended = await _until_end(running, flight, ears)
    await ears.read_report(job)
    await ears.hear_what_was_spent()
    flight.cut = ended.cut
    flight.left_over = tuple(run.clean(str(one)) for one in ended.left_over)
    flight.survivors = tuple(run.clean(str(one)) for one in running.survivors)
    return await _outcome(run, flight, adapter, job, ended)


def _refused(run: LiveRun, flight: Flight, what: str) -> None:
    """Tell which network requests of the attempt were refused (ENG-12)."""
    run.tell(LogLine, text=f"[supervisor] attempt {flight.number}: {what}")


async def judge_unheard(run: LiveRun, flight: Flight, exit_code: int) -> None:
    """Finish an attempt that ended by itself after its host had died, or had not stored it yet.

    Nobody has its output any more, only its report, if its CLI writes one. So an exit code of 0 is
    a success, whatever it answered: it is not done a second time.

    Args:
        run: Its run.
        flight: The attempt.
        exit_code: As in `Ended`.

    Raises:
        AdapterError: Its CLI is not known any more.
        InvalidRequest: Its CLI could not be started like that any more.
    """
    adapter, job = await _job(run, flight)
    ears = _ears(run, flight, adapter, job)
    await ears.read_report(job)
    await ears.hear_what_was_spent()
    outcome = await _outcome(run, flight, adapter, job, Ended(exit_code=exit_code))
    if exit_code == 0 and outcome.classification.detail is Detail.NO_RESULT:
        outcome = evolve(outcome, classification=Classification())
    flight.finish(outcome)


async def _job(run: LiveRun, flight: Flight) -> tuple[Adapter, Job]:
    """Return the job of an attempt, and its adapter."""
    adapter = find_adapter(flight.order.agent.agent_cli)
    folder = await run.make_folder(flight.number)
    job = job_of(
        run.id,
        run.order,
        flight.order,
        adapter,
        folder=folder,
        around=run.site.around,
        inherits=run.sandbox.inherits,
    )
    return adapter, job


def _ears(run: LiveRun, flight: Flight, adapter: Adapter, job: Job) -> _Ears:
    """Return the listener of an attempt, with the session files that its CLI writes."""
    attempt, given = run.state.attempt, job.launch.session
    began = run.site.clock() if attempt is None else attempt.began
    if attempt is not None and attempt.number == flight.number:
        given = attempt.session or given
    resumed = flight.order.session is not None
    tail = tail_of(adapter, job.variables, resumed=resumed, began=began)
    return _Ears(run, flight, adapter, given, tail)


async def _until_end(running: Running, flight: Flight, ears: _Ears) -> Ended:
    """Wait for the end, and bring it about when that is asked."""
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(flight.when_stopped(running.stop))
        killing = group.create_task(flight.when_killed(running.kill))
        following = group.create_task(ears.follow())
        ended = await running.wait()
        following.cancel()
        stopping.cancel()
        killing.cancel()
    return ended


async def _outcome(
    run: LiveRun, flight: Flight, adapter: Adapter, job: Job, ended: Ended
) -> AttemptGone:
    judge = partial(
        classify,
        adapter.name,
        # How it took the signal says nothing about the answer that came before.
        exit_code=0 if flight.answered and flight.stopping else ended.exit_code,
        stdout=ended.stdout,
        stderr=ended.stderr,
        container_state=ended.container_state,
        now=datetime.fromtimestamp(run.site.clock(), UTC).astimezone(),
    )
    much = len(ended.stdout) + len(ended.stderr) > _MUCH
    verdict = await anyio.to_thread.run_sync(judge) if much else judge()
    if verdict.detail is Detail.USAGE and ended.exit_code == _NOT_FOUND and not verdict.message:
        message = f"no program {job.launch.argv[0]!r} there; {adapter.install_hint}"
        verdict = evolve(verdict, message=message)
    said = flight.transcript
    # Once more: a secret that came in pieces stood in no line.
    flight.answer = run.clean(said.answer if said.seen else ended.stdout.strip())
    exit_code, number = ended.exit_code, _signal(ended)
    return AttemptGone(
        number=flight.number,
        classification=evolve(verdict, message=run.clean(verdict.message)),
        exit_code=_SIGNAL_BASE + number if number and exit_code and exit_code < 0 else exit_code,
        signal=number,
        session=said.session,
        usage=priced(said.usage, said.model or flight.order.agent.model or ""),
        cumulative=adapter.cumulative_usage,
        artifacts=ended.artifacts,
        answered=flight.answered or not flight.stopping,
    )


def _signal(ended: Ended) -> int | None:
    try:
        return None if ended.signal is None else signal.Signals[ended.signal]
    except KeyError:  # a number without a name
        return None if ended.exit_code is None else -ended.exit_code


def _lines_of(report: Path) -> list[str]:
    """Return the lines of a report, if it came to one; of a huge one the beginning."""
    with contextlib.suppress(OSError), report.open(encoding="utf-8", errors="replace") as file:
        return file.read(OUTPUT_LIMIT).splitlines()
    return []


@final
class _Ears:
    """Listens to an attempt: tells its lines and their meaning."""

    def __init__(
        self,
        run: LiveRun,
        flight: Flight,
        adapter: Adapter,
        session: str | None,
        tail: SessionTail | None,
    ) -> None:
        self._run, self._flight = run, flight
        self._out = adapter.parser()
        self._err = adapter.parser() if adapter.errors_on_stderr else None
        self._given, self._tail = session, tail
        self._exact, self._cumulative, self._most = False, adapter.cumulative_usage, 0

    def stdout(self, line: str) -> None:
        self._run.tell(OutputLine, number=self._flight.number, text=line, stderr=False)
        self.hear(line)

    def stderr(self, line: str) -> None:
        self._run.tell(OutputLine, number=self._flight.number, text=line, stderr=True)
        if self._err is not None:
            self.hear(line, stderr=True)
        else:
            self._flight.wrote()

    async def read_report(self, job: Job) -> None:
        """Read the report that the CLI has written into a file, if it was told to."""
        if job.launch.report is not None:
            for line in await anyio.to_thread.run_sync(_lines_of, job.launch.report):
                self.hear(job.secrets(line))

    def hear(self, line: str, *, stderr: bool = False) -> None:
        """Take what a line says."""
        parser = self._err if stderr and self._err is not None else self._out
        events = [one for one in parser.feed(line) if not self._is_stale(one)]
        # The CLI's own account counts; of a stopped one it may be empty.
        told = any(isinstance(one, Spent) and one.usage != Usage() for one in events)
        self._exact = self._exact or (told and not self._cumulative)
        if self._tail is not None and events:
            self._tail.wrote()
        self._take(events)

    async def follow(self) -> None:
        """Tell each answered request, for as long as it is not cancelled."""
        if self._tail is not None:
            await self._tail.follow(self._session, self._spent)

    async def hear_what_was_spent(self) -> None:
        """Read from the session files the usage that an interrupted CLI did not tell."""
        if self._tail is not None and not self._exact:
            spent = await self._tail.look(self._session(), last=True)
            if spent is not None:
                self._spent(spent)

    def _session(self) -> str | None:
        return self._flight.transcript.session or self._flight.order.session or self._given

    def _is_stale(self, event: Event) -> bool:
        """Whether it is a session's count below one heard before.

        A CLI that was killed has written down more than it counts on from: Codex sums up a thread
        without the last answers before each kill, and its rollout has them.
        """
        if not self._cumulative or not isinstance(event, Spent):
            return False
        before, self._most = self._most, max(self._most, event.usage.input + event.usage.output)
        return event.usage.input + event.usage.output < before

    def _spent(self, spent: Spent) -> None:
        if self._exact or self._is_stale(spent):
            return
        known = self._flight.transcript.session
        if known is None and self._given is not None:  # its file is there now, and holds an answer
            self._take([SessionSeen(self._given, spent.model)])
        self._take([spent])

    def _take(self, events: list[Event]) -> None:
        if events:
            self._flight.said(events)
        else:
            self._flight.wrote()
        for event in events:
            self._run.tell(AgentEvent, number=self._flight.number, said=event)

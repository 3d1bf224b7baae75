"""Runs Elixir scenarios on otpy, in virtual time; returns the same traces as `elixir_runner`."""

from __future__ import annotations

import asyncio
from types import coroutine
from typing import TYPE_CHECKING, Any, cast, final

import otpy
from otpy import SupervisorFailed
from otpy.reports import (
    ChildExited,
    ChildStartFailed,
    ChildStopped,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)
from otpy.testing import MockClock
from tests.conformance.actor import reason
from tests.conformance.elixir_actor import World, word_of
from tests.conformance.elixir_operations import perform
from tests.conformance.elixir_scenario import Between, Die, Do, Meanwhile, name_of
from tests.conformance.elixir_tree import spec, table
from tests.conformance.trace import Section

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterable

    from otpy import SupervisorSpec
    from tests.conformance.elixir_scenario import Scenario, Step
    from tests.conformance.trace import Trace

REST = 10.0  # virtual seconds: longer than any operation of a scenario


def play(scenario: Scenario) -> Trace:
    """Run `scenario` and return its trace."""
    clock = MockClock()
    return clock.run(_Run(clock).whole(scenario))


@final
class _Run:
    """One run of one scenario."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._world = World()
        self._ended: list[str] = []
        self._answers: list[asyncio.Future[str]] = []
        self._between: dict[str, tuple[Do, ...]] = {}

    async def whole(self, scenario: Scenario) -> Trace:
        """Start, take every step, end."""
        host = asyncio.create_task(self._host(scenario))
        await self._clock.advance(REST)
        trace = [await self._section("start", [f"ok {scenario.tree.name}"])]
        for step in scenario.steps:
            self._answers = []
            await self._step(step)
            await self._clock.advance(REST)
            answers = [a.result() if a.done() else "no answer" for a in self._answers]
            trace.append(await self._section(name_of(step), answers))
        host.cancel()
        await asyncio.wait([host])
        return trace

    async def _host(self, scenario: Scenario) -> None:
        """Be the parent of the root."""
        tree: SupervisorSpec = spec(self._world, scenario.tree)
        try:
            async with otpy.start(tree, hooks=[self._hear]) as root:
                self._world.root = root
                await asyncio.get_running_loop().create_future()
        except SupervisorFailed:
            pass  # it gave up: already recorded

    # --- steps -----------------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        match step:
            case Die():
                self._die(step)
            case Do():
                self._do(step)
            case Meanwhile():
                for item in step.items:
                    await self._step(item)
                    await self._clock.advance(0)
            case Between():
                self._between[step.die.name] = step.calls
                self._die(step.die)

    def _die(self, step: Die) -> None:
        world, name = self._world, step.name
        process = world.at(name) if name in world.nodes else world.processes.get(name)
        if process is None or not process.alive:
            return
        if step.reason == "killed":
            process.kill()
        elif step.by == "others":
            process.exit(reason(step.reason))
        else:
            world.inboxes[name].put_nowait(step.reason)

    def _do(self, wanted: Do) -> None:
        """Let the caller do it; the answer is read when everything is at rest."""
        if not wanted.by:
            self._answers.append(asyncio.ensure_future(perform(self._world, wanted)))
            return
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)

        async def work() -> None:
            answer.set_result(await perform(self._world, wanted))

        caller = self._world.processes.get(wanted.by)
        if caller is not None and caller.alive:
            self._world.inboxes[wanted.by].put_nowait(work)

    # --- what is seen ----------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        name = self._world.name_at(report.path)
        above = self._world.name_at(report.supervisor)
        match report:
            case SupervisorGaveUp():
                child = self._world.name_at(report.child)
                self._world.event(name, f"shutdown {child} limit")
            case SupervisorStopped():
                self._ended.append(f"{name}={word_of(report.reason)}")
            case ChildStartFailed() | ChildExited() | ChildStopped():
                if report.context is not None:
                    text = f"{report.context.value} {name} {word_of(report.reason)}"
                    self._world.event(above, text)
                if isinstance(report, ChildStartFailed) and report.context is not None:
                    self._calls_between(self._between.pop(name, ()))
            case _:
                pass

    def _calls_between(self, calls: Iterable[Do]) -> None:
        """Make the calls after a failed restart, in the turn before the next attempt."""
        for wanted in calls:
            self._answers.append(_begun(perform(self._world, wanted)))

    async def _section(self, step: str, results: list[str]) -> Section:
        events = sorted(self._world.events, key=_place)
        ended = sorted(self._ended)
        self._world.events.clear()
        self._ended.clear()
        tables = [await table(self._world, name) for name in sorted(self._world.nodes)]
        return Section(step, events, results, ended, [row for row in tables if row is not None])


def _begun(asking: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
    """Let `asking` take its first step now, so that its request precedes everything due next."""
    first = asking.send(None)

    @coroutine
    def rest() -> Generator[Any, Any, str]:
        yield first
        return cast("str", (yield from asking))

    return asyncio.ensure_future(rest())


def _place(event: str) -> tuple[str, str]:
    """Return the sort key of an event: its writer, then its text if several come at once."""
    who, _, text = event.partition(": ")
    return who, text if text.startswith("shutdown_error ") else ""

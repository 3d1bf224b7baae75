"""Workflows in the foreground: the repository, the sandbox (ENG-13), signals, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, final

from attrs import frozen

import otpy
from otpy import OtpyError, SupervisorSpec
from otpy_agents.cli.engine_words import feature_lines, output_lines, told_line
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail, give_up_output, system_line
from otpy_agents.cli.run_words import harmless
from otpy_agents.cli.signals import hear_signals
from otpy_agents.cli.streams import to_nowhere
from otpy_agents.engine.events import (
    EngineEvent,
    FailureCause,
    FeatureCreated,
    StepCompleted,
    WorkflowKind,
    WorkflowStarted,
)
from otpy_agents.engine.orders import Orders
from otpy_agents.engine.plan import Plan, plan_text
from otpy_agents.engine.server import Engine, EngineSettings, open_engine
from otpy_agents.engine.server.recovery import settle_dead
from otpy_agents.engine.server.site import engine_log
from otpy_agents.engine.workflow.protocol import EndWorkflow
from otpy_agents.log import EventLog, log_beside
from otpy_agents.run.host.walls import SANDBOXES, WAY_OUT, Flaw, flaw_in, is_way_out
from otpy_agents.store import RunStore, default_state
from otpy_agents.store.redaction import Redaction
from otpy_agents.workspace import StepTrees

__all__ = ["EnginePlace", "EngineStart"]

_BASE: Final = 128
_LAST: Final = 20
"""Lines of a gate that are shown again when it has failed a workflow."""
_STATUS: Final = {
    None: 0,
    FailureCause.GATE: 2,
    FailureCause.DENIED: 3,
    FailureCause.TIME: 4,
}


@final
@frozen
class EnginePlace:
    """Which repository is meant.

    Attributes:
        repository: Its top folder; absolute, without links.
        named: The folder of it that was named.
    """

    repository: Path
    named: Path

    @asynccontextmanager
    async def log(self) -> AsyncGenerator[EventLog]:
        """Open the event log, after settling the workflows of dead hosts."""
        async with self._opened() as (log, _):
            yield log

    @asynccontextmanager
    async def orders(self) -> AsyncGenerator[Orders]:
        """Open the resources for orders, after settling the workflows of dead hosts."""
        async with self._opened() as (log, trees):
            yield Orders(log, trees, self.repository)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[EventLog, StepTrees]]:
        state = default_state(os.environ)
        path = log_beside(state)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        trees = StepTrees(self.repository)
        try:
            async with (
                RunStore(state) as runs,
                engine_log(path, clean=Redaction(os.environ)) as log,
            ):
                for line in await settle_dead(log, runs, trees, self.repository, os.environ):
                    say(line)
                yield log, trees
        finally:
            trees.close()


@final
class EngineStart:
    """Workflows in the foreground, signals included.

    Args:
        place: The repository.
        actor: Who starts them.
        sandbox: Where workers run, as it was typed; None if it was not.
        hosts: What workers reach of the network, beside their vendor.
        secrets: Names of more variables whose values are kept out of everything.
        seed: Of the chance of routing; None for one of its own.
        quiet: Whether only the result is written.
        output: File for a plan; None for none.
    """

    def __init__(
        self,
        place: EnginePlace,
        actor: str,
        *,
        sandbox: str | None,
        hosts: tuple[str, ...],
        secrets: tuple[str, ...],
        seed: int | None,
        quiet: bool,
        output: Path | None = None,
    ) -> None:
        self._actor, self._quiet, self._output = actor, quiet, output
        self._clean = Redaction(os.environ, names=secrets)
        self._settings = EngineSettings(
            repository=place.repository,
            state=default_state(os.environ),
            sandbox=_checked(sandbox, hosts),
            hosts=hosts,
            secrets=secrets,
            seed=seed,
            listen=self._listen,
            note=self._note,
        )
        self._caught: list[signal.Signals] = []
        self._engine: Engine | None = None
        self._main: asyncio.Task[Any] | None = None
        self._plan: list[FeatureCreated] = []
        self._kind = WorkflowKind.RUN
        self._unread: OSError | None = None
        if output is not None and not output.parent.is_dir():
            fail(f"{output}: got no folder {output.parent}, wanted one", 1)

    def run(self, work: Callable[[Engine, str], Awaitable[EndWorkflow]]) -> NoReturn:
        """Do some work with an engine in its tree, and leave with its exit code."""
        end: EndWorkflow | None = None
        try:
            with asyncio.Runner() as runner:
                hear_signals(runner.get_loop(), self._on_signal)
                end = runner.run(self._work(work))
        except asyncio.CancelledError:
            pass
        except OtpyError as error:
            fail(self._clean(str(error)), 1)
        except OSError as error:
            fail(system_line(error), 1)
        if self._caught and (end is None or end.cause is not None):
            self._note("stopped; `otpy-agents engine status` shows what is done")
            raise SystemExit(_BASE + self._caught[0])
        assert end is not None  # noqa: S101 - nothing else cancels it
        if end.cause is not None:
            reason, stop, count = end.line.rpartition("; ")
            first, *rest = reason.splitlines() or [""]
            for line in rest[-_LAST:]:
                self._note(f"  {line}")
            fail(self._clean(f"{first}{stop}{count}"), _STATUS.get(end.cause, 1))
        self._conclude()
        raise SystemExit(0)

    def _on_signal(self, number: signal.Signals) -> None:
        """Stop in order; a second signal does not wait for that."""
        self._caught.append(number)
        if len(self._caught) == 1 and self._engine is not None:
            self._engine.stop(f"stopped by {number.name}")
        elif self._main is not None:
            self._main.cancel()

    async def _work(self, work: Callable[[Engine, str], Awaitable[EndWorkflow]]) -> EndWorkflow:
        self._main = asyncio.current_task()
        if self._caught:
            raise asyncio.CancelledError
        async with (
            open_engine(self._settings) as engine,
            otpy.start(SupervisorSpec("AppSupervisor", [engine.spec()])),
        ):
            self._engine = engine
            return await work(engine, self._actor)

    # --- what is shown ----------------------------------------------------------------------------

    def _note(self, line: str) -> None:
        if not self._quiet:
            with contextlib.suppress(OSError):  # nobody reads it any more; work goes on
                say(self._clean(line))

    def _print(self, line: str) -> None:
        """Write a line of the result, as long as it has a reader; work goes on anyway."""
        if self._unread is None:
            try:
                print(harmless(self._clean(line)), flush=True)
            except OSError as error:
                self._unread = error
                to_nowhere(sys.stdout)

    def _listen(self, event: EngineEvent) -> None:
        line = told_line(event)
        if line is not None:
            self._note(line)
        match event:
            case WorkflowStarted():
                self._kind = event.kind
            case FeatureCreated():
                self._plan.append(event)
            case StepCompleted() if self._kind is WorkflowKind.RUN:
                for said in output_lines(event.output):
                    self._print(said)
            case _:
                pass

    def _conclude(self) -> None:
        """Write the plan, if there is one; leave if nothing of a result can be written."""
        if self._kind is WorkflowKind.PLAN:
            self._write_plan()
        if self._unread is not None:
            give_up_output(self._unread)

    def _write_plan(self) -> None:
        features = tuple(event.feature for event in self._plan)
        for feature in features:
            for line in feature_lines(feature):
                self._print(line)
        if self._output is None:
            return
        try:
            self._output.write_text(plan_text(Plan(features=features)), encoding="utf-8")
        except OSError as error:
            fail(f"{self._output}: {error.strerror}; the plan is kept under its feat-...", 1)
        self._note(f"{self._output}: written")


def _checked(sandbox: str | None, hosts: tuple[str, ...]) -> str:
    """Return where workers run; without isolation only if that was asked for by name (C-24)."""
    if not sandbox:
        wanted = "docker:IMAGE with the agent's CLI in it, or bubblewrap or process by name"
        fail(f"--sandbox: got nothing, wanted {wanted}; OTPY_ENGINE_SANDBOX may say it", 1)
    match flaw_in(sandbox, (), network=hosts or None):
        case Flaw.NO_SUCH_SANDBOX:
            fail(f"--sandbox: got {sandbox!r}, wanted {SANDBOXES}", 1)
        case Flaw.NO_WALL:
            wanted = "bubblewrap or docker:IMAGE: process cannot hold it off"
            fail(f"--allow-host: got --sandbox {sandbox}, wanted {wanted}", 1)
        case _:
            pass
    for text in hosts:
        if not is_way_out(text):
            fail(f"--allow-host: got {text!r}, wanted {WAY_OUT}", 1)
    return sandbox

"""A run in the foreground: shown while it goes on, ended by signals, its exit code ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, final

from otpy import OtpyError
from otpy.reports import ChildAbandoned, ChildRestarting, Report
from otpy_agents.cli.leftovers import end_leftovers
from otpy_agents.cli.refusal import fail, give_up_output
from otpy_agents.cli.run_lookup import mended, typed
from otpy_agents.cli.run_view import RunView, open_run_view, told
from otpy_agents.cli.run_words import harmless
from otpy_agents.cli.signals import hear_signals
from otpy_agents.cli.streams import occupy_standard_streams, to_nowhere
from otpy_agents.clock import CLOCK
from otpy_agents.errors import InvalidRunSetting, LedgerError, UnknownAdapter, UnknownRun
from otpy_agents.run.decide.protocol import AnswerControl, RunControl
from otpy_agents.run.decide.result import RunOutcome, RunResult
from otpy_agents.run.host.facts import Fact, RunEnded
from otpy_agents.run.host.host import RunHandle, RunHost, run_host
from otpy_agents.store import RunStore
from otpy_agents.store.retention import Retention, retain

__all__ = ["Start", "follow"]

Start: TypeAlias = Callable[[RunHost, RunStore], Awaitable[RunHandle]]
"""Begins a run, or goes on with one."""

_FRAME: Final = 0.2  # seconds between two drawings of the live line
_BASE: Final = 128
# What the user got wrong, and not what went wrong.
_WRONG_CALLS: Final = (InvalidRunSetting, UnknownAdapter, UnknownRun)


def follow(state: Path, start: Start, *, as_json: bool, quiet: bool) -> NoReturn:
    """Make a run until it is over, and leave with its exit code.

    The first SIGINT, SIGTERM or SIGHUP ends the run in good order, the second kills it.

    Args:
        state: The state file.
        start: Begins it.
        as_json: Whether everything is written to standard output, as JSON.
        quiet: Whether nothing but the answer and errors are written.
    """
    occupy_standard_streams()
    view = open_run_view(as_json=as_json, quiet=quiet)
    foreground = _Foreground(view)
    failure: OtpyError | None = None
    try:
        with asyncio.Runner() as runner:
            foreground.work(runner, state, start)
    except OtpyError as error:
        failure = error
    finally:
        view.close()
    if failure is not None and not foreground.caught:
        if isinstance(failure, _WRONG_CALLS):
            fail(failure, 2)
        fail(mended(failure), 1)
    ended = foreground.ended
    if ended is not None and not as_json:
        _conclude(ended, quiet=quiet)
    raise SystemExit(foreground.status)


def _conclude(ended: RunEnded, *, quiet: bool) -> None:
    """Write the answer to standard output; of a failure, at least one line is shown."""
    if ended.result.outcome is not RunOutcome.SUCCESS:
        if quiet:
            with contextlib.suppress(OSError):  # nobody may listen; the status says enough
                print(f"otpy-agents: {told(ended)}", file=sys.stderr, flush=True)
    elif ended.answer and sys.stdout is not None:
        answer = harmless(ended.answer) if sys.stdout.isatty() else ended.answer
        try:
            print(answer.removesuffix("\n"), flush=True)
        except BrokenPipeError:
            to_nowhere(sys.stdout)
        except OSError as error:
            give_up_output(error, f"; the answer is in `{typed('runs', 'show', ended.run)}`")


@final
class _Foreground:
    """What goes on while a run is made, signals included."""

    def __init__(self, view: RunView) -> None:
        self.caught: list[signal.Signals] = []
        self.ended: RunEnded | None = None
        self._view = view
        self._handle: RunHandle | None = None
        self._main: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[AnswerControl]] = set()

    @property
    def status(self) -> int:
        """The exit code: that of the run, but a signal that ended it says which it was."""
        result: RunResult | None = None if self.ended is None else self.ended.result
        if self.caught and (result is None or result.user_stop is not None):
            return _BASE + self.caught[0]
        return 1 if result is None else result.exit_code

    def work(self, runner: asyncio.Runner, state: Path, start: Start) -> None:
        """Make the run in the loop of `runner`."""
        loop = runner.get_loop()
        heard = hear_signals(loop, self._on_signal)
        try:
            runner.run(self._work(state, start))
        except asyncio.CancelledError:
            if not self.caught:
                raise
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    async def _work(self, state: Path, start: Start) -> None:
        retention = Retention.of(os.environ)
        self._main = asyncio.current_task()
        hosting = partial(run_host, listeners=[self._on_fact], hooks=[self._on_report])
        async with RunStore(state) as store, hosting(store) as host:
            async for left in end_leftovers(store):
                self._view.note(str(left))
            drawing = asyncio.create_task(self._draw())
            try:
                self._handle = await start(host, store)
                await self._handle.wait()
            finally:
                drawing.cancel()
            if not self.caught:
                # Cleaning up must not spoil what went well: the next run tries again.
                with contextlib.suppress(LedgerError):
                    await retain(store, retention, CLOCK())

    def _on_fact(self, fact: Fact) -> None:
        if self._handle is not None and fact.run != self._handle.id:
            return
        if isinstance(fact, RunEnded):
            self.ended = fact
        self._view.take(fact)

    def _on_report(self, report: Report) -> None:
        """Say in one line what failed in otpy and was repaired; the end says what was not."""
        if isinstance(report, ChildRestarting | ChildAbandoned):
            why = report.reason if isinstance(report, ChildRestarting) else "did not end"
            self._view.note(f"[supervisor] {report.id}: {' '.join(str(why).split())}")

    async def _draw(self) -> None:
        while True:
            self._view.draw(CLOCK())
            await asyncio.sleep(_FRAME)

    # --- signals ----------------------------------------------------------------------------------

    def _on_signal(self, number: signal.Signals) -> None:
        self.caught.append(number)
        if self._handle is None or len(self.caught) > 2:  # noqa: PLR2004 - neither of two helped
            if self._main is not None:
                self._main.cancel()
        elif len(self.caught) == 1:
            self._view.note(f"{number.name}: ending the run in good order; send it again to kill")
            self._ask(RunControl.CANCEL if number is signal.SIGINT else RunControl.STOP)
        else:
            self._view.note(f"{number.name}: killing the run")
            self._ask(RunControl.KILL)

    def _ask(self, control: RunControl) -> None:
        if self._handle is not None:
            task = asyncio.ensure_future(self._handle.ask(control))
            self._asking.add(task)
            task.add_done_callback(self._on_answer)

    def _on_answer(self, task: asyncio.Task[AnswerControl]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._view.note(f"{task.exception()}")

"""The guard around one test: its trees, its tasks, and its leftovers."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, final

import pytest

from otpy._runtime.stack import stack_of
from otpy.testing.leaks import Snapshot, left_over
from otpy.testing.schedule import LONGEST_DELAY
from otpy.testing.simulated_loop import SimulatedLoop
from otpy.testing.timeout_notes import noting
from otpy.testing.trees import Trees
from otpy.testing.virtual_loop import VirtualLoop

_TURNS = 10  # of the loop, for tasks that are about to end
# All that ends a test, and not the whole run.
_ENDS = (Exception, asyncio.CancelledError, pytest.fail.Exception, pytest.skip.Exception)


@final
class Guard:
    """The guard of one running test; pytest's hooks call it, in the order of the methods.

    Attributes:
        trees: The trees of the test.
    """

    def __init__(self, *, checks_leaks: bool) -> None:
        """Watch a test that has not been set up yet."""
        self.trees = Trees(self._root_failed)
        self._checks_leaks = checks_leaks
        self._passed = False
        self._before: Snapshot | None = None
        self._body: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_problems: list[str] = []
        self._leftovers: list[_LeftoverTask] = []

    # --- from outside the loop --------------------------------------------------------------------

    def begin(self) -> None:
        """Record the state before this test, once."""
        if self._before is None:
            self._before = Snapshot.take()

    @contextmanager
    def sharing(self) -> Generator[None]:
        """Treat the body's leftovers as belonging to more tests than this one."""
        before = Snapshot.take()
        yield
        if self._before is not None:
            self._before.accept(before, Snapshot.take())

    @contextmanager
    def whole_test(self) -> Generator[None]:
        """Notice how the body, which runs the whole test function, ends."""
        yield
        self._passed = True

    def around(self, test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[None]]:
        """Return `test` with the guard around it."""

        @functools.wraps(test, updated=())
        async def guarded(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            await self._guarded(test, *args, **kwargs)

        return guarded

    def problems_left(self) -> list[str]:
        """Return the leftovers after the fixtures' teardown, and the late failures.

        Of a test that has not passed nothing is said: it was interrupted in what it did, and what
        pytest shows of it keeps alive what it held.
        """
        loop, self._loop = self._loop, None
        if loop is not None and loop.get_exception_handler() == self._on_loop_problem:
            loop.set_exception_handler(None)
        if not self._passed:
            return []
        found = list(self._loop_problems)
        if self._checks_leaks and self._before is not None:
            # The loop's own threads last as long as the loop.
            threads = "asyncio_" if loop is not None and not loop.is_closed() else None
            left = [task.text for task in self._leftovers if task.is_left_over()]
            left += left_over(self._before, threads)
            found += [f"left over after the test: {text}" for text in left]
        return found

    # --- inside the loop --------------------------------------------------------------------------

    async def _guarded(
        self, test: Callable[..., Awaitable[object]], *args: Any, **kwargs: Any
    ) -> None:
        __tracebackhide__ = True
        known = self._enter()
        ended: BaseException | None = None
        loop = self._loop
        noted = noting(loop.last_jump) if isinstance(loop, VirtualLoop) else nullcontext()
        try:
            if not self.trees.failures:  # one may have failed before the test began
                with noted:
                    await test(*args, **kwargs)
        except _ENDS as error:
            ended = error
        try:
            await self._leave(known)
            self._judge(ended)
        finally:
            self.trees.forget()
            self._loop_problems.clear()
            del ended  # it would keep itself alive, and all that the test held

    def _enter(self) -> set[asyncio.Task[Any]]:
        self._body = asyncio.current_task()
        self._loop = loop = asyncio.get_running_loop()
        # A test that has set its own handler looks at its calls itself.
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self._on_loop_problem)
        return asyncio.all_tasks()

    async def _leave(self, known: set[asyncio.Task[Any]]) -> None:
        body, self._body = self._body, None
        if self.trees.failures and body is not None and body.cancelling():
            body.uncancel()
        if isinstance(self._loop, VirtualLoop):
            self._loop.paused = False  # a stopped child may have to sleep
        keepers = self.trees.tasks
        await self.trees.stop()
        late = LONGEST_DELAY if isinstance(self._loop, SimulatedLoop) else 1
        for _ in range(_TURNS * late):
            if not asyncio.all_tasks() - known - keepers:
                break
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - known - keepers
        self._leftovers += [_LeftoverTask(task) for task in left]

    def _judge(self, ended: BaseException | None) -> None:
        __tracebackhide__ = True
        if self.trees.failures:
            failure = self.trees.failures[0]
            # Shown at the line where the test was interrupted.
            where = ended.__traceback__ if ended is not None else None
            raise failure.with_traceback(where) from (failure.__cause__ or ended)
        problems = self.trees.problems(missing=ended is None) + self._loop_problems
        if ended is not None:
            for problem in problems:
                ended.add_note(problem)
            raise ended
        if problems:
            pytest.fail("\n\n".join(problems), pytrace=False)

    def _root_failed(self) -> None:
        if self._body is not None:
            self._body.cancel()

    def _on_loop_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        lines = [str(context.get("message", "an exception reached the event loop"))]
        lines += [
            f"{key}: {value!r}"
            for key, value in context.items()
            if key in {"task", "future", "handle"}
        ]
        if isinstance(error := context.get("exception"), BaseException):
            lines.append("".join(traceback.format_exception(error)).rstrip())
        self._loop_problems.append("\n".join(lines))
        loop.default_exception_handler(context)


@final
class _LeftoverTask:
    """A task that outlived the test function; a fixture may still end it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.text = "\n  ".join([f"task {task.get_name()}, which is at", *stack_of(task)])
        self._task = task
        self._cancelled_with_the_loop = False
        task.add_done_callback(self._done)

    def is_left_over(self) -> bool:
        return self._cancelled_with_the_loop or not self._task.done()

    def _done(self, _task: asyncio.Task[Any]) -> None:
        # Nothing else tells whether a fixture ended the task, or only the end of its loop did.
        for caller, _ in traceback.walk_stack(None):
            module = caller.f_globals.get("__name__")
            if (module, caller.f_code.co_name) == ("asyncio.runners", "_cancel_all_tasks"):
                self._cancelled_with_the_loop = True

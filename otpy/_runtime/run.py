"""`run`: a tree as a whole program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from otpy._core.protocol import KILL_GRACE
from otpy._core.reason import Shutdown
from otpy._runtime.os_signals import ProgramSignals
from otpy._runtime.printable import printable
from otpy._runtime.root import WAITS_FOR_NOTHING, RunningTree
from otpy._runtime.shells import shell_of
from otpy._runtime.stack import stack_of, stack_of_thread
from otpy._runtime.stderr import STDERR, say
from otpy.errors import SupervisorFailed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from types import FrameType

    from otpy._core.spec import DynamicSpec, SupervisorSpec
    from otpy._runtime.handles import AnySupervisor
    from otpy._runtime.shells import AnyShell
    from otpy.reports import ReportHook

Program: TypeAlias = "Callable[[], AbstractAsyncContextManager[AnySupervisor]]"
"""Returns an async context manager that yields the root of a tree it has started."""

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
"""Returns a new event loop."""

_MANY: Final = 50_000
"""New objects that stay after which `run` lets Python look for garbage."""

_HANG_UP: Final[int | None] = getattr(signal, "SIGHUP", None)


def run(
    tree: SupervisorSpec | DynamicSpec | Program,
    *,
    hooks: Iterable[ReportHook] | None = None,
    loop_factory: LoopFactory | None = None,
    collect_rarely: bool = True,
) -> None:
    """Run a tree as a program: return when it has ended, or leave with an exit status.

    The first SIGINT, SIGTERM or SIGHUP stops the tree in reverse order, the second kills it, the
    third leaves the process on the spot, even if a child blocks the event loop. A SIGINT or SIGHUP
    that was ignored when the program started stays ignored (`nohup`), SIGHUP counts once, and
    children that are forked get the handlers back that were there before. Why the tree ended is
    printed on stderr, if there is one. The process ends in bounded time also when a child refuses
    to end, in its task or in a thread: its stack is printed, and the process left without waiting
    for it.

    Call it from the main thread, where no event loop runs.

    Args:
        tree: The tree. Or, where something must be open around it, a function that returns an
            async context manager: it is entered, and must yield the root supervisor of a tree that
            it has started with `otpy.start`; it is left when the tree has ended.
        hooks: The receivers of the reports of a tree given as a spec; the default is
            `log_reports()`, which logs them.
        loop_factory: Makes the event loop, as for `asyncio.Runner`: `uvloop.new_event_loop`, for
            one; the default is asyncio's own loop.
        collect_rarely: Whether Python looks for garbage after 50,000 new objects that stay, where
            it would after 700 or 2,000, until the program has ended. A start of
            100,000 children takes half of the time then. A program that has turned the collector
            off, or allowed more, keeps what it has chosen.

    Raises:
        InvalidSpec: If `tree` is a spec, but no supervisor's.
        SystemExit: With 1 if the root gave up or could not start, 129 after SIGHUP, 130 after
            SIGINT, 143 after SIGTERM. A tree that ended by itself in good order just returns.
    """
    with _collecting(_MANY if collect_rarely else 0):
        status, clean = run_status(tree, hooks, loop_factory)
    conclude(status, clean=clean)


@contextmanager
def _collecting(after: int) -> Generator[None]:
    """Let the collector of garbage begin after so many new objects, if it does after fewer."""
    before = gc.get_threshold()
    if not 0 < before[0] < after:
        yield
        return
    gc.set_threshold(after, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def conclude(status: int, *, clean: bool) -> None:
    """Leave the program with `status`; just return if it is 0 and nothing is left running."""
    if not clean:  # a thread that does not end would be waited for at exit, for ever
        leave(status)
    if status:
        raise SystemExit(status)


def run_status(
    tree: SupervisorSpec | DynamicSpec | Program,
    hooks: Iterable[ReportHook] | None,
    loop_factory: LoopFactory | None,
) -> tuple[int, bool]:
    """Run a tree and return the exit status, and whether nothing is left running.

    Not by `asyncio.Runner`, which waits without limit for tasks and threads that refuse to end.
    """
    if threading.current_thread() is not threading.main_thread():
        msg = "otpy.run() handles signals, and so belongs in the main thread; use otpy.start()"
        raise RuntimeError(msg)
    if _in_a_loop():
        msg = "otpy.run() brings its own event loop; in a running one, use otpy.start()"
        raise RuntimeError(msg)
    _fill_standard_descriptors()
    make_loop = loop_factory or asyncio.new_event_loop
    if callable(tree):
        program = _Program(make_loop, tree)
    else:
        running = RunningTree(tree, hooks)
        program = _Program(make_loop, lambda: running, running)
    loop, before = program.loop, set(threading.enumerate())
    executor = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="otpy")
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    try:
        with program.handling_signals():
            status = program.run()
            left = loop.run_until_complete(_cancel_the_rest())
            closing = loop.create_task(loop.shutdown_asyncgens(), name="closing async generators")
            left |= loop.run_until_complete(_cancel_the_rest(KILL_GRACE))
            closing.cancel()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        asyncio.set_event_loop(None)
        loop.close()
    return status, not left and _threads_end(before)


def _fill_standard_descriptors() -> None:
    """Let no other file get the number of a standard stream that the program has not.

    What is written to stderr by C code would reach that file; and uvloop ends the process when it
    closes one of these numbers.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@final
class _Program:
    """A tree, the loop it runs in and the signals that reached it."""

    def __init__(
        self, make_loop: LoopFactory, enter: Program, running: RunningTree | None = None
    ) -> None:
        self.loop = make_loop()
        self._enter = enter
        self._running = running
        self._root: AnyShell | None = None
        self._main_task: asyncio.Task[int] | None = None
        self._caught: list[signal.Signals] = []
        self._signals = ProgramSignals(self._on_signal, self._handler_replaced)

    def handling_signals(self) -> AbstractContextManager[None]:
        """Let the signals that end a program end this one in order."""
        return self._signals.handled(self.loop)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; called between two bytecodes, also while a child blocks the loop."""
        if number == _HANG_UP and number in self._caught:
            return  # a terminal that is closed sends it twice, once more by way of its shell
        self._caught.append(signal.Signals(number))
        if len(self._caught) > 2:  # noqa: PLR2004 - neither stopping nor killing helped
            what = f"{self._caught[-1].name} for the third time: leaving at once, from"
            say(what, traceback.format_stack(frame))
            leave(128 + number)
        self.loop.call_soon_threadsafe(self._act)

    @staticmethod
    def _handler_replaced(number: signal.Signals, who: str) -> None:
        say(f"{number.name}: {who} has replaced the handler, so this signal stops no tree")

    def _act(self) -> None:
        self._signals.look()
        root, number = self._root, self._caught[-1]
        if root is None and self._running is not None:
            root = self._running.root  # still starting
        if root is None:
            if self._main_task is not None:  # still starting, or at work after the tree has ended
                self._main_task.cancel()
        elif root.ended:
            pass
        elif len(self._caught) == 1:
            say(f"{number.name}: stopping {root.path}; send it again to kill")
            root.shut_down(Shutdown(number.name))
        else:
            say(f"{number.name}: killing {root.path}")
            root.kill(grace=0)

    def run(self) -> int:
        """Run the tree to its end and return the exit status."""
        self._main_task = main = self.loop.create_task(self._main(), name="otpy.run")
        while True:
            try:
                return self.loop.run_until_complete(main)
            except KeyboardInterrupt:  # raised inside a child, or a hook: it is meant for us
                self._caught.append(signal.SIGINT)
                if main.done():  # and has shut the tree down
                    return 128 + signal.SIGINT
                self._act()
            except SystemExit as error:
                if main.done():  # it came out of a hook, and has shut the tree down
                    return status_of(error)
                # Else it came out of a task that a child made: it is that task's end, not ours.
            except asyncio.CancelledError:
                return 128 + self._caught[0] if self._caught else 1

    async def _main(self) -> int:
        WAITS_FOR_NOTHING.set(True)
        try:
            async with self._enter() as root:
                self._root = shell_of(root)
                reason = await root.wait()
        except SupervisorFailed as failure:
            if not self._caught:
                STDERR.write("".join(traceback.format_exception(printable(failure))))
                return 1
        else:
            if self._running is not None:
                say(f"{root.path} ended: {reason}")
        return 128 + self._caught[0] if self._caught else 0


def status_of(error: SystemExit) -> int:
    """Return the exit status that Python would leave with."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    STDERR.write(f"{error.code}\n")
    return 1


async def _cancel_the_rest(patience: float = 0.0) -> bool:
    """Cancel every task that is left, say which refuse to end, and return whether any does."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks and patience:
        _, tasks = await asyncio.wait(tasks, timeout=patience)
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, refusing = await asyncio.wait(tasks, timeout=KILL_GRACE)
    for task in refusing:
        say(f"task {task.get_name()} refuses to end", stack_of(task))
    return bool(refusing)


def _threads_end(before: set[threading.Thread]) -> bool:
    """Give threads a moment to end, say which do not, and return whether all did."""
    others = set(threading.enumerate()) - before  # not those that the program had already
    refusing = [thread for thread in others if not thread.daemon and not _joined(thread)]
    for thread in refusing:
        say(f"thread {thread.name} does not end", stack_of_thread(thread))
    return not refusing


def _joined(thread: threading.Thread) -> bool:
    thread.join(KILL_GRACE)
    return not thread.is_alive()


def leave(status: int) -> None:
    """End the process without waiting for anything."""
    stdout: Any = sys.stdout
    with suppress(Exception):  # there may be none, or one that is closed or full
        stdout.flush()
    STDERR.drain()
    os._exit(status)

"""The frames of a child at which an interruption is allowed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import queue
import signal
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from types import FrameType
from typing import Any

import pytest

from otpy._runtime.frame_guard import Interruptible, interruptible_at

Ask = Callable[[], None]


def step(child: Callable[[Ask], Any]) -> Interruptible:
    """Call `child` as one step; return the verdict where it asks for it."""
    verdicts: list[Interruptible] = []

    def ask() -> None:
        frame = sys._getframe(1)
        verdicts.append(interruptible_at(frame, step.__code__))

    made = child(ask)
    if asyncio.iscoroutine(made):
        with contextlib.suppress(StopIteration):
            made.send(None)
    assert verdicts
    return verdicts[-1]


def test_plain_code_is_free() -> None:
    """This includes code inside a `try`, a `with` and an `except`."""

    def child(ask: Ask) -> None:
        with contextlib.suppress(KeyError):
            try:
                raise ValueError
            except ValueError:
                ask()

    assert step(child) is Interruptible.FREE


def test_a_coroutine_is_free_below_another() -> None:
    """Each frame on the way belongs to the child."""

    async def inner(ask: Ask) -> None:
        ask()

    async def child(ask: Ask) -> None:
        await inner(ask)

    assert step(child) is Interruptible.FREE


def test_nothing_is_cut_outside_of_a_step() -> None:
    """This includes the very function that makes the step."""
    assert interruptible_at(sys._getframe(), step.__code__) is Interruptible.NEVER
    here = test_nothing_is_cut_outside_of_a_step.__code__
    assert interruptible_at(sys._getframe(), here) is Interruptible.NEVER


def test_a_finally_is_spared_with_all_that_it_calls() -> None:
    """This holds when the `finally` runs because of an exception, and without one."""

    def clean(ask: Ask) -> None:
        ask()

    def orderly(ask: Ask) -> None:
        try:
            pass
        finally:
            clean(ask)

    def by_exception(ask: Ask) -> None:
        try:
            raise ValueError
        finally:
            clean(ask)

    assert step(orderly) is Interruptible.SPARED
    with contextlib.suppress(ValueError):
        verdicts: list[Interruptible] = []
        try:
            step(lambda ask: by_exception(lambda: verdicts.append(_verdict_of_caller())))
        finally:
            assert verdicts == [Interruptible.SPARED]


def _verdict_of_caller() -> Interruptible:
    return interruptible_at(sys._getframe(2), step.__code__)


@pytest.mark.parametrize("name", ["__enter__", "__exit__"])
def test_entering_and_leaving_a_block_is_spared(name: str) -> None:
    """An interruption in between would leave a block that is entered and never left."""

    class Block:
        def __init__(self, ask: Ask) -> None:
            self.asks = {name: ask}

        def __enter__(self) -> None:
            if "__enter__" in self.asks:
                self.asks["__enter__"]()

        def __exit__(self, *_: object) -> None:
            if "__exit__" in self.asks:
                self.asks["__exit__"]()

    def child(ask: Ask) -> None:
        with Block(ask):
            pass

    assert step(child) is Interruptible.SPARED


@pytest.mark.skipif(
    sys.version_info < (3, 14), reason="here the block begins before a signal is asked for"
)
def test_a_block_that_was_entered_by_c_code_is_spared_until_it_begins() -> None:
    """The block may already hold a lock, which no code would release."""

    def child(ask: Ask) -> None:
        with _entered_by(ask):  # like C code: no Python frame between it and the child
            pass

    assert step(child) is Interruptible.SPARED


def _entered_by(ask: Ask) -> Any:
    def leave(*_: object) -> None: ...

    return type("Block", (), {"__enter__": staticmethod(ask), "__exit__": leave})()


def test_an_async_block_made_of_a_generator_is_spared_while_it_is_entered() -> None:
    """The body of the block runs below `__aenter__` of `contextlib`."""

    @contextlib.asynccontextmanager
    async def block(ask: Ask) -> AsyncGenerator[None]:
        ask()
        yield

    async def child(ask: Ask) -> None:
        async with block(ask):
            pass

    assert step(child) is Interruptible.SPARED


class _Calls:
    """A callable that calls `ask` from a frame of another module."""

    def __init__(self, module: Any) -> None:
        self.code = compile("ask()", module.__file__, "exec")
        self.globals = {"__name__": module.__name__}

    def __call__(self, ask: Ask) -> None:
        exec(self.code, {**self.globals, "ask": ask})  # noqa: S102 - the frame is the point


@pytest.mark.parametrize("module", [threading, queue, logging, contextlib])
def test_a_module_that_holds_locks_is_spared_as_the_innermost(module: Any) -> None:
    """The module is spared only as the innermost frame, not below a function that it calls."""
    assert step(_Calls(module)) is Interruptible.SPARED


@pytest.mark.parametrize("module", [asyncio, weakref, sys.modules["otpy"], sys.modules["anyio"]])
def test_the_runtime_is_never_cut(module: Any) -> None:
    """Other code relies on its data."""
    assert step(_Calls(module)) is Interruptible.NEVER


def test_what_the_runtime_calls_is_never_cut() -> None:
    """The runtime may be in the middle of a change; here the child's code is a comparison."""

    class Key:
        def __init__(self, ask: Ask) -> None:
            self.ask = ask

        def __eq__(self, other: object) -> bool:
            self.ask()
            return True

        __hash__ = None  # type: ignore[assignment] # pyright: ignore[reportAssignmentType] - not asked

    def child(ask: Ask) -> None:
        assert _equal("otpy.testing", Key(ask))

    assert step(child) is Interruptible.NEVER


def _equal(module: str, key: object) -> bool:
    """Compare `key` in a function of `module`."""
    library: dict[str, Any] = {"__name__": module}
    exec("def equal(a, b): return a == b", library)  # noqa: S102 - the frame is the point
    return bool(library["equal"](key, key))


def test_a_coroutine_of_the_runtime_lets_those_of_the_child_pass() -> None:
    """`asyncio.wait_for` and the like can handle an exception from an await."""

    async def inner(ask: Ask) -> None:
        ask()

    code = compile("async def outer(made): await made", "library", "exec")
    library: dict[str, Any] = {"__name__": "asyncio.tasks"}
    exec(code, library)  # noqa: S102 - the frame is the point
    assert step(lambda ask: library["outer"](inner(ask))) is Interruptible.FREE


def test_a_destructor_is_never_cut() -> None:
    """Python would print the exception and go on."""

    class Thing:
        def __init__(self, ask: Ask) -> None:
            self.ask = ask

        def __del__(self) -> None:
            self.ask()

    assert step(lambda ask: Thing(ask) and None) is Interruptible.NEVER


def test_what_traces_the_program_is_never_cut() -> None:
    """A trace function runs between the child's lines, and may hold a lock of all threads."""
    tracer: dict[str, Any] = {"__name__": "tracer.of.lines"}
    exec("def work(ask): ask()\ndef trace(*_): return None", tracer)  # noqa: S102
    before = sys.getprofile()
    sys.setprofile(tracer["trace"])
    try:
        verdict = step(tracer["work"])
    finally:
        sys.setprofile(before)
    assert verdict is Interruptible.NEVER
    assert step(tracer["work"]) is Interruptible.FREE


def test_a_handler_of_another_signal_is_never_cut() -> None:
    """The handler may run in the middle of any child, and belongs to none."""
    asked: list[Ask] = []

    def handler(_number: int, _frame: FrameType | None) -> None:
        asked[0]()

    def child(ask: Ask) -> None:
        asked.append(ask)
        signal.raise_signal(signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        assert step(child) is Interruptible.NEVER
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_what_the_collector_calls_is_never_cut() -> None:
    """Python would print the exception and go on."""
    asked: list[Ask] = []

    def called(_phase: str, _info: dict[str, int]) -> None:
        if asked:
            asked.pop()()

    def child(ask: Ask) -> None:
        asked.append(ask)
        gc.collect()

    gc.callbacks.append(called)
    try:
        assert step(child) is Interruptible.NEVER
    finally:
        gc.callbacks.remove(called)


@pytest.mark.real_time
def test_a_turn_of_a_loop_at_which_python_misses_its_try_is_spared() -> None:
    """Some versions of Python miss a `try` that begins with a loop, in a signal handler."""
    verdicts: list[Interruptible] = []

    def first_in_try(n: int = 0) -> None:
        try:
            while True: n += 1  # noqa: E701 - no instruction stands between the two  # fmt: skip
        finally:
            n = 0

    def not_first(n: int = 0) -> None:
        while True:
            n += 1

    def handler(_number: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code not in {first_in_try.__code__, not_first.__code__}:
            return  # too early, or in a collection; the timer fires again
        signal.setitimer(signal.ITIMER_REAL, 0)
        verdicts.append(interruptible_at(frame, step_of.__code__))
        raise KeyError

    def step_of(child: Callable[[], None]) -> None:
        child()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for child in (first_in_try, not_first):
            with pytest.raises(KeyError):
                signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
                step_of(child)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert verdicts == [Interruptible.SPARED, Interruptible.FREE]

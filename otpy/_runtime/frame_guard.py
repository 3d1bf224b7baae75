"""Which code of a child may be cut by the exception that ends its step.

The question is asked of the frames between the interrupted one and the child's step, and of all of
them. The exception is raised in the innermost, so what counts is what it would fly through.

| a frame | verdict |
|---|---|
| of the runtime (`RUNTIME`), but for one that only awaits a coroutine, or calls `start` | never |
| of a `__del__`, or what a signal or the collector calls: at any time, for anybody | never |
| of the package that traces or profiles the program, whose locks all threads need | never |
| named `__enter__`, `__exit__` and the like, or in the lines of a `finally` | spared |
| of a module that holds locks (`LOCKING`), if it is the innermost | spared |
| where Python would miss the `try` or `with` it is in (`_gaps`), if it is the innermost | spared |
| anything else | free |

Spared means: it gets time to come to its end. Who does not come to it in that time is cut too,
because a clean-up that loops would stop the tree as well.
"""

from __future__ import annotations

import dis
import gc
import inspect
import linecache
import re
import signal
import sys
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

RUNTIME: Final = frozenset({"_weakrefset", "anyio", "asyncio", "otpy", "sniffio", "weakref"})
"""Packages whose data others rely on: what is cut in them would be broken for the whole tree."""

LOCKING: Final = frozenset(
    {"concurrent", "contextlib", "importlib", "logging", "multiprocessing", "queue", "threading"}
)
"""Packages that hold locks, or owe a clean-up, for a moment at a time."""

_ENTRIES: Final = frozenset({"__aenter__", "__aexit__", "__enter__", "__exit__"})
_AWAITS: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_AWAITED: Final = _AWAITS | inspect.CO_ITERABLE_COROUTINE
_FINALLY: Final = re.compile(r"finally\s*:")
_CALLS_START: Final = ("otpy._runtime.life", "_called")


class Interruptible(Enum):
    """Whether a child may be cut where it is."""

    FREE = "free"
    """It may."""
    SPARED = "spared"
    """Not yet."""
    NEVER = "never"
    """It must not, or it is not in its own code at all."""


def interruptible_at(top: FrameType, step: CodeType) -> Interruptible:
    """Return whether what runs in `top`, the innermost frame, may be cut.

    Args:
        top: Where the exception would be raised.
        step: The function that calls the child's code, and nothing else; the walk ends there.
    """
    verdict, handlers = Interruptible.FREE, frozenset(_called_any_time())
    untouchable = RUNTIME | _tracers()
    inner: CodeType | None = None
    calls_start = False
    frame: FrameType | None = top
    while frame is not None:
        code = frame.f_code
        if code is step:
            return Interruptible.NEVER if inner is None else verdict
        name = str(frame.f_globals.get("__name__"))
        package = name.partition(".")[0]
        if code.co_name == "__del__" or code in handlers:
            return Interruptible.NEVER
        above, calls_start = calls_start, inner is not None and (name, code.co_name) == _CALLS_START
        if package in untouchable and not (above or calls_start or _only_awaits(code, inner)):
            return Interruptible.NEVER
        momentary = inner is None and (package in LOCKING or frame.f_lasti in _gaps(code))
        if momentary or code.co_name in _ENTRIES or _cleans_up(frame):
            verdict = Interruptible.SPARED
        inner, frame = code, frame.f_back
    return Interruptible.NEVER


def _only_awaits(code: CodeType, inner: CodeType | None) -> bool:
    """Whether a frame of the runtime awaits a coroutine: its exceptions may pass."""
    return inner is not None and bool(code.co_flags & _AWAITS and inner.co_flags & _AWAITED)


def _called_any_time() -> Iterator[CodeType]:
    handlers: list[Any] = [signal.getsignal(number) for number in signal.valid_signals()]
    for handler in (*handlers, *gc.callbacks):
        code = getattr(handler, "__code__", None)
        if code is not None:
            yield code


def _tracers() -> set[str]:
    """Return the packages of what sees each line here, such as coverage or a debugger."""
    hooks: list[Any] = [hook for hook in (sys.gettrace(), sys.getprofile()) if hook is not None]
    modules = [getattr(hook, "__module__", None) or type(hook).__module__ for hook in hooks]
    return {str(module).partition(".")[0] for module in modules}


@lru_cache(maxsize=256)
def _gaps(code: CodeType) -> frozenset[int]:
    """Return the offsets at which a signal may come and the handler of an exception be missed.

    One is a jump back. An exception that comes there is looked up in the table of handlers by the
    jump in some versions of Python, by what stands before its target in others. Where the table
    says different things of these, as for a loop that a `try` begins with, it may be the wrong one.

    The other is the call of `__enter__`, since Python 3.14: if that is written in C, as a lock's,
    signals are asked for between its return and the beginning of the block, which is not left then.
    """
    if not code.co_exceptiontable:
        return frozenset()
    table: Any = dis.Bytecode(code)
    entries = table.exception_entries

    def handler(offset: int) -> object:
        return next((e.target for e in entries if e.start <= offset < e.end), None)

    gaps: set[int] = set()
    before = ""
    for one in table:
        if "JUMP_BACKWARD" in one.opname and one.opname != "JUMP_BACKWARD_NO_INTERRUPT":
            if len({handler(one.offset), handler(one.argval - 2), handler(one.argval)}) > 1:
                gaps.add(one.offset)
        elif one.opname == "CALL" and before == "LOAD_SPECIAL":
            gaps.add(one.offset)
        before = one.opname
    return frozenset(gaps)


def _cleans_up(frame: FrameType) -> bool:
    """Whether `frame` is in the lines of a `finally`, as far as its source can be had.

    By the source, because the compiler writes such a block twice and marks only one of the two; and
    by its indentation, because there is no time to parse it: the loop is blocked already.
    """
    code = frame.f_code
    if not code.co_exceptiontable:
        return False  # the function has no `try` at all
    indent: int | None = None
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : frame.f_lineno or 0]
    for line in reversed(lines):
        text = line.lstrip()
        outside = indent is None or len(line) - len(text) < indent
        if not outside or not text or text.startswith("#"):
            continue
        if _FINALLY.match(text):
            return True
        indent = len(line) - len(text)
    return False

"""The parameters and results of a child's `start`, as far as it shows them without a call.

Types say it to a type checker, by the protocols; the code of the function says it at run time.
"""

from __future__ import annotations

import dis
import inspect
from contextlib import asynccontextmanager
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast, final

from otpy._core.checks import refuse
from otpy._core.readiness import is_ready_at_once
from otpy.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping
    from types import CodeType

_ValueT_co = TypeVar("_ValueT_co", covariant=True)
_ValueT_contra = TypeVar("_ValueT_contra", contravariant=True)
_A_contra = TypeVar("_A_contra", contravariant=True)
_B_contra = TypeVar("_B_contra", contravariant=True)
_C_contra = TypeVar("_C_contra", contravariant=True)


class TaskStatus(Protocol[_ValueT_contra]):
    """The `task_status` with which a child says that it is ready; anyio's and trio's fit too."""

    def started(self, value: _ValueT_contra = ...) -> None:
        """Say that the child is ready; `value` becomes `Process.value`.

        Args:
            value: The value that the child hands out; None for no value.

        Raises:
            RuntimeError: If it was said before.
        """
        ...


# One for each number of arguments: mypy finds no value behind a number that is open. Who takes more
# is given them as `kwargs`.


class Announcing(Protocol[_ValueT_co]):
    """A coroutine function that says by `task_status` when it is ready, and takes nothing else."""

    def __call__(self, *, task_status: TaskStatus[_ValueT_co]) -> Awaitable[object]:
        """Be the child."""
        ...


class Announcing1(Protocol[_A_contra, _ValueT_co]):
    """As `Announcing`, with an argument."""

    def __call__(
        self, a: _A_contra, /, *, task_status: TaskStatus[_ValueT_co]
    ) -> Awaitable[object]:
        """Be the child."""
        ...


class Announcing2(Protocol[_A_contra, _B_contra, _ValueT_co]):
    """As `Announcing`, with two arguments."""

    def __call__(
        self, a: _A_contra, b: _B_contra, /, *, task_status: TaskStatus[_ValueT_co]
    ) -> Awaitable[object]:
        """Be the child."""
        ...


class Announcing3(Protocol[_A_contra, _B_contra, _C_contra, _ValueT_co]):
    """As `Announcing`, with three arguments."""

    def __call__(
        self, a: _A_contra, b: _B_contra, c: _C_contra, /, *, task_status: TaskStatus[_ValueT_co]
    ) -> Awaitable[object]:
        """Be the child."""
        ...


class Living(Protocol):
    """A class that lives by itself: a `GenServer`."""

    def __otpy_life__(self, process: Any, /) -> Callable[..., Awaitable[None]]:
        """Return its life."""
        ...


@final
class _Shape:
    """The common part of all functions of one code; their defaults are their own."""

    __slots__ = (
        "any_keyword",
        "any_number",
        "code",
        "coroutine",
        "count",
        "exact",
        "names",
        "positional_only",
        "ready",
        "wrong",
    )

    def __init__(self, code: CodeType) -> None:
        flags, count = code.co_flags, code.co_argcount
        self.code = code  # as long as it is here, nothing else has its number
        self.names = code.co_varnames[: count + code.co_kwonlyargcount]
        self.count = count
        self.positional_only = code.co_posonlyargcount
        self.any_number = bool(flags & inspect.CO_VARARGS)
        self.any_keyword = bool(flags & inspect.CO_VARKEYWORDS)
        self.coroutine = bool(flags & inspect.CO_COROUTINE)
        self.ready = self.coroutine and "task_status" not in self.names
        self.wrong = None if self.coroutine else _what_is_wrong(code)
        keyword_only = self.names[count:]
        self.exact = (
            self.coroutine and not self.any_keyword and keyword_only in ((), ("task_status",))
        )
        """Whether `count` arguments are right, whatever the function's defaults are."""


def _what_is_wrong(code: CodeType) -> str | None:
    """Return the wanted form instead of a function of `code`; None if that may be a child."""
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return "@asynccontextmanager above this generator"
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return None
    if code.co_flags & inspect.CO_GENERATOR or _returns_nothing(code):
        return "an `async def` function; what blocks is called in it, by asyncio.to_thread"
    return None


def _returns_nothing(code: CodeType) -> bool:
    """Whether a plain function returns, and nothing but None: it does all its work in the call."""
    returns: list[bool] = []
    before: dis.Instruction | None = None
    for one in dis.get_instructions(code):
        if one.opname == "RETURN_VALUE":
            none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
            returns.append(none)
        elif one.opname == "RETURN_CONST":  # Python 3.12 and 3.13
            returns.append(one.argval is None)
        before = one
    return bool(returns) and all(returns)


_SHAPES: Final[dict[int, _Shape]] = {}  # by the code's number: its hash takes longer than all this
_MOST_SHAPES: Final = 1_000

_CONTEXT_MANAGER: Final[CodeType] = cast("Any", asynccontextmanager)(None).__code__
"""The code of all functions that `asynccontextmanager` returns."""


def _shape_of(code: CodeType) -> _Shape:
    shape = _SHAPES.get(id(code))
    if shape is None:
        shape = _Shape(code)
        if len(_SHAPES) >= _MOST_SHAPES:  # a program that makes functions from text
            _SHAPES.clear()
        _SHAPES[id(code)] = shape
    return shape


def look_at(
    child: str, start: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Return whether a child that runs `start` is ready as soon as its task exists.

    Raises:
        InvalidSpec: If `start` cannot be a child, or does not take these arguments.
    """
    if start.__class__ is FunctionType:
        code = start.__code__
        shape = _SHAPES.get(id(code)) or _shape_of(code)
        if shape.exact and len(args) == shape.count and not kwargs:
            return shape.ready
    function, before, names, makes = _behind(start)
    if function is None:  # written in C, or called in a way of its own: the call will tell
        return is_ready_at_once(start)
    shape = _shape_of(function.__code__)
    if not makes and function.__code__ is _CONTEXT_MANAGER:
        function = cast("FunctionType", cast("Any", function).__wrapped__)
    elif not makes and shape.wrong is not None:
        refuse(f"ChildSpec {child!r}", "start", start, shape.wrong)
    keywords = {*names, *kwargs} if names else kwargs
    if not _fits(function, before + len(args), keywords):
        _refuse_arguments(child, function, before, len(args), keywords)
    if makes:
        return False
    if not shape.coroutine or shape.any_keyword:
        return is_ready_at_once(start)
    return shape.ready and _is_function(start)


def _is_function(start: Any) -> bool:
    """Whether `start` is what Python takes for a function, and no object that can be called."""
    while start.__class__ is partial:
        start = start.func
    return start.__class__ is FunctionType or start.__class__ is MethodType


def _behind(start: Any) -> tuple[FunctionType | None, int, Collection[str], bool]:
    """Return the function that `start` calls, and what that gets before the spec's arguments.

    None in place of a function that cannot be told; then a number of arguments, and names; and
    whether the function makes an object of a class, instead of being what is run.
    """
    before, names, makes = 0, set[str](), False
    while start is not None and start.__class__ is not FunctionType:
        if start.__class__ is MethodType:
            start, before = start.__func__, before + 1
        elif start.__class__ is partial:
            if any(type(one).__name__ == "_PlaceholderType" for one in start.args):  # Python 3.14
                return None, 0, names, False
            before, names, start = before + len(start.args), names | {*start.keywords}, start.func
        elif isinstance(start, type):
            start, before, makes = _maker(cast("Any", start)), before + 1, True
        else:
            start, before = _method(start.__class__, "__call__"), before + 1
    return start, before, names, makes


def _maker(made: Any) -> FunctionType | None:
    """Return the method that gets the arguments of a class; None if it cannot be told."""
    if hasattr(made, "__otpy_life__"):
        return _method(made, "init")
    if made.__new__ is object.__new__ and type(made).__call__ is type.__call__:
        return _method(made, "__init__")
    return None


def _method(owner: type, name: str) -> FunctionType | None:
    """Return the function that is a plain method of `owner`; None if it is something else."""
    for base in owner.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return found if isinstance(found, FunctionType) else None
    return None


def _fits(function: FunctionType, count: int, keywords: Collection[str]) -> bool:
    """Whether `function` takes `count` arguments and those `keywords`, and misses none."""
    shape = _shape_of(function.__code__)
    names, by_position = shape.names, shape.count
    if count > by_position and not shape.any_number:
        return False
    if keywords:
        taken, free = (
            names[shape.positional_only : count],
            names[max(count, shape.positional_only) :],
        )
        if any(one in taken or not (shape.any_keyword or one in free) for one in keywords):
            return False
    given = {*keywords, "task_status"}
    if count < by_position - len(function.__defaults__ or ()):
        for one in names[count : by_position - len(function.__defaults__ or ())]:
            if one not in given or one in names[: shape.positional_only]:
                return False
    return all(
        one in given or one in (function.__kwdefaults__ or ()) for one in names[by_position:]
    )


def _refuse_arguments(
    child: str, function: FunctionType, before: int, count: int, keywords: Collection[str]
) -> None:
    """Refuse in Python's words, which do not show the arguments: they may be secrets."""
    signature = inspect.signature(function, follow_wrapped=False)
    names = [*signature.parameters]
    named = dict.fromkeys({*keywords} | ({"task_status"} & {*names}))
    try:
        signature.bind(*[None] * (before + count), **named)
    except TypeError as error:
        wanted = f"those of {function.__qualname__}({', '.join(names[before:])})"
        msg = f"ChildSpec {child!r}: arguments do not fit: {error}, wanted {wanted}"
        raise InvalidSpec(msg) from None

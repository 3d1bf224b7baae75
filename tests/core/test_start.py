"""Functions and their arguments: an impossible call is refused where it is written."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any

import pytest
from attrs import frozen

from otpy import ChildSpec, GenServer, InvalidSpec
from otpy._core import start as start_module


async def two(a: int, b: int = 0) -> None: ...


async def named(a: int, *, b: int, c: int = 0) -> None: ...


async def by_place(a: int, b: int = 0, /) -> None: ...


async def free(a: int, *more: int, **others: int) -> None: ...


async def by_place_or_free(a: int, /, **others: int) -> None: ...


async def status(a: int, *, task_status: Any) -> None: ...


async def status_by_place(a: int, task_status: Any) -> None: ...


@asynccontextmanager
async def manager(a: int) -> AsyncGenerator[int]:
    yield a


def decorated(fn: Any) -> Any:
    """Give `fn` an argument of its own."""

    @wraps(fn)
    async def wrapper(*args: Any) -> None:
        await fn("given here", *args)

    return wrapper


class Server(GenServer[int, int, int]):
    def init(self, first: int, *, step: int = 1) -> int:
        return first + step


class Client:
    def __init__(self, url: str) -> None: ...

    async def __call__(self, a: int) -> None: ...

    async def run(self, a: int) -> None: ...

    @classmethod
    async def make(cls, a: int) -> None: ...

    @staticmethod
    async def plain(a: int) -> None: ...


@frozen
class Settings:
    url: str
    port: int = 1


CLIENT = Client("x")
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (start, args, kwargs)
    for start in (
        two,
        named,
        by_place,
        free,
        by_place_or_free,
        manager,
        CLIENT,
        CLIENT.run,
        CLIENT.make,
        Client.plain,
        Client,
        Settings,
        partial(two, 1),
        partial(named, b=1),
        partial(partial(two, 1), b=2),
        partial(CLIENT.run, 1),
        partial(manager, 1),
        partial(Client),
    )
    for args in ((), (1,), (1, 2), (1, 2, 3))
    for kwargs in ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}, {"url": "x"})
]


@pytest.mark.parametrize(("start", "args", "kwargs"), CALLS)
def test_arguments_are_judged_as_python_would(start: Any, args: Any, kwargs: Any) -> None:
    """A spec is refused if, and only if, Python would refuse the call."""
    try:
        inspect.signature(start).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidSpec, match=r"^ChildSpec 'x': arguments do not fit: .*, wanted "):
            ChildSpec("x", start, args, kwargs)
    else:
        ChildSpec("x", start, args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "fits"),
    [((1,), {}, True), ((1,), {"step": 2}, True), ((), {}, False), ((1,), {"stp": 2}, False)],
)
def test_a_server_takes_what_its_init_takes(args: Any, kwargs: Any, fits: bool) -> None:
    """The supervisor passes the arguments to `init`."""
    if fits:
        ChildSpec("x", Server, args, kwargs)
    else:
        with pytest.raises(InvalidSpec, match=r"wanted those of Server\.init\(first, step\)$"):
            ChildSpec("x", Server, args, kwargs)


@pytest.mark.parametrize("start", [status, status_by_place, partial(status)])
def test_the_status_is_given_by_the_runtime(start: Any) -> None:
    """A spec does not contain `task_status`; all other arguments are checked."""
    assert not ChildSpec("x", start, (1,)).ready_at_once
    with pytest.raises(InvalidSpec, match="missing a required argument: 'a'"):
        ChildSpec("x", start)


def test_a_decorator_may_give_arguments_itself() -> None:
    """The spec checks the function that is called, not the one that it wraps."""
    assert ChildSpec("x", decorated(two)).args == ()


def test_no_argument_is_shown() -> None:
    """Arguments may be secrets."""
    with pytest.raises(InvalidSpec) as caught:
        ChildSpec("x", two, ("hunter2",) * 3, {"hunter": "hunter2"})
    assert "hunter2" not in str(caught.value)


def blocks() -> None:
    for _ in range(3):
        pass


def returns_early(a: int = 0) -> None:
    if a:
        return
    blocks()


def plain_generator() -> Generator[int]:
    yield 1


@pytest.mark.parametrize(
    "start", [blocks, returns_early, lambda: None, plain_generator, partial(blocks)]
)
def test_a_function_that_blocks_is_refused(start: Any) -> None:
    """It would do its work in the call and block the loop; the message says what to do."""
    with pytest.raises(InvalidSpec, match=r"^ChildSpec 'x': start is .*`async def`.*to_thread$"):
        ChildSpec("x", start)


def test_a_generator_without_its_decorator_is_refused() -> None:
    """This is the classic mistake with context managers."""

    async def generator() -> AsyncGenerator[None]:
        yield

    start: Any = generator
    with pytest.raises(InvalidSpec, match="wanted @asynccontextmanager above this generator"):
        ChildSpec("x", start)


def raises() -> Any:
    raise OSError


@pytest.mark.parametrize("start", [lambda: two(1), raises, lambda: CLIENT, min, dict, Client.plain])
def test_what_may_return_something_is_left_to_the_call(start: Any) -> None:
    """Only a function that certainly cannot be a child is refused."""
    ChildSpec("x", start, (1,) if start is Client.plain else ())


def test_functions_of_one_code_have_their_own_defaults() -> None:
    """The analysis of a code object is cached; defaults belong to the function."""

    def make(defaults: tuple[int, ...]) -> Any:
        async def child(a: int) -> None: ...

        child.__defaults__ = defaults
        return child

    for _ in range(2):
        assert ChildSpec("x", make((1,))).ready_at_once
        with pytest.raises(InvalidSpec):
            ChildSpec("x", make(()))


def test_looks_at_functions_made_from_text_are_forgotten() -> None:
    """A program that makes a function for each child does not keep them all in the cache."""
    for number in range(1_100):
        namespace: dict[str, Any] = {}
        exec(f"async def child(a{number}): ...", namespace)  # noqa: S102 - our own text
        ChildSpec("x", namespace["child"], (1,))
    assert len(start_module._SHAPES) <= 1_000

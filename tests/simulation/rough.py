"""Children that do what a child should not do, or make requests from odd places."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import otpy
from otpy import OtpyError
from otpy._core.protocol import KILL_GRACE
from otpy.errors import NotRunning, WrongThread
from tests.simulation.children import Kind, seconds, short
from tests.simulation.errors import NUMBERS, error
from tests.simulation.ledger import Ledger
from tests.simulation.places import begin, frames_left, in_a_thread, near_the_limit
from tests.simulation.users import User

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor


async def odd_end(seconds: float, number: int) -> None:
    """End with an unusual error."""
    await asyncio.sleep(seconds)
    raise error(number)


async def odd_start(number: int, *, task_status: Any) -> None:
    """Fail to start with an unusual error, at every other attempt."""
    await asyncio.sleep(0.1)
    if otpy.current().incarnation % 2 == 0:
        raise error(number)
    task_status.started(error(number))
    await asyncio.sleep(1)
    raise error(number)


def called(seconds: float) -> Awaitable[None]:
    """Be a plain function that returns a coroutine."""
    return short(seconds)


def hired(seconds: float) -> Awaitable[None]:
    """Be a plain function that returns a task."""
    return asyncio.create_task(short(seconds, LookupError("hired")))


@asynccontextmanager
async def vault(seconds: float, number: int | None) -> AsyncGenerator[str]:
    """Open and close slowly, and fail at it."""
    await asyncio.sleep(seconds)
    try:
        yield "open"
    finally:
        await asyncio.sleep(seconds)
        if number is not None:
            raise error(number)


async def meddling(seed: int) -> None:
    """Be a user of the child's own tree."""
    await User(seed, Ledger.current()).use(otpy.current().root, 3)


async def delving(seed: int) -> None:
    """Make requests when few calls are left to the recursion limit."""
    rng, ledger, root = random.Random(seed), Ledger.current(), otpy.current().root
    user, careless = User(seed, ledger), rng.random() < 0.3
    for _ in range(3):
        await asyncio.sleep(rng.choice([0, 0.1, 0.7]))
        errand = user.errand(root)
        try:
            begin(ledger, errand, near_the_limit(rng.randint(1, 60)))
        except RecursionError:
            errand.close()  # perhaps there was not even room to begin
            if careless:
                raise


async def crawling(seed: int) -> None:
    """Await in a recursion until no room is left; make requests at both ends."""
    rng, ledger, root = random.Random(seed), Ledger.current(), otpy.current().root
    user = User(seed, ledger)
    await asyncio.sleep(rng.choice([0, 0.1, 0.7]))
    await _crawl(frames_left() - rng.randint(40, 80), user, root)


async def _crawl(depth: int, user: User, root: AnySupervisor) -> None:
    if depth <= 0:
        await user.errand(root)
    await _crawl(depth - 1, user, root)


async def threaded(seed: int) -> None:
    """Let threads use the tree."""
    rng, ledger, root = random.Random(seed), Ledger.current(), otpy.current().root
    user = User(seed, ledger)
    for _ in range(3):
        await asyncio.sleep(rng.choice([0, 0.1, 0.7]))
        way = rng.random()
        if way < 0.5:
            begin(ledger, user.signal(root), in_a_thread)
        elif way < 0.7:
            in_a_thread(partial(_refused, ledger, root))
        else:
            portal, ledger.rest = root.portal(), 2 * KILL_GRACE  # for calls without an end
            errand = partial(user.errand, root) if way < 0.95 else partial(asyncio.sleep, 30)
            with suppress(OtpyError):
                answer = in_a_thread(partial(portal.start_task_soon, errand))
                ledger.errands.append(ledger.loop.create_task(_answered(answer), name="portal"))


def _refused(ledger: Ledger, root: AnySupervisor) -> None:
    """Make a request that must be awaited, in a thread; check that it is refused."""
    question = root.count_children()
    try:
        question.send(None)
    except WrongThread:
        return
    except NotRunning:
        ledger.expect(root.ended, "a thread was told that {} does not run", root)
    else:
        ledger.expect(False, "a thread waits for {}", root)
    question.close()


async def _answered(answer: Future[None]) -> None:
    with suppress(OtpyError, asyncio.CancelledError):
        await asyncio.wrap_future(answer)


async def untidy(seed: int) -> None:
    """Leave tasks behind."""
    rng, ledger, me = random.Random(seed), Ledger.current(), otpy.current()
    for _ in range(rng.randint(1, 3)):
        ledger.leave(me, rng.choice([stray, stray, slow_stray, breeding_stray, stubborn_stray]))
    await asyncio.sleep(rng.choice([0, 0.3, 1, 1e6]))
    if rng.random() < 0.5:
        raise LookupError("untidy")


async def stray() -> None:
    """Run for ever."""
    while True:  # noqa: ASYNC110 - it is to take steps
        await asyncio.sleep(1.5)


async def slow_stray() -> None:
    """Clean up."""
    try:
        await asyncio.sleep(1e6)
    finally:
        await asyncio.sleep(0.2)


async def breeding_stray() -> None:
    """Leave another task behind."""
    ledger, me = Ledger.current(), otpy.current()
    try:
        await asyncio.sleep(0.4)
    finally:
        ledger.leave(me, stray)


async def stubborn_stray() -> None:
    """Refuse to end until the checks are over."""
    ledger = Ledger.current()
    ledger.stubborn.add(otpy.current().path)
    while not ledger.over:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1.5)


ODD: list[Kind] = [
    lambda rng: (odd_end, (seconds(rng), rng.choice(NUMBERS))),
    lambda rng: (odd_start, (rng.choice(NUMBERS),)),
    lambda rng: (called, (seconds(rng),)),
    lambda rng: (hired, (seconds(rng),)),
    lambda rng: (vault, (seconds(rng), rng.choice([None, rng.choice(NUMBERS)]))),
]
MEDDLING: list[Kind] = [lambda rng: (meddling, (rng.randrange(99),))]
DEEP: list[Kind] = [
    lambda rng: (delving, (rng.randrange(99),)),
    lambda rng: (crawling, (rng.randrange(99),)),
]
THREADED: list[Kind] = [lambda rng: (threaded, (rng.randrange(99),))]
UNTIDY: list[Kind] = [lambda rng: (untidy, (rng.randrange(99),))]

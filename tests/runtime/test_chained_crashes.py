"""Crashes raised because of an earlier crash: what is kept of them, and what is shown."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, Crashed, SupervisorSpec
from otpy.reports import ChildExited, Report
from tests.runtime.children import Boom, forever

LIVES = 50


def last_error() -> BaseException | None:
    """Return the error that the previous life raised."""
    last = otpy.current().last_exit
    return last.error if isinstance(last, Crashed) else None


async def raises_from() -> None:
    """Raise an error from that of the previous life."""
    raise Boom(f"life {otpy.current().incarnation}.") from last_error()


async def raises_from_an_error_of_its_own() -> None:
    """Raise an error from one of this life, which was raised from that of the previous life."""
    life = otpy.current().incarnation
    try:
        raise LookupError(f"own {life}.") from last_error()
    except LookupError as error:
        raise Boom(f"life {life}.") from error


async def raises_while_handling() -> None:
    """Raise an error while that of the previous life is being handled."""
    life, last = otpy.current().incarnation, last_error()
    try:
        if last is not None:
            raise last
    except Boom:
        raise Boom(f"life {life}.")  # noqa: B904 - that is the point
    raise Boom(f"life {life}.")


async def raises_again() -> None:
    """Raise the very error of the first life again."""
    raise last_error() or Boom("life 1.")


async def raises_in_a_group() -> None:
    """Raise an error from that of the previous life, in a task group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(raises_from())


class Shown:
    """A report hook that records how each crash was printed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, report: Report) -> None:
        if isinstance(report, ChildExited) and isinstance(report.reason, Crashed):
            self.texts.append("".join(traceback.format_exception(report.reason.error)))


Logs = list[MutableMapping[str, Any]]


async def crashes(child: Callable[[], Awaitable[None]], logs: Logs) -> list[str]:
    """Return how each crash of a child was printed; check that few crashes are kept."""
    shown, rest = Shown(), asyncio.Event()
    before = sum(type(thing) is Boom for thing in gc.get_objects())  # of other tests

    async def life() -> None:
        if otpy.current().incarnation > LIVES:
            rest.set()
            await forever()
        await child()

    spec = SupervisorSpec("app", [ChildSpec("c", life)], intensity=otpy.INFINITY)
    async with otpy.start(spec, hooks=[otpy.log_reports(), shown]) as app:
        await rest.wait()
        logs.clear()
        gc.collect()
        assert sum(type(thing) is Boom for thing in gc.get_objects()) < before + 5
        assert isinstance(app.child("c").last_exit, Crashed)
    assert len(shown.texts) == LIVES
    return shown.texts


@pytest.mark.parametrize("child", [raises_from, raises_while_handling, raises_in_a_group])
async def test_a_crash_is_shown_with_the_one_before_and_no_other(
    child: Callable[[], Awaitable[None]], logs: Logs
) -> None:
    """The causes of a crash lead back to the previous life, however many there were."""
    for life, text in enumerate(await crashes(child, logs), start=1):
        assert f"life {life}." in text
        assert (f"life {life - 1}." in text) is (life > 1)
        assert f"life {life - 2}." not in text


async def test_what_a_life_itself_raised_stays(logs: Logs) -> None:
    """The causes of a life's crash are shown with that crash, and with the next."""
    for life, text in enumerate(await crashes(raises_from_an_error_of_its_own, logs), start=1):
        seen = [line for line in text.splitlines() if line.startswith(("LookupError", "tests."))]
        before = [f"own {life - 1}.", f"life {life - 1}."] if life > 1 else []
        assert [line.rpartition(": ")[2] for line in seen] == [
            *before,
            f"own {life}.",
            f"life {life}.",
        ]


async def test_an_error_that_is_raised_again_shows_the_first_time_and_the_last(logs: Logs) -> None:
    """Python alone would add a line for each life."""
    for life, text in enumerate(await crashes(raises_again, logs), start=1):
        assert text.count("in raises_again") == min(life, 2)
        assert "life 1." in text

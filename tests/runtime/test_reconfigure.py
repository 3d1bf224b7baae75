"""`Supervisor.reconfigure`: another spec for a running supervisor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, InvalidSpec, Killed, Shutdown, Supervisor, SupervisorSpec
from otpy.errors import CallingSelf, NotRunning
from otpy.testing import MockClock
from tests.runtime.children import Journal, forever


async def lingering() -> None:
    """Take a minute to clean up."""
    try:
        await forever()
    finally:
        await asyncio.sleep(60)


async def test_a_running_tree_takes_another_spec(clock: MockClock, journal: Journal) -> None:
    """SUP-122, AIO-26: known children run on, new ones are not started, vanished ones stay."""
    async with otpy.start(journal.tree("a", "b"), hooks=()) as app:
        await clock.advance(0)
        process = app.child("a")
        await app.reconfigure(SupervisorSpec("app", [journal.spec("c"), journal.spec("a")]))
        assert app.child("a") is process
        assert [child.id for child in await app.which_children()] == ["b", "a", "c"]
        assert await app.restart_child("c") is app.child("c")
        await clock.advance(0)
    assert journal.lines == ["+a", "+b", "+c", "-b", "-a", "-c"]


async def test_a_running_child_is_stopped_by_its_new_limit(clock: MockClock) -> None:
    """SUP-122, SUP-702: the process knows the spec that has replaced its own."""
    old, new = (ChildSpec("a", lingering, shutdown=limit) for limit in (30, 2))
    async with otpy.start(SupervisorSpec("app", [old]), hooks=()) as app:
        process = app.child("a")
        await asyncio.sleep(1)
        await app.reconfigure(SupervisorSpec("app", [new, ChildSpec("down", forever)]))
        assert process.spec is new
        await app.terminate_child("a")
        assert process.exit_reason == Killed()
        assert clock.now == 3


async def test_the_next_life_begins_with_the_new_start() -> None:
    """SUP-122: the present life began with the old one."""
    started: list[str] = []

    async def child(name: str) -> None:
        started.append(name)
        await forever()

    def spec(name: str) -> SupervisorSpec:
        return SupervisorSpec("app", [ChildSpec("a", child, (name,))])

    async with otpy.start(spec("old"), hooks=()) as app:
        await asyncio.sleep(1)
        await app.reconfigure(spec("new"))
        app.child("a").kill()
        await app.wait_for_restart("a", after=1)
        await asyncio.sleep(1)
    assert started == ["old", "new"]


@pytest.mark.parametrize("spec", [None, SupervisorSpec("other"), otpy.specs.DynamicSpec("app")])
async def test_what_cannot_be_its_spec_is_refused(spec: Any) -> None:
    """SUP-122: the check comes first, and nothing is changed."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("a", forever)]), hooks=()) as app:
        with pytest.raises(InvalidSpec, match="wanted a SupervisorSpec 'app'"):
            await app.reconfigure(spec)
        assert app.child("a").alive


async def test_it_is_a_request_like_any_other() -> None:
    """SUP-318: a starting child may not ask for it, and an ended supervisor refuses it."""
    refused: list[str] = []

    async def child(*, task_status: Any) -> None:
        above = otpy.current().parent
        assert isinstance(above, Supervisor)
        with pytest.raises(CallingSelf):
            await above.reconfigure(SupervisorSpec("app"))
        refused.append("self")
        task_status.started()
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("a", child)]), hooks=()) as app:
        await app.stop(Shutdown())
        with pytest.raises(NotRunning):
            await app.reconfigure(SupervisorSpec("app"))
    assert refused == ["self"]

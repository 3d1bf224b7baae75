"""The closest match to OTP's applications: a tree, and the code that starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import otpy
from otpy import ChildSpec, ExitReason, Normal, Shutdown, SupervisorFailed, SupervisorSpec
from tests.runtime.children import crash, forever

FRAGILE = SupervisorSpec("app", [ChildSpec("x", crash)], intensity=0)
SOUND = SupervisorSpec("app", [ChildSpec("x", forever)])


async def test_a_tree_may_be_started_many_times() -> None:
    """APP-01: two copies may run side by side, independent of each other."""
    async with otpy.start(SOUND) as one, otpy.start(SOUND) as other:
        await one.stop()
        assert other.child("x").alive


async def test_the_program_may_go_on_without_a_tree_that_gave_up() -> None:
    """APP-02: the code that started the tree gets the error; other trees run on."""
    async with otpy.start(SOUND) as other:
        with pytest.raises(SupervisorFailed, match="app gave up"):
            async with otpy.start(FRAGILE, hooks=()):
                await asyncio.Event().wait()
        assert other.child("x").alive


@pytest.mark.parametrize("reason", [Normal(), Shutdown(), Shutdown("enough")], ids=str)
async def test_a_tree_that_is_stopped_takes_nothing_down(reason: ExitReason) -> None:
    """APP-05: this holds for each clean reason."""
    async with otpy.start(SOUND) as root:
        await root.stop(reason)
    assert await root.wait() == reason


@pytest.mark.parametrize(
    ("life", "expected"),
    [(forever, ["prepare", "child"]), (crash, ["child", "prepare", "failed"])],
)
async def test_what_stands_around_the_block_is_done_however_the_tree_ends(
    life: Callable[[], Awaitable[None]], expected: list[str]
) -> None:
    """APP-06: before the tree stops and after it, even if the tree ended by itself."""
    steps: list[str] = []

    async def child() -> None:
        try:
            await life()
        finally:
            steps.append("child")

    try:
        async with otpy.start(
            SupervisorSpec("app", [ChildSpec("x", child)], intensity=0), hooks=()
        ):
            try:
                await asyncio.sleep(1)
            finally:
                steps.append("prepare")
    except SupervisorFailed:
        steps.append("failed")
    finally:
        steps.append("after")
    assert steps == [*expected, "after"]


def test_the_program_ends_with_the_root() -> None:
    """APP-04: the status is 1 if the root gave up."""
    with pytest.raises(SystemExit) as caught:
        otpy.run(FRAGILE)
    assert caught.value.code == 1

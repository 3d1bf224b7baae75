from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor, Restart, Strategy, Supervisor, SupervisorSpec
from otpy.testing import MockClock, Recording, assert_restarted, settled
from tests.testing.life import forever

TREE = SupervisorSpec(
    "app",
    [
        ChildSpec("once", forever, restart=Restart.TEMPORARY),
        ChildSpec("db", forever),
        SupervisorSpec("in", [ChildSpec("a", forever), ChildSpec("b", forever)]),
    ],
    strategy=Strategy.REST_FOR_ONE,
    intensity=10,
)


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """A tree that runs."""
    async with otpy.start(TREE, hooks=()) as root:
        yield root


async def kill(root: Supervisor, *paths: str) -> None:
    for path in paths:
        root.whereis(path).kill()
        await settled(root)


async def test_the_tree_that_runs_is_found_by_the_path(root: Supervisor) -> None:
    """The test neither passes the tree nor records anything."""
    assert_restarted("app/db", times=0)
    await kill(root, "app/in/b", "app/in/b")
    assert_restarted("app/in/b", times=2)
    assert_restarted("app/in/a", times=0)
    await kill(root, "app/db")
    assert_restarted("app/db", times=1)
    assert_restarted("app/in", times=1)  # with its group
    assert_restarted("app/in/b", times=0)  # it is a new child


async def test_a_start_by_hand_is_no_restart(root: Supervisor) -> None:
    """Only the restarts of `Process.restarts` count."""
    await root.terminate_child("db")
    process = await root.restart_child("db")
    assert process is not None
    assert process.incarnation == 2
    assert_restarted("app/db", times=0, root=root)


@pytest.mark.parametrize("times", [0, 2])
async def test_another_number_fails_and_shows_the_tree(root: Supervisor, times: int) -> None:
    """Too few is as wrong as too many."""
    await kill(root, "app/db")
    with pytest.raises(AssertionError) as caught:
        assert_restarted("app/db", times=times)
    assert str(caught.value) == (
        f"app/db was restarted 1 times, not {times}:\n{root.snapshot().render()}"
    )


@pytest.mark.parametrize("path", ["app/dbx", "db", "", "app/once"])
async def test_an_unknown_path_fails_and_shows_what_there_is(root: Supervisor, path: str) -> None:
    """A misspelt path is not a child that was never restarted; nor is a forgotten one."""
    await kill(root, "app/once")
    for where in (None, root):
        with pytest.raises(AssertionError, match=f"nothing is known of '{path}':\napp  running"):
            assert_restarted(path, times=0, root=where)


async def test_a_recording_remembers_what_has_ended() -> None:
    """A tree that ended, and a child that is forgotten, are found in the recordings."""
    recorded = Recording()
    async with otpy.start(TREE, hooks=[recorded]) as root:
        await kill(root, "app/db", "app/db", "app/once")
        assert_restarted("app/once", times=0)
        assert_restarted("app/db", times=2)
    assert_restarted("app/db", times=2)
    assert_restarted("app/db", times=2, root=recorded)
    assert_restarted("app/in", times=2)  # not 0, as it would be by its report about itself
    with pytest.raises(AssertionError) as caught:
        assert_restarted("app/once", times=1)
    assert str(caught.value) == (
        f"app/once was restarted 0 times, not 1:\n{recorded.render('app/once')}"
    )
    with pytest.raises(
        AssertionError, match="nothing is known of 'app/x':\n0 s app/once #1 started"
    ):
        assert_restarted("app/x", times=0, root=recorded)


async def test_the_latest_recording_counts(clock: MockClock) -> None:
    """Of two trees of one name, one after the other, the second counts."""
    kept: list[Recording] = []
    for kills in (2, 1):
        kept.append(Recording())
        async with otpy.start(TREE, hooks=[kept[-1]]) as root:
            await clock.advance(1)
            await kill(root, *["app/db"] * kills)
        assert_restarted("app/db", times=kills)
    assert_restarted("app/db", times=2, root=kept[0])


async def test_a_running_tree_goes_before_a_recording() -> None:
    """The restarts of an earlier tree are not charged to the running one."""
    recorded = Recording()
    async with otpy.start(TREE, hooks=[recorded]) as root:
        await kill(root, "app/db")
    async with otpy.start(TREE, hooks=()):
        assert_restarted("app/db", times=0)
        assert_restarted("app/db", times=1, root=recorded)


async def test_two_running_trees_of_one_name_must_be_told_apart(root: Supervisor) -> None:
    """It asks which tree is meant instead of guessing."""
    async with otpy.start(TREE, hooks=()) as other, otpy.start(SupervisorSpec("x"), hooks=()):
        await kill(other, "app/db")
        with pytest.raises(AssertionError, match="2 trees on this loop have 'app/db'; say root="):
            assert_restarted("app/db", times=0)
        assert_restarted("app/db", times=1, root=other)
        assert_restarted("app/in/a", times=0, root=root.whereis("app/in/a").root)


async def test_children_of_a_dynamic_supervisor_are_found() -> None:
    """They are found by the names that the supervisor gave them."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        await pool.start_child(ChildSpec("w", forever))
        process = await pool.start_child(ChildSpec("w", forever))
        assert process is not None
        process.kill()
        await settled(pool)
        assert_restarted("pool/w", times=0)
        assert_restarted("pool/w#2", times=1)


async def test_nothing_at_all_is_said_as_such() -> None:
    """With no tree and no recording, the message says what to do."""
    with pytest.raises(AssertionError, match="no tree runs on this loop, and no Recording was"):
        assert_restarted("app/db", times=0)
    with pytest.raises(AssertionError, match="the recording is empty"):
        assert_restarted("app/db", times=0, root=Recording())


def test_outside_of_a_loop_the_tree_must_be_named() -> None:
    """Without a loop, no running tree can be meant."""
    recorded = Recording()

    async def scenario() -> None:
        async with otpy.start(TREE, hooks=[recorded]) as root:
            await kill(root, "app/db")
            await asyncio.sleep(1)

    MockClock().run(scenario())
    assert_restarted("app/db", times=1, root=recorded)
    with pytest.raises(RuntimeError, match="no running event loop: say root="):
        assert_restarted("app/db", times=1)

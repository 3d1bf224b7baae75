from __future__ import annotations

import asyncio
from typing import Any

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Restart, SupervisorSpec
from otpy.testing import MockClock
from otpy_monitors import (
    AgentAppeared,
    Feed,
    NotReady,
    RestBegan,
    ToolCallBegan,
    TreeHealth,
    tree_health,
)
from tests.monitors.agents import card


async def works() -> None:
    await asyncio.Event().wait()


async def crashes() -> None:
    await asyncio.sleep(1)
    raise RuntimeError("boom")


def shown(health: TreeHealth) -> list[str]:
    """Return what is not ready, one line each."""
    return [str(one) for one in health.not_ready]


def app(*children: Any) -> SupervisorSpec:
    return SupervisorSpec("app", children)


async def test_a_tree_in_which_everything_works_is_alive_and_ready() -> None:
    """Children that have ended normally, and an empty pool, are ready."""
    done = ChildSpec("done", lambda: asyncio.sleep(0), restart=Restart.TRANSIENT)
    pool = DynamicSupervisor.spec("pool")
    tree = app(ChildSpec("w", works), done, pool)
    async with otpy.start(tree, hooks=()) as root:
        await asyncio.sleep(1)
        assert tree_health(root) == TreeHealth(alive=True, ready=True, not_ready=())
        assert tree_health(root.child("pool").supervisor).ready  # type: ignore[arg-type]


async def test_what_is_not_ready_is_listed_in_the_order_of_the_tree(clock: MockClock) -> None:
    """The list needs no wait for restarts in progress."""
    late = Backoff.sequence(10.0)
    tree = app(
        ChildSpec("a", crashes, backoff=late),
        SupervisorSpec("b", [ChildSpec("c", works), ChildSpec("d", crashes, backoff=late)]),
        ChildSpec("e", works),
    )
    async with otpy.start(tree, hooks=()) as root:
        await clock.advance(4)
        health = tree_health(root)
        assert (health.alive, health.ready) == (True, False)
        assert shown(health) == [
            "app/a: backing off, again in 7.0 s, last exit: crashed: RuntimeError: boom",
            "app/b/d: backing off, again in 7.0 s, last exit: crashed: RuntimeError: boom",
        ]
        await clock.advance(7.5)
        assert tree_health(root).ready


async def test_a_tree_that_starts_is_alive_and_not_ready(clock: MockClock) -> None:
    """Supervisors on the way down to the child that is not ready are listed as well."""

    async def slow(*, task_status: Any) -> None:
        await asyncio.sleep(10)
        task_status.started()
        await works()

    inner = SupervisorSpec("inner", [ChildSpec("slow", slow), ChildSpec("next", works)])
    pool = DynamicSupervisor.spec("pool")
    async with otpy.start(app(pool), hooks=()) as root:
        supervisor = root.child("pool").supervisor
        assert isinstance(supervisor, DynamicSupervisor)
        starting = asyncio.create_task(supervisor.start_child(inner))
        await clock.advance(1)
        health = tree_health(root)
        assert (health.alive, health.ready) == (True, False)
        assert [one.state for one in health.not_ready] == ["starting", "starting"]
        await clock.advance(10)
        await starting
        assert tree_health(root).ready


async def test_what_was_ended_on_purpose_is_still_missing() -> None:
    """A monitor that an operator ended is missing, and is shown so (G-20)."""
    async with otpy.start(app(ChildSpec("w", works), ChildSpec("x", works)), hooks=()) as root:
        await root.terminate_child("w")
        health = tree_health(root)
        assert (health.alive, health.ready) == (True, False)
        assert shown(health) == ["app/w: undefined, last exit: shutdown"]


async def test_a_tree_that_has_ended_is_not_alive() -> None:
    """A caller may still ask a tree that has ended."""
    async with otpy.start(app(ChildSpec("w", works)), hooks=()) as root:
        pass
    health = tree_health(root)
    assert (health.alive, health.ready) == (False, False)
    assert health.not_ready[0] == NotReady("app", "ended")


async def test_an_agent_that_is_stalled_is_not_ready(clock: MockClock) -> None:
    """Agents stand in the tree's order, those without a place last; a waiting one is ready."""
    feed = Feed()
    tree = app(SupervisorSpec("pool", [ChildSpec(name, works) for name in "abc"]))
    async with otpy.start(tree, hooks=()) as root:
        for name in ("x", "c", "b", "a"):
            feed.tell(AgentAppeared(0.0, card(f"site/{name}", stall=5.0)))
        feed.tell(RestBegan("site/b", 0.0, "input"))
        feed.tell(ToolCallBegan("site/c", 1.0, "c1", "Bash"))
        await clock.advance(4.9)
        assert tree_health(root, feed).ready
        await clock.advance(2)
        health = tree_health(root, feed)
        assert (health.alive, health.ready) == (True, False)
        assert shown(health) == [
            "app/pool/a: stalled, no progress for 6.9 s",
            "app/pool/c: stalled, no progress for 5.9 s in a call of 'Bash'",
            "app/pool/x: stalled, no progress for 6.9 s",
        ]


async def test_a_stalled_agent_whose_process_is_down_is_listed_once(clock: MockClock) -> None:
    """The state in the tree counts first: the agent waits for its restart."""
    feed = Feed()
    late = Backoff.sequence(10.0)
    tree = app(SupervisorSpec("pool", [ChildSpec("a", crashes, backoff=late)]))
    async with otpy.start(tree, hooks=()) as root:
        feed.tell(AgentAppeared(0.0, card("site/a", stall=1.0)))
        await clock.advance(4)
        assert [one.state for one in tree_health(root, feed).not_ready] == ["backing off"]

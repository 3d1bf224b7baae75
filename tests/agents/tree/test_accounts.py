"""A fault of an account holds its agents, tells a person once, and reaps no agent."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Fail, Script
from tests.agents.world import World, agent, typed

OUT = Script(Fail(detail=Detail.AUTH))


@pytest.mark.parametrize("detail", [Detail.AUTH, Detail.BILLING])
async def test_agents_without_a_login_wait_for_it(world: World, detail: Detail) -> None:
    """They try again every few minutes, without a restart, and are done after the login."""
    out = Script(Fail(detail=detail))
    world.sandbox.scripts = {name: [out, out, Script()] for name in "ab"}
    known = await world.run("".join(agent(name, restarts=0) for name in "ab"))
    assert {one.state for one in known.values()} == {State.DONE}
    assert {one.restarts for one in known.values()} == {0}
    told = [one for one in world.told if one.name == "operator.notified"]
    assert [one.id for one in told] == ["command"]
    assert str(told[0].detail["detail"]).startswith(f"{detail}: ")
    assert 300 <= world.sandbox.of("a")[-1].began < 1000


async def test_a_cooldown_that_is_ended_elsewhere_lets_them_go_on(world: World) -> None:
    """They go on within seconds, as after `cooldowns clear` in another process."""
    world.sandbox.scripts["a"] = [OUT, Script()]
    async with world.running(agent("a", restarts=0)) as root:
        await asyncio.sleep(20)
        store = world.workplace.store
        assert store is not None
        (one,) = await store.cooldowns.at(0)
        assert one.reason.startswith("auth, told by run ")
        now = one.told + 1
        assert await store.cooldowns.end(one.agent_cli, one.credential, now)
        await root.wait()
    assert world.known["a"].state is State.DONE
    assert world.sandbox.of("a")[-1].began < 40


async def test_resume_lets_one_that_waits_try_again_now(world: World) -> None:
    """Its success lets the others go on that wait for the same account."""
    world.sandbox.scripts = {name: [OUT, Script()] for name in "ab"}
    async with world.running(agent("a") + agent("b")) as root:
        await asyncio.sleep(20)
        assert await typed(world, "resume", agent="a") == "tries again now"
        await root.wait()
    assert {one.state for one in world.known.values()} == {State.DONE}
    assert world.sandbox.of("b")[-1].began < 60

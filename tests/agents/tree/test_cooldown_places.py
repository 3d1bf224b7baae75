"""An agent that waits for its account holds no place of `parallel`, and needs one to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from otpy import Supervisor
from otpy_agents.agent import life
from otpy_agents.agent.order import order_of
from otpy_agents.run import Detail
from otpy_agents.run.decide.chain import AgentSelection
from otpy_agents.run.host.order import RunOrder
from otpy_agents.store.records import State
from otpy_agents.testing import Fail, Say, Script
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.status import status_of
from tests.agents.tree.test_places import LONG, at_work
from tests.agents.world import QUICK, World, agent, typed

REST = 600.0
LIMITED = Script(Fail(detail=Detail.RATE_LIMIT))
SHORT = Script(Say(text="x", after=100.0))
ONE = "[list]\nparallel = 1\n"


@pytest.fixture(autouse=True)
def _own_accounts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each agent have an account of its own, which rests for ten minutes when it is limited."""

    def ordered(*given: Any, **keys: Any) -> RunOrder:
        order, name = order_of(*given, **keys), given[1].id
        selection = order.selection
        one = evolve(selection.agents[0], credential=name)
        return evolve(order, selection=AgentSelection(agents=(one,)))

    monkeypatch.setattr(life, "order_of", ordered)
    world.settings["policy"] = evolve(QUICK, rate_limit_backoff_base=REST)


async def row(world: World, root: Supervisor, name: str) -> Mapping[str, Any]:
    """Return the row of an agent in `status`."""
    journal, now = Journal(), asyncio.get_running_loop().time()
    for one in world.told:
        journal.note(one.name, one.id, one.at, one.detail)
    status = await status_of([world.project], root, journal, now, now)
    found: list[Mapping[str, Any]] = [one for one in status["agents"] if one["agent"] == name]
    return found[0]


def began(world: World, name: str) -> list[int]:
    """Return the minutes in which attempts of an agent began."""
    return [int(one.began // 60) for one in world.sandbox.of(name)]


async def test_the_next_begins_while_one_waits_for_its_account(world: World) -> None:
    """The next agent ends in the meantime; the first goes on when the ten minutes are over."""
    world.sandbox.scripts = {"a": [LIMITED, Script()], "b": [SHORT]}
    known = await world.run(ONE + agent("a", restarts=0) + agent("b"))
    assert {one.state for one in known.values()} == {State.DONE}
    assert [played.agent for played in world.sandbox.played] == ["a", "b", "a"]
    assert (began(world, "a"), began(world, "b")) == ([0, 10], [0])
    assert world.names("a").count("mortal.queued") == 0
    assert known["a"].attempts == 1


async def test_who_waited_for_its_account_waits_for_a_place(world: World) -> None:
    """`status` says so, and it goes on as soon as the other agent has ended."""
    world.sandbox.scripts = {"a": [LIMITED, Script()], "b": [Script(Say(text="x", after=900.0))]}
    async with world.running(ONE + agent("a") + agent("b")) as root:
        await asyncio.sleep(100)
        assert "cooldown" in (await row(world, root, "a"))["doing"]
        await asyncio.sleep(REST)
        assert at_work(world) == ["b"]
        seen = await row(world, root, "a")
        assert (seen["state"], seen["doing"]) == (
            "waiting_for_wakeup",
            "waits for a place of `parallel` (1)",
        )
        assert world.names("a").count("mortal.queued") == 1
        await root.wait()
    assert {one.state for one in world.known.values()} == {State.DONE}
    last = world.sandbox.of("a")[-1]
    assert 0 <= last.began - (world.sandbox.of("b")[0].ended or 0) < 2


async def test_all_who_wait_go_on_one_after_the_other(world: World) -> None:
    """At no time do more agents work than `parallel` allows."""
    names = "abcd"
    world.sandbox.scripts = {name: [LIMITED, LONG] for name in names}
    most = 0
    async with world.running(
        "[list]\nparallel = 2\n" + "".join(agent(name) for name in names)
    ) as root:
        for _ in range(60):
            await asyncio.sleep(30)
            most = max(most, len(at_work(world)))
        await root.wait()
    assert most == 2
    assert {one.state for one in world.known.values()} == {State.DONE}
    assert {len(world.sandbox.of(name)) for name in names} == {2}


async def test_resume_of_who_waits_for_its_account_takes_a_place(world: World) -> None:
    """A person's command overrides `parallel`; nothing new begins until the limit holds again."""
    world.sandbox.scripts = {"a": [LIMITED, LONG], "b": [SHORT], "c": [SHORT]}
    async with world.running(ONE + agent("a") + agent("b") + agent("c")) as root:
        await asyncio.sleep(50)
        assert at_work(world) == ["b"]
        await typed(world, "resume", agent="a")
        await asyncio.sleep(10)
        assert at_work(world) == ["a", "b"]
        await asyncio.sleep(100)
        assert at_work(world) == ["a"]
        await root.wait()
    assert {one.state for one in world.known.values()} == {State.DONE}


def _life(world: World) -> None:
    process = world.pool.process("a")
    assert process is not None
    process.kill()


def _nothing(_world: World) -> None:
    pass


@pytest.mark.parametrize("deed", [_life, _nothing], ids=["its life is killed", "nothing happens"])
@pytest.mark.parametrize("after", [200.0, 700.0], ids=["resting", "in line"])
@pytest.mark.parametrize("length", [300.0, 900.0])
async def test_no_place_is_lost_or_kept(
    world: World, deed: Callable[[World], None], after: float, length: float
) -> None:
    """A kill of its life in either wait makes no difference: all are done, one at a time."""
    world.sandbox.scripts = {
        "a": [LIMITED, LONG],
        "b": [Script(Say(text="x", after=length))],
        "c": [SHORT],
    }
    text = ONE + agent("a", backoff=[1]) + agent("b") + agent("c")
    async with world.running(text) as root:
        await asyncio.sleep(after)
        deed(world)
        await root.wait()
    assert {one.state for one in world.known.values()} == {State.DONE}
    played = sorted(world.sandbox.played, key=lambda one: one.began)
    assert all((one.ended or 0) <= two.began for one, two in pairwise(played))
    assert len(world.sandbox.of("b")) == len(world.sandbox.of("c")) == 1


async def test_the_next_host_gives_the_place_of_who_still_waits_away(world: World) -> None:
    """It is taken up first, as it is first in the list, and goes on waiting for its account."""
    world.sandbox.scripts = {"a": [LIMITED, Script()], "b": [LONG, LONG]}
    text = ONE + agent("a") + agent("b")
    async with world.running(text):
        await asyncio.sleep(50)
        assert at_work(world) == ["b"]
    async with world.running(text) as root:
        await asyncio.sleep(10)
        assert at_work(world) == ["b"]
        await root.wait()
    assert {one.state for one in world.known.values()} == {State.DONE}
    assert began(world, "a") == [0, 10]


async def test_who_is_paused_or_reaped_in_line_leaves_it(world: World) -> None:
    """Nothing of it is started, and the agent behind it goes on."""
    world.sandbox.scripts = {
        "a": [LIMITED, LONG],
        "b": [LIMITED, LONG],
        "c": [Script(Say(text="x", after=900.0))],
    }
    async with world.running(ONE + agent("a") + agent("b") + agent("c")) as root:
        await asyncio.sleep(700)
        world.pool.pause("a", "later")
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_wakeup"
        world.pool.reap("b", "not needed")
        await asyncio.sleep(400)
        assert at_work(world) == []
        world.pool.resume("a")
        await root.wait()
    assert {name: one.state for name, one in world.known.items()} == {
        "a": State.DONE,
        "b": State.REAPED,
        "c": State.DONE,
    }
    assert len(world.sandbox.of("b")) == 1

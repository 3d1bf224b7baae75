"""Who waits for its account keeps no place of `parallel`, and needs one to go on."""

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
from tests.agents.agent_world import QUICK, AgentWorld, agent, typed
from tests.agents.tree.test_places import LONG, at_work

REST = 600.0
LIMITED = Script(Fail(detail=Detail.RATE_LIMIT))
SHORT = Script(Say(text="x", after=100.0))
ONE = "[list]\nparallel = 1\n"


@pytest.fixture(autouse=True)
def _own_accounts(agents: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each agent have an account of its own, which rests for ten minutes when it is limited."""

    def ordered(*given: Any, **keys: Any) -> RunOrder:
        order, name = order_of(*given, **keys), given[1].id
        selection = order.selection
        one = evolve(selection.agents[0], credential=name)
        return evolve(order, selection=AgentSelection(agents=(one,)))

    monkeypatch.setattr(life, "order_of", ordered)
    agents.settings["policy"] = evolve(QUICK, rate_limit_backoff_base=REST)


async def row(agents: AgentWorld, root: Supervisor, name: str) -> Mapping[str, Any]:
    """Return what `status` says of an agent."""
    journal, now = Journal(), asyncio.get_running_loop().time()
    for one in agents.told:
        journal.note(one.name, one.id, one.at, one.detail)
    status = await status_of([agents.project], root, journal, now, now)
    found: list[Mapping[str, Any]] = [one for one in status["agents"] if one["agent"] == name]
    return found[0]


def began(agents: AgentWorld, name: str) -> list[int]:
    """Return the minutes in which attempts of an agent began."""
    return [int(one.began // 60) for one in agents.sandbox.of(name)]


async def test_the_next_begins_while_one_waits_for_its_account(agents: AgentWorld) -> None:
    """It works and ends meanwhile, and the first goes on when the ten minutes are over."""
    agents.sandbox.scripts = {"a": [LIMITED, Script()], "b": [SHORT]}
    known = await agents.run(ONE + agent("a", restarts=0) + agent("b"))
    assert {one.state for one in known.values()} == {State.DONE}
    assert [played.agent for played in agents.sandbox.played] == ["a", "b", "a"]
    assert (began(agents, "a"), began(agents, "b")) == ([0, 10], [0])
    assert agents.names("a").count("mortal.queued") == 0
    assert known["a"].attempts == 1


async def test_who_waited_for_its_account_waits_for_a_place(agents: AgentWorld) -> None:
    """`status` says so, and it is called as soon as the other has ended."""
    agents.sandbox.scripts = {"a": [LIMITED, Script()], "b": [Script(Say(text="x", after=900.0))]}
    async with agents.running(ONE + agent("a") + agent("b")) as root:
        await asyncio.sleep(100)
        assert "cooldown" in (await row(agents, root, "a"))["doing"]
        await asyncio.sleep(REST)
        assert at_work(agents) == ["b"]
        seen = await row(agents, root, "a")
        assert (seen["state"], seen["doing"]) == (
            "waiting_for_wakeup",
            "waits for a place of `parallel` (1)",
        )
        assert agents.names("a").count("mortal.queued") == 1
        await root.wait()
    assert {one.state for one in agents.known.values()} == {State.DONE}
    last = agents.sandbox.of("a")[-1]
    assert 0 <= last.began - (agents.sandbox.of("b")[0].ended or 0) < 2


async def test_all_who_wait_go_on_one_after_the_other(agents: AgentWorld) -> None:
    """However many were limited meanwhile, never more work than may."""
    names = "abcd"
    agents.sandbox.scripts = {name: [LIMITED, LONG] for name in names}
    most = 0
    async with agents.running(
        "[list]\nparallel = 2\n" + "".join(agent(name) for name in names)
    ) as root:
        for _ in range(60):
            await asyncio.sleep(30)
            most = max(most, len(at_work(agents)))
        await root.wait()
    assert most == 2
    assert {one.state for one in agents.known.values()} == {State.DONE}
    assert {len(agents.sandbox.of(name)) for name in names} == {2}


async def test_resume_of_who_waits_for_its_account_takes_a_place(agents: AgentWorld) -> None:
    """A person's word goes before `parallel`; nothing new is begun until that is kept again."""
    agents.sandbox.scripts = {"a": [LIMITED, LONG], "b": [SHORT], "c": [SHORT]}
    async with agents.running(ONE + agent("a") + agent("b") + agent("c")) as root:
        await asyncio.sleep(50)
        assert at_work(agents) == ["b"]
        await typed(agents, "resume", agent="a")
        await asyncio.sleep(10)
        assert at_work(agents) == ["a", "b"]
        await asyncio.sleep(100)
        assert at_work(agents) == ["a"]
        await root.wait()
    assert {one.state for one in agents.known.values()} == {State.DONE}


def _life(agents: AgentWorld) -> None:
    process = agents.pool.process("a")
    assert process is not None
    process.kill()


def _nothing(_agents: AgentWorld) -> None:
    pass


@pytest.mark.parametrize("deed", [_life, _nothing], ids=["its life is killed", "nothing happens"])
@pytest.mark.parametrize("after", [200.0, 700.0], ids=["resting", "in line"])
@pytest.mark.parametrize("length", [300.0, 900.0])
async def test_no_place_is_lost_or_kept(
    agents: AgentWorld, deed: Callable[[AgentWorld], None], after: float, length: float
) -> None:
    """Whatever ends its life, in whichever of the waits: all are done, in single file."""
    agents.sandbox.scripts = {
        "a": [LIMITED, LONG],
        "b": [Script(Say(text="x", after=length))],
        "c": [SHORT],
    }
    text = ONE + agent("a", backoff=[1]) + agent("b") + agent("c")
    async with agents.running(text) as root:
        await asyncio.sleep(after)
        deed(agents)
        await root.wait()
    assert {one.state for one in agents.known.values()} == {State.DONE}
    played = sorted(agents.sandbox.played, key=lambda one: one.began)
    assert all((one.ended or 0) <= two.began for one, two in pairwise(played))
    assert len(agents.sandbox.of("b")) == len(agents.sandbox.of("c")) == 1


async def test_the_next_host_gives_the_place_of_who_still_waits_away(agents: AgentWorld) -> None:
    """It is taken up first, as it is first in the list, and waits on for its account."""
    agents.sandbox.scripts = {"a": [LIMITED, Script()], "b": [LONG, LONG]}
    text = ONE + agent("a") + agent("b")
    async with agents.running(text):
        await asyncio.sleep(50)
        assert at_work(agents) == ["b"]
    async with agents.running(text) as root:
        await asyncio.sleep(10)
        assert at_work(agents) == ["b"]
        await root.wait()
    assert {one.state for one in agents.known.values()} == {State.DONE}
    assert began(agents, "a") == [0, 10]


async def test_who_is_paused_or_reaped_in_line_leaves_it(agents: AgentWorld) -> None:
    """Nothing of it is started, and whoever is behind it goes on."""
    agents.sandbox.scripts = {
        "a": [LIMITED, LONG],
        "b": [LIMITED, LONG],
        "c": [Script(Say(text="x", after=900.0))],
    }
    async with agents.running(ONE + agent("a") + agent("b") + agent("c")) as root:
        await asyncio.sleep(700)
        agents.pool.pause("a", "later")
        await asyncio.sleep(10)
        assert agents.pool.mortal("a").state == "waiting_for_wakeup"
        agents.pool.reap("b", "not needed")
        await asyncio.sleep(400)
        assert at_work(agents) == []
        agents.pool.resume("a")
        await root.wait()
    assert {name: one.state for name, one in agents.known.items()} == {
        "a": State.DONE,
        "b": State.REAPED,
        "c": State.DONE,
    }
    assert len(agents.sandbox.of("b")) == 1

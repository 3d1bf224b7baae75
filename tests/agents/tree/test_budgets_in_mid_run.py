"""Agents that exceed their budget while they work, and those that answered before the stop."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.errors import DeadlinePassed
from otpy_agents.store import RunStore
from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Script, Spend, Step, Succeed, UseTool, Write
from otpy_agents.testing.script import line_of
from otpy_monitors import Kind
from tests.agents.world import World, agent

REQUEST = 1525


def loop_of_tools(requests: int = 50, *, each: float = 1.0) -> Script:
    """Return an agent that makes request after request, and never stops by itself."""
    steps: list[Step] = []
    for number in range(1, requests + 1):
        steps += [
            UseTool(lasts=0.1, after=each),
            Spend(input=1500 * number, output=25 * number),
        ]
    return Script(*steps, Hang())


def tokens(world: World, account: str = "w/a") -> float | None:
    return world.workplace.budgets.ledger.balance(account, Kind.TOKENS).spent


async def test_15_one_run_that_passes_its_budget_is_stopped_within_a_request(
    world: World,
) -> None:
    """Acceptance 15 with a single run: it rests, and a grant goes on with its session."""
    world.sandbox.scripts["a"] = [loop_of_tools(), Script()]
    async with world.running(agent("a", tokens=4000)) as root:
        await asyncio.sleep(30)
        assert world.pool.mortal("a").state == "waiting_for_input"
        assert not world.sandbox.alive
        assert tokens(world) == 3 * REQUEST
        world.project.grant("a", Kind.TOKENS, 10_000)
        await root.wait()
    one, two = world.sandbox.of("a")
    assert two.session == one.own_session
    assert world.known["a"].state is State.DONE


async def test_a_list_over_its_budget_stops_each_agent_within_a_request(world: World) -> None:
    """Three agents share it: none of them makes more than one request beyond it."""
    world.sandbox.scripts = {name: [loop_of_tools()] for name in "abc"}
    text = "[list]\nparallel = 3\ntokens = 14000\n" + "".join(agent(name) for name in "abc")
    async with world.running(text):
        await asyncio.sleep(60)
        assert not world.sandbox.alive
        spent = tokens(world, "w")
    assert spent is not None
    assert 14_000 <= spent <= 14_000 + 3 * REQUEST


async def test_an_agent_that_begins_the_next_call_at_once_is_stopped_too(
    world: World,
) -> None:
    """The boundary between two calls lasts only a moment, and counts."""
    world.sandbox.scripts["a"] = [loop_of_tools(each=0.0)]
    async with world.running(agent("a", tokens=4000)):
        await asyncio.sleep(30)
        assert not world.sandbox.alive
        spent = tokens(world)
    assert spent is not None
    assert spent < 10 * REQUEST  # it asks ten times a second while its run is being stored


async def test_what_is_spent_is_seen_as_it_is_spent(world: World) -> None:
    """The ledger, which `status` shows, moves with each request and not at the end of a run."""
    world.sandbox.scripts["a"] = [loop_of_tools(each=0.9)]
    async with world.running(agent("a", tokens=1_000_000)):
        seen: list[float | None] = []
        await asyncio.sleep(0.5)
        for _ in range(3):
            await asyncio.sleep(2)
            seen.append(tokens(world))
    assert seen == [REQUEST * 2, REQUEST * 4, REQUEST * 6]


async def test_what_stopped_lives_have_spent_adds_up(world: World) -> None:
    """Lives that each end for a stall spend from one budget, and stop when it is spent."""
    life = Script(UseTool(lasts=0.1), Spend(input=1500, output=25), Hang())
    world.sandbox.scripts["a"] = [life]
    async with world.running(agent("a", tokens=4000, stall=30, restarts=9, backoff=[1])):
        await world.until(lambda: "mortal.paused" in world.names("a"))
        assert tokens(world) == 3 * REQUEST
    assert len(world.sandbox.played) == 3


async def test_the_model_of_the_list_prices_what_an_agent_spends(world: World) -> None:
    """A limit in dollars holds an agent that tells tokens alone, in mid-run."""
    script = Script(UseTool(lasts=0.1), Spend(output=300_000), Hang())
    world.sandbox.scripts["a"] = [script]
    async with world.running(agent("a", cost_usd=0.5, model="gpt-5-mini")):
        await asyncio.sleep(30)
        assert world.pool.mortal("a").state == "waiting_for_input"
        balance = world.workplace.budgets.ledger.balance("w/a", Kind.COST_USD)
    assert balance.spent == pytest.approx(0.6)


async def test_an_answer_that_is_over_the_budget_is_taken(world: World) -> None:
    """The cost is known with the answer: the work is done once, and no person is asked."""
    world.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    known = await world.run(agent("a", tokens=100))
    assert known["a"].state is State.DONE
    assert len(world.sandbox.played) == 1
    assert "mortal.paused" not in world.names("a")
    assert "operator.notified" not in [told.name for told in world.told]
    assert "monitor.budget_spent" in world.names("a", "monitor.")


async def test_an_answer_is_not_restarted_for_a_fresh_budget(world: World) -> None:
    """`restart(fresh=2)` does not repeat finished work."""
    world.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    known = await world.run(agent("a", tokens=100, on_exceed="restart(fresh=2)"))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert len(world.sandbox.played) == 1


LINGERS = Script(
    Spend(input=500, after=1.0), Write(text=line_of(type="result", text="done"), after=0.2), Hang()
)


async def stored(world: World) -> list[str]:
    async with RunStore(world.folder / "state" / "runs.sqlite3") as store:
        return [record.status for record in await store.runs()]


async def test_an_agent_that_answered_and_does_not_end_is_done_all_the_same(
    world: World,
) -> None:
    """The stop for its budget comes after the answer: it ends the process, and not the work."""
    world.sandbox.scripts["a"] = [LINGERS]
    known = await world.run(agent("a", tokens=100, grace=2))
    assert known["a"].state is State.DONE
    assert [one.exit_code for one in world.sandbox.played] == [143]
    assert await stored(world) == ["done"]


async def test_a_pause_after_the_answer_does_not_undo_it(world: World) -> None:
    """A pause after the answer finds it done."""
    world.sandbox.scripts["a"] = [LINGERS]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(5)
        world.pool.mortal("a").pause("night")
        await root.wait()
    assert world.known["a"].state is State.DONE
    assert len(world.sandbox.played) == 1


async def test_a_deadline_after_the_answer_does_not_undo_it(world: World) -> None:
    """It had answered in time, and only did not exit."""
    world.sandbox.scripts["a"] = [LINGERS]
    known = await world.run(agent("a", deadline=30))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 0)
    assert DeadlinePassed.__name__ not in str(world.told)


async def test_a_life_that_is_ended_after_the_answer_leaves_it_to_the_next(
    world: World,
) -> None:
    """A stall after the answer costs a life, and no second run."""
    world.sandbox.scripts["a"] = [LINGERS]
    known = await world.run(agent("a", stall=30, backoff=[1]))
    assert known["a"].state is State.DONE
    assert len(world.sandbox.played) == 1


async def test_an_answer_that_fails_its_check_rests_for_its_budget(
    world: World,
) -> None:
    """It was over its budget before: only a grant begins another run."""
    world.sandbox.scripts["a"] = [Script(Spend(input=500, after=1.0), Succeed(after=0.3))]
    text = agent("a", tokens=100, backoff=[1], verify=["false"])
    async with world.running(text):
        await world.until(lambda: "mortal.paused" in world.names("a"))
        assert len(world.sandbox.played) == 1


async def test_a_paused_run_is_stored_as_stopped(world: World) -> None:
    """It rests, and has not failed."""
    world.sandbox.scripts["a"] = [loop_of_tools(), Script()]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        world.pool.mortal("a").pause("night")
        await world.until(lambda: not world.sandbox.alive)
        await asyncio.sleep(1)
    assert await stored(world) == ["stopped"]

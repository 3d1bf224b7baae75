"""Jake may die at any moment: no assignment of an agent is lost, and none is begun twice."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import otpy
from otpy import OtpyError
from otpy_agents.run import Detail
from otpy_agents.store import RunStore
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Crash, Do, Fail, Hang, Say, Script, Succeed, UseTool
from tests.agents.world import World, agent, path_of
from tests.examples import some

SCRIPTS = {
    "works": [Script(Say(text="x", after=40.0))],
    "crashes": [Script(Crash(after=5.0)), Script()],
    "limited": [Script(Fail(detail=Detail.RATE_LIMIT)), Script()],
    "uses": [Script(*[UseTool(lasts=3.0)] * 5)],
    "hopeless": [Script(Fail(detail=Detail.MODEL_UNAVAILABLE, after=9.0))],
    "asks": [Script(Ask(question="?", after=20.0)), Script()],
}
ATTEMPTS = {"works": 1, "crashes": 2, "limited": 2, "uses": 1, "hopeless": 1, "asks": 2}


@pytest.mark.parametrize("seed", some(range(12)))
async def test_jake_and_pool_are_killed_at_random_and_nothing_is_lost(
    world: World, seed: int
) -> None:
    """Every assignment comes out once, after as many attempts as it takes (acceptance 13)."""
    chance = random.Random(seed)
    world.sandbox.scripts = dict(SCRIPTS)
    text = "[list]\nparallel = 3\n" + "".join(agent(name, backoff=[1]) for name in SCRIPTS)
    async with world.running(text) as root:
        for _ in range(8):
            await asyncio.sleep(chance.uniform(0, 12))
            with_jake = path_of(root, "JakeSupervisor").supervisor
            assert with_jake is not None
            for child in with_jake.snapshot().children:
                if child.state == "running":
                    path_of(root, "JakeSupervisor", child.id).kill()
            for mortal in world.pool.mortals():
                if mortal.state == "waiting_for_input":
                    mortal.answer("yes")
        while not root.ended:
            await asyncio.sleep(5)
            for mortal in world.pool.mortals():
                if mortal.state == "waiting_for_input":
                    mortal.answer("yes")
        await root.wait()
    ends = {name: one.state for name, one in world.known.items()}
    assert ends == {**dict.fromkeys(SCRIPTS, State.DONE), "hopeless": State.REAPED}
    played = {name: len(world.sandbox.of(name)) for name in SCRIPTS}
    assert played == ATTEMPTS
    assert not world.sandbox.alive


@pytest.mark.parametrize("moment", some([2.0, 0.0, 0.3, 6.0, 11.0, 25.0]))
async def test_a_pool_that_is_killed_finds_the_runs_of_its_mortals_again(
    world: World, moment: float
) -> None:
    """The agents work on: no attempt is cut, and none is made twice (G-03)."""
    world.sandbox.scripts = dict(SCRIPTS)
    names = ("works", "crashes", "uses", "hopeless")
    async with world.running("".join(agent(name, backoff=[1]) for name in names)) as root:
        await asyncio.sleep(moment)
        root.child("MortalPool").kill()
        await root.wait()
    assert {len(world.sandbox.of(name)) - ATTEMPTS[name] for name in names} == {0}
    assert world.known["hopeless"].state is State.REAPED


@pytest.mark.parametrize("moment", [0.0, 1.0, 6.0, 20.0])
async def test_a_host_of_runs_that_is_killed_costs_restarts_and_no_assignment(
    world: World, moment: float
) -> None:
    """Its runs are resumed: an agent is started again if its CLI cannot be adopted."""
    world.sandbox.scripts = {"works": SCRIPTS["works"], "uses": SCRIPTS["uses"]}
    text = agent("works", backoff=[1]) + agent("uses", backoff=[1])
    async with world.running(text) as root:
        await asyncio.sleep(moment)
        root.child("RunHost").kill()
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    assert not world.sandbox.alive


def cut_off(root: otpy.Supervisor, child: str) -> None:
    """Kill a supervisor without stopping its children, as the death of a host would."""
    supervisor = root.child(child).supervisor
    assert supervisor is not None
    supervisor.kill(grace=0)


@pytest.mark.parametrize("restarts", [0, 1])
async def test_who_is_given_up_leaves_no_run_unfinished(world: World, restarts: int) -> None:
    """This includes a run that the host of runs could not resume: nothing would end it (C-13)."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Hang())]
    async with world.running(agent("a", restarts=restarts, within=600, backoff=[1])) as root:
        for _ in range(restarts + 1):
            await asyncio.sleep(5)
            cut_off(root, "RunHost")
        await root.wait()
    assert world.known["a"].state is State.REAPED
    async with RunStore(world.folder / "state" / "runs.sqlite3", as_host=False) as store:
        assert await store.runs(unfinished=True) == ()
    assert not world.sandbox.alive


async def test_a_run_of_who_was_given_up_is_ended_by_the_next_host(world: World) -> None:
    """Its host was killed before it had ended the run, and no agent takes the run up again."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Hang())]
    async with world.running(agent("a", restarts=0)) as root:
        await asyncio.sleep(5)
        for child in ("JakeSupervisor", "MortalPool", "RunHost"):
            cut_off(root, child)
        await world.ledger.finish("a", State.REAPED, "given up")
    assert world.known["a"].state is State.REAPED
    async with RunStore(world.folder / "state" / "runs.sqlite3", as_host=False) as store:
        assert len(await store.runs(unfinished=True)) == 1
        await world.run(agent("a", restarts=0))
        assert await store.runs(unfinished=True) == ()


@pytest.mark.parametrize("child", ["MortalPool/a", "MortalPool", "JakeSupervisor/Jake"])
async def test_work_that_ends_while_nobody_waits_for_it_is_not_done_again(
    world: World, child: str
) -> None:
    """Its life was killed, and its run ended before the next one, which takes the result (G-03)."""
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=10.0))]
    async with world.running(agent("a", backoff=[60])) as root:
        await asyncio.sleep(8)
        for path in (("JakeSupervisor", "Jake"), tuple(child.split("/"))):
            path_of(root, *path).kill()
        await root.wait()
    assert len(world.sandbox.played) == 1
    assert world.known["a"].state is State.DONE
    assert world.states("a")[-2:] == ["verifying", "done"]
    assert world.names("a").count("mortal.done") == 1


@pytest.mark.parametrize("child", ["MortalPool/a", "MortalPool"])
@pytest.mark.parametrize("turn", some(range(40)))
async def test_a_kill_near_the_end_repeats_nothing_and_hides_nothing(
    world: World, child: str, turn: int
) -> None:
    """At any turn from the end of the run on, it is done once, and told to be done once."""
    ending = asyncio.Event()
    last = Do(action=lambda _: ending.set(), after=10.0)
    world.sandbox.scripts["a"] = [Script(last, Succeed(after=0.0))]
    async with world.running(agent("a", backoff=[5])) as root:
        await ending.wait()
        for _ in range(turn):
            await asyncio.sleep(0)
        with contextlib.suppress(OtpyError):  # it has ended
            path_of(root, *child.split("/")).kill()
        await root.wait()
    assert len(world.sandbox.played) == 1
    assert world.known["a"].state is State.DONE
    assert world.names("a") == ["mortal.done"]
    assert world.states("a")[-1] == "done"


async def test_a_move_is_on_disk_before_anything_else_happens(world: World) -> None:
    """Even if its host is killed while an agent rests, the disk says that it rests."""
    world.sandbox.scripts["a"] = [Script(Hang()), Script(Ask(question="which?"))]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        world.pool.pause("a", "lunch")
        await world.until(lambda: "mortal.paused" in world.names("a"), step=0.01)
        await asyncio.sleep(0.01)
        assert [row.state for row in await world.ledger.agents.all()] == ["waiting_for_wakeup"]
        world.pool.resume("a")
        await world.until(lambda: world.states("a")[-1:] == ["waiting_for_input"], step=0.01)
        await asyncio.sleep(0.01)
        moves = await world.ledger.agents.moves("a")
        assert [move.target for move in moves] == world.states("a")


async def test_without_jake_an_agent_writes_down_itself_where_it_stands(
    world: World,
) -> None:
    """The disk has the state of an agent that is verified, which may take long."""
    seen: list[str] = []

    async def verifier(*_: object) -> None:
        (row,) = await world.ledger.agents.all()
        seen.append(row.state)

    world.project_settings["verifier"] = verifier
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=3.0))]
    async with world.running(agent("a")) as root:
        await asyncio.sleep(1)
        path_of(root, "JakeSupervisor", "Jake").kill()  # Jake comes back after 5 s
        await asyncio.sleep(3.5)
    assert seen == ["verifying"]

"""Monitors hear programs as they hear agents: one feed, one language of rules, one ledger."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.agent.card import Program
from otpy_agents.errors import CommandRefused
from otpy_agents.store.records import Outcome, State
from otpy_agents.testing import Hang, Say, Script, Write
from otpy_monitors import Feed, Kind, OutputSeen, Progressed, RestBegan, RestEnded
from tests.agents.world import World, agent, assignment, path_of, program, typed, work

LONG = program(seconds=500.0)
TALKS = program(*[Write(text="x" * 99)] * 29)


@pytest.mark.usefixtures("clock")
async def test_lines_are_progress_and_bytes_are_none() -> None:
    """Each byte is told; a chunk is progress once if any line ends in it (G-05)."""
    feed = Feed()
    told: list[object] = []
    feed.subscribe(told.append)
    program = Program(feed, "w/a")
    program.chunk(3)
    for _ in range(2):
        program.line()
    program.chunk(70)
    program.chunk(5)
    assert told == [
        OutputSeen("w/a", 0.0, 3),
        OutputSeen("w/a", 0.0, 70),
        Progressed("w/a", 0.0, "output"),
        OutputSeen("w/a", 0.0, 5),
    ]


@pytest.mark.usefixtures("clock")
async def test_what_was_written_before_it_was_frozen_does_not_wake_it() -> None:
    """It is read a moment later; as progress it would end the wait, and the silence would count."""
    feed = Feed()
    told: list[object] = []
    feed.subscribe(told.append)
    program = Program(feed, "w/a")
    program.tell_frozen(True)
    program.line()
    program.chunk(9)
    program.tell_frozen(False)
    kinds = [type(one) for one in told]
    assert kinds == [RestBegan, OutputSeen, RestEnded]


async def test_a_program_is_there_as_long_as_it_works(world: World) -> None:
    """Its card has its path, its life and its limit, and names no folders."""
    world.sandbox.scripts["a"] = [LONG]
    async with world.running(work(assignment("a", stall=70.0))) as root:
        await asyncio.sleep(5)
        (card,) = world.project.workplace.feed.cards()
        assert (card.agent, card.path) == ("w/a", path_of(root, "MortalPool", "a").path)
        assert (card.parent, card.incarnation, card.stall) == ("w", 1, 70.0)
        assert card.directories == ()
        world.project.pool.reap("a", "enough")
        await asyncio.sleep(1)
        assert world.project.workplace.feed.cards() == ()


async def test_time_in_which_a_program_is_frozen_is_not_charged(world: World) -> None:
    """As with an agent that rests, ten seconds of work are ten, with any pause in between."""
    world.sandbox.scripts["a"] = [LONG]
    text = work(assignment("a", wall_seconds=10, stall=60))
    async with world.running(text) as root:
        await asyncio.sleep(4)
        world.project.pool.pause("a", "lunch")
        await asyncio.sleep(100)
        assert world.alive() == ["a"]
        world.project.pool.resume("a")
        await root.wait()
    (life,) = world.lives
    assert (life.began, life.ended) == (0, 110)
    assert world.known["a"].reason == "budget of 'w/a' spent: 10 of 10 seconds"
    assert world.names("a", "monitor.") == ["monitor.budget_warning", "monitor.budget_spent"]


async def test_a_program_that_was_let_go_on_by_hand_is_paused_no_longer(world: World) -> None:
    """`kill -CONT` ends the pause at once: its silence counts again, and the end is told."""
    world.sandbox.scripts["a"] = [LONG]
    async with world.running(work(assignment("a", stall=10.0, restarts=0))) as root:
        await asyncio.sleep(5)
        world.project.pool.pause("a", "lunch")
        await asyncio.sleep(100)
        assert world.project.pool.mortal("a").state == "waiting_for_wakeup"
        world.lives[0].resume()  # as a worker finds out by itself
        assert world.project.pool.mortal("a").state == "working"
        assert world.project.pool.mortal("a").paused is None
        await root.wait()
    assert world.lives[0].ended == 115
    assert world.names("a") == ["mortal.paused", "mortal.resumed", "mortal.reaped"]


async def test_a_rule_is_for_those_whom_it_names(world: World) -> None:
    """Programs and agents have one language: `agents` names them by list and assignment."""
    rule = "{name: r, kind: command, block: ['true'], action: reap, agents: ['w/b*']}"
    world.rule_file.write_text(f"rules: [{rule}]\n", encoding="utf-8")
    known = await world.run(work(assignment("a"), assignment("b1"), assignment("c")))
    assert {name for name, one in known.items() if one.state is State.REAPED} == {"b1"}


async def test_a_rule_is_broken_once_in_each_life(world: World) -> None:
    """A monitor that was killed does not report it again; the next life of the program does so."""
    rule = "{name: r, kind: command, block: ['true'], action: notify}"
    world.rule_file.write_text(f"rules: [{rule}]\n", encoding="utf-8")
    world.sandbox.scripts["a"] = [program(seconds=10.0, code=1), program(seconds=10.0)]
    async with world.running(work(assignment("a", backoff=[0]))) as root:
        await asyncio.sleep(5)
        path_of(root, "MonitorSupervisor", "ViolationMonitor").kill()
        await root.wait()
    assert world.names("a", "monitor.") == ["monitor.violated"] * 2


async def test_programs_and_agents_share_the_budget_of_their_list(world: World) -> None:
    """A spent budget reaps a program and lets an agent rest; a grant lets the agent go on."""
    world.sandbox.scripts["p"] = [LONG]
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=1.0), Hang()), Script()]
    text = "[list]\nwall_seconds = 20\n" + agent("a") + assignment("p")
    async with world.running(text) as root:
        await asyncio.sleep(100)
        why = "budget of 'w' spent: 20 of 20 seconds"
        assert world.pool.mortal("p").outcome == Outcome(State.REAPED, why)
        assert [one.ended for one in world.lives] == [pytest.approx(10, abs=0.5)]
        assert world.pool.mortal("a").state == "waiting_for_input"
        world.project.grant("", Kind.SECONDS, 100)
        await root.wait()
    states = {name: one.state for name, one in world.known.items()}
    assert states == {"a": State.DONE, "p": State.REAPED}


async def test_output_is_a_budget_of_agents_too(world: World) -> None:
    """`output_bytes` means the same for all; an agent that rests for it needs a grant."""
    world.sandbox.scripts["a"] = [Script(Say(text="x" * 500, after=1.0), Hang()), Script()]
    async with world.running(agent("a", output_bytes=400)) as root:
        await asyncio.sleep(100)
        paused = world.pool.mortal("a").paused
        assert paused is not None
        assert "budget grant a --bytes N" in paused.needs("a")
        await typed(world, "grant", agent="a", bytes=9000)
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_what_programs_have_written_counts_under_the_next_host(world: World) -> None:
    """Seconds and bytes alike are in the ledger of budgets, and one line says so."""
    world.sandbox.scripts["a"] = [TALKS]
    text = work(assignment("a", output_bytes=1500))
    async with world.running(text):
        await asyncio.sleep(9.5)
    assert world.names("a", "budget.") == []
    known = await world.run(text)
    assert known["a"].reason == "budget of 'w/a' spent: 1500 of 1500 output_bytes"
    assert world.names("a", "budget.") == ["budget.carried_over"]
    assert world.event("budget.carried_over").detail["detail"] == (
        "900 of 1500 output_bytes spent before"
    )


async def test_an_agent_may_be_reaped_for_its_budget(world: World) -> None:
    """`on_exceed = "reap"` gives an agent what a program has: an end with its reason."""
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=1.0), Hang())]
    known = await world.run(agent("a", wall_seconds=9, on_exceed="reap"))
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 0)
    assert known["a"].reason == "budget of 'w/a' spent: 9 of 9 seconds"


async def test_a_person_may_grant_a_program_more(world: World) -> None:
    """Before it is reaped it works on; afterwards `retry` begins it again."""
    world.sandbox.scripts["p"] = [LONG]
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=400.0))]
    async with world.running(agent("a") + assignment("p", wall_seconds=10)) as root:
        await asyncio.sleep(5)
        told = await typed(world, "grant", agent="p", minutes=0.1)
        assert "6 seconds more" in str(told)
        await asyncio.sleep(20)
        assert [one.ended for one in world.lives] == [pytest.approx(16, abs=0.5)]
        with pytest.raises(CommandRefused, match="no limit"):
            await typed(world, "grant", agent="p", bytes=5)
        with pytest.raises(CommandRefused, match="it would be reaped at once"):
            await typed(world, "retry", agent="p")
        await typed(world, "grant", agent="p", minutes=0.1)
        assert await typed(world, "retry", agent="p") == "begins again"
        await root.wait()
    _, second = world.lives
    assert second.ended == pytest.approx(second.began + 6, abs=0.5)
    assert world.known["p"].reason == "budget of 'w/p' spent: 22 of 22 seconds"

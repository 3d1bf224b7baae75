"""The consequences of findings about agents, and of several failures in one group."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from otpy_agents.store.records import State
from otpy_agents.testing import Crash, Do, Hang, Say, Script, UseTool
from otpy_monitors import parse_rules
from tests.agents.world import World, agent, path_of

GANG = '[[gang]]\nname = "g"\nfailures = 2\nwithin = 60\naction = "{}"\n'


async def test_a_stall_is_warned_of_and_then_restarts(world: World) -> None:
    """A warning comes first; then the agent is ended and restarted by its policy (TREE-30)."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Hang()), Script()]
    known = await world.run(agent("a", stall=30, stall_warn=20, backoff=[1]))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    first, second = world.sandbox.played
    assert first.ended is not None
    assert 30 <= first.ended - first.began < 33
    assert "WorkerStalled" in second.prompt
    warned, stalled = [one for one in world.told if one.name.startswith("monitor.stall")]
    assert (warned.name, stalled.name) == ("monitor.stall_warning", "monitor.stalled")
    assert stalled.at - warned.at == pytest.approx(10, abs=0.5)


async def test_who_waits_does_not_stall(world: World) -> None:
    """A pause of an hour is not a stall."""
    world.sandbox.scripts["a"] = [Script(UseTool(), Hang()), Script()]
    async with world.running(agent("a", stall=30, restarts=0)) as root:
        await asyncio.sleep(10)
        world.pool.mortal("a").pause("lunch")
        await asyncio.sleep(3600)
        world.pool.mortal("a").resume()
        await root.wait()
    assert (world.known["a"].state, world.known["a"].restarts) == (State.DONE, 0)


def rules(action: str) -> str:
    return f"rules:\n  - name: inside\n    kind: files-outside\n    action: {action}\n"


@pytest.mark.parametrize(
    ("action", "state"),
    [("reap", State.REAPED), ("warn", State.DONE), ("notify", State.DONE), ("log", State.DONE)],
)
async def test_17_a_write_outside_its_folders_has_the_consequence_of_the_rule(
    world: World, tmp_path: Path, action: str, state: State
) -> None:
    """`reap` ends the agent with that reason; any other action lets it go on (acceptance 17)."""
    file = tmp_path / "rules" / "rules.yaml"
    book = parse_rules(rules(action), file)
    write = UseTool(name="Write", input={"file_path": "/etc/passwd"})
    world.sandbox.scripts["a"] = [Script(write, Say(text="x", after=9.0))]
    known = await world.run(agent("a"), rules=book)
    assert known["a"].state is state
    assert "monitor.violated" in world.names("a", "monitor.")
    if action == "reap":
        assert "inside" in known["a"].reason
        assert len(world.sandbox.played) == 1
    if action == "warn":
        assert "inside" in world.project.desk.folders.notes("a").read_text(encoding="utf-8")


async def test_a_rule_may_pause(world: World, tmp_path: Path) -> None:
    """The agent rests at the boundary of its turn until a person lets it go on (TREE-47)."""
    book = parse_rules(rules("pause"), tmp_path / "rules.yaml")
    write = UseTool(name="Write", input={"file_path": "/etc/passwd"}, lasts=5.0)
    world.sandbox.scripts["a"] = [Script(write, Hang()), Script()]
    async with world.running(agent("a"), rules=book) as root:
        await asyncio.sleep(60)
        mortal = world.pool.mortal("a")
        assert mortal.state == "waiting_for_input"
        mortal.resume()
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_a_write_inside_its_folders_breaks_no_rule(world: World, tmp_path: Path) -> None:
    """Relative paths begin in its work directory."""
    book = parse_rules(rules("reap"), tmp_path / "rules.yaml")
    world.sandbox.scripts["a"] = [
        Script(UseTool(name="Write", input={"file_path": "notes.txt"}), Do(action=lambda _: None))
    ]
    known = await world.run(agent("a"), rules=book)
    assert known["a"].state is State.DONE


@pytest.mark.parametrize(
    "monitor", ["HealthMonitor", "BudgetMonitor", "ViolationMonitor", "LedgerKeeper"]
)
async def test_18_a_monitor_is_killed_and_agents_never_notice(world: World, monitor: str) -> None:
    """It comes back and still does its job (acceptance 18)."""
    world.sandbox.scripts = {
        "a": [Script(Say(text="x"), Hang()), Script()],
        "b": [Script(Say(text="x", after=100.0))],
    }
    async with world.running(agent("a", stall=60, backoff=[1]) + agent("b")) as root:
        for _ in range(3):
            await asyncio.sleep(9)
            path_of(root, "MonitorSupervisor", monitor).kill()
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    assert (len(world.sandbox.of("a")), len(world.sandbox.of("b"))) == (2, 1)


async def test_a_gang_is_restarted_together(world: World) -> None:
    """Two of three fail within the window: the third is restarted too, and knows why (TREE-31)."""
    world.sandbox.scripts = {
        "a": [Script(Crash(after=5.0)), Script()],
        "b": [Script(Crash(after=9.0)), Script()],
        "c": [Script(Say(text="x", after=99.0)), Script()],
        "d": [Script(Say(text="x", after=99.0))],
    }
    members = "".join(agent(name, gang="g", backoff=[1]) for name in "abc")
    known = await world.run(members + agent("d") + GANG.format("restart"))
    assert {one.state for one in world.records} == {State.DONE}
    assert {name: known[name].restarts for name in "abcd"} == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert "of the group 'g' failed within 60 s" in world.sandbox.of("c")[1].prompt
    assert world.event("gang.failed").id == "g"


async def test_a_gang_waits_for_a_person_if_it_is_declared_so(world: World) -> None:
    """The members rest that are not done; the agent outside the group works on (TREE-31)."""
    world.sandbox.scripts = {
        "a": [Script(Crash(after=5.0)), Script()],
        "b": [Script(Crash(after=9.0)), Script()],
        "c": [Script(*[UseTool(lasts=2.0)] * 9, Hang()), Script()],
    }
    members = "".join(agent(name, gang="g", backoff=[1]) for name in "abc")
    async with world.running(members + agent("d") + GANG.format("ask")) as root:
        await asyncio.sleep(100)
        # The first to fail was restarted, and done, before the failure of the group.
        states = {name: str(world.pool.mortal(name).state) for name in "abcd"}
        assert states == {
            "a": "done",
            "b": "waiting_for_input",
            "c": "waiting_for_input",
            "d": "done",
        }
        assert world.names("g", "operator.") == ["operator.notified"]
        for name in "bc":
            world.pool.mortal(name).resume()
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}
    assert world.known["c"].restarts == 0

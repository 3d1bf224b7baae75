"""Obstacles to an agent's start: all are told at once, nothing starts, and nothing counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from attrs import evolve

from otpy import Crashed, ExitReason, Killed
from otpy.reports import ChildRestarting
from otpy_agents.agent import persistence
from otpy_agents.errors import GangFailed, NotARepository, PreflightFailed, SandboxUnavailable
from otpy_agents.store.records import State
from otpy_agents.testing import Do, Fail, Hang, Script, Spend
from otpy_monitors import Kind
from tests.agents.world import World, agent, assignment, path_of, program, work

SPENDS = Script(Spend(input=90, output=20, after=1.0))


class NoRepository:
    """Changesets in a folder that is not a repository."""

    def __init__(self, repository: Path, **_: object) -> None:
        self._repository = repository

    @contextlib.asynccontextmanager
    async def hold(self, assignment: str, **_: object) -> AsyncGenerator[None]:
        raise NotARepository(self._repository, f"nothing for {assignment}")
        yield


class Engine:
    """The engine behind the sandbox of a world; it may break down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
        self.works, self.seconds = True, 0.0
        monkeypatch.setattr(world.sandbox, "check", self._check)

    def breaks_for(self, seconds: float) -> None:
        """Break down now, for `seconds`."""
        self.works = False
        asyncio.get_running_loop().call_later(seconds, self._mend)

    def _mend(self) -> None:
        self.works = True

    async def _check(self) -> None:
        await asyncio.sleep(self.seconds)
        if not self.works:
            raise SandboxUnavailable("scripted", "no answer")


@pytest.fixture
def no_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is a git repository."""
    monkeypatch.setattr(persistence, "Changesets", NoRepository)


@pytest.mark.usefixtures("no_repository")
async def test_a_changeset_without_a_repository_is_found_before_the_start(
    world: World,
) -> None:
    """One list has this and all other obstacles; the next host tries again (TREE-40, TREE-41)."""
    text = agent("a", changeset="nowhere", backoff=[1]) + 'needs_env = ["OUR_KEY"]\n'
    known = await world.run(text)
    assert (known["a"].state, known["a"].attempts, known["a"].restarts) == (State.FAILED, 0, 0)
    assert "got no variable 'OUR_KEY'" in known["a"].reason
    assert "nothing for a" in known["a"].reason
    assert [one for one in world.reports if isinstance(one, ChildRestarting)] == []
    assert world.sandbox.played == []


async def test_what_is_gone_at_a_restart_fails_it_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry could only fail, and would count, so there is none (TREE-41)."""
    monkeypatch.setenv("OUR_KEY", "x")
    gone = Do(action=lambda _: monkeypatch.delenv("OUR_KEY"))
    world.sandbox.scripts["a"] = [Script(gone, Fail())]
    known = await world.run(agent("a", backoff=[1]) + 'needs_env = ["OUR_KEY"]\n')
    assert (known["a"].state, known["a"].attempts) == (State.FAILED, 1)
    assert "got no variable 'OUR_KEY'" in known["a"].reason
    assert len(world.sandbox.played) == 1


async def test_a_sandbox_that_never_worked_starts_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent fails with the reason before its start, without a counted attempt."""
    engine = Engine(monkeypatch, world)
    engine.works = False
    known = await world.run(agent("a", backoff=[1]))
    assert (known["a"].state, known["a"].attempts, known["a"].restarts) == (State.FAILED, 0, 0)
    assert "no answer" in known["a"].reason
    assert world.sandbox.played == []


async def test_a_sandbox_that_breaks_down_fails_nobody_for_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both a working agent and one that starts meanwhile are started after the repair."""
    engine = Engine(monkeypatch, world)
    breaks = Do(action=lambda _: engine.breaks_for(2.0))
    world.sandbox.scripts["a"] = [Script(breaks, Fail()), Script(breaks)]
    both = "".join(agent(name, backoff=[1], restarts=9) for name in "ab")
    text = "[list]\nparallel = 1\n" + both
    async with world.running(text) as root:
        await root.wait()
    assert {name: one.state for name, one in world.known.items()} == dict.fromkeys("ab", State.DONE)


@pytest.mark.parametrize("reason", [Killed(), Crashed(GangFailed("b, c of the group 'g' failed"))])
async def test_one_that_is_ended_before_it_is_ready_is_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch, reason: ExitReason
) -> None:
    """It has done nothing yet, so nothing failed, and no end is told."""
    engine = Engine(monkeypatch, world)
    engine.seconds = 5.0
    async with world.running(agent("a")) as root:
        await asyncio.sleep(1)
        process = world.project.pool.process("a")
        assert process is not None
        process.exit(reason)
        await root.wait()
    assert world.known["a"].state is State.DONE
    assert world.names("a") == ["mortal.done"]


async def test_a_program_is_not_started_without_its_variables(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables may come from the host's environment, or from `env`."""
    monkeypatch.setenv("OURS", "x")
    monkeypatch.delenv("THEIRS", raising=False)
    text = assignment("a") + 'needs_env = ["OURS", "OWN"]\nenv = { OWN = "y" }\n'
    known = await world.run(work(text, assignment("b") + 'needs_env = ["THEIRS"]\n'))
    assert {name: one.state for name, one in known.items()} == {"a": State.DONE, "b": State.FAILED}
    assert "'THEIRS'" in known["b"].reason
    assert world.times()["b"] == 0


async def test_whoever_spawns_without_a_budget_is_told(world: World) -> None:
    """The caller gets an error; nothing is started, and nothing is counted (TREE-40)."""
    world.sandbox.scripts["a"] = [SPENDS]
    async with world.running("[list]\ntokens = 100\n" + agent("a") + agent("b")):
        await asyncio.sleep(60)
        more = evolve(world.project.assignments[0], id="more")
        with pytest.raises(PreflightFailed, match="got -10 left of the budget"):
            await world.pool.spawn(more)
    assert {one.agent for one in world.sandbox.played} == {"a", "b"}


async def test_a_program_without_a_budget_is_not_begun(world: World) -> None:
    """A later host reaps it at once, as the monitor would a moment later (TREE-28)."""
    world.sandbox.scripts = {"a": [program(seconds=60)], "b": [program(seconds=6)]}
    text = work(assignment("a"), assignment("b", wall_seconds=4), parallel=1, wall_seconds=4.0)
    async with world.running(text) as root:
        await asyncio.sleep(3.9)
        path_of(root, "MonitorSupervisor", "BudgetMonitor").kill()
        await asyncio.sleep(0.2)  # the host ends before any check of the budget
    await world.run(text)
    assert world.times() == {"a": 1}
    assert {one.state for one in world.records} == {State.REAPED}
    assert {one.reason for one in world.records} == {"budget of 'w' spent: 4.1 of 4 seconds"}


async def test_whoever_spawns_a_program_without_a_budget_is_told(world: World) -> None:
    """The caller gets an error, and the program is not started (TREE-40)."""
    world.sandbox.scripts = {"a": [program(seconds=60)]}
    async with world.running(work(assignment("a"), wall_seconds=5.0)) as root:
        await asyncio.sleep(4.9)
        path_of(root, "MonitorSupervisor", "BudgetMonitor").kill()
        await asyncio.sleep(0.2)  # the next monitor checks a moment later
        more = evolve(world.project.assignments[0], id="more")
        with pytest.raises(PreflightFailed, match=r"got -0\.1 left of the budget"):
            await world.project.pool.spawn(more)
    assert world.times() == {"a": 1}


async def test_jake_holds_back_what_no_budget_is_left_for(world: World) -> None:
    """A person is told once, and grants more; then the agents start (acceptance 15)."""
    world.sandbox.scripts["a"] = [SPENDS, Script()]
    text = "[list]\ntokens = 100\nparallel = 1\n" + agent("a") + agent("b") + agent("c")
    async with world.running(text) as root:
        await asyncio.sleep(60)
        assert [one.agent for one in world.sandbox.played] == ["a"]
        told = [one.detail["detail"] for one in world.told if one.id == "list"]
        assert told.count("budget of 'w' spent; not begun before there is more: b, c") == 1
        assert not world.project.effort.at_rest
        world.project.grant("", Kind.TOKENS, 100)
        await root.wait()
    assert {one.state for one in world.records} == {State.DONE}


async def test_who_is_held_back_is_told_once_though_others_are_begun(world: World) -> None:
    """A retried agent that had started before rests for more budget, and is not held back."""
    world.sandbox.scripts["b"] = [Script(Spend(input=90, output=20), Hang())]
    text = "[list]\ntokens = 100\nparallel = 1\n" + agent("b") + agent("c")
    async with world.running(text):
        await asyncio.sleep(60)
        world.project.pool.reap("b", "enough")
        await asyncio.sleep(60)
        await world.project.retry("b")
        await asyncio.sleep(60)
        assert world.project.pool.mortal("b").paused is not None
        told = [one.detail["detail"] for one in world.told if one.id == "list"]
        assert told.count("budget of 'w' spent; not begun before there is more: c") == 1


async def test_of_very_many_who_are_held_back_a_person_is_told_the_first(world: World) -> None:
    """A list of thousands gets one short line, which names the first ten."""
    world.sandbox.scripts["a0"] = [SPENDS]
    text = "[list]\ntokens = 100\nparallel = 1\n" + "".join(agent(f"a{n}") for n in range(14))
    async with world.running(text):
        await asyncio.sleep(60)
        told = [str(one.detail["detail"]) for one in world.told if one.id == "list"]
        names = ", ".join(f"a{n}" for n in range(1, 11))
        assert [one.endswith(f" more: {names} and 3 others") for one in told].count(True) == 1


async def test_who_was_begun_before_rests_for_its_budget_as_ever(world: World) -> None:
    """Its session is kept: under the next host it waits for a grant too (acceptance 15)."""
    world.sandbox.scripts["a"] = [Script(Spend(input=90, output=20), Hang())]
    text = "[list]\ntokens = 100\n" + agent("a") + agent("b")
    for _ in range(2):
        async with world.running(text):
            await asyncio.sleep(60)
            assert world.pool.mortal("a").state == "waiting_for_input"

"""Jake may die at any moment: nothing is lost, nothing begun twice, and nothing is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, SupervisorFailed
from otpy.testing import MockClock
from otpy_agents.agent import mortal
from otpy_agents.agent.desk import Desk
from otpy_agents.errors import JakeGaveUp
from otpy_agents.store.records import State
from otpy_agents.tree import jake
from otpy_agents.tree.jake import Todo
from otpy_agents.tree.project import Project
from otpy_agents.worklist.assignment import Assignment
from tests.agents.world import Steps, World, assignment, dynamic, path_of, program, work

CRASHES = program(code=1)
LIST = [
    assignment("a", backoff=[1]),
    assignment("b"),
    assignment("c", restarts=1, backoff=[2]),
    '[[assignment]]\nid = "d"\nargv = ["no-such-program"]\n',
    assignment("e", role="drone"),
]
SCRIPT = {"a": [CRASHES, program()], "c": [CRASHES]}
WANTED = {
    "a": (State.DONE, 2),
    "b": (State.DONE, 1),
    "c": (State.REAPED, 2),
    "d": (State.FAILED, 0),
    "e": (State.DONE, 1),
}


def killing_at(moment: int, seen: list[int]) -> Callable[[int], None]:
    """Return a hook for `Steps` that kills the running child at one of its awaits."""

    def then(number: int) -> None:
        seen.append(number)
        if number == moment and otpy.current().incarnation == 1:
            asyncio.get_running_loop().call_soon(otpy.current().kill)

    return then


def outcome(world: World) -> dict[str, tuple[State, int]]:
    """Return the state of each assignment and the number of its workers."""
    return {name: (one.state, world.times()[name]) for name, one in world.known.items()}


@pytest.mark.slow
async def test_killed_at_every_await_he_loses_nothing_and_begins_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run for each await of Jake; each ends as if nothing had happened."""
    run: Callable[[Project], Coroutine[Any, Any, None]] = jake._run
    world.sandbox.scripts = dict(SCRIPT)
    seen: list[int] = []
    moment, last = 0, 0

    async def stepped(project: Project) -> None:
        await Steps(run(project), then)

    monkeypatch.setattr(jake, "_run", stepped)
    while moment <= last:
        world.forget()
        then = killing_at(moment, seen)
        await world.run(work(*LIST, parallel=2, state=f"{moment}.sqlite"))
        assert outcome(world) == WANTED, f"killed at await {moment}"
        last = last or max(seen)
        moment += 1
    assert moment > 25  # it was killed at many


async def test_a_mortal_killed_at_every_await_leaves_nothing_and_is_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker is gone before the next one begins, and a recorded success stands."""
    life = mortal.mortal
    seen: list[int] = []
    moment, last = 0, 0
    outcomes: list[tuple[State, int]] = []

    async def stepped(desk: Desk, one: Assignment, *, task_status: Any) -> None:
        await Steps(life(desk, one, task_status=task_status), then)

    monkeypatch.setattr("otpy_agents.agent.mortal.mortal", stepped)
    while moment <= last:
        world.forget()
        then = killing_at(moment, seen)
        known = await world.run(work(assignment("a"), state=f"{moment}.sqlite"))
        outcomes.append((known["a"].state, len(world.of("a"))))
        assert world.alive() == []
        last = last or max(seen)
        moment += 1
    starting, running, written = outcomes[1:4], outcomes[4:-1], outcomes[-1]
    assert {state for state, _ in starting} == {State.FAILED}  # each of five starts was killed
    assert set(running) == {(State.DONE, 2)}
    assert written == (State.DONE, 1)


async def test_what_is_written_down_as_done_is_not_done_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mortal that is ended while it records its success has succeeded."""
    finish = world_finish()

    async def and_be_killed(self: Any, name: str, state: State, reason: str = "") -> None:
        if state is State.DONE:
            asyncio.get_running_loop().call_soon(otpy.current().kill)
        await finish(self, name, state, reason)

    monkeypatch.setattr("otpy_agents.store.ledger.Ledger.finish", and_be_killed)
    known = await world.run(work(assignment("a")))
    assert (known["a"].state, len(world.of("a"))) == (State.DONE, 1)


def world_finish() -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the ledger's own `finish`."""
    from otpy_agents.store.ledger import Ledger  # noqa: PLC0415 - before it is replaced

    return Ledger.finish


async def test_mortals_work_on_while_jake_is_away(world: World) -> None:
    """They are not Jake's children; Jake learns of their outcomes on its return."""
    world.sandbox.scripts["a"] = [program(seconds=3)]
    text = work(assignment("a"), assignment("b"), parallel=1)
    async with world.running(text) as root:
        await asyncio.sleep(1)
        path_of(root, "JakeSupervisor", "Jake").kill()
        await root.wait()
    assert world.began("a") == [0]
    (again,) = world.began("b")
    assert 5.5 <= again <= 6.5
    assert world.event("jake.restarted").detail["reason"] == "killed"


async def test_what_comes_out_while_jake_is_away_is_written_down_if_the_host_ends(
    world: World,
) -> None:
    """The reason of a reaped mortal is kept even if Jake never comes back."""
    world.sandbox.scripts = {"a": [program(seconds=2, code=1)], "b": [program(seconds=99)]}
    async with world.running(work(assignment("a", restarts=0), assignment("b"))) as root:
        await asyncio.sleep(1)
        path_of(root, "JakeSupervisor", "Jake").kill()
        await asyncio.sleep(2)
        assert world.names("a") == ["mortal.reaped"]
    assert world.known["a"].state is State.REAPED
    assert world.known["a"].reason.startswith("restarts used up (0)")


async def test_a_jake_who_always_crashes_fails_the_tree_and_the_host_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    """After ten restarts the host gets `SupervisorFailed` with Jake's error (acceptance 13)."""
    crashes = 0

    async def crash(*_: object) -> None:
        nonlocal crashes
        crashes += 1
        raise LookupError("the list is gone")

    monkeypatch.setattr(jake, "_work_off", crash)
    with pytest.raises(SupervisorFailed) as caught:
        async with asyncio.timeout(3600):
            await world.run(work(assignment("a")))
    assert crashes == 11
    assert 1200 < clock.now < 1800
    gave_up = caught.value.__cause__
    assert isinstance(gave_up, JakeGaveUp)
    assert isinstance(gave_up.__cause__, LookupError)
    assert "JakeSupervisor" in str(caught.value)


async def test_ten_crashes_are_forgiven(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The eleventh life of Jake works the list off; the ten restarts are told."""
    crashes = 0
    work_off = jake._work_off

    async def crash(project: Project, todo: Todo) -> None:
        nonlocal crashes
        crashes += 1
        if crashes <= 10:
            raise LookupError("once more")
        await work_off(project, todo)

    monkeypatch.setattr(jake, "_work_off", crash)
    known = await world.run(work(assignment("a")))
    assert known["a"].state is State.DONE
    assert len(world.names("Jake", "jake.")) == 10


@pytest.mark.parametrize("length", [10, 100])
async def test_a_change_costs_a_look_at_what_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Each assignment costs a few looks, for any length of the list."""
    looks, look = 0, Todo._sort

    async def counted(todo: Todo, name: str) -> None:
        nonlocal looks
        looks += 1
        await look(todo, name)

    monkeypatch.setattr(Todo, "_sort", counted)
    names = [f"a{number}" for number in range(length)]
    known = await world.run(work(*map(assignment, names), parallel=2))
    assert {one.state for one in known.values()} == {State.DONE}
    assert list(world.times()) == names
    assert looks <= 8 * length


async def test_a_supervisor_of_jake_that_is_killed_is_just_started_again(world: World) -> None:
    """Only a supervisor that has given up stays down."""
    async with world.running(work(assignment("a"), assignment("b"), parallel=1)) as root:
        await asyncio.sleep(0.5)
        root.child("JakeSupervisor").kill()
        await root.wait()
    assert outcome(world) == {"a": (State.DONE, 1), "b": (State.DONE, 1)}


async def test_stopping_the_tree_stops_mortals_before_jake(world: World) -> None:
    """Jake would otherwise begin new ones."""
    world.sandbox.scripts = {name: [program(seconds=99)] for name in "ab"}
    async with world.running(work(assignment("a"), assignment("b"), parallel=1)) as root:
        await asyncio.sleep(1)
        spec = dynamic(root).child("a").spec
        assert isinstance(spec, ChildSpec)
    assert world.times() == {"a": 1}

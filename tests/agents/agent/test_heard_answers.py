"""Answers whose host ended before the tree had accepted them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from otpy_agents.agent.verification import Complaint
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import MoveRow, State
from otpy_agents.testing import Script, Spend, Succeed
from otpy_agents.worklist.assignment import Assignment
from otpy_monitors import Kind
from tests.agents.world import World, agent

RED = Complaint(name="tests_failed", message="it is red")
ANSWERS = Script(Spend(input=60, output=40), Succeed(answer="all good"))


class Verifier:
    """Takes the given time over an answer, and returns the given complaint."""

    def __init__(self, complaint: Complaint | None = None, seconds: float = 0.0) -> None:
        self.complaint = complaint
        self.seconds = seconds
        self.answers: list[str] = []

    async def __call__(self, assignment: Assignment, cwd: Path, answer: str) -> Complaint | None:
        self.answers.append(answer)
        await asyncio.sleep(self.seconds)
        return self.complaint


async def test_an_answer_that_was_heard_is_taken_in_by_the_next_host(world: World) -> None:
    """The host was stopped before it accepted the answer: finished work is not paid for twice."""
    world.sandbox.scripts["a"] = [ANSWERS]
    verifier = world.project_settings["verifier"] = Verifier(seconds=1e6)
    async with world.running(agent("a", tokens=1000)):
        await world.until(lambda: verifier.answers)
    verifier.seconds = 0.0
    known = await world.run(agent("a", tokens=1000))
    assert (known["a"].state, known["a"].last_line) == (State.DONE, "all good")
    assert verifier.answers == ["all good", "all good"]
    assert len(world.sandbox.played) == 1
    assert world.event("agent.taken_up").id == "a"
    assert world.workplace.budgets.ledger.balance("w", Kind.TOKENS).spent == 100


async def test_an_answer_is_taken_in_though_only_its_agent_is_known_to_be_done(
    world: World,
) -> None:
    """The host was killed between the agent's record and the assignment's record."""
    world.sandbox.scripts["a"] = [ANSWERS]
    verifier = world.project_settings["verifier"] = Verifier(seconds=1e6)
    async with world.running(agent("a")):
        await world.until(lambda: verifier.answers)
    async with Ledger(world.ledger.path) as ledger:
        (row,) = await ledger.agents.all()
        done = MoveRow(
            assignment="a", source=row.state, happening="accepted", target="done", why=""
        )
        await ledger.agents.record(ledger.host, [done])
    verifier.seconds = 0.0
    known = await world.run(agent("a"))
    assert known["a"].state is State.DONE
    assert len(world.sandbox.played) == 1


async def test_an_answer_that_was_refused_is_not_taken_in_again(world: World) -> None:
    """The next host starts another run, whose prompt names the complaint."""
    world.sandbox.scripts["a"] = [ANSWERS]
    verifier = world.project_settings["verifier"] = Verifier(RED)
    async with world.running(agent("a", backoff=[600])):
        await world.until(lambda: world.states("a")[-1:] == ["failed"])
    verifier.complaint = None
    known = await world.run(agent("a", backoff=[600]))
    assert known["a"].state is State.DONE
    first, second = world.sandbox.played
    assert "it is red" not in first.prompt
    assert "it is red" in second.prompt


async def test_the_answer_to_another_definition_is_not_taken_in(world: World) -> None:
    """An agent with a new task starts from the beginning."""
    world.sandbox.scripts["a"] = [ANSWERS]
    verifier = world.project_settings["verifier"] = Verifier(seconds=1e6)
    async with world.running(agent("a")):
        await world.until(lambda: verifier.answers)
    verifier.seconds = 0.0
    known = await world.run(agent("a", prompt="Do something else."))
    assert known["a"].state is State.DONE
    assert len(world.sandbox.played) == 2


async def test_what_a_run_spent_is_kept_before_what_it_came_to(world: World) -> None:
    """A done agent never tells its usage again: a kill at this moment would lose it."""
    world.sandbox.scripts["a"] = [ANSWERS]
    kept: list[int] = []

    async def look(*_: object) -> None:
        text = await world.ledger.agents.get("budget")
        accounts = json.loads(text or '{"accounts": []}')["accounts"]
        kept.append(sum(one["pots"]["tokens"]["own"] for one in accounts))

    world.project_settings["verifier"] = look
    await world.run(agent("a"))
    assert kept == [100]

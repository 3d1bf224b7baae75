"""The consequences of rules that cannot be checked, and the notices about broken rules."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Say, Script, UseTool
from otpy_monitors import (
    Action,
    Activity,
    AgentCard,
    Custom,
    RuleBook,
    ToolCallBegan,
    Violated,
    ViolationRule,
)
from tests.agents.world import World, agent


def book(action: Action, *, broken: bool = False) -> RuleBook:
    """Return a rule against all calls of tools, or one whose predicate raises at such a call."""

    def judge(activity: Activity, _card: AgentCard) -> str | None:
        if not isinstance(activity, ToolCallBegan):
            return None
        if broken:
            raise RuntimeError("no idea")
        return "a tool is called"

    return RuleBook([ViolationRule("own", Custom(judge), action)])


async def test_a_rule_that_reaps_does_so_too_if_it_cannot_be_checked(world: World) -> None:
    """It is unknown whether the rule holds, so it counts as broken (TREE-47)."""
    world.sandbox.scripts["a"] = [Script(UseTool(lasts=5.0), Say(text="x"))]
    known = await world.run(agent("a"), rules=book(Action.REAP, broken=True))
    assert known["a"].state is State.REAPED
    assert "'own' could not be checked" in known["a"].reason
    assert "operator.notified" in world.names("a", "operator.")
    assert len(world.sandbox.played) == 1


@pytest.mark.parametrize("action", [Action.LOG, Action.NOTIFY, Action.WARN, Action.PAUSE])
async def test_any_other_rule_pauses_if_it_cannot_be_checked(world: World, action: Action) -> None:
    """The person who has to look is told so once, after any number of checks."""
    world.sandbox.scripts["a"] = [Script(*[UseTool()] * 3, Hang()), Script()]
    async with world.running(agent("a"), rules=book(action, broken=True)) as root:
        await asyncio.sleep(30)
        a = world.pool.mortal("a")
        assert a.state == "waiting_for_input"
        assert a.paused is not None
        assert a.paused.by == "rule:own"
        assert world.names("a", "operator.") == ["operator.notified"]
        a.resume()
        await root.wait()
    assert world.known["a"].state is State.DONE


async def test_jake_and_the_person_are_told_of_a_broken_rule(world: World) -> None:
    """`notify` tells the giver of the work, and the person (TREE-47)."""
    world.sandbox.scripts["a"] = [Script(UseTool())]
    known = await world.run(agent("a"), rules=book(Action.NOTIFY))
    assert known["a"].state is State.DONE
    assert world.names("a", "operator.") == ["operator.notified"]
    told = world.event("jake.notified")
    assert (told.id, told.detail["about"]) == ("Jake", "a")
    assert "a tool is called" in str(told.detail["detail"])


async def test_the_agent_that_has_another_made_is_told_of_what_it_does(world: World) -> None:
    """Its notes and its next prompt tell it; Jake is not told."""
    world.sandbox.scripts = {"a": [Script(UseTool(), Hang())], "b": [Script(Hang())]}
    rule = book(Action.NOTIFY).rules[0]
    async with world.running(agent("a") + agent("b")):
        await asyncio.sleep(5)
        path = world.pool.path
        finding = Violated(f"{path}/a", 1, rule, "a tool is called", agent="w/a", parent="w/b")
        world.project.acting.on_finding(finding)
        assert world.names("a", "operator.") == ["operator.notified"]
        notes = world.project.desk.folders.notes("b").read_text(encoding="utf-8")
        assert "a: violation of 'own'" in notes
        assert "a: violation of 'own'" in world.pool.posts["b"].messages[0]
        assert world.names("Jake", "jake.") == []

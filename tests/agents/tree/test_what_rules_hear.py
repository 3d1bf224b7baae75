"""Every kind of rule is judged by what agents of a tree really do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from otpy.errors import StartFailed
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.agent.narrator import Narrator
from otpy_agents.agent.post import Post
from otpy_agents.agent.state import AgentState
from otpy_agents.agent.tools import touched_by
from otpy_agents.attempt import events
from otpy_agents.attempt.usage import Usage
from otpy_agents.errors import AgentNotFound
from otpy_agents.run.decide.result import Cause
from otpy_agents.run.host import facts
from otpy_agents.run.host.order import RunOrder
from otpy_agents.store.records import State
from otpy_agents.testing import Crash, Fail, Say, Script, Spend, UseTool, Write
from otpy_agents.testing.script import line_of
from otpy_agents.worklist.assignment import Assignment
from otpy_agents.worklist.reader import parse
from otpy_monitors import (
    AgentAppeared,
    AgentCard,
    CommandRun,
    Feed,
    FilesTouched,
    NetworkUsed,
    RuleBook,
    RuleState,
    parse_rules,
)
from otpy_monitors.budget import BudgetLedger, Kind
from otpy_monitors.budget.bookkeeper import Bookkeeper
from tests.agents.world import QUICK, World, agent

BUSY = Script(Say(text="x", after=500.0))


def book(rule: str) -> RuleBook:
    return parse_rules(f"rules:\n  - {{name: r, action: reap, {rule}}}\n", Path("/rules/r.yaml"))


def named(world: World, name: str) -> Assignment:
    return evolve(world.project.assignments[0], id=name)


ASSIGNMENT = parse(agent("a"), Path("/lists/w.toml")).assignments[0]


def codex_run(run: str, session: str | None, spent: Usage) -> list[facts.Fact]:
    """Return the facts of an attempt by Codex, in a known session or a new one."""
    order = RunOrder(prompt="x", cwd=Path("/"), label="label")
    common: dict[str, Any] = {"run": run, "at": 0.0}
    says = (events.SessionSeen(session or "new"), events.Spent(spent))
    return [
        facts.RunBegan(**common, order=order, agents=("codex",), resumed=False, waiting=False),
        facts.AttemptBegan(
            **common,
            number=1,
            agent_id="codex",
            agent_cli="codex",
            cause=Cause.FIRST,
            session=session,
        ),
        *(facts.AgentEvent(**common, number=1, said=said) for said in says),
    ]


def violations(world: World) -> list[str]:
    return [one.id for one in world.told if one.name == "monitor.violated"]


def call(number: int, tool: str) -> Write:
    return Write(text=line_of(type="tool", id=f"c{number}", name=tool), after=1.0)


@pytest.mark.parametrize(
    ("rule", "allowed", "broken"),
    [
        (
            "kind: files-outside",
            UseTool(name="Write", input={"file_path": "x.txt"}),
            UseTool(name="Write", input={"file_path": "/etc/x"}),
        ),
        (
            "kind: command, block: ['rm -rf']",
            UseTool(name="Bash", input={"command": "rm x"}),
            UseTool(name="Bash", input={"command": "cd / && rm -rf x"}),
        ),
        (
            "kind: network, allow: [pypi.org]",
            UseTool(name="WebFetch", input={"url": "https://pypi.org/x"}),
            UseTool(name="WebFetch", input={"url": "https://example.org"}),
        ),
        ("kind: token-speed, tokens: 1000, seconds: 60", Spend(input=900), Spend(output=1100)),
        (
            "kind: same-call, times: 2",
            UseTool(input={"file_path": "a"}),
            UseTool(input={"file_path": "a"}),
        ),
    ],
    ids=["files", "command", "network", "tokens", "call"],
)
async def test_a_rule_finds_the_agent_that_breaks_it(
    world: World, rule: str, allowed: UseTool | Spend, broken: UseTool | Spend
) -> None:
    """No other agent breaks it; the agent is reaped at that moment (acceptance 17)."""
    world.sandbox.scripts = {
        "good": [Script(allowed)],
        "bad": [Script(allowed, broken, Say(text="x", after=60.0))],
    }
    known = await world.run(agent("good") + agent("bad"), rules=book(rule))
    assert (known["good"].state, known["bad"].state) == (State.DONE, State.REAPED)
    assert known["bad"].reason.startswith("violation of 'r': ")
    assert violations(world) == ["bad"]


async def test_tokens_of_one_attempt_are_no_tokens_of_the_next(world: World) -> None:
    """Each attempt counts from 0, and repeated readings do not count twice."""
    twice = Script(Spend(input=600), Spend(input=900, after=1.0), Fail(after=99.0))
    world.sandbox.scripts["a"] = [twice, Script(Spend(input=900))]
    rules = book("kind: token-speed, tokens: 1000, seconds: 60")
    known = await world.run(agent("a", backoff=[1]), rules=rules)
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    assert violations(world) == []


async def test_tokens_count_by_session_from_where_it_was_taken_up() -> None:
    """A new session counts from 0; the earlier usage of an old one is not recent (G-07)."""
    told: list[object] = []
    feed = Feed()
    narrator = Narrator(feed)
    post = Post("p/a", ASSIGNMENT, AgentState.WORKING, told.append)
    narrator.follow("label", post)
    state = RuleState(book("kind: token-speed, tokens: 1000, seconds: 60"))
    with feed.subscribe(lambda one: told.extend(state.step(one))):
        feed.tell(AgentAppeared(0.0, AgentCard(agent="p/a", path="pool/a")))
        for run, session, broken in (("1", None, True), ("2", "old", False)):
            for fact in codex_run(run, session, Usage(input=1100)):
                narrator.hear(fact)
            assert bool(told) is broken
            told.clear()


@pytest.mark.parametrize("cli", ["claude", "codex"])
async def test_what_a_killed_host_left_counts_once_and_is_nobodys_speed(cli: str) -> None:
    """It may have been told before or not: the reading is of the same counter (G-07, TREE-28)."""
    told: list[object] = []
    feed, ledger = Feed(), BudgetLedger()
    bookkeeper = Bookkeeper(feed, ledger)
    narrator = Narrator(feed)
    narrator.follow("label", Post("p/a", ASSIGNMENT, AgentState.WORKING, lambda _: None))
    state = RuleState(book("kind: token-speed, tokens: 1000, seconds: 60"))
    began, _, seen, _ = codex_run("1", None, Usage())
    common: dict[str, Any] = {"run": "1", "at": 0.0, "number": 1}
    spent = Usage(input=900)
    attempt = facts.AttemptBegan(
        **common, agent_id=cli, agent_cli=cli, cause=Cause.FIRST, session=None
    )
    heard = [began, attempt, seen, facts.AgentEvent(**common, said=events.Spent(spent))]
    found = facts.SpentFound(
        **common, agent_cli=cli, session="new", usage=Usage(input=9000), model="m"
    )
    with feed.subscribe(lambda one: told.extend(state.step(one))):
        feed.tell(AgentAppeared(0.0, AgentCard(agent="p/a", path="pool/a")))
        for fact in (*heard, found, found):
            narrator.hear(fact)
    assert ledger.balance("p/a", Kind.TOKENS).spent == 9000
    assert told == []
    bookkeeper.close()


# --- children -------------------------------------------------------------------------------------


async def test_who_spawns_more_children_than_it_may_breaks_the_rule(world: World) -> None:
    """Agents and programs that it asked the pool for count, as long as they are there."""
    world.sandbox.scripts["a"] = [BUSY]
    rules = book("kind: children, at_most: 2")
    async with world.running(agent("a"), rules=rules) as root:
        await asyncio.sleep(5)
        program = evolve(named(world, "p"), agent=None, argv=("true",))
        for child in (program, named(world, "b"), named(world, "c"), named(world, "d")):
            await (await world.pool.spawn(child, by="a")).wait()
        assert violations(world) == []
        world.sandbox.scripts |= {name: [BUSY] for name in "xyz"}
        for name in "xyz":
            await world.pool.spawn(named(world, name), by="a")
        await root.wait()
    assert violations(world) == ["a"]
    assert world.known["a"].reason == "violation of 'r': w/z is its child number 3, of 2 at most"
    assert {world.known[name].state for name in "xyz"} == {State.DONE}


async def test_a_restart_of_a_child_is_no_further_child(world: World) -> None:
    """It is the same child in another life."""
    world.sandbox.scripts = {"a": [BUSY], "b": [Script(Fail()), Script(Fail()), BUSY]}
    rules = book("kind: children, at_most: 1")
    async with world.running(agent("a", backoff=[1]), rules=rules):
        await asyncio.sleep(5)
        mortal = await world.pool.spawn(named(world, "b"), by="a")
        await asyncio.sleep(60)
        assert mortal.restarts == 2
    assert violations(world) == []


async def test_what_is_not_started_is_no_child(world: World) -> None:
    """Only a mortal of the pool can ask for one."""
    world.sandbox.scripts["a"] = [BUSY]
    async with world.running(agent("a"), rules=book("kind: children, at_most: 0")):
        await asyncio.sleep(5)
        with pytest.raises(AgentNotFound, match="nobody"):
            await world.pool.spawn(named(world, "b"), by="nobody")
        bad = evolve(named(world, "c"), cwd=world.folder / "nowhere")
        with pytest.raises(Exception, match="wanted a folder that exists") as caught:
            await world.pool.spawn(bad, by="a")
        assert not isinstance(caught.value, StartFailed)
        await asyncio.sleep(5)
    assert violations(world) == []
    assert world.sandbox.of("b") == []


@pytest.mark.parametrize("tool", ["Task", "Agent", "task"])
async def test_helpers_that_an_agent_starts_by_a_tool_are_its_children(
    world: World, tool: str
) -> None:
    """They count as long as the call is open: one at a time is fine, three at once are not."""
    world.sandbox.scripts = {
        "good": [Script(*[UseTool(name=tool)] * 4)],
        "bad": [Script(*(call(number, tool) for number in range(3)), Say(text="x", after=60.0))],
    }
    rules = book("kind: children, at_most: 2")
    known = await world.run(agent("good") + agent("bad"), rules=rules)
    assert (known["good"].state, known["bad"].state) == (State.DONE, State.REAPED)
    assert violations(world) == ["bad"]


async def test_helpers_end_with_the_attempt_that_started_them(world: World) -> None:
    """An attempt that crashes leaves no children behind."""
    crash = Script(call(1, "Task"), call(2, "Task"), Crash())
    world.sandbox.scripts["a"] = [crash, crash, Script()]
    policy = evolve(QUICK, max_retries=2, backoff_base=1.0)
    rules = book("kind: children, at_most: 2")
    known = await world.run(agent("a"), rules=rules, policy=policy)
    assert (known["a"].state, violations(world)) == (State.DONE, [])


# --- what the CLIs write --------------------------------------------------------------------------

PATCH = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n*** End Patch"


def claude(name: str, given: object) -> dict[str, object]:
    part = {"type": "tool_use", "id": "1", "name": name, "input": given}
    return {"type": "assistant", "message": {"content": [part]}}


def copilot(name: str, given: object) -> dict[str, object]:
    data = {"toolCallId": "1", "toolName": name, "arguments": given}
    return {"type": "tool.execution_start", "data": data}


def gemini(name: str, given: object) -> dict[str, object]:
    return {"type": "tool_use", "tool_id": "1", "tool_name": name, "parameters": given}


def codex(kind: str, given: dict[str, object]) -> dict[str, object]:
    return {"type": "item.started", "item": {"id": "1", "type": kind, **given}}


@pytest.mark.parametrize(
    ("cli", "line", "touched"),
    [
        ("claude", claude("Edit", {"file_path": "/x/a"}), [FilesTouched("p/a", 1.0, ("/x/a",))]),
        ("claude", claude("Bash", {"command": "make"}), [CommandRun("p/a", 1.0, "make")]),
        (
            "claude",
            claude("WebFetch", {"url": "https://a.org", "prompt": "see https://b.org"}),
            [NetworkUsed("p/a", 1.0, "a.org")],
        ),
        ("codex", codex("command_execution", {"command": "ls"}), [CommandRun("p/a", 1.0, "ls")]),
        (
            "codex",
            codex("file_change", {"changes": [{"path": "/x/a", "kind": "update"}]}),
            [FilesTouched("p/a", 1.0, ("/x/a",))],
        ),
        ("gemini", gemini("write_file", {"file_path": "a"}), [FilesTouched("p/a", 1.0, ("a",))]),
        ("gemini", gemini("run_shell_command", {"command": "ls"}), [CommandRun("p/a", 1.0, "ls")]),
        (
            "gemini",
            gemini("web_fetch", {"prompt": "Sum up https://a.org/x and https://b.org"}),
            [NetworkUsed("p/a", 1.0, "a.org"), NetworkUsed("p/a", 1.0, "b.org")],
        ),
        ("copilot", copilot("create", {"path": "/x/a"}), [FilesTouched("p/a", 1.0, ("/x/a",))]),
        ("copilot", copilot("bash", {"command": "ls"}), [CommandRun("p/a", 1.0, "ls")]),
        (
            "copilot",
            copilot("web_fetch", {"url": "https://a.org"}),
            [NetworkUsed("p/a", 1.0, "a.org")],
        ),
        # Its patches come as a plain text.
        (
            "copilot",
            copilot("apply_patch", PATCH),
            [FilesTouched("p/a", 1.0, ("a.py", "b.py"))],
        ),
    ],
)
def test_what_a_cli_writes_of_a_tool_says_what_it_touches(
    cli: str, line: dict[str, object], touched: list[object]
) -> None:
    """A line of its output gives the activities that the rules judge (TREE-47)."""
    (began,) = find_adapter(cli).parser().feed(json.dumps(line))
    assert isinstance(began, events.ToolStarted)
    assert list(touched_by(began.name, began.input, "p/a", 1.0)) == touched

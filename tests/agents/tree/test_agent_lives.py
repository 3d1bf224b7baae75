"""The life of a mortal whose assignment an agent takes: runs, failures by class, notes, ends."""

from __future__ import annotations

import asyncio

from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Crash, Fail, Finish, Hang, Say, Script, Spend, UseTool
from tests.agents.tree.agent_world import AgentWorld, agent


async def test_an_agent_does_its_work(agents: AgentWorld) -> None:
    """Its run succeeds, so its assignment is done; every move is told and stored."""
    agents.sandbox.scripts["a"] = [Script(Say(text="hm"), Finish(answer="there you are"))]
    known = await agents.run(agent("a"))
    assert (known["a"].state, known["a"].restarts, known["a"].attempts) == (State.DONE, 0, 1)
    assert known["a"].last_line == "there you are"
    (played,) = agents.sandbox.played
    assert (played.prompt, played.session) == ("Do your work.", None)
    assert agents.states("a") == ["verifying", "done"]
    async with agents.running(agent("a")) as root:
        moves = await agents.ledger.agents.moves("a")
        await root.wait()
    assert [(move.source, move.target) for move in moves] == [
        ("working", "verifying"),
        ("verifying", "done"),
    ]
    assert len(agents.sandbox.played) == 1


async def test_a_transient_failure_is_restarted_with_a_note_in_the_same_session(
    agents: AgentWorld,
) -> None:
    """Each life after a network failure goes on in the session, and knows why (TREE-36)."""
    agents.sandbox.scripts["a"] = [Script(Say(text="half"), Fail()), Script()]
    known = await agents.run(agent("a", backoff=[2]))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    first, second = agents.sandbox.played
    assert (first.session, second.session) == (None, first.own_session)
    assert second.began - (first.ended or 0) >= 2
    assert second.prompt == (
        "You were restarted because crashed: RunFailed: network: connection reset by peer.\n"
        "Previous state: half\nContinue your assignment.\n\nYour assignment:\nDo your work."
    )
    assert agents.states("a") == ["failed", "working", "verifying", "done"]

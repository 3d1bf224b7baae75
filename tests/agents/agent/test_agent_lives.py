"""The life of a mortal with an agent's assignment: runs, failures by class, notes, ends."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from otpy_agents.agent.prompts import CHECKPOINTS, GUIDE
from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import Ask, Crash, Fail, Hang, Say, Script, Spend, Succeed, UseTool
from tests.agents.world import World, agent


async def test_an_agent_does_its_work(world: World) -> None:
    """Its run succeeds, so its assignment is done; every move is told and stored."""
    world.sandbox.scripts["a"] = [Script(Say(text="hm"), Succeed(answer="there you are"))]
    known = await world.run(agent("a"))
    assert (known["a"].state, known["a"].restarts, known["a"].attempts) == (State.DONE, 0, 1)
    assert known["a"].last_line == "there you are"
    (played,) = world.sandbox.played
    assert (played.prompt, played.session) == (f"Do your work.\n\n{GUIDE}{CHECKPOINTS}", None)
    assert world.states("a") == ["verifying", "done"]
    async with world.running(agent("a")) as root:
        moves = await world.ledger.agents.moves("a")
        await root.wait()
    assert [(move.source, move.target) for move in moves] == [
        ("working", "verifying"),
        ("verifying", "done"),
    ]
    assert len(world.sandbox.played) == 1


async def test_a_transient_failure_is_restarted_with_a_note_in_the_same_session(
    world: World,
) -> None:
    """Each life after a network failure goes on in the session, and gets the reason (TREE-36)."""
    world.sandbox.scripts["a"] = [Script(Say(text="half"), Fail()), Script()]
    known = await world.run(agent("a", backoff=[2]))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    first, second = world.sandbox.played
    assert (first.session, second.session) == (None, first.own_session)
    assert second.began - (first.ended or 0) >= 2
    assert second.prompt == (
        "You were restarted because crashed: RunFailed: network: connection reset by peer\n"
        "Previous state: half\nContinue your assignment.\n\nYour assignment:\nDo your work."
        f"\n\n{GUIDE}{CHECKPOINTS}"
    )
    assert world.states("a") == ["failed", "working", "verifying", "done"]


async def test_12_a_mortal_that_fails_four_times_in_300_s_is_reaped(world: World) -> None:
    """It is escalated and reaped with the reason; its siblings are untouched (acceptance 12)."""
    world.sandbox.scripts = {"a": [Script(Crash())], "b": [Script(Say(text="x", after=200.0))]}
    known = await world.run(agent("a", backoff=[2, 4, 8]) + agent("b"))
    assert (known["a"].state, known["a"].restarts, known["a"].attempts) == (State.REAPED, 3, 4)
    assert known["a"].reason.startswith("restarts used up (3): crashed: RunFailed: crash:")
    assert world.event("agent.escalated").id == "a"
    assert (known["b"].state, known["b"].restarts) == (State.DONE, 0)
    assert len(world.sandbox.of("b")) == 1
    assert world.states("a")[-2:] == ["failed", "reaped"]


async def test_a_terminal_failure_is_not_restarted_and_a_person_is_told(
    world: World,
) -> None:
    """A model that does not exist will not exist later either (TREE-32)."""
    world.sandbox.scripts["a"] = [Script(Fail(detail=Detail.MODEL_UNAVAILABLE))]
    known = await world.run(agent("a"))
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 0)
    assert known["a"].reason == "terminal failure: model_unavailable: model not found"
    assert world.names("a", "operator.") == ["operator.notified"]
    assert world.names("a", "agent.esc") == []
    assert len(world.sandbox.played) == 1


async def test_a_persistent_failure_gets_one_retry(world: World) -> None:
    """After the retry it is escalated (TREE-32)."""
    world.sandbox.scripts["a"] = [Script(Fail(detail=Detail.CONTEXT_OVERFLOW))]
    known = await world.run(agent("a", backoff=[1]))
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 1)
    assert known["a"].reason.startswith("persistent failure: context_overflow")
    assert world.names("a", "agent.esc") == ["agent.escalated"]


async def test_what_nobody_can_explain_is_escalated(world: World) -> None:
    """An unknown failure does not count as transient (TREE-32)."""
    world.sandbox.scripts["a"] = [Script(Fail(detail=Detail.UNKNOWN))]
    known = await world.run(agent("a"))
    assert (known["a"].state, known["a"].restarts) == (State.REAPED, 0)
    assert known["a"].reason.startswith("unknown failure: unknown")
    assert world.names("a", "agent.esc") == ["agent.escalated"]


async def test_rate_limits_never_use_up_restarts(world: World) -> None:
    """The same life waits out any number of limits (C-15)."""
    limited = Script(Fail(detail=Detail.RATE_LIMIT))
    world.sandbox.scripts["a"] = [*[limited] * 9, Script()]
    known = await world.run(agent("a", restarts=0))
    assert (known["a"].state, known["a"].restarts, known["a"].attempts) == (State.DONE, 0, 1)
    assert len(world.sandbox.played) == 10
    waits = [two.began - (one.ended or 0) for one, two in pairwise(world.sandbox.played)]
    assert min(waits) > 59.9
    assert "waiting_for_wakeup" in world.states("a")


async def test_an_agent_may_ask_and_goes_on_with_the_answer(world: World) -> None:
    """It waits for a person without a limit, and goes on in the same session (TREE-25)."""
    world.sandbox.scripts["a"] = [Script(Ask(question="Which colour?")), Script()]
    async with world.running(agent("a", stall=5)) as root:
        await asyncio.sleep(100)
        mortal = world.pool.mortal("a")
        assert mortal.state == "waiting_for_input"
        assert world.event("operator.asked").detail == {"question": "Which colour?"}
        mortal.answer("Blue.")
        await root.wait()
    first, second = world.sandbox.played
    assert second.session == first.own_session
    assert second.prompt == (
        f"Blue.\n\nContinue your assignment:\nDo your work.\n\n{GUIDE}{CHECKPOINTS}"
    )
    assert (world.known["a"].state, world.known["a"].restarts) == (State.DONE, 0)
    assert world.states("a") == ["waiting_for_input", "working", "verifying", "done"]


async def test_a_pause_waits_for_the_boundary_of_a_turn(world: World) -> None:
    """No tool call is cut; resumed, it goes on in the same session (G-10)."""
    working = Script(UseTool(lasts=10.0), UseTool(lasts=10.0), Hang())
    world.sandbox.scripts["a"] = [working, Script()]
    async with world.running(agent("a", restarts=0)) as root:
        await asyncio.sleep(5)
        mortal = world.pool.mortal("a")
        mortal.pause("lunch")
        await asyncio.sleep(50)
        assert mortal.state == "waiting_for_wakeup"
        assert not world.sandbox.alive
        mortal.resume()
        await root.wait()
    first, second = world.sandbox.played
    assert first.ended is not None
    assert 11 <= first.ended - first.began < 12
    assert second.session == first.own_session
    assert (world.known["a"].state, world.known["a"].restarts) == (State.DONE, 0)


async def test_a_pause_needs_only_a_moment_between_two_tools(world: World) -> None:
    """The agent has begun the next call before its pause can stop it, and does not end that."""
    working = Script(*[UseTool(after=0.0, lasts=10.0) for _ in range(4)])
    world.sandbox.scripts["a"] = [working, Script()]
    async with world.running(agent("a", restarts=0)) as root:
        await asyncio.sleep(5)
        world.pool.mortal("a").pause("lunch")
        await asyncio.sleep(50)
        world.pool.mortal("a").resume()
        await root.wait()
    first, _ = world.sandbox.played
    assert first.ended is not None
    assert first.ended - first.began < 12


async def test_a_warning_reaches_the_next_prompt_and_the_notes(world: World) -> None:
    """A life that starts after a failure gets the warning too (TREE-47)."""
    world.sandbox.scripts["a"] = [Script(Fail(after=5.0)), Script()]
    async with world.running(agent("a", backoff=[0])) as root:
        await asyncio.sleep(2)
        world.pool.mortal("a").warn("Leave the tests alone.")
        await root.wait()
    assert world.sandbox.played[1].prompt.endswith("Messages for you:\n- Leave the tests alone.")
    assert (
        world.project.desk.folders.notes("a").read_text(encoding="utf-8")
        == "Leave the tests alone.\n"
    )


async def test_a_cancelled_mortal_stops_its_run_in_order(world: World) -> None:
    """None of it is alive when the tree has stopped, and the next host starts it again."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Hang()), Script()]
    async with world.running(agent("a")):
        await asyncio.sleep(5)
        assert len(world.sandbox.alive) == 1
    assert not world.sandbox.alive
    assert [one.exit_code for one in world.sandbox.played] == [143]
    known = await world.run(agent("a"))
    assert known["a"].state is State.DONE
    assert world.sandbox.played[1].prompt.startswith("You were restarted because interrupted")


async def test_a_killed_mortal_leaves_its_run_to_its_next_life(world: World) -> None:
    """The agent does not notice: the next life waits for the same run."""
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=20.0))]
    async with world.running(agent("a", backoff=[1])) as root:
        await asyncio.sleep(5)
        process = world.pool.process("a")
        assert process is not None
        process.kill()
        await root.wait()
    assert len(world.sandbox.played) == 1
    assert world.event("agent.taken_up").id == "a"
    assert (world.known["a"].state, world.known["a"].restarts) == (State.DONE, 1)


async def test_a_deadline_ends_a_run_and_the_life_with_it(world: World) -> None:
    """The next life has the same deadline again."""
    world.sandbox.scripts["a"] = [Script(Hang()), Script()]
    known = await world.run(agent("a", deadline=10, backoff=[1]))
    assert (known["a"].state, known["a"].restarts) == (State.DONE, 1)
    assert world.sandbox.played[0].exit_code == 143
    assert "took longer than its deadline of 10 s" in world.sandbox.played[1].prompt


async def test_contexts_say_what_a_restarted_agent_knows(world: World) -> None:
    """Fresh starts from scratch, resume goes on silently, resume_with_note gets a note (C-21)."""
    for context in ("fresh", "resume", "resume_with_note"):
        world.sandbox.scripts[context] = [Script(Fail()), Script()]
    names = ("fresh", "resume", "resume_with_note")
    await world.run("".join(agent(name, context=name, backoff=[1]) for name in names))
    seconds = {name: world.sandbox.of(name)[1] for name in names}
    fresh = seconds["fresh"]
    assert (fresh.session, fresh.prompt) == (None, f"Do your work.\n\n{GUIDE}")
    assert seconds["resume"].session is not None
    assert seconds["resume"].prompt == f"Continue your assignment:\nDo your work.\n\n{GUIDE}"
    assert seconds["resume_with_note"].session is not None
    assert seconds["resume_with_note"].prompt.startswith("You were restarted because")


async def test_a_tool_that_is_spent_on_counts_once(world: World) -> None:
    """The feed tells an agent's tools, usage and turns, in order."""
    told: list[str] = []
    world.sandbox.scripts["a"] = [
        Script(UseTool(name="Bash", input={"command": "ls"}), Spend(input=5, output=2))
    ]
    async with world.running(agent("a")) as root:
        with world.workplace.feed.subscribe(lambda one: told.append(type(one).__name__)):
            await root.wait()
    assert [name for name in told if name not in {"OutputSeen", "Progressed"}] == [
        *(
            "AgentAppeared",
            "RestEnded",
            "ToolCallBegan",
            "CommandRun",
            "ToolCallEnded",
            "TurnEnded",
        ),
        *("UsageSeen", "TurnEnded", "AgentGone"),
    ]


async def test_a_wait_that_is_over_by_then_goes_with_its_host(world: World) -> None:
    """Under the next host the agent works, and its state is told as such (TREE-25).

    It had no budget, and the list has more by now. A pause and a question go on, see
    `test_pauses_over_hosts.py`.
    """
    world.sandbox.scripts["a"] = [
        Script(Spend(input=500), UseTool(), Hang()),
        Script(Say(text="x", after=9.0)),
    ]
    async with world.running("[list]\ntokens = 200\n" + agent("a")):
        await asyncio.sleep(10)
        assert world.pool.mortal("a").state == "waiting_for_input"
    world.told.clear()
    async with world.running("[list]\ntokens = 9000\n" + agent("a")) as root:
        await asyncio.sleep(5)
        assert world.pool.mortal("a").state == "working"
        await root.wait()
    assert world.states("a") == ["working", "verifying", "done"]
    assert world.known["a"].state is State.DONE

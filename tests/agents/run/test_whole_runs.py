from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from otpy.testing import MockClock
from otpy_agents.run import (
    Cause,
    Detail,
    Ending,
    Liveness,
    RetryPolicy,
    RunControl,
    StopCause,
)
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection
from otpy_agents.run.host.facts import AttemptBegan, AttemptOver, Quiet, RunEnded, WaitBegan
from otpy_agents.testing import ExitWith, Hang, Script, Write
from tests.agents.run.scripts import limited, network, ok, plays, says, silent, writes
from tests.agents.run.stage import Stage


async def test_a_network_that_comes_back_costs_three_delays(stage: Stage, clock: MockClock) -> None:
    """Three failures, then success: 5, 15 and 45 seconds, and a result that counts them."""
    async with stage.host(network(), network(), network(), ok("it works")) as host:
        handle = await host.submit(stage.order())
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert (result.retry_count, result.total_attempts, result.exit_code) == (3, 4, 0)
    assert stage.delays == [5.0, 15.0, 45.0]
    assert 5 + 15 + 45 <= clock.now < 5 + 15 + 45 + 10
    assert handle.answer == "it works"
    assert stage.log == [
        "[supervisor] retry 1/3 with a in 5s",
        "[supervisor] retry 2/3 with a in 15s",
        "[supervisor] retry 3/3 with a in 45s",
        "[supervisor] completed after 3 retries",
    ]
    assert stage.events()[0] == "run.began"
    assert stage.events()[-1] == "run.ended"


async def test_a_limited_account_is_left_alone_by_the_next_run(stage: Stage) -> None:
    """A is limited: the run goes to B; a second run with that account begins with B at once."""
    async with stage.host(limited(), ok(), ok()) as host:
        first = await (await host.submit(stage.order("a", "b", "c"))).wait()
        second = await (await host.submit(stage.order("a", "b", "c"))).wait()
    assert [record.agent_id for record in first.attempts] == ["a", "b"]
    assert [record.agent_id for record in second.attempts] == ["b"]
    assert stage.delays == []


async def test_a_host_that_comes_later_knows_the_cooldowns(stage: Stage) -> None:
    """Cooldowns are shared through the store too."""
    async with stage.host(limited(), ok()) as host:
        await (await host.submit(stage.order("a", "b"))).wait()
    async with stage.host(ok()) as host:
        result = await (await host.submit(stage.order("a", "b"))).wait()
    assert [record.agent_id for record in result.attempts] == ["b"]


async def test_runs_take_turns_across_hosts(stage: Stage) -> None:
    """Round-robin goes on where the last host stopped (G-09)."""
    selection = stage.order("a", "b", "c").selection

    order = stage.order(selection=evolve(selection, selection_mode="round-robin"))
    used: list[str] = []
    for _ in range(2):
        async with stage.host(ok()) as host:
            results = [await (await host.submit(order)).wait() for _ in range(2)]
        used += [result.agent_id for result in results]
    assert used == ["a", "b", "c", "a"]


async def test_a_cycle_and_a_bad_id_are_warned_of(stage: Stage) -> None:
    """Neither is a crash; each leaves one line in the log."""
    selection = stage.order("a", "b").selection
    cycle = evolve(selection, agent_fallbacks={"a": "b", "b": "a"})
    bad = evolve(selection, agent_fallbacks={"a": "nobody"})
    async with stage.host(ok()) as host:
        for wrong in (cycle, bad):
            result = await (await host.submit(stage.order(selection=wrong))).wait()
            assert result.ending is Ending.SUCCEEDED
    assert len(stage.log) == 2
    assert "leads back" in stage.log[0]
    assert "no agent 'nobody'" in stage.log[1]


async def test_a_cancel_cuts_a_long_delay(stage: Stage, clock: MockClock) -> None:
    """During a backoff of 300 s the run is over in the moment it is cancelled (RUN-62)."""
    policy = RetryPolicy(backoff_base=300.0)
    async with stage.host(network()) as host:
        handle = await host.submit(stage.order(policy=policy))
        await asyncio.sleep(100.0)
        assert handle.state.status == "retrying (1/3)"
        before = clock.now
        answered = await handle.ask(RunControl.CANCEL)
        result = await handle.wait()
        assert clock.now - before < 0.1
    assert answered.accepted
    assert (result.ending, result.exit_code) == (Ending.CANCELLED, 130)
    assert "retry skipped due to user stop" in stage.log
    assert len(stage.sandbox.played) == 1


async def test_silence_is_shown_and_nothing_else(stage: Stage) -> None:
    """With liveness `none` an hour of silence is told once, and no action follows."""
    async with stage.host(plays(Write(text="done", after=3600.0), ExitWith())) as host:
        result = await (await host.submit(stage.order())).wait()
    assert result.ending is Ending.SUCCEEDED
    (quiet,) = stage.told(Quiet)
    assert quiet.event == "child.quiet"
    assert 60.0 <= quiet.seconds < 61.0


async def test_a_stall_is_ended_and_tried_again(stage: Stage) -> None:
    """With `stall:60` the silent attempt is ended and retried."""
    async with stage.host(silent(), ok()) as host:
        order = stage.order(liveness=Liveness.parse("stall:60"))
        result = await (await host.submit(order)).wait()
    assert [record.stopped for record in result.attempts] == [StopCause.STALL, None]
    assert result.ending is Ending.SUCCEEDED
    assert result.attempts[1].cause is Cause.RETRY
    assert len(stage.told(Quiet)) == 1


async def test_an_agent_that_talks_does_not_stall(stage: Stage) -> None:
    """Progress moves the limit on; lines that are no event do not (G-05)."""
    word = '{"type": "text", "text": "."}'
    talks = plays(*writes(*[word] * 10, each=50.0), ExitWith(after=10.0))
    noise = plays(*writes(word), *writes(*["noise"] * 99, each=5.0), ExitWith())
    async with stage.host(talks, noise) as host:
        order = stage.order(liveness=Liveness.parse("stall:60"), policy=RetryPolicy(max_retries=0))
        talking = await (await host.submit(order)).wait()
        noisy = await (await host.submit(order)).wait()
    assert talking.attempts[0].stopped is None
    assert noisy.attempts[0].stopped is StopCause.STALL


async def test_an_agent_that_only_tries_again_stalls(stage: Stage) -> None:
    """Repeated requests to a silent vendor are not progress."""
    begins = '{"type": "system", "subtype": "init", "session_id": "s1"}'
    again = '{"type": "system", "subtype": "api_retry", "error_status": 503, "error": "x"}'
    retries = plays(*writes(begins), *writes(*[again] * 99, each=10.0), ExitWith())
    agents = (AgentInstance(agent_id="a", agent_cli="claude"),)
    async with stage.host(retries) as host:
        order = stage.order(
            selection=AgentSelection(agents=agents),
            liveness=Liveness.parse("stall:60"),
            policy=RetryPolicy(max_retries=0),
        )
        result = await (await host.submit(order)).wait()
    (record,) = result.attempts
    assert record.stopped is StopCause.STALL
    assert 60.0 <= record.ended - record.began < 62.0


async def test_an_agent_that_would_wait_for_ever_is_ended_for_why_it_waits(stage: Stage) -> None:
    """Codex waits for the network in any case; our policy decides how long we wait."""
    begins = '{"type": "thread.started", "thread_id": "s1"}'
    why = "Reconnecting... waiting for network (Connection failed: error sending request)"
    told = f'{{"type": "error", "message": "{why}"}}'
    waits = plays(*writes(begins), Write(text=told), Hang())
    selection = AgentSelection(agents=(AgentInstance(agent_id="a", agent_cli="codex"),))
    async with stage.host(waits) as host:
        result = await (await host.submit(stage.order(selection=selection))).wait()
    assert (result.total_attempts, result.ending) == (4, Ending.EXHAUSTED)
    assert {(one.detail, one.stopped) for one in result.attempts} == {(Detail.NETWORK, None)}
    assert stage.delays == [5.0, 15.0, 45.0]


@pytest.mark.parametrize("stderr", [False, True])
async def test_a_program_that_only_writes_lines_does_not_stall(
    stage: Stage, *, stderr: bool
) -> None:
    """Without events each line is progress, on either stream; afterwards its silence counts."""
    lines = [Write(text="line", stderr=stderr, after=50.0)] * 10
    async with stage.host(plays(*lines, Hang())) as host:
        order = stage.order(liveness=Liveness.parse("stall:60"), policy=RetryPolicy(max_retries=0))
        result = await (await host.submit(order)).wait()
    (record,) = result.attempts
    assert record.stopped is StopCause.STALL
    assert 560.0 <= record.ended - record.began < 562.0


async def test_noise_is_a_heartbeat(stage: Stage) -> None:
    """With `heartbeat:30` any output counts, and its end is noticed."""
    beats = plays(*writes(*["noise"] * 10, each=20.0), Hang())
    async with stage.host(beats) as host:
        order = stage.order(
            liveness=Liveness.parse("heartbeat:30"), policy=RetryPolicy(max_retries=0)
        )
        result = await (await host.submit(order)).wait()
    (record,) = result.attempts
    assert record.stopped is StopCause.HEARTBEAT
    assert 230.0 <= record.ended - record.began < 232.0


async def test_an_answer_that_is_none_is_no_success(stage: Stage) -> None:
    """Exit code 0 with an empty answer, or with tools denied, is a failure of the agent."""
    empty = says('{"type": "result", "text": ""}')
    denied = says(
        '{"type": "tool", "id": "1", "name": "rm"}',
        '{"type": "tool_end", "id": "1", "ok": false, "denied": true}',
        '{"type": "result", "text": "I was not allowed to."}',
    )
    async with stage.host(empty, denied) as host:
        result = await (await host.submit(stage.order("a", "b"))).wait()
    assert [record.detail for record in result.attempts] == [Detail.NO_RESULT, Detail.TOOLS_DENIED]
    assert result.ending is Ending.EXHAUSTED
    assert result.exit_code == 1


async def test_runs_over_capacity_wait_for_their_turn(stage: Stage) -> None:
    """Two at a time, in order; one that waits can be cancelled (RUN-03)."""
    async with stage.host(plays(Write(text="done", after=10.0), ExitWith()), capacity=2) as host:
        handles = [await host.submit(stage.order()) for _ in range(4)]
        await asyncio.sleep(5.0)
        assert [handle.state.status for handle in handles] == [
            "running",
            "running",
            "pending",
            "pending",
        ]
        assert (await handles[2].ask(RunControl.CANCEL)).accepted
        assert (await handles[2].wait()).ending is Ending.CANCELLED
        for handle in (handles[0], handles[1], handles[3]):
            assert (await handle.wait()).ending is Ending.SUCCEEDED
    assert stage.most == 1
    assert len(stage.sandbox.played) == 3


async def test_controls_reach_the_attempt(stage: Stage, clock: MockClock) -> None:
    """A cancel waits for the grace of a deaf agent, a kill does not, a fallback goes on."""
    deaf = plays(Hang(), deaf=True)
    async with stage.host(deaf, deaf, ok()) as host:
        handle = await host.submit(stage.order())
        await asyncio.sleep(1.0)
        assert (await handle.ask(RunControl.CANCEL)).accepted
        assert (await handle.ask(RunControl.KILL)).accepted
        assert (await handle.wait()).ending is Ending.KILLED
        assert clock.now < 3.0
        other = await host.submit(stage.order("a", "b"))
        await asyncio.sleep(1.0)
        assert (await other.ask(RunControl.FORCE_FALLBACK)).accepted
        result = await other.wait()
        assert not (await other.ask(RunControl.CANCEL)).accepted
    assert [record.agent_id for record in result.attempts] == ["a", "b"]
    assert result.ending is Ending.SUCCEEDED


async def test_leaving_the_host_stops_its_runs_in_order(stage: Stage) -> None:
    """Every run ends as stopped, in the store too, and nothing of it is alive."""
    async with stage.host(silent()) as host:
        handles = [await host.submit(stage.order()) for _ in range(3)]
        waiting = await host.submit(stage.order(policy=RetryPolicy()))
        await asyncio.sleep(1.0)
    assert [(await one.wait()).ending for one in (*handles, waiting)] == [Ending.STOPPED] * 4
    assert stage.sandbox.alive == ()
    assert {fact.event for fact in stage.told(RunEnded)} == {"run.ended"}


async def test_an_attempt_is_stopped_while_it_starts(stage: Stage, clock: MockClock) -> None:
    """An image that takes an hour to come does not hold a cancel up."""
    async with stage.host(Script(starting=3600.0)) as host:
        handle = await host.submit(stage.order())
        await asyncio.sleep(5.0)
        assert (await handle.ask(RunControl.CANCEL)).accepted
        assert (await handle.wait()).ending is Ending.CANCELLED
    assert clock.now < 10.0


async def test_what_an_attempt_left_is_told(stage: Stage) -> None:
    """The facts have the cut bytes and the artifacts, also for a failure (RUN-10)."""
    end = ExitWith(code=3, cut=77, artifacts=("a.txt", "b/c.txt"))
    async with stage.host(plays(*writes("x"), end)) as host:
        order = stage.order(policy=RetryPolicy(max_retries=0))
        result = await (await host.submit(order)).wait()
    assert result.artifacts == ("a.txt", "b/c.txt")
    assert stage.told(AttemptOver)[0].cut == 77
    assert "[supervisor] attempt 1: 77 bytes of output were not kept" in stage.log


async def test_facts_come_in_an_order_that_makes_sense(stage: Stage) -> None:
    """Begin, attempt, its end, the wait and its end, the next attempt, the end."""
    async with stage.host(network(), ok()) as host:
        await (await host.submit(stage.order())).wait()
    assert stage.events(r"run\.(phase|log)|attempt\.(output|event)") == [
        "run.began",
        "attempt.began",
        "attempt.over",
        "wait.began",
        "wait.over",
        "attempt.began",
        "attempt.over",
        "run.ended",
    ]
    assert [fact.number for fact in stage.told(AttemptBegan)] == [1, 2]
    assert stage.told(WaitBegan)[0].retry == 1

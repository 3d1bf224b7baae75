"""One step by the real server in a real repository: applied whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.engine.events import (
    ApprovalRequested,
    FailureCause,
    GateFailed,
    StepApplying,
    StepCompleted,
    StepFailed,
    StepPruned,
    StepRetried,
    WorkerAnswered,
    WorkflowCompleted,
)
from otpy_agents.engine.plan import Component, Feature, PlanPhase
from otpy_agents.errors import InvalidEngineFile, OrderRefused, UnknownRole
from otpy_agents.run.host.order import RunOrder
from tests.agents.engine.server.engine_site import (
    GATES,
    AgentFailed,
    Agents,
    EngineSite,
    done,
    names,
    role,
    writing,
)

pytestmark = pytest.mark.real_time

NO_GATES: Mapping[str, str] = {"roles/implementer.yaml": role()}
RETRY_ONCE = role(more="config: {max_retries: 1}\n")


async def nothing(order: RunOrder) -> str:
    return done()


def is_untouched(site: EngineSite) -> bool:
    """Whether the repository is as it was made, and nothing is left beside it."""
    left = [path.name for path in site.state.parent.iterdir() if "wf-" in path.name]
    return site.subjects == ["Begin"] and not site.status and not site.trees and not left


async def test_what_a_worker_changes_becomes_one_commit_of_the_branch(site: EngineSite) -> None:
    """ENG-01, ENG-44: workflow and step stand in its trailers, and nothing is left beside it."""
    site.make()
    agents = Agents(writing())
    end = await site.run(agents)
    assert end.cause is None
    (completed,) = site.of(StepCompleted)
    assert completed.commit == site.git("rev-parse", "HEAD").strip()
    assert site.subjects == ["Add it", "Begin"]
    trailers = site.git("log", "-1", "--format=%(trailers)")
    assert f"Otpy-Workflow: {completed.workflow_id}" in trailers
    assert "Otpy-Step: step-001" in trailers
    assert (site.repository / "new.txt").read_text() == "good\n"
    assert not site.status
    assert not site.trees
    assert "Add it" in agents.orders[0].prompt
    assert site.told[-1] == WorkflowCompleted(workflow_id=completed.workflow_id)
    rows = await site.rows("steps")
    assert {row["status"] for row in rows.values()} == {"completed"}
    assert [path.name for path in site.state.parent.iterdir() if "wf-" in path.name] == []


async def test_a_failing_gate_applies_nothing_and_the_next_worker_is_told(
    site: EngineSite,
) -> None:
    """The step is tried as often as its role says, then it fails (C-16)."""
    site.make()
    agents = Agents(writing("BAD\n"))
    end = await site.run(agents)
    assert end.cause is FailureCause.GATE
    assert len(agents.orders) == 4
    assert "The gate good failed" in agents.orders[1].prompt
    assert len(site.of(GateFailed)) == 4
    assert not site.of(StepApplying)
    assert is_untouched(site)


async def test_a_worker_mends_what_its_gate_has_told_it(site: EngineSite) -> None:
    """Only changes that pass are applied."""
    site.make()

    async def agent(order: RunOrder) -> str:
        told = "The gate good failed" in order.prompt
        return await writing("good\n" if told else "BAD\n")(order)

    end = await site.run(agent)
    assert end.cause is None
    assert site.git("show", "HEAD:new.txt") == "good\n"
    assert len(site.of(WorkerAnswered)) == 2


async def test_gates_judge_what_is_applied_and_not_what_git_ignores(site: EngineSite) -> None:
    """The ignored file is gone before its gate runs; the next worker and the log are told."""
    site.make({"gates.yaml": "gates: {good: {command: [test, -e, made.log]}}\n"})
    (site.repository / ".gitignore").write_text("*.log\n.worktrees/\n", encoding="utf-8")
    site.commit("Ignore logs")

    async def agent(order: RunOrder) -> str:
        for name in ("made", *(f"more-{number:02}" for number in range(20))):
            (order.cwd / f"{name}.log").write_text("", encoding="utf-8")
        return await writing()(order)

    agents = Agents(agent)
    end = await site.run(agents)
    assert end.cause is FailureCause.GATE
    assert "so they were deleted before the gates: made.log" in agents.orders[1].prompt
    assert "more-18.log, 1 more" in agents.orders[1].prompt
    pruned = site.of(StepPruned)[0]
    assert (pruned.attempt, pruned.count, pruned.names[0]) == (1, 21, "made.log")
    assert not site.of(StepApplying)


async def test_a_moved_head_applies_nothing_and_says_what_would_help(site: EngineSite) -> None:
    """The error names both commits, and the option (ENG-18)."""
    site.make(NO_GATES)

    async def agent(order: RunOrder) -> str:
        site.git("commit", "-q", "--allow-empty", "-m", "Meanwhile")
        return await writing()(order)

    end = await site.run(agent)
    assert end.cause is FailureCause.ERROR
    assert "--rebase" in end.line
    assert site.git("rev-parse", "HEAD")[:12] in end.line
    assert site.subjects == ["Meanwhile", "Begin"]
    assert not site.status
    assert not site.trees


async def test_rebase_tries_again_on_the_new_head_with_the_gates(site: EngineSite) -> None:
    """The commit follows the foreign one, and has only the changes of the step."""
    site.make()

    async def agent(order: RunOrder) -> str:
        (site.repository / "theirs.txt").write_text("theirs\n", encoding="utf-8")
        site.commit("Meanwhile")
        return await writing()(order)

    end = await site.run(agent, rebase=True)
    assert end.cause is None
    assert site.subjects == ["Add it", "Meanwhile", "Begin"]
    assert names(site.told).count("GatePassed") == 2
    assert site.git("show", "--name-only", "--format=").split() == ["new.txt"]


async def test_a_rebase_that_leaves_nothing_to_apply_claims_no_commit(site: EngineSite) -> None:
    """A foreign commit already has the same changes."""
    site.make(NO_GATES)

    async def agent(order: RunOrder) -> str:
        await writing()(evolve(order, cwd=site.repository))
        site.commit("Meanwhile")
        return await writing()(order)

    end = await site.run(agent, rebase=True)
    assert end.cause is None
    assert [one.commit for one in site.of(StepCompleted)] == [""]
    assert site.subjects == ["Meanwhile", "Begin"]


async def test_a_conflict_names_the_files(site: EngineSite) -> None:
    """Nothing is applied."""
    site.make(NO_GATES)

    async def agent(order: RunOrder) -> str:
        (site.repository / "old.txt").write_text("theirs\n", encoding="utf-8")
        site.commit("Meanwhile")
        return await writing("ours\n", "old.txt")(order)

    end = await site.run(agent, rebase=True)
    assert end.cause is FailureCause.ERROR
    assert "old.txt" in end.line
    assert site.subjects == ["Meanwhile", "Begin"]
    assert not site.trees


async def test_a_file_of_the_user_in_the_way_refuses_and_stays(site: EngineSite) -> None:
    """The user's other changes do not hinder a step."""
    site.make(NO_GATES)
    (site.repository / "new.txt").write_text("mine\n", encoding="utf-8")
    (site.repository / "old.txt").write_text("mine too\n", encoding="utf-8")
    end = await site.run(writing())
    assert end.cause is FailureCause.ERROR
    assert "new.txt" in end.line
    assert (site.repository / "new.txt").read_text() == "mine\n"
    assert site.status == " M old.txt\n?? new.txt\n"
    end = await site.run(writing(name="other.txt"))
    assert end.cause is None
    assert site.status == " M old.txt\n?? new.txt\n"


PLAN = """{"features": [{"title": "It", "phases": [
    {"title": "All", "components": [{"id": "a", "title": "A", "files": []}]}
]}]}"""
REVIEW = '{"status": "approved", "issues": [], "summary": "good"}'


@pytest.mark.parametrize(("who", "answer"), [("planner", PLAN), ("reviewer", REVIEW)])
async def test_who_is_to_change_nothing_applies_nothing(
    site: EngineSite, who: str, answer: str
) -> None:
    """The files that a planner or a reviewer writes are not applied."""
    site.make()

    async def agent(order: RunOrder) -> str:
        await writing()(order)
        return answer

    end = await site.run(agent, who)
    assert end.cause is None
    assert is_untouched(site)


async def test_an_answer_that_does_not_fit_is_told_to_the_next_worker(site: EngineSite) -> None:
    """The next prompt has the words of the check (ENG-37)."""
    site.make({"roles/implementer.yaml": RETRY_ONCE})

    async def agent(order: RunOrder) -> str:
        await writing()(order)
        return done("new.txt") if "status" in order.prompt.partition("wanted")[2] else '{"a": 1}'

    agents = Agents(agent)
    end = await site.run(agents)
    assert next(one.status for one in site.of(WorkerAnswered)) == "fault"
    (retried,) = site.of(StepRetried)
    assert retried.feedback in agents.orders[1].prompt
    assert end.cause is None


async def test_a_worker_that_claims_what_it_did_not_do_is_told_so(site: EngineSite) -> None:
    """Only the work tree counts (G-11)."""
    site.make({"roles/implementer.yaml": RETRY_ONCE})

    async def agent(order: RunOrder) -> str:
        return done("new.txt")

    end = await site.run(agent)
    assert end.cause is FailureCause.ERROR
    assert "after 2 attempts" in end.line
    assert is_untouched(site)


async def test_a_worker_that_fails_fails_its_step(site: EngineSite) -> None:
    """The step fails with the reason of the run."""
    site.make()

    async def agent(order: RunOrder) -> str:
        await writing()(order)
        raise AgentFailed("no money left")

    end = await site.run(agent)
    assert end.cause is FailureCause.ERROR
    assert "no money left" in end.line
    assert is_untouched(site)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "what worked on it ended: crashed: KeyError"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device; 0 of 1"),
    ],
)
async def test_what_nobody_has_foreseen_in_a_step_fails_that_step_alone(
    site: EngineSite, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """The workflow ends in order, and nothing is left; what the system refuses is no crash."""
    site.make(NO_GATES)

    def broken(self: object, *args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr("otpy_agents.engine.context.ContextPacker.pack", broken)
    end = await site.run(writing())
    assert end.cause is FailureCause.ERROR
    assert end.line.startswith(said)
    assert is_untouched(site)


# --- approvals ------------------------------------------------------------------------------------

ASKS = {**NO_GATES, "approval.yaml": "paths: ['*.txt']\n"}


@pytest.mark.parametrize("yes", [True, False])
async def test_a_person_at_another_terminal_decides_what_is_risky(
    site: EngineSite, yes: bool
) -> None:
    """A yes applies it, a no fails it with the reason given, and the log has the name (G-16)."""
    site.make(ASKS)
    run = asyncio.create_task(site.run(writing()))
    asked = await site.heard(ApprovalRequested)
    assert "new.txt" in asked.reason
    assert site.subjects == ["Begin"]
    async with site.orders() as orders:
        await orders.answer(asked.workflow_id, None, yes=yes, why="so be it", actor="bob")
    end = await run
    (row,) = (await site.rows("approvals")).values()
    assert (row["actor"], row["status"]) == ("bob", "granted" if yes else "denied")
    if yes:
        assert end.cause is None
        assert site.subjects == ["Add it", "Begin"]
    else:
        assert end.cause is FailureCause.DENIED
        assert "so be it" in end.line
        assert is_untouched(site)


async def test_nobody_can_answer_for_a_step_that_was_stopped(site: EngineSite) -> None:
    """The step no longer waits for an answer."""
    site.make(ASKS)
    async with site.engine(writing()) as engine:
        name = await engine.begin_run("implementer", "Add it", (), rebase=False, actor="ann")
        await site.heard(ApprovalRequested)
        engine.stop("stopped by SIGINT")
        end = await engine.wait(name)
    assert end.cause is FailureCause.STOPPED
    (row,) = (await site.rows("approvals")).values()
    assert row["status"] == "lapsed"
    async with site.orders() as orders:
        with pytest.raises(OrderRefused, match="nothing does"):
            await orders.answer(name, None, yes=True, why="", actor="bob")
    assert is_untouched(site)


# --- rollback -------------------------------------------------------------------------------------


async def test_a_rollback_reverts_what_was_applied_since_and_nothing_twice(
    site: EngineSite,
) -> None:
    """A step that was reverted by hand is left out; a restored one is reverted again."""
    site.make(NO_GATES)
    assert (await site.run(writing(name="one.txt"))).cause is None
    site.git("commit", "-q", "--allow-empty", "-m", "Mine")
    assert (await site.run(writing(name="two.txt"))).cause is None
    first = site.of(StepCompleted)[0].workflow_id
    async with site.orders() as orders:
        commit, count = await orders.rollback(first, actor="ann")
        assert count == 2
        assert site.subjects[:2] == [f"Roll back to {first}", "Add it"]
        assert not (site.repository / "one.txt").exists()
        assert not site.status
        assert await orders.rollback(first, actor="ann") == ("", 0)
        site.git("revert", "--no-edit", commit)
        assert (site.repository / "one.txt").exists()
        site.git("revert", "--no-edit", "HEAD~2")  # the last step, by hand
        assert (await orders.rollback(first, actor="ann"))[1] == 1
        assert not (site.repository / "one.txt").exists()
        site.git("checkout", "-q", "--orphan", "other")
        site.commit("Another history")
        with pytest.raises(OrderRefused, match="not in the history of HEAD"):
            await orders.rollback(first, actor="ann")


# --- features -------------------------------------------------------------------------------------


async def test_components_side_by_side_are_each_applied_and_left_out_the_next_time(
    site: EngineSite,
) -> None:
    """One component fails; the next start works only on it and on those that are not done."""
    site.make(NO_GATES)
    fails = True

    async def agent(order: RunOrder) -> str:
        name = order.prompt.partition("Component ")[2][0]
        if fails and name == "c":
            await asyncio.sleep(0.7)
            raise AgentFailed("no idea")
        return await writing(name=f"{name}.txt")(order)

    parts = [Component(id=name, title=f"Component {name}") for name in "abc"]
    last = Component(id="d", title="Component d", depends_on=("a",))
    phases = (
        PlanPhase(id="one", title="One", components=tuple(parts)),
        PlanPhase(id="two", title="Two", components=(last,)),
    )
    feature = Feature(id="feat-1", title="All of it", phases=phases)
    async with site.engine(agent) as engine:
        name = await engine.begin_feature(feature, parallel=3, actor="ann")
        with pytest.raises(OrderRefused, match=f"which {name} works on"):
            await engine.begin_feature(feature, parallel=3, actor="bob")
        assert (await engine.wait(name)).cause is FailureCause.ERROR
        assert set(site.subjects) == {"Component a", "Component b", "Begin"}
        fails = False
        name = await engine.begin_feature(feature, parallel=3, actor="ann")
        assert (await engine.wait(name)).cause is None
        assert site.subjects[:2] == ["Component d", "Component c"]
        with pytest.raises(OrderRefused, match="completed"):
            await engine.begin_feature(feature, parallel=3, actor="ann")
    assert names(site.told).count("FeatureCompleted") == 1
    rows = await site.rows("phases")
    assert {row["status"] for row in rows.values()} == {"completed"}
    assert not site.trees
    assert not site.status


# --- limits, ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "status"), [("component", ["open"]), ("workflow", [])])
async def test_a_limit_of_time_stops_what_runs(
    site: EngineSite, limit: str, status: list[str]
) -> None:
    """The worker has ended, nothing is applied; its circuit counts the limit of its step alone."""
    site.make({**NO_GATES, "limits.yaml": f"{limit}: 1.5\ncircuit_failures: 1\n"})
    ended = asyncio.Event()

    async def agent(order: RunOrder) -> str:
        await writing()(order)
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return done("new.txt")

    end = await site.run(agent)
    assert end.cause is FailureCause.TIME
    assert "1.5 s (limits.yaml)" in end.line
    assert ended.is_set()
    assert is_untouched(site)
    assert [row["status"] for row in (await site.rows("circuits")).values()] == status


async def test_a_gate_that_takes_too_long_is_not_the_agents_failure(site: EngineSite) -> None:
    """Time runs out after the answer of the worker, so its circuit counts nothing."""
    slow = "gates:\n  slow:\n    command: [sleep, '60']\n"
    site.make({"gates.yaml": slow, "limits.yaml": "component: 1.5\n"}, gates="slow")
    end = await site.run(writing())
    assert end.cause is FailureCause.TIME
    assert site.of(WorkerAnswered)
    assert not await site.rows("circuits")


async def test_a_stop_ends_the_workers_in_order_and_begins_nothing_more(site: EngineSite) -> None:
    """A workflow that is begun after the stop starts no worker either."""
    site.make(NO_GATES)
    began, ended = asyncio.Event(), asyncio.Event()

    async def agent(order: RunOrder) -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return ""

    agents = Agents(agent)
    async with site.engine(agents) as engine:
        name = await engine.begin_run("implementer", "Add it", (), rebase=False, actor="ann")
        await began.wait()
        engine.stop("stopped by SIGINT")
        end = await engine.wait(name)
        assert ended.is_set()
        later = await engine.begin_run("implementer", "Add more", (), rebase=False, actor="ann")
        assert (await engine.wait(later)).cause is FailureCause.STOPPED
    assert end.cause is FailureCause.STOPPED
    assert len(agents.orders) == 1
    assert is_untouched(site)


async def test_five_failures_open_the_circuit_which_blocks_at_once(site: EngineSite) -> None:
    """No sixth attempt is made, neither here nor by the next workflow (C-33)."""
    site.make({"roles/implementer.yaml": role(more="config: {max_retries: 6}\n")})

    async def agent(order: RunOrder) -> str:
        return "I had no idea."

    agents = Agents(agent)
    end = await site.run(agents)
    assert len(agents.orders) == 5
    assert end.cause is FailureCause.ERROR
    assert "the circuit command/implementer is open" in end.line.replace("::", "/").replace(
        ":", "/"
    )
    end = await site.run(agents)
    assert len(agents.orders) == 5
    assert is_untouched(site)


async def test_the_file_of_circuits_is_not_seen_by_the_git_of_the_user(site: EngineSite) -> None:
    """Nobody has to ignore it, and git is told to overlook it once."""
    site.make({".gitignore": "mine\n"})
    exclude = site.repository / ".git/info/exclude"
    exclude.write_text("theirs", encoding="utf-8")

    async def agent(order: RunOrder) -> str:
        raise AgentFailed("no money left")

    for _ in range(2):
        await site.run(agent)
        assert (site.repository / ".supervisor/circuits.json").exists()
        assert not site.status
        assert exclude.read_text() == "theirs\n/.supervisor/circuits.json\n"


async def test_a_list_of_ignored_files_that_repositories_share_is_left_alone(
    site: EngineSite, tmp_path: Path
) -> None:
    """The engine works, and the list of the person has no line of ours."""
    site.make({})
    exclude, shared = site.repository / ".git/info/exclude", tmp_path / "shared"
    shared.write_text("theirs\n", encoding="utf-8")
    exclude.unlink(missing_ok=True)
    exclude.symlink_to(shared)
    end = await site.run(Agents(writing()))
    assert end.cause is None
    assert shared.read_text() == "theirs\n"


# --- what is wrong before anything begins ---------------------------------------------------------


async def test_what_is_wrong_with_a_file_is_said_before_anything_begins(site: EngineSite) -> None:
    """The error names file and line, and no event tells of a start."""
    site.make({"gates.yaml": "gates:\n  good:\n    comand: [true]\n"})
    with pytest.raises(InvalidEngineFile, match=r"gates\.yaml:3"):
        await site.run(nothing)
    (site.repository / ".supervisor" / "gates.yaml").write_text(GATES, encoding="utf-8")
    site.commit("Mend it")
    with pytest.raises(UnknownRole):
        await site.run(nothing, "nobody")
    (site.repository / ".supervisor" / "limits.yaml").write_bytes(b"workflow: \xe4\n")
    with pytest.raises(InvalidEngineFile, match="UTF-8"):
        await site.run(nothing)
    assert not await site.rows("workflows")


async def test_a_gate_that_there_is_not_fails_the_step_with_its_name(site: EngineSite) -> None:
    """ENG-02: a role may name a gate that does not exist."""
    site.make(gates="nowhere")
    end = await site.run(writing())
    assert end.cause is FailureCause.ERROR
    assert "nowhere" in end.line
    assert [one.reason for one in site.of(StepFailed)]
    assert not site.trees

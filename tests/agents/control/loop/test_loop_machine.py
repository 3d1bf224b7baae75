"""The decisions of a project's loop, as a machine: no agent, no clock, no disk."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.loop.machine import ControlLoop, LoopRules
from otpy_agents.control.loop.protocol import (
    EndLoop,
    HaltBroken,
    ProjectOutcome,
    StateBroken,
    ValidateWork,
)
from otpy_agents.control.report import ValidationReport
from otpy_agents.control.state import ExecutionMode, ProjectStatus
from otpy_agents.errors import CorruptState, MissingStateField
from tests.agents.control.loop.played_loop import Killed, Played, failing, passing, task, unsure

BLOCKED = "BLOCKED: there is no network here"
QUESTION = "QUESTION: which of the two parsers is meant?"


def test_tasks_are_worked_off_in_order_until_the_goal_is_reached() -> None:
    """CTL-04, CTL-08, CTL-12, CTL-15."""
    played = Played()
    played.begin([task("a"), task("b")], completed=True)
    assert played.start().outcome is ProjectOutcome.COMPLETED
    state = played.state
    assert [one.task_id for one in state.completed_tasks] == ["a", "b"]
    assert (state.status, state.iteration, state.last_task_id) == ("COMPLETED", 2, "b")
    assert state.exhausted
    assert state.last_validation_report == passing().to_json()
    assert played.told == ["task_start", "task_complete"] * 2 + ["completed"]


def test_an_empty_queue_with_the_goal_open_halts() -> None:
    """CTL-12, C-23; the loop ends as halted, so that it is not restarted."""
    played = Played()
    played.begin([])
    end = played.start()
    assert end.outcome is ProjectOutcome.HALTED
    assert end.line.startswith("TASK_LIST_EXHAUSTED_GOAL_INCOMPLETE: no task is left")
    assert (played.state.exhausted, played.state.status) == (True, ProjectStatus.HALTED)


@pytest.mark.parametrize("status", [ProjectStatus.HALTED, ProjectStatus.COMPLETED])
def test_who_is_not_running_begins_nothing(status: ProjectStatus) -> None:
    """CTL-09, C-29."""
    played = Played()
    played.begin([task("a")])
    played.state = evolve(played.state, status=status)
    assert played.start().outcome.value == status.value
    assert played.did == ["LoadState", "EndLoop"]


def test_a_missing_field_halts_and_a_broken_state_is_left_as_it_is() -> None:
    """CTL-10, CTL-23: one line each, as a restart does not repair them."""
    halts = ControlLoop().handle(
        StateBroken(MissingStateField("goal.completed"), "goal.completed"), 0
    )
    assert halts == (
        HaltBroken("MISSING_STATE_FIELD", "goal.completed"),
        EndLoop(ProjectOutcome.HALTED, str(MissingStateField("goal.completed"))),
    )
    (end,) = ControlLoop().handle(StateBroken(CorruptState("", "x", "JSON")), 0)
    assert isinstance(end, EndLoop)
    assert end.outcome is ProjectOutcome.BROKEN


def test_a_failure_is_fixed_at_once_and_then_in_the_next_iteration() -> None:
    """CTL-43: the prompt lists the failures; attempts are one more than the retries."""
    played = Played(found=lambda _: failing("a", "b") if len(played.dispatches) < 3 else passing())
    played.begin([task("t", 2)])
    played.start()
    assert played.dispatches == [
        ("t", 1, "PROMPT", False),
        ("t", 2, "FIX_PROMPT", False),
        ("t", 3, "FIX_PROMPT", True),
    ]
    loads = [index for index, name in enumerate(played.did) if name == "LoadState"]
    second, third = [index for index, name in enumerate(played.did) if name == "DispatchTask"][1:]
    assert any(second < load < third for load in loads)
    assert played.state.retry_counts == {}


def test_the_same_failure_twice_is_answered_strictly() -> None:
    """CTL-44; a different failure is not answered strictly."""
    found = iter([failing("a"), failing("b"), failing("b"), passing()])
    played = Played(found=lambda _: next(found))
    played.begin([task("t")])
    played.start()
    assert [strict for *_, strict in played.dispatches] == [False, False, False, True]


def test_used_up_retries_ask_four_times_then_block_and_the_loop_goes_on() -> None:
    """CTL-46: a blocked task never stops the loop."""
    played = Played(found=lambda judge: failing("a") if judge.task.task_id == "t" else passing())
    played.begin([task("t", 1), task("u")], completed=True)
    assert played.start().outcome is ProjectOutcome.COMPLETED
    assert len([one for one in played.dispatches if one[0] == "t"]) == 2
    assert played.questions == ["a"] * 4
    (blocked,) = played.state.blocked_tasks
    assert (blocked.task_id, blocked.task) == ("t", task("t", 1))
    assert blocked.reason == "after 2 attempts these do not hold: a"
    assert [one.task_id for one in played.state.completed_tasks] == ["u"]


def test_what_no_rule_can_tell_is_asked_and_an_answer_settles_it() -> None:
    """CTL-45: no retry is used up."""
    played = Played(found=lambda _: unsure("a", "b"), reply=lambda _: "Yes, in a.py.")
    played.begin([task("t")], completed=True)
    played.start()
    assert (played.questions, len(played.dispatches)) == (["a", "b"], 1)
    (done,) = played.state.completed_tasks
    assert done.validation_report["valid"] is True


def test_a_helper_is_asked_before_anybody_is_and_once_for_each_attempt() -> None:
    """CTL-39: criteria that its commands leave open are asked about."""
    open_first = iter([unsure("a", "b"), unsure("a", "b")])
    played = Played(
        found=lambda _: next(open_first, passing()),
        help=lambda effect: unsure("b") if effect.hand.attempt == 1 else passing(),
        reply=lambda _: "no",
        rules=LoopRules(helper="gemini"),
    )
    played.begin([task("a")], completed=True)
    assert played.start().outcome is ProjectOutcome.COMPLETED
    done = [name for name in played.did if name in {"DispatchTask", "SeekHelp", "AskAgent"}]
    assert done == ["DispatchTask", "SeekHelp", "AskAgent", "DispatchTask", "SeekHelp"]
    assert played.questions == ["b"]


def test_a_helper_is_not_asked_about_what_rules_can_tell() -> None:
    """C-22: a helper may settle uncertain criteria, never failed ones."""
    played = Played(found=lambda _: failing("a"), rules=LoopRules(helper="gemini"))
    played.begin([task("a", retries=1)], completed=True)
    played.start()
    assert "SeekHelp" not in played.did


def test_no_answer_settles_what_failed_unless_the_operator_allows_it() -> None:
    """C-22."""
    for allowed, status in ((False, ["blocked"]), (True, ["completed"])):
        played = Played(
            found=lambda _: failing("a"),
            reply=lambda _: "yes",
            rules=LoopRules(interrogation_may_override=allowed),
        )
        played.begin([task("t", 0)], completed=True)
        played.start()
        state = played.state
        assert ["completed"] * len(state.completed_tasks) + ["blocked"] * len(
            state.blocked_tasks
        ) == status


def test_a_question_is_clarified_though_all_holds() -> None:
    """CTL-41, C-32: it is clarified, unless the operator only wants it reported."""
    words = iter([QUESTION, "Done."])
    played = Played(words=lambda _: next(words))
    played.begin([task("t")], completed=True)
    played.start()
    assert [kind for _, _, kind, _ in played.dispatches] == ["PROMPT", "CLARIFICATION_PROMPT"]
    once = Played(words=lambda _: QUESTION, rules=LoopRules(retry_ambiguity=False))
    once.begin([task("t")], completed=True)
    once.start()
    assert len(once.dispatches) == 1


def test_who_asks_to_the_last_is_believed_when_all_holds() -> None:
    """The criteria decide."""
    played = Played(words=lambda _: QUESTION)
    played.begin([task("t", 1)], completed=True)
    played.start()
    assert [one.task_id for one in played.state.completed_tasks] == ["t"]
    assert (len(played.dispatches), played.questions) == (2, [])


@pytest.mark.parametrize(
    ("words", "reason"),
    [(BLOCKED, "BLOCKED"), (None, "CURSOR_EXEC_FAILURE")],
)
def test_a_critical_halt_stops_at_once_and_keeps_the_task(words: str | None, reason: str) -> None:
    """CTL-40: the task comes first after a resume, and the attempt is not counted."""
    said = iter([words, "Done.", "Done."])
    played = Played(words=lambda _: next(said))
    played.begin([task("t", 0), task("u")], completed=True)
    end = played.start()
    assert (end.outcome, played.state.halt_reason) == (ProjectOutcome.HALTED, reason)
    assert played.state.in_hand is not None
    assert played.start().outcome is ProjectOutcome.HALTED
    played.resume()
    assert played.start().outcome is ProjectOutcome.COMPLETED
    assert [one[:2] for one in played.dispatches] == [("t", 1), ("t", 1), ("u", 1)]


def test_an_answer_without_the_json_that_is_wanted_halts() -> None:
    """OUTPUT_FORMAT_INVALID, as the answer has no JSON at all."""
    played = Played(words=lambda _: "All done.")
    played.begin([evolve(task("t"), expected_json_schema={"ok": "boolean"})])
    played.start()
    assert played.state.halt_reason == "OUTPUT_FORMAT_INVALID"


def test_a_folder_where_nobody_can_work_halts() -> None:
    """CTL-33."""
    played = Played(place=lambda _: "/nowhere: got no folder")
    played.begin([task("t")])
    played.start()
    state = played.state
    assert (state.halt_reason, state.halt_details) == (
        "CURSOR_EXEC_FAILURE",
        "/nowhere: got no folder",
    )


def test_an_operator_is_asked_before_each_dispatch() -> None:
    """CTL-21: a declined dispatch halts, with the task kept."""
    answers = iter([True, False])
    played = Played(found=lambda _: failing(), confirm=lambda _: next(answers))
    played.begin([task("t")])
    played.state = evolve(played.state, execution_mode=ExecutionMode.MANUAL)
    assert played.start().outcome is ProjectOutcome.HALTED
    assert len(played.dispatches) == 1
    assert played.state.in_hand is not None


def test_a_halt_that_was_written_meanwhile_wins() -> None:
    """No further task begins, and the operator's reason stays."""

    def halting(_: ValidateWork) -> ValidationReport:
        played.state = played.state.halted("operator", "lunch")
        return passing()

    played = Played(found=halting)
    played.begin([task("t"), task("u")])
    end = played.start()
    assert (end.outcome, end.line) == (ProjectOutcome.HALTED, "operator: lunch")
    assert (len(played.dispatches), played.did[-2:]) == (1, ["StopDispatch", "EndLoop"])
    assert [one.task_id for one in played.state.completed_tasks] == ["t"]


def test_a_blocked_task_that_is_enqueued_again_is_done_again() -> None:
    """CTL-64: it starts with a first prompt; a completed one is not done again."""
    found = iter([failing("a"), passing(), passing()])
    played = Played(found=lambda _: next(found))
    played.begin([task("t", 0), task("u"), task("t", 0), task("u")], completed=True)
    played.start()
    assert [kind for _, _, kind, _ in played.dispatches] == ["PROMPT"] * 3
    assert [one.task_id for one in played.state.completed_tasks] == ["u", "t"]
    assert played.state.blocked_tasks == ()


def test_a_task_that_another_program_retries_comes_before_the_queue() -> None:
    """CTL-11: its counted attempts continue."""
    played = Played()
    played.begin([task("u")], completed=True)
    played.state = evolve(
        played.state,
        retry_task=task("t"),
        retry_counts={"t": 2},
        last_validation_report=failing("a").to_json(),
    )
    played.start()
    assert played.dispatches == [("t", 3, "FIX_PROMPT", False), ("u", 1, "PROMPT", False)]
    assert played.state.retry_task is None


def boundaries() -> list[int]:
    """Return each point at which a host can be killed, in a project with every kind of step."""
    played = scene()
    places: list[str] = []
    played.cut = places.append
    played.start()
    return list(range(len(places)))


def scene() -> Played:
    """One task is fixed, one asked about, one blocked, and one passes."""
    found = {"t": [failing("a"), failing("a"), passing()], "u": [unsure("a"), unsure("a")]}

    def find(judge: ValidateWork) -> ValidationReport:
        name = judge.task.task_id
        if name == "v":
            return failing("b")
        attempt = played.dispatches[-1][1]
        rows = found.get(name, [passing()])
        return rows[min(attempt, len(rows)) - 1]

    played = Played(found=find, reply=lambda ask: "yes" if ask.hand.task.task_id == "u" else "hm")
    played.begin([task("t", 2), task("u", 1), task("v", 1), task("w", 0)], completed=True)
    return played


@pytest.mark.parametrize("place", boundaries())
def test_a_kill_anywhere_loses_no_task_and_does_none_twice(place: int) -> None:
    """CTL-16, CTL-62, C-39: each is completed or blocked once, and none gets an extra attempt."""
    played = scene()
    passed = 0

    def cut(_: str) -> None:
        nonlocal passed
        passed += 1
        if passed == place + 1:
            raise Killed

    played.cut = cut
    with pytest.raises(Killed):
        played.start()
    assert played.start().outcome is ProjectOutcome.COMPLETED
    state = played.state
    assert [one.task_id for one in state.completed_tasks] == ["t", "u", "w"]
    assert [one.task_id for one in state.blocked_tasks] == ["v"]
    most = {"t": 3, "u": 2, "v": 2, "w": 1}
    assert all(attempt <= most[name] for name, attempt, *_ in played.dispatches)
    assert not played.queue
    assert not played.reserved


verdicts = st.sampled_from([passing(), failing("a"), failing("b"), unsure("a"), unsure("a", "b")])
spoken = st.sampled_from(["Done.", "Done.", "Done.", QUESTION, BLOCKED, None])
replies = st.sampled_from(["yes", "no", "perhaps", ""])


@given(
    retries=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    data=st.data(),
    kills=st.sets(st.integers(0, 200), max_size=6),
    halts=st.sets(st.integers(0, 60), max_size=3),
)
def test_whatever_happens_no_task_is_lost_or_done_twice(
    retries: list[int], data: st.DataObject, kills: set[int], halts: set[int]
) -> None:
    """Kills and an operator's halts may come anywhere, with any answer and any verdict."""
    passed = 0

    def cut(place: str) -> None:
        nonlocal passed
        passed += 1
        if passed in kills:
            raise Killed
        if passed in halts and place == "before SaveState":
            played.state = played.state.halted("operator", "")

    played = Played(
        words=lambda _: data.draw(spoken),
        found=lambda _: data.draw(verdicts),
        reply=lambda _: data.draw(replies),
        cut=cut,
    )
    tasks = [task(f"t{number}", most) for number, most in enumerate(retries)]
    played.begin(tasks, completed=True)
    for _ in range(80):
        before = played.state.status
        try:
            end = played.start()
        except Killed:
            continue
        if before is ProjectStatus.HALTED:
            assert end.outcome is ProjectOutcome.HALTED
        if end.outcome is ProjectOutcome.COMPLETED:
            break
        played.resume()
    state = played.state
    settled = [one.task_id for one in state.completed_tasks]
    settled += [one.task_id for one in state.blocked_tasks]
    hand = [] if state.in_hand is None else [state.in_hand.task.task_id]
    waiting = [one.task_id for one in (*played.reserved, *played.queue)]
    waiting = [name for name in waiting if name not in hand]
    assert sorted(settled + hand + waiting) == [one.task_id for one in tasks]
    for name, attempt, *_ in played.dispatches:
        assert attempt <= retries[int(name[1:])] + 1

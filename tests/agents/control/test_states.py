"""The state of a project: the form that other programs know, and the state that is read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.state import (
    BlockedTask,
    CompletedTask,
    ExecutionMode,
    InHand,
    ProjectState,
    ProjectStatus,
    PromptKind,
    is_folder_name,
    is_project_name,
    time_text,
)
from otpy_agents.control.state_reader import read_state
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import CorruptState, MissingStateField

TASK = ControlTask(
    task_id="task-001", intent="i", tool="claude", instructions="do", required_artifacts=("a",)
)

BY_HAND: dict[str, Any] = {
    "supervisor": {"status": "RUNNING", "iteration": 4, "retry_count_task-001": 1},
    "goal": {"description": "Build it", "completed": False},
    "queue": {"exhausted": False},
    "completed_tasks": [
        {"task_id": "t0", "completed_at": "2025-01-01T00:00:00.000Z", "validation_report": {}}
    ],
    "blocked_tasks": [],
    "execution_mode": "AUTO",
    "last_updated": "2025-01-01T00:00:00.000Z",
}

names = st.text(min_size=1, max_size=8)
plain = st.dictionaries(names, st.none() | st.booleans() | st.integers() | st.text(), max_size=3)
reports = st.dictionaries(names, st.booleans() | st.text(), max_size=3)
tasks = st.builds(
    ControlTask,
    task_id=st.from_regex(r"[a-z0-9 é-]{1,9}", fullmatch=True),
    intent=st.just("i"),
    tool=st.just("claude"),
    instructions=st.just("do it"),
    acceptance_criteria=st.just(("README.md exists",)),
    max_retries=st.integers(0, 9),
)
states = st.builds(
    ProjectState,
    status=st.sampled_from(ProjectStatus),
    iteration=st.integers(0, 99),
    last_task_id=st.none() | names,
    halt_reason=st.none() | names,
    halt_details=st.none() | names,
    retry_counts=st.dictionaries(names, st.integers(0, 9), max_size=3),
    retry_task=st.none() | tasks,
    description=st.text(),
    project_id=st.none() | names.filter(is_folder_name),
    goal_completed=st.booleans(),
    exhausted=st.booleans(),
    completed_tasks=st.lists(st.builds(CompletedTask, names, names, reports), max_size=2).map(
        tuple
    ),
    blocked_tasks=st.lists(
        st.builds(BlockedTask, names, names, names, st.none() | tasks),
        max_size=2,
        unique_by=lambda one: one.task_id,
    ).map(tuple),
    last_validation_report=st.none() | reports,
    execution_mode=st.sampled_from(ExecutionMode),
    in_hand=st.none()
    | st.builds(
        InHand,
        task=tasks,
        attempt=st.integers(0, 9),
        failed=st.lists(names, max_size=2).map(tuple),
        asked=st.dictionaries(names, st.integers(0, 4), max_size=2),
        taken_at=st.text(max_size=3),
        dispatches=st.integers(0, 9),
        cut=st.booleans(),
        kind=st.sampled_from(PromptKind),
        strict=st.booleans(),
        doubt=st.text(max_size=3),
    ),
    fencing=st.integers(0, 99),
)


@given(states)
def test_what_is_written_is_read_back(state: ProjectState) -> None:
    """The whole state survives."""
    assert read_state(state.to_text()) == state


@given(states, plain, plain, plain, plain)
def test_unknown_fields_stay_where_they_are(
    state: ProjectState,
    whole: dict[str, Any],
    supervisor: dict[str, Any],
    goal: dict[str, Any],
    own: dict[str, Any],
) -> None:
    """Another program may keep its own fields in any section."""
    value = state.to_json()
    added = {"": whole, "supervisor": supervisor, "goal": goal, "otpy": own}
    for section, fields in added.items():
        place = value if not section else value[section]
        place.update({f"x {name}": field for name, field in fields.items()})
    again = read_state(json.dumps(value))
    assert again.to_json() == value
    assert read_state(again.to_text()) == again


def test_a_state_written_by_hand_is_read() -> None:
    """CTL-18, CTL-19: it needs no field of otpy; the added ones stand under one key."""
    state = read_state(json.dumps(BY_HAND))
    assert (state.status, state.iteration) == (ProjectStatus.RUNNING, 4)
    assert state.retry_counts == {"task-001": 1}
    assert (state.project, state.in_hand) == ("default", None)
    assert state.has_completed("t0")
    written = state.to_json()
    assert written.pop("otpy")["version"] == 1
    assert written == BY_HAND


def test_a_state_without_what_may_be_left_out_is_read() -> None:
    """CTL-20: another program lists no tasks before it has done one."""
    optional = {"completed_tasks", "blocked_tasks"}
    state = read_state(json.dumps({name: BY_HAND[name] for name in BY_HAND.keys() - optional}))
    assert (state.completed_tasks, state.blocked_tasks) == ((), ())


@pytest.mark.parametrize("place", ["", "supervisor"])
def test_both_places_of_the_report_are_read(place: str) -> None:
    """CTL-21: it is written at the top."""
    value = json.loads(json.dumps(BY_HAND))
    (value[place] if place else value)["last_validation_report"] = {"valid": True}
    assert read_state(json.dumps(value)).to_json()["last_validation_report"] == {"valid": True}


MUST = [
    "supervisor",
    "supervisor.status",
    "supervisor.iteration",
    "goal",
    "goal.description",
    "goal.completed",
    "queue",
    "queue.exhausted",
    "execution_mode",
    "last_updated",
]


@pytest.mark.parametrize("key", MUST)
def test_a_missing_field_has_its_own_error(key: str) -> None:
    """CTL-10: it names the field."""
    value = json.loads(json.dumps(BY_HAND))
    *sections, name = key.split(".")
    place = value
    for section in sections:
        place = place[section]
    del place[name]
    with pytest.raises(MissingStateField, match=rf"without {key}, wanted that field") as error:
        read_state(json.dumps(value))
    assert error.value.key == key


WRONG: list[tuple[str, Any, str]] = [
    ("supervisor", 3, "supervisor: got 3, wanted a JSON object"),
    ("supervisor.status", "PAUSED", "got 'PAUSED', wanted RUNNING or HALTED or COMPLETED"),
    ("supervisor.iteration", -1, "supervisor.iteration: got -1, wanted a whole number from 0"),
    ("supervisor.iteration", True, "supervisor.iteration: got True"),
    ("supervisor.retry_count_x", "1", "supervisor.retry_count_x: got '1'"),
    ("supervisor.retry_task", {}, "supervisor.retry_task.task_id: got 'nothing', wanted this fi"),
    ("completed_tasks", [3], r"completed_tasks\[0\]: got 3, wanted a JSON object"),
    ("completed_tasks", {}, "completed_tasks: got {}, wanted a JSON array"),
    ("goal.project_id", "../x", "goal.project_id: got '../x', wanted a name for a folder"),
    ("execution_mode", "FAST", "execution_mode: got 'FAST', wanted AUTO or MANUAL"),
    ("otpy", {"version": 2}, "otpy.version: got 2, wanted 1; a newer otpy has written it"),
    ("otpy", {"fencing": "1"}, "otpy.fencing: got '1', wanted a whole number from 0"),
    ("otpy", {"in_hand": {"attempt": 1}}, "without otpy.in_hand.task"),
]


@pytest.mark.parametrize(("key", "wrong", "words"), WRONG)
def test_a_wrong_field_is_named(key: str, wrong: object, words: str) -> None:
    """The error is one line."""
    value = json.loads(json.dumps(BY_HAND))
    *sections, name = key.split(".")
    (value[sections[0]] if sections else value)[name] = wrong
    with pytest.raises((CorruptState, MissingStateField), match=words) as error:
        read_state(json.dumps(value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["-x", " ", "x" * 241, "ü" * 127])
def test_a_project_keeps_a_name_that_none_is_given_any_more(name: str) -> None:
    """CTL-60: the name leads nowhere else, and its state is served."""
    assert not is_project_name(name)
    value = json.loads(json.dumps(BY_HAND))
    value["goal"]["project_id"] = name
    assert read_state(json.dumps(value)).project == name


@pytest.mark.parametrize("text", ["", "[]", "null", "{", b"\xff", "[" * 100_000])
def test_what_is_no_state_is_corrupted(text: str | bytes) -> None:
    """CTL-23."""
    with pytest.raises(CorruptState, match="corrupted state"):
        read_state(text)


def test_a_halted_state_keeps_what_it_has_in_hand() -> None:
    """The task in hand comes first after a resume."""
    state = evolve(ProjectState(), in_hand=InHand(task=TASK, attempt=2))
    halted = state.halted("BLOCKED", "agent: no access")
    assert (halted.status, halted.halt_reason) == (ProjectStatus.HALTED, "BLOCKED")
    assert halted.in_hand == state.in_hand


def test_details_of_any_form_are_shown() -> None:
    """Another program may write an object there."""
    value = json.loads(json.dumps(BY_HAND))
    value["supervisor"]["halt_details"] = {"question": "why?"}
    assert read_state(json.dumps(value)).halt_details == '{"question": "why?"}'


def test_times_are_text_in_utc_with_milliseconds() -> None:
    """CTL-21."""
    assert time_text(1735689600.0019) == "2025-01-01T00:00:00.001Z"

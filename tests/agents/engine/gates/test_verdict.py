"""The verdict on a step, from the results of its gates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.engine.gates import Gate, GateFailAction, GateResult, GateStatus, verdict
from otpy_agents.engine.gates.verdict import FEEDBACK_LIMIT, is_required, skipped, status_of
from otpy_agents.engine.roles import GateUse, OnFail

FAILED = GateResult(name="test", status=GateStatus.FAILED, output="1 failed", exit_code=1)


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (GateFailAction.FAIL, GateStatus.FAILED),
        (GateFailAction.WARN, GateStatus.WARNED),
        (GateFailAction.SKIP, GateStatus.SKIPPED),
    ],
)
def test_the_fail_action_says_what_becomes_of_a_gate_that_does_not_pass(
    action: GateFailAction, status: GateStatus
) -> None:
    """ENG-32: a gate without an exit code does not pass either (C-37)."""
    gate = Gate(name="a", command=("x",), fail_action=action)
    assert [status_of(gate, code) for code in (0, 1, 137, None)] == [
        GateStatus.PASSED,
        *[status] * 3,
    ]
    held = skipped(gate, "lint")
    assert (held.status, held.is_hold_up) == (GateStatus.SKIPPED, status is GateStatus.FAILED)


@pytest.mark.parametrize(
    ("use", "passed", "retry"),
    [
        (GateUse(name="test"), False, True),
        (GateUse(name="test", on_fail=OnFail.BLOCK), False, False),
        (GateUse(name="test", on_fail=OnFail.WARN), True, False),
        (GateUse(name="test", required=False), True, False),
    ],
)
def test_a_role_says_what_follows_a_failure(use: GateUse, passed: bool, retry: bool) -> None:
    """`required` and `on_fail` of the role decide."""
    result = GateResult(
        name="test", status=GateStatus.FAILED, exit_code=1, required=is_required(use)
    )
    said = verdict([result], [use])
    assert (said.passed, said.retry) == (passed, retry)


def test_what_could_not_be_started_no_worker_mends() -> None:
    """There is no retry, and the missing program is named."""
    result = GateResult(name="test", status=GateStatus.FAILED, output="no pytest", is_started=False)
    said = verdict([result], [GateUse(name="test")])
    assert (said.passed, said.retry) == (False, False)
    assert "no pytest" in said.feedback


def test_a_gate_without_a_result_blocks() -> None:
    """It is unknown whether the gate would have passed."""
    said = verdict([], [GateUse(name="test"), GateUse(name="lint", required=False)])
    assert [one.name for one in said.blocking] == ["test"]
    assert (said.passed, said.retry) == (False, False)


def test_a_gate_that_was_held_back_blocks_and_names_what_failed() -> None:
    """The failed gate is named even if the role does not use it."""
    lint = GateResult(name="lint", status=GateStatus.FAILED, output="E1", exit_code=1)
    held = skipped(Gate(name="test", command=("x",)), "lint")
    said = verdict([lint, held], [GateUse(name="test")])
    assert [one.name for one in said.blocking] == ["lint", "test"]
    assert said.retry
    assert said.feedback == (
        "The gate lint failed with exit code 1:\nE1\n\n"
        "The gate test was not run, because lint did not pass."
    )


@given(st.lists(st.text(max_size=30_000), min_size=1, max_size=4))
def test_the_feedback_has_a_limit_and_keeps_the_end_of_each(outputs: list[str]) -> None:
    """A prompt has little room, and results stand at the end."""
    results = [
        GateResult(name=f"g{number}", status=GateStatus.FAILED, output=f"{text}\nend{number}")
        for number, text in enumerate(outputs)
    ]
    said = verdict(results, [GateUse(name=one.name) for one in results])
    assert len(said.feedback) < FEEDBACK_LIMIT + 100 * len(results)
    for number in range(len(results)):
        assert f"end{number}" in said.feedback


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[GateResult], list[GateUse]]:
    """Draw results, and a role's uses of some of these gates and of gates without a result."""
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    uses = [
        GateUse(
            name=name, required=draw(st.booleans()), on_fail=draw(st.sampled_from(list(OnFail)))
        )
        for name in draw(st.lists(st.sampled_from("abcde"), unique=True))
    ]
    said = {use.name: use for use in uses}
    results = [
        GateResult(
            name=name,
            status=draw(st.sampled_from(list(GateStatus))),
            required=is_required(said.get(name)),
            is_started=draw(st.booleans()),
        )
        for name in names
    ]
    return results, uses


@given(judged())
def test_a_step_passes_only_if_all_that_is_required_did_not_fail(
    case: tuple[list[GateResult], list[GateUse]],
) -> None:
    """The other results do not matter; a passed verdict has no feedback."""
    results, uses = case
    said = verdict(results, uses)
    status = {one.name: one.status for one in results}
    firm = [use for use in uses if use.required and use.on_fail is not OnFail.WARN]
    unnamed = set(status) - {use.name for use in uses}
    wrong = {use.name for use in firm if status.get(use.name, GateStatus.FAILED) == "failed"}
    wrong |= {name for name in unnamed if status[name] is GateStatus.FAILED}
    assert {one.name for one in said.blocking} == wrong
    assert said.passed == (not wrong) == (said.feedback == "")
    if said.retry:
        assert not any(use.on_fail is OnFail.BLOCK for use in firm if use.name in wrong)

"""The meaning of a failure is a table: its rows, their consequences, and a user's additions."""

from __future__ import annotations

import pytest

from otpy_agents.agent.failures import (
    Consequence,
    FailureClass,
    FailureRow,
    FailureTable,
    failure_of,
)
from otpy_agents.errors import InvalidFailureRow
from otpy_agents.run import Cause, Detail, Ending, RunResult, StopCause, Usage
from otpy_agents.run.decide.result import AttemptRecord

TABLE = FailureTable()
TRANSIENT, PERSISTENT = FailureClass.TRANSIENT, FailureClass.PERSISTENT
TERMINAL, UNKNOWN = FailureClass.TERMINAL, FailureClass.UNKNOWN


@pytest.mark.parametrize(
    ("failure", "times", "kind", "follows"),
    [
        ("network", 9, TRANSIENT, Consequence.RESTART),
        ("rate_limit", 9, TRANSIENT, Consequence.WAIT),
        ("quota", 9, TRANSIENT, Consequence.WAIT),
        ("deadline", 1, TRANSIENT, Consequence.RESTART),
        ("stall", 1, TRANSIENT, Consequence.RESTART),
        ("crash", 1, TRANSIENT, Consequence.RESTART),
        ("session_corrupt", 1, TRANSIENT, Consequence.RESTART),
        ("resources", 1, TRANSIENT, Consequence.RESTART),
        ("tests_failed", 1, PERSISTENT, Consequence.RESTART),
        ("tests_failed", 2, PERSISTENT, Consequence.RESTART),
        ("tests_failed", 3, TERMINAL, Consequence.NOTIFY),
        ("commitment_failed", 1, PERSISTENT, Consequence.RESTART),
        ("commitment_failed", 2, PERSISTENT, Consequence.ESCALATE),
        ("changeset_wrong", 2, PERSISTENT, Consequence.ESCALATE),
        ("budget", 1, TERMINAL, Consequence.NOTIFY),
        ("auth", 9, TRANSIENT, Consequence.WAIT),
        ("billing", 9, TRANSIENT, Consequence.WAIT),
        ("usage", 1, TERMINAL, Consequence.NOTIFY),
        ("unknown", 1, UNKNOWN, Consequence.ESCALATE),
        ("never heard of", 1, UNKNOWN, Consequence.ESCALATE),
    ],
)
def test_each_failure_has_its_class_and_what_follows(
    failure: str, times: int, kind: FailureClass, follows: Consequence
) -> None:
    """TREE-32 to TREE-34, C-15 and C-16, row by row."""
    assert (TABLE.kind(failure, times), TABLE.follows(failure, times)) == (kind, follows)


@pytest.mark.parametrize(
    ("failure", "follows"),
    [
        ("network", Consequence.RESTART),
        ("rate_limit", Consequence.WAIT),
        ("context_overflow", Consequence.ESCALATE),
        ("tests_failed", Consequence.ESCALATE),
        ("usage", Consequence.NOTIFY),
        ("auth", Consequence.WAIT),
        ("never heard of", Consequence.ESCALATE),
    ],
)
def test_only_a_transient_failure_restarts_a_drone(failure: str, follows: Consequence) -> None:
    """A drone has no second try at what needs another approach (C-14)."""
    assert TABLE.follows(failure, drone=True) == follows


def test_no_failure_of_a_run_is_forgotten() -> None:
    """Every possible end of a run has a row, except unknown failures and requested ends."""
    names = {str(one) for one in Detail} | {str(one) for one in StopCause}
    assert names - set(TABLE.rows) == {Detail.UNKNOWN, StopCause.STOP, StopCause.FALLBACK}


def test_a_user_may_add_rows_and_change_them() -> None:
    """The table is a value: the extended one leaves the original unchanged."""
    mine = TABLE.extended(
        {
            "wrong_architecture": FailureRow(kind=FailureClass.TERMINAL),
            "unknown": FailureRow(kind=FailureClass.PERSISTENT),
        }
    )
    assert mine.follows("wrong_architecture") is Consequence.NOTIFY
    assert mine.follows("unknown") is Consequence.RESTART
    assert mine.follows("unknown", 2) is Consequence.ESCALATE
    assert TABLE.follows("unknown") is Consequence.ESCALATE
    with pytest.raises(InvalidFailureRow):
        FailureRow(kind=PERSISTENT, rounds=0)


def test_the_table_can_be_printed() -> None:
    """Each row shows its class, its first consequence and the later one."""
    rows = {line.split("  ")[0]: line.split() for line in TABLE.table().splitlines()}
    assert rows["network"][1:] == ["transient", "restart", "restart"]
    assert rows["tests_failed"][1:] == ["persistent", "restart", "notify,", "the", "3.", "time"]
    assert rows["anything else"][-3:] == ["unknown", "escalate", "escalate"]


def result(ending: Ending, *failures: Detail | StopCause) -> RunResult:
    attempts = tuple(
        AttemptRecord(
            number=number,
            position=0,
            agent_id="a",
            agent_cli="claude",
            cause=Cause.FIRST,
            resumed=None,
            began=0,
            ended=1,
            exit_code=1,
            signal=None,
            detail=failure if isinstance(failure, Detail) else None,
            stopped=failure if isinstance(failure, StopCause) else None,
            message="",
            session=None,
            usage=Usage(),
        )
        for number, failure in enumerate(failures, 1)
    )
    return RunResult(
        ending=ending,
        error="",
        agent_id="a",
        agent_used="claude",
        attempts=attempts,
        artifacts=(),
        session=None,
        resumable=None,
        usage=Usage(),
    )


@pytest.mark.parametrize(
    ("ending", "failures", "name"),
    [
        (Ending.SUCCEEDED, [], ""),
        (Ending.STOPPED, [StopCause.STOP], ""),
        (Ending.EXHAUSTED, [Detail.NETWORK, Detail.RATE_LIMIT], "rate_limit"),
        (Ending.EXHAUSTED, [StopCause.STALL], "stall"),
        (Ending.FATAL, [Detail.AUTH], "auth"),
        (Ending.FATAL, [], "unknown"),
        (Ending.BUDGET, [Detail.NETWORK], "budget"),
        (Ending.CANCELLED, [StopCause.CANCEL], "cancel"),
        (Ending.RETRY_CANCELLED, [Detail.NETWORK], "cancel"),
        (Ending.KILLED, [StopCause.KILL], "kill"),
        (Ending.ATTEMPT_LIMIT, [Detail.NETWORK], "attempt_limit"),
    ],
)
def test_a_result_has_the_name_of_its_last_failure(
    ending: Ending, failures: list[Detail | StopCause], name: str
) -> None:
    """The run tells how it ended, and the last attempt which failure it was."""
    assert failure_of(result(ending, *failures)) == name

"""The risks that need a person's approval, and the limits of a project."""

from __future__ import annotations

import pytest

from otpy_agents.engine.approval import (
    ApprovalRules,
    PlanApproval,
    Touched,
    load_approval,
    risks,
)
from otpy_agents.engine.globs import Globs, is_glob
from otpy_agents.engine.limits import EngineLimits, load_limits
from otpy_agents.errors import InvalidEngineFile

ALL = "files_touched: 2\npaths: [migrations/**, '*.sql', '!old.sql']\ncost_usd: 1.5\nplans: auto"


def test_without_a_file_steps_ask_nobody_and_plans_a_person() -> None:
    """A plan is a proposal until a person, or a rule of the project, approves it."""
    assert load_approval(None) == load_approval("") == ApprovalRules()
    assert ApprovalRules().plans is PlanApproval.ASK
    many = tuple(f"{number}.py" for number in range(1000))
    assert risks(ApprovalRules(), Touched(files=many, cost_usd=1000.0)) == ()
    assert load_approval(ALL).plans is PlanApproval.AUTO


@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        (Touched(files=("a.py", "b.py"), cost_usd=1.5), ()),
        (
            Touched(files=("a.py", "b.py", "c.py"), cost_usd=0.0),
            ("3 files are touched, more than 2",),
        ),
        (
            Touched(files=("migrations/1.sql",), cost_usd=0.0),
            ("migrations/** is touched: migrations/1.sql", "*.sql is touched: migrations/1.sql"),
        ),
        (Touched(files=("old.sql",), cost_usd=0.0), ()),
        (Touched(cost_usd=1.51), ("the worker cost $1.51, more than $1.50",)),
        (Touched(), ("the worker's cost is unknown, and may be more than $1.50",)),
    ],
)
def test_each_risk_is_told_in_a_line(touched: Touched, expected: tuple[str, ...]) -> None:
    """A limit that is reached needs no approval; an exceeded limit or an unknown cost does."""
    assert risks(load_approval(ALL), touched) == expected


def test_many_files_of_one_glob_are_counted() -> None:
    """The line stays short."""
    found = risks(ApprovalRules(paths=("db",)), Touched(files=tuple(f"db/{n}" for n in range(9))))
    assert found == ("db is touched: db/0, db/1, db/2 and 6 more",)
    one = risks(ApprovalRules(files_touched=0), Touched(files=("a",)))
    assert one == ("1 file is touched, more than 0",)


def test_limits_have_defaults() -> None:
    """A file says only what differs."""
    assert load_limits(None) == load_limits("") == EngineLimits()
    text = "workflow: 7200\ncircuit_failures: 3\nx-note: mine"
    assert load_limits(text) == EngineLimits(workflow=7200.0, circuit_failures=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("files: 3", "approval.yaml:1: files: got the unknown key 'files', wanted one of files_t"),
        ("files_touched: -1", "files_touched: got -1, wanted a whole number from 0"),
        ("paths:\n- ''", 'approval.yaml:2: paths[0]: got "", wanted a text'),
        ("paths:\n- ../x", 'approval.yaml:2: paths[0]: got "../x", wanted a glob relative'),
        ("cost_usd: 0", "cost_usd: got 0, wanted US dollars as a number above 0"),
        ("plans: never", 'plans: got "never", wanted one of ask, auto'),
    ],
)
def test_a_wrong_approval_file_is_refused_at_its_line(text: str, message: str) -> None:
    """One line says what to correct."""
    with pytest.raises(InvalidEngineFile) as caught:
        load_approval(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workflows: 3", "limits.yaml:1: workflows: got the unknown key 'workflows', wanted one"),
        ("workflow: 0", "workflow: got 0, wanted seconds as a number above 0"),
        ("circuit_failures: 0", "circuit_failures: got 0, wanted a whole number from 1"),
    ],
)
def test_a_wrong_limits_file_is_refused_at_its_line(text: str, message: str) -> None:
    """One line says what to correct."""
    with pytest.raises(InvalidEngineFile) as caught:
        load_limits(text)
    assert message in str(caught.value)


def test_globs_are_those_of_gitignore() -> None:
    """A name matches at any depth, a slash in front at the top, and "!" takes out again."""
    paths = ("a.py", "src/b.py", "src/old/c.py", "docs/x/y.md")
    assert Globs(["*.py"]).among(paths) == paths[:3]
    assert Globs(["/*.py"]).among(paths) == ("a.py",)
    assert Globs(["src/**/*.py", "!src/old"]).among(paths) == ("src/b.py",)
    assert Globs(["docs"]).among(paths) == Globs(["docs/**"]).among(paths) == paths[3:]
    assert Globs([]).among(paths) == ()
    assert [text for text in ("", "#a", "!", "/", "./a", "a/../b", "\\") if is_glob(text)] == []

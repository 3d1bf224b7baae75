from __future__ import annotations

import importlib.util
import inspect
import re
from itertools import dropwhile, takewhile
from typing import Any, get_args

import click
import pytest
from attrs import fields
from pydantic import BaseModel

from otpy import (
    Abandoned,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    OtpyError,
    Restart,
    Shutdown,
    errors,
    reports,
)
from otpy._core.rules import Verdict, is_expected, is_reported, verdict
from otpy.reports import Report
from otpy_agents import errors as agents_errors
from otpy_agents.cli.run import run
from otpy_agents.cli.runs import runs
from otpy_agents.run import Ending, FailureAction, LivenessKind, RetryPolicy, RunControl
from otpy_agents.run.host.callbacks import RunCallbacks
from otpy_agents.run.host.facts import Fact, RunFact
from otpy_agents.worklist import reader
from otpy_monitors.budget import errors as budget_errors
from tests.docs.snippets import ROOT

REFERENCE = ROOT / "docs" / "reference"
RULE = re.compile(r"(AIO|DYN|ESU|GEN|PAR|REG|REP|SIG|SUP|TSK|APP)-\d+")
SHAPE = re.compile(r"(SUP-[1-9]\d\d|(AIO|DYN|ESU|GEN|PAR|REG|REP|SIG|TSK|APP)-\d\d)")
REASONS: dict[str, ExitReason] = {
    "`Normal()`": Normal(),
    "`Shutdown()`": Shutdown(),
    "`Shutdown(detail)`": Shutdown("detail"),
    "`Killed()`": Killed(),
    "`Crashed(error)`": Crashed(ValueError()),
    "`Abandoned(stack)`": Abandoned(),
}
DIFFERENCES = ("otp-differences.md", "behaviour-differences.md", "asyncio-limits.md")
VERDICTS = {
    Verdict.RESTART: "restart, counted",
    Verdict.KEEP: "kept, not running",
    Verdict.FORGET: "forgotten",
}


def _read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def _table(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below `heading`, without its two head lines."""
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = dropwhile(lambda line: not line.startswith("|"), section.splitlines())
    rows = list(takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def _script(name: str) -> Any:
    """Return a script that writes one of the pages."""
    spec = importlib.util.spec_from_file_location(name, REFERENCE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_public_names_are_up_to_date() -> None:
    """`api.md` is what `docs/reference/generate.py` would write now."""
    wanted: str = _script("generate").page()
    assert _read("api.md") == wanted, "run: python docs/reference/generate.py"


@pytest.mark.slow
def test_the_requirements_are_up_to_date_and_none_is_unknown() -> None:
    """Each rule that code, tests or documents cite says what it asks for, and no other does."""
    requirements = _script("requirements")
    wanted: str = requirements.page()
    assert _read("requirements.md") == wanted, "run: python docs/reference/requirements.py"
    known = set(requirements.rules())
    held, tested = requirements.citations()
    assert set(held) | set(tested) == known
    pages = [one for one in (ROOT / "docs").rglob("*.md") if one.name != "requirements.md"]
    cited = {rule for one in pages for rule in requirements.RULE.findall(one.read_text("utf-8"))}
    assert cited <= known


def test_the_work_list_page_names_every_key_and_no_other() -> None:
    """The tables of `worklist.md` list the keys of the models, in their order."""
    text = _read("worklist.md")
    models: dict[str, type[BaseModel]] = {
        "[list]": reader._ListTable,
        "[[assignment]]": reader._AssignmentTable,
        "[[gang]]": reader._GangTable,
    }
    for heading, model in models.items():
        keys = [row[0].strip("`") for row in _table(text, heading)]
        assert keys == [field.alias or name for name, field in model.model_fields.items()], heading


def test_the_run_policy_page_is_what_the_code_does() -> None:
    """The tables of `run-policy.md` hold: what follows, the numbers, and every name there is."""
    text = _read("run-policy.md")
    follows = [[cell.strip("`") for cell in row] for row in _table(text, "What follows")]
    assert follows == [list(row) for row in RetryPolicy().rows()]
    actions = re.findall(r"^\| `(\w+)` \|[^|]*\|$", text.split("## Numbers")[0], re.MULTILINE)
    assert set(actions) == set(FailureAction)
    numbers = {row[0].strip("`"): row[1] for row in _table(text, "Numbers")}
    policy = RetryPolicy()
    assert numbers == {
        attribute.name: str(getattr(policy, attribute.name)) for attribute in fields(RetryPolicy)
    }
    for heading, names in (
        ("Liveness", LivenessKind),
        ("Controls", RunControl),
        ("Results", Ending),
    ):
        named = re.findall(r"`(\w+)", " ".join(row[0] for row in _table(text, heading)))
        assert set(named) == set(names), heading


def test_the_report_page_names_every_event() -> None:
    """The table of `reports.md` lists each report with its event name."""
    rows = _table(_read("reports.md"), "Events")
    kinds = [
        value
        for value in vars(reports).values()
        if inspect.isclass(value) and issubclass(value, Report) and value is not Report
    ]
    assert {(row[0], row[1]) for row in rows} == {
        (f"`{kind.event}`", f"`{kind.__name__}`") for kind in kinds
    }


def test_the_error_page_names_every_error() -> None:
    """`errors.md` mentions each exception of otpy, of otpy_agents and of budgets."""
    text = _read("errors.md")
    names = [
        name
        for module in (errors, agents_errors, budget_errors)
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, OtpyError) and name != "ChildError"
    ]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_the_exit_matrix_is_what_the_core_does() -> None:
    """Both tables of `exit-matrix.md` hold, cell by cell."""
    text = _read("exit-matrix.md")
    types = (Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY)
    by_itself = {row[0]: row[1:] for row in _table(text, "A child that ends by itself")}
    told = {row[0]: row[1:] for row in _table(text, "A child that is told to end")}
    for word, reason in REASONS.items():
        assert by_itself[word] == [
            ("error, " if is_reported(kind, reason) else "") + VERDICTS[verdict(kind, reason)]
            for kind in types
        ]
        assert told[word] == [
            "expected" if is_expected(kind, reason, brutal=brutal) else "error"
            for brutal in (False, True)
            for kind in (Restart.PERMANENT, Restart.TRANSIENT)
        ]
    assert len(by_itself) == len(told) == len(REASONS)


def test_every_rule_in_the_list_of_differences_is_well_formed() -> None:
    """Rule numbers have one shape, and each of the 28 limits of asyncio is dealt with."""
    pages = (ROOT / "docs" / "explanation" / name for name in DIFFERENCES)
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    rules = [match.group() for match in RULE.finditer(text)]
    assert [rule for rule in rules if not SHAPE.fullmatch(rule)] == []
    assert {f"AIO-{number:02}" for number in range(1, 29)} <= set(rules)


def test_the_reference_has_every_word_of_the_commands_about_runs() -> None:
    """Options, and commands of a second terminal."""
    page = _read("cli.md")
    commands = [run, runs, *runs.commands.values()]
    options = {
        name
        for command in commands
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    assert [word for word in sorted(options) if f"`{word}" not in page] == []
    assert [name for name in runs.commands if f"| `{name} " not in page] == []


def test_facts_about_runs_are_complete() -> None:
    """Every fact has its row, with its name and its fields; so has every callback."""
    table = _table(_read("run-facts.md"), "Facts")
    common = {field.name for field in fields(RunFact)}
    wanted = [
        [
            f"`{kind.event}`",
            f"`{kind.__name__}`",
            [field.name for field in fields(kind) if field.name not in common],
        ]
        for kind in get_args(Fact)
    ]
    assert [[row[0], row[1], re.findall(r"`(\w+)`", row[3])] for row in table] == wanted
    callbacks = [row[0] for row in _table(_read("run-facts.md"), "Callbacks")]
    assert callbacks == [f"`{field.name}`" for field in fields(RunCallbacks)]

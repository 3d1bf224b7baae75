"""The report of a task's validation, by rules alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.control.halts import HaltReason
from otpy_agents.control.report import (
    Confidence,
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.task import ControlTask, TableCriterion
from otpy_agents.control.validation import (
    AgentOutcome,
    CommandOutcome,
    find_format_halt,
    validate,
)

PASSED, FAILED, UNCERTAIN = CriterionVerdict
Argv = tuple[str, ...]


def task(*criteria: str | TableCriterion, **fields: Any) -> ControlTask:
    return ControlTask(
        task_id="t",
        intent="Do it",
        tool="claude",
        instructions="Do it.",
        acceptance_criteria=criteria,
        **fields,
    )


class Commands:
    """Runs nothing, and records the commands."""

    def __init__(self, **outcomes: CommandOutcome) -> None:
        self.outcomes, self.run = outcomes, list[Argv]()

    async def __call__(self, argv: Argv) -> CommandOutcome:
        self.run.append(argv)
        return self.outcomes.get(argv[-1], CommandOutcome(0, "ok\n"))


async def report_on(
    folder: Path,
    asked: ControlTask,
    commands: Commands | None = None,
    *,
    words: str = "Done.",
    exit_code: int | None = 0,
) -> ValidationReport:
    result = AgentOutcome(exit_code, words)
    return await validate(asked, folder, result=result, run_command=commands or Commands())


async def verdict_on(folder: Path, criterion: str | TableCriterion) -> CriterionReport:
    return (await report_on(folder, task(criterion))).criteria[0]


async def test_a_report_says_what_was_checked_and_seen_and_where(tmp_path: Path) -> None:
    """CTL-36: each criterion has its entry, in the task's order."""
    (tmp_path / "hello.txt").write_text("one\nHello\n")
    report = await report_on(
        tmp_path,
        task("hello.txt contains 'Hello'", "hello.txt contains 'Bye'", required_artifacts=("a",)),
    )
    assert report.failed_criteria == ("required artifact a", "hello.txt contains 'Bye'")
    assert report.criteria[:3] == (
        CriterionReport(
            "required artifact a", FAILED, MatchQuality.EXACT, "a is there", "a is not there"
        ),
        CriterionReport(
            "hello.txt contains 'Hello'",
            PASSED,
            MatchQuality.EXACT,
            "hello.txt has the text 'Hello'",
            "hello.txt has the text 'Hello'",
            "hello.txt:2",
        ),
        CriterionReport(
            "hello.txt contains 'Bye'",
            FAILED,
            MatchQuality.EXACT,
            "hello.txt has the text 'Bye'",
            "hello.txt does not have the text 'Bye' in its 2 lines",
            "hello.txt",
        ),
    )


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        ({"file": "a.json"}, PASSED),
        ({"file": "a.json", "exists": True}, PASSED),
        ({"file": "a.json", "exists": False}, FAILED),
        ({"file": "b", "exists": False}, PASSED),
        ({"file": "b"}, FAILED),
        ({"file": "a.json", "contains": '"x"'}, PASSED),
        ({"file": "a.json", "contains": ".*"}, FAILED),
        ({"file": "a.json", "matches": '^ "x":.*true'}, PASSED),
        ({"file": "a.json", "matches": "("}, UNCERTAIN),
        ({"file": "many.txt", "matches": "^(?:a|aa)+$"}, UNCERTAIN),
        ({"file": "a.json", "lines": 4}, PASSED),
        ({"file": "a.json", "lines": 3}, FAILED),
        ({"file": "a.json", "json_path": "x.0.y z", "equals": True}, PASSED),
        ({"file": "a.json", "json_path": '$.x[0]["y z"]', "equals": True}, PASSED),
        ({"file": "a.json", "json_path": "x.0.y z", "equals": 1}, FAILED),
        ({"file": "a.json", "json_path": "n", "equals": 1.0}, PASSED),
        ({"file": "a.json", "json_path": "nothing", "equals": None}, PASSED),
        ({"file": "a.json", "json_path": "x", "equals": [{"y z": True}]}, PASSED),
        ({"file": "a.json", "json_path": "x", "equals": [{"y z": 1}]}, FAILED),
        ({"file": "a.json", "json_path": "x.1", "equals": None}, FAILED),
        ({"file": "a.json", "json_path": "n.0", "equals": 1}, FAILED),
        ({"file": "a.json", "json_path": "x[", "equals": 1}, UNCERTAIN),
        ({"file": "b.json", "json_path": "x", "equals": 1}, FAILED),
        ({"file": "bad.json", "json_path": "x", "equals": 1}, FAILED),
        ({"file": "deep.json", "json_path": "x", "equals": 1}, FAILED),
        ({"command": ("true",)}, PASSED),
        ({"command": ("false",)}, FAILED),
        ({"file": "b", "command": ("true",)}, FAILED),
    ],
)
async def test_a_table_is_checked_exactly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: dict[str, Any],
    verdict: CriterionVerdict,
) -> None:
    """CTL-35: each field is a check, and all must hold; no check blocks the host."""
    monkeypatch.setattr("otpy_agents.control.validation.checks._PATTERN_SECONDS", 0.05)
    (tmp_path / "a.json").write_text('{"n": 1, "nothing": null,\n "x": [{"y z": true}]\n}\n\n')
    (tmp_path / "bad.json").write_text('{"x": NaN}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "many.txt").write_text("a" * 60 + "b")  # the pattern takes years on this file
    commands = Commands(false=CommandOutcome(1))
    report = await report_on(tmp_path, task(TableCriterion(**table)), commands)
    found = report.criteria[0]
    assert (found.verdict, found.quality) == (verdict, MatchQuality.EXACT)
    assert json.loads(found.criterion)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "link", "dir/secret"])
async def test_a_path_that_leaves_the_project_fails(tmp_path: Path, name: str) -> None:
    """It fails as an artifact, in a sentence and in a table, even where a file must be missing."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "out").mkdir()
    for secret in (tmp_path / "secret", tmp_path / "out" / "secret"):
        secret.write_text("x")
    (project / "link").symlink_to(tmp_path / "secret")
    (project / "dir").symlink_to(tmp_path / "out")
    report = await report_on(
        project,
        task(
            f"file {name} exists",
            f"file {name} does not exist",
            f"{name}.txt does not contain 'y'",
            TableCriterion(file=name, contains="x"),
            TableCriterion(file=name, exists=False),
            required_artifacts=(name,),
        ),
    )
    verdicts = [found.verdict for found in report.criteria[:6]]
    assert verdicts == [FAILED] * 6
    assert "leads out of the project" in report.criteria[0].saw


async def test_what_cannot_be_read_is_uncertain(tmp_path: Path) -> None:
    """A gigabyte is not read, so its text is unknown."""
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(1024**3)
    for sentence in ("big.txt contains 'x'", "no TODO left", "big.txt has 3 lines"):
        assert (await verdict_on(tmp_path, sentence)).verdict is UNCERTAIN
    assert (await verdict_on(tmp_path, "big.txt exists")).verdict is PASSED


async def test_odd_files_are_judged_like_any_other(tmp_path: Path) -> None:
    """Binary files, pipes, loops of links and folders have verdicts too."""
    (tmp_path / "bin.dat").write_bytes(b"\0\xff\xfemagic\0")
    os.mkfifo(tmp_path / "p.txt")
    (tmp_path / "l.txt").symlink_to("l.txt")
    (tmp_path / "d.txt").mkdir()
    assert (await verdict_on(tmp_path, "bin.dat contains 'magic'")).verdict is PASSED
    for name in ("p", "l", "d"):
        assert (await verdict_on(tmp_path, f"{name}.txt contains 'x'")).verdict is FAILED
    assert (await verdict_on(tmp_path, "l.txt exists")).verdict is FAILED
    assert (await verdict_on(tmp_path, TableCriterion(file="d.txt"))).verdict is PASSED
    assert (await verdict_on(tmp_path, "the folder d.txt exists")).verdict is PASSED
    assert (await verdict_on(tmp_path, "the folder bin.dat exists")).verdict is FAILED


@pytest.mark.parametrize(
    ("content", "lines"),
    [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\r\nb\r\n", 2), ("\n\n", 2)],
)
async def test_lines_are_counted_exactly(tmp_path: Path, content: str, lines: int) -> None:
    """Lines count as for `wc -l`, plus a last one without its line feed."""
    (tmp_path / "a.txt").write_bytes(content.encode())
    assert (await verdict_on(tmp_path, TableCriterion(file="a.txt", lines=lines))).verdict is PASSED
    more = TableCriterion(file="a.txt", lines=lines + 1)
    assert (await verdict_on(tmp_path, more)).verdict is FAILED


@pytest.mark.parametrize(
    ("sentence", "passes"),
    [
        ("function add in calc.py", True),
        ("function `Calc.reset` in calc.py", True),
        ("function subtract in calc.py", False),
        ("function ad in calc.py", False),
        ("class Calc in calc.py", True),
        ("constant LIMIT in calc.py", True),
        ("calc.py defines the function add", True),
        ("the function render exists", True),
        ("the function gone exists", False),
        ("function render in view.ts", True),
        ("method draw in view.ts", True),
        ("interface Props in view.ts", True),
        ("function Open in main.go", True),
        ("README mentions the Installation", True),
        ("README mentions deployment", False),
        ("README.md mentions `pip install`", True),
        ("no TODO left in src/", True),
        ("no TODO left", False),
        ("no 'print(' left in calc.py", True),
    ],
)
async def test_sentences_are_checked(tmp_path: Path, sentence: str, passes: bool) -> None:
    """Definitions, mentions and leftovers are found in several programming languages."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x.py").write_text("TODOS = 1\n")
    (tmp_path / "calc.py").write_text(
        "LIMIT: int = 3\n# def subtract(): TODO\nclass Calc:\n    def reset(self): ...\n"
        "async def add(a, b):\n    return a + b\n"
    )
    (tmp_path / "view.ts").write_text(
        "export interface Props {}\nexport const render = (p: Props) => 1;\n"
        "class V {\n  public draw(x: number): void {\n  }\n}\n"
    )
    (tmp_path / "main.go").write_text("func (d *Door) Open() error {\n}\n")
    (tmp_path / "README.md").write_text("# Installation\n\n    pip install it\n")
    assert (await verdict_on(tmp_path, sentence)).verdict is (PASSED if passes else FAILED)


async def test_a_sign_decides_nothing(tmp_path: Path) -> None:
    """A rule of quality LOW shows its finding and leaves the criterion uncertain."""
    (tmp_path / "a.py").write_text("--strict")
    for sentence, where in (
        ("it supports `--strict`", "a.py:1"),
        ("it has a `--mode`", None),
        ("Die Datei a.py existiert", "a.py"),
    ):
        report = await report_on(tmp_path, task(sentence))
        assert (report.valid, report.confidence) == (False, Confidence.UNCERTAIN)
        assert report.failed_criteria == ()
        assert report.criteria[0].where == where


@pytest.mark.parametrize("sentence", ["Die Datei existiert", "it is pretty", "日本語"])
async def test_what_no_rule_reads_is_uncertain(tmp_path: Path, sentence: str) -> None:
    """The report says that no rule reads it."""
    found = await verdict_on(tmp_path, sentence)
    assert (found.verdict, found.quality) == (UNCERTAIN, MatchQuality.LOW)
    assert found.saw == "no rule reads this sentence"


async def test_a_task_that_demands_nothing_is_not_done_by_that(tmp_path: Path) -> None:
    """An empty list proves nothing; nor do optional tests."""
    for asked in (task(), task(test_command="true")):
        report = await report_on(tmp_path, asked)
        assert (report.valid, report.uncertain_criteria) == (False, ("Do it",))


async def test_each_command_is_run_once(tmp_path: Path) -> None:
    """The test command runs in the shell, a table's command as a program."""
    commands = Commands()
    asked = task(
        "the tests pass",
        "`make` passes",
        TableCriterion(command=("make", "all")),
        TableCriterion(command=("make", "all")),
        test_command="make test && true",
        tests_required=True,
    )
    report = await report_on(tmp_path, asked, commands)
    assert report.valid
    assert commands.run == [
        ("/bin/sh", "-c", "make"),
        ("make", "all"),
        ("/bin/sh", "-c", "make test && true"),
    ]


@pytest.mark.parametrize(
    ("outcome", "verdict", "saw"),
    [
        (CommandOutcome(0, "12 passed"), PASSED, "exit code 0: 12 passed"),
        (CommandOutcome(1, ""), FAILED, "exit code 1, and it wrote nothing"),
        (CommandOutcome(-9, "x" * 1000), FAILED, "exit code -9: …" + "x" * 300),
        (CommandOutcome(None, "no bwrap"), FAILED, "it has no exit code: no bwrap"),
        (CommandOutcome(None, "…", is_late=True), FAILED, "it did not end in time: …"),
    ],
)
async def test_tests_that_are_required_decide(
    tmp_path: Path, outcome: CommandOutcome, verdict: CriterionVerdict, saw: str
) -> None:
    """CTL-35: only the exit code counts; a missing one is a failure."""
    asked = task(test_command="t", tests_required=True)
    found = (await report_on(tmp_path, asked, Commands(t=outcome))).criteria[0]
    assert (found.criterion, found.verdict, found.saw) == ("the tests pass", verdict, saw)


async def test_tests_that_nobody_requires_only_take_confidence(tmp_path: Path) -> None:
    """Optional tests are run, and their result is reported."""
    (tmp_path / "a").touch()
    asked = task(required_artifacts=("a",), test_command="t")
    report = await report_on(tmp_path, asked, Commands(t=CommandOutcome(1, "1 failed")))
    assert (report.valid, report.confidence) == (True, Confidence.MEDIUM)
    assert "exit code 1: 1 failed" in [found.saw for found in report.criteria]
    assert (await report_on(tmp_path, asked)).confidence is Confidence.HIGH


@pytest.mark.parametrize("exit_code", [1, -15, None])
async def test_an_exit_code_fails_nothing(tmp_path: Path, exit_code: int | None) -> None:
    """CTL-35: it only lowers the highest confidence."""
    (tmp_path / "a").touch()
    report = await report_on(tmp_path, task(required_artifacts=("a",)), exit_code=exit_code)
    assert (report.valid, report.confidence) == (True, Confidence.MEDIUM)


async def test_what_a_command_prints_is_checked(tmp_path: Path) -> None:
    """Its exit code counts separately, as another rule may want another code."""
    asked = task("`run` prints 'Hello'", "`run` exits with code 3")
    commands = Commands(run=CommandOutcome(0, "Hello, world"))
    report = await report_on(tmp_path, asked, commands)
    assert [found.verdict for found in report.criteria[:2]] == [PASSED, FAILED]
    commands = Commands(run=CommandOutcome(3, "Bye"))
    report = await report_on(tmp_path, asked, commands)
    assert [found.verdict for found in report.criteria[:2]] == [FAILED, PASSED]


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (CommandOutcome(0, "a\n\nb\n"), PASSED),
        (CommandOutcome(0, "a\n"), FAILED),
        (CommandOutcome(1, ""), FAILED),
        (CommandOutcome(2, "a\nb\n"), FAILED),
        (CommandOutcome(None, "a\nb\n"), FAILED),
    ],
)
async def test_the_lines_of_a_command_are_counted(
    tmp_path: Path, outcome: CommandOutcome, verdict: CriterionVerdict
) -> None:
    """Empty lines do not count; `grep` exits with 1 if it finds nothing, and with 2 if it fails."""
    asked = task("grep -n 'x' a.txt returns 2 lines", "grep 'y' a.txt returns 0 lines")
    commands = Commands()
    commands.outcomes = {"grep -n 'x' a.txt": outcome, "grep 'y' a.txt": CommandOutcome(1)}
    report = await report_on(tmp_path, asked, commands)
    assert [found.verdict for found in report.criteria[:2]] == [verdict, PASSED]


SEEDS_FORM = {"name": "string", "count": "integer", "tags": "string[]", "extra": "any"}
FITS = {"name": "a", "count": 1, "tags": ["x"], "extra": None}


@pytest.mark.parametrize(
    ("schema", "words", "verdict", "saw"),
    [
        (SEEDS_FORM, json.dumps(FITS), PASSED, "JSON that fits"),
        (SEEDS_FORM, f"Here it is:\n\n```json\n{json.dumps(FITS)}\n```\nBye.", PASSED, ""),
        (SEEDS_FORM, f"Here it is:\n{json.dumps(FITS, indent=2)}\n", PASSED, ""),
        (SEEDS_FORM, "```\n{}\n```\n```json\n" + json.dumps(FITS) + "\n```", PASSED, ""),
        (SEEDS_FORM, json.dumps({**FITS, "more": 1}), FAILED, "more"),
        (SEEDS_FORM, json.dumps({**FITS, "count": "1"}), FAILED, "$.count: '1' is not of type"),
        (SEEDS_FORM, json.dumps({**FITS, "count": True}), FAILED, "$.count"),
        (SEEDS_FORM, json.dumps({**FITS, "tags": [1]}), FAILED, "$.tags[0]"),
        (SEEDS_FORM, '{"name": "a"}', FAILED, "'count' is a required property"),
        (SEEDS_FORM, "[]", FAILED, "is not of type 'object'"),
        (SEEDS_FORM, "Done.", FAILED, "the final answer has no JSON"),
        (SEEDS_FORM, "[" * 500_000, FAILED, "the final answer has no JSON"),
        (SEEDS_FORM, "{\n" * 300_000, FAILED, "the final answer has no JSON"),
        (SEEDS_FORM, '{"count": NaN}', FAILED, "the final answer has no JSON"),
        ({"name": "text"}, "{}", FAILED, "not a usable JSON Schema"),
        ({"type": "array", "minItems": 2}, "[1]", FAILED, "too short"),
        ({"type": "array", "minItems": 1}, "[1]", PASSED, ""),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "{}", FAILED, "not a usable JSON Schema"),
        ({"properties": {"a": {"type": "strng"}}}, "{}", FAILED, "not a usable JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, '{"a": "x"}', FAILED, "not a usable JSON Schema"),
        ({}, "{}", PASSED, ""),
    ],
    ids=range(21),
)
async def test_json_is_checked_with_its_schema(
    tmp_path: Path, schema: dict[str, Any], words: str, verdict: CriterionVerdict, saw: str
) -> None:
    """CTL-35: the seed's form and JSON Schema both work; no reference is fetched."""
    report = await report_on(tmp_path, task(expected_json_schema=schema), words=words)
    found = report.criteria[0]
    assert (found.criterion, found.verdict) == ("expected_json_schema", verdict)
    assert saw in found.saw


def test_no_json_where_a_schema_is_given_halts() -> None:
    """JSON that does not fit does not halt, nor does an answer without a schema."""
    asked = task(expected_json_schema=SEEDS_FORM)
    halt = find_format_halt(asked, "Done.\n" * 1000)
    assert halt is not None
    assert (halt.reason, halt.critical) == (HaltReason.OUTPUT_FORMAT_INVALID, True)
    assert len(halt.excerpt) <= 200
    assert find_format_halt(asked, "{}") is None
    assert find_format_halt(task("a exists"), "Done.") is None

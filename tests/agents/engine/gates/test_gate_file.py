"""Gates as a file declares them."""

from __future__ import annotations

from typing import Any

import pytest

from otpy_agents.engine.gates import GateFailAction, GateSeverity, load_gates
from otpy_agents.errors import InvalidEngineFile

FULL = """
x-note: [mine]
gates:
  build:
    command: [make, all]
    timeout: 5
    description: Builds
    severity: info
    fail_action: skip
    depends_on: [lint]
    parallel_safe: true
    cache: false
    env: {CC: clang}
    working_dir: src/
    allowed_writes: [build/**, report.xml, cache/]
    cache_inputs: ["src/**/*.c", "!src/gen/"]
    skip_on_dependency_failure: false
    x-mine: 1
  lint: {command: [flake8], severity: warning}
  test: {timeout: 900}
"""


def test_a_file_changes_what_is_shipped_key_by_key_and_adds_more() -> None:
    """ENG-28, ENG-29: omitted keys keep their values, and the severity sets the action."""
    shipped, gates = load_gates(None), load_gates(FULL)
    assert set(shipped) == {"test", "lint", "type_check", "security", "format_check"}
    assert shipped["type_check"].fail_action is GateFailAction.WARN
    assert [shipped[name].timeout for name in ("lint", "test", "type_check")] == [60, 300, 120]
    lint, test, build = gates["lint"], gates["test"], gates["build"]
    assert (lint.command, lint.timeout, lint.parallel_safe) == (("flake8",), 60.0, True)
    assert (lint.severity, lint.fail_action) == (GateSeverity.WARNING, GateFailAction.WARN)
    assert (test.timeout, test.command) == (900.0, shipped["test"].command)
    assert (build.timeout, build.description, build.severity) == (5.0, "Builds", GateSeverity.INFO)
    assert (build.fail_action, build.depends_on) == (GateFailAction.SKIP, ("lint",))
    assert (build.parallel_safe, build.cache, dict(build.env)) == (True, False, {"CC": "clang"})
    assert (build.working_dir, build.skip_on_dependency_failure) == ("src", False)
    assert build.allowed_writes == ("build/", "report.xml", "cache/")
    assert build.cache_inputs == ("src/**/*.c", "!src/gen/")


@pytest.mark.parametrize("text", ["", "gates: {}", "x-mine: 1"])
def test_a_file_that_says_nothing_changes_nothing(text: str) -> None:
    """For example, a file of comments only."""
    assert load_gates(text) == load_gates(None)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("lint: {command: [x]}", 1, "unknown key 'lint'"),
        ("gates:\n  a: {comand: [x]}", 2, "unknown key 'comand'"),
        ("gates:\n  a: {timeout: 3}", 2, "'command'"),
        ("gates:\n  a: {command: []}", 2, "a list of texts, the program first"),
        ("gates:\n  a: {command: make all}", 2, "a list of texts"),
        ("gates:\n  a b: {command: [x]}", 2, "letters, digits"),
        ("gates:\n  lint:\n    timeout: 0", 3, "above 0"),
        ("gates:\n  lint:\n    severity: fatal", 3, "error, warning, info"),
        ("gates:\n  lint:\n    fail_action: block", 3, "fail, warn, skip"),
        ("gates:\n  lint:\n    depends_on:\n    - nope", 4, "one of lint"),
        ("gates:\n  lint:\n    env: {PATH: 1}", 3, "in quotes"),
        ("gates:\n  lint:\n    env: {OTPY_X: a}", 3, "OTPY_"),
        ("gates:\n  lint:\n    working_dir: ../x", 3, "in the work tree"),
        ("gates:\n  lint:\n    working_dir: /x", 3, "in the work tree"),
        *(
            (f"gates:\n  lint:\n    allowed_writes: ['{path}']", 3, "as NAME/**")
            for path in ("../x", "/x", "a/../../x", ".", "**", "*.xml", ".git", ".git/hooks/**")
        ),
        ("gates:\n  lint:\n    cache_inputs: ['../x']", 3, "relative to the top"),
        ("gates:\n  lint:\n    depends_on: [type_check]", 3, "lint → type_check → lint"),
        ("gates:\n  lint:\n    depends_on: [lint]", 3, "lint → lint"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, said: str) -> None:
    """The error is one line, which says what is wanted."""
    with pytest.raises(InvalidEngineFile) as caught:
        load_gates(text, ".supervisor/gates.yaml")
    message = str(caught.value)
    assert message.startswith(f".supervisor/gates.yaml:{line}: ")
    assert said in message
    assert "\n" not in message


def test_what_is_shipped_is_not_changed_by_a_file() -> None:
    """The shipped gates are read only once."""
    before: Any = dict(load_gates(None))
    load_gates(FULL).clear()
    assert load_gates(None) == before

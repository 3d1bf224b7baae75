from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from _pytest.mark import ParameterSet

from otpy_agents.cli import main
from tests.agents.host import ENVIRONMENT
from tests.docs.snippets import (
    ROOT,
    agent_commands,
    blocks,
    documents,
    run_document,
    shell_transcripts,
)

# Of CONTRIBUTING the one block is a template.
RUNNABLE = [
    path
    for path in documents()
    if path.name != "CONTRIBUTING.md" and any(info == "python" for info, _ in blocks(path))
]
WITH_GIT = re.compile("\\bgit\\b|changeset|GateExecutor")
"""In a program that needs more than Python; slow, as what starts other programs is."""
WITH_TESTS = [
    path for path in documents() if any(info == "python pytest" for info, _ in blocks(path))
]
WITH_SHELL = [path for path in documents() if shell_transcripts(path)]
STEP_3 = ROOT / "docs" / "tutorial" / "3-crash-restart-escalate.md"


def runnable() -> list[ParameterSet]:
    """Return the pages with programs, of which those that need git are slow."""
    texts = {
        path: "".join(text for info, text in blocks(path) if info == "python") for path in RUNNABLE
    }
    return [
        pytest.param(path, marks=[pytest.mark.slow] if WITH_GIT.search(text) else [])
        for path, text in texts.items()
    ]


@pytest.mark.parametrize("path", runnable(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_program_in_the_documents_runs(path: Path) -> None:
    """What a reader pastes works, and prints what the page says."""
    station = next(text for info, text in blocks(STEP_3) if info == "python")
    run_document(path, {"station": station})


@pytest.mark.parametrize("path", WITH_TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_test_in_the_documents_passes(path: Path, pytester: pytest.Pytester) -> None:
    """What a reader pastes into a test file passes under pytest; a page is one file."""
    texts = [text for info, text in blocks(path) if info == "python pytest"]
    pytester.makepyfile("\n".join(texts))
    options = ("-Werror", "-pno:otpy", "-potpy.testing.plugin", "-pno:hypothesispytest")
    loops = ("-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_inprocess(*options, *loops, "-v")
    assert {*result.parseoutcomes()} == {"passed"}
    ran = re.findall(r"::(test_\w+)\S* PASSED", result.stdout.str())
    assert {*ran} == {*re.findall(r"def (test_\w+)", "\n".join(texts))}


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.timeout(200)
@pytest.mark.parametrize("path", WITH_SHELL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_piece_of_shell_in_the_documents_runs(path: Path, tmp_path: Path) -> None:
    """What a reader pastes into a terminal, piece by piece, works and prints what the page says."""
    places = f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
    folder = tmp_path / "work"
    folder.mkdir()
    for text, expected in shell_transcripts(path):
        done = subprocess.run(
            ["bash", "-ec", text],
            cwd=folder,
            env={**ENVIRONMENT, "PATH": places, "OTPY_STATE": str(tmp_path / "runs.sqlite3")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_every_call_of_an_agent_in_the_documents_is_understood() -> None:
    """Agents are not asked; but what a reader types is a command with options that there are."""
    calls = [words for path in documents() for words in agent_commands(path)]
    assert len(calls) > 12
    for words in calls:
        command: click.Command = main
        at = 0
        while isinstance(command, click.Group) and words[at:] and words[at][0] != "-":
            found = command.get_command(click.Context(command), words[at])
            assert found is not None, words
            command, at = found, at + 1
        command.make_context(command.name, words[at:])


def test_the_readme_holds_the_two_commands() -> None:
    """CI runs them as they stand, and so each stands in a block of its own."""
    shell = [text for info, text in blocks(ROOT / "README.md") if info == "sh"]
    assert "pip install -e '.[agents]' && otpy-agents up examples/workshop.toml\n" in shell
    assert "pip install -e '.[dev]' && pytest\n" in shell

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, blocks, documents, run_document

# Of CONTRIBUTING the one block is a template.
RUNNABLE = [
    path
    for path in documents()
    if path.name != "CONTRIBUTING.md" and any(info == "python" for info, _ in blocks(path))
]
WITH_TESTS = [
    path for path in documents() if any(info == "python pytest" for info, _ in blocks(path))
]
STEP_3 = ROOT / "docs" / "tutorial" / "3-crash-restart-escalate.md"


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.relative_to(ROOT).as_posix())
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


def test_the_readme_holds_the_two_commands() -> None:
    """CI runs them as they stand, and so each stands in a block of its own."""
    shell = [text for info, text in blocks(ROOT / "README.md") if info == "sh"]
    assert "pip install -e '.[agents]' && otpy-agents up examples/workshop.toml\n" in shell
    assert "pip install -e '.[dev]' && pytest\n" in shell

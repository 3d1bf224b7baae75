"""Running the programs in the documents, in virtual time.

The `python` blocks of one file are one program. A `tree` that a block makes and does not run is run
for ten seconds at most; functions called `test_…` are called. A block marked `text stdout` is what
was printed since the last one.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
import shlex
import sys
from collections.abc import Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

import otpy
from otpy.testing import MockClock

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<text>(?s:.*?))^(?P=fence)$", re.MULTILINE
)


def documents() -> list[Path]:
    """Return every document of the checkout, sorted."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the info string and the text of each fenced block, in order."""
    for match in FENCE.finditer(path.read_text(encoding="utf-8")):
        yield match["info"].strip(), match["text"]


def shell_transcripts(path: Path) -> list[tuple[str, str]]:
    """Return each piece of shell that can be run anywhere, and what it prints."""
    found = list(blocks(path))
    return [
        (text, printed)
        for (info, text), (kind, printed) in pairwise([*found, ("", "")])
        if info == "sh run" and kind == "text shell"
    ]


def agent_commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command `otpy-agents` that is shown, those of a synopsis left out."""
    for info, text in blocks(path):
        if info not in {"sh", "text"}:
            continue
        for line in text.splitlines():
            typed = line.removeprefix("$ ")
            if typed.startswith("otpy-agents ") and "[" not in typed.partition("|")[0]:
                words = shlex.split(typed, comments=True)
                ends = [words.index(sign) for sign in ("<", ">", "|") if sign in words]
                yield words[1 : min(ends, default=None)]


def run_document(path: Path, modules: Mapping[str, str]) -> None:
    """Run the programs of `path`, which may import `modules` (texts by name)."""
    made = {name: ModuleType(name) for name in modules}
    for name, text in modules.items():
        exec(text, vars(made[name]))  # noqa: S102
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    running = patch("asyncio.run", _run), patch("otpy.run", _run_tree)
    with _importable(made), _unconfigured_log(), running[0], running[1], redirect_stdout(printed):
        for info, text in blocks(path):
            if info == "python":
                _run_block(text, names)
            elif info == "text stdout":
                assert printed.getvalue() == text, path
                printed.seek(0)
                printed.truncate()


@contextmanager
def _importable(made: Mapping[str, ModuleType]) -> Generator[None]:
    """Put the modules `made` in the place of others of their names, and touch no other.

    What a program imports for the first time stays: a second copy would have other classes.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name, module in made.items():
            patched.setitem(sys.modules, name, module)
        yield


@contextmanager
def _unconfigured_log() -> Generator[None]:
    """Begin as a reader's program does: pytest has given `logging` handlers."""
    level = logging.root.level
    try:
        with patch.object(logging.root, "handlers", list[logging.Handler]()):
            yield
    finally:
        logging.root.setLevel(level)


def _run_block(text: str, names: dict[str, Any]) -> None:
    before = dict(names)
    exec(compile(text, "<document>", "exec", dont_inherit=True), names)  # noqa: S102
    new = {name: value for name, value in names.items() if before.get(name) is not value}
    if "tree" in new and "run(" not in text:
        _run_tree(new["tree"])
    for name, value in new.items():
        if name.startswith("test_"):
            value()


def _run(program: Coroutine[Any, Any, object]) -> None:
    MockClock().run(program)


def _run_tree(tree: otpy.SupervisorSpec, **options: object) -> None:
    async def watch() -> None:
        with suppress(otpy.SupervisorFailed, TimeoutError):
            async with asyncio.timeout(10), otpy.start(tree, hooks=()) as root:
                await root.wait()

    _run(watch())

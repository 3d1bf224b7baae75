"""The walk of a failing program, as the page on the application's tree draws it."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from otpy_agents import open_app

pytestmark = pytest.mark.real_time

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "app-tree.md"
LIST = """
[[assignment]]
id = "a"
argv = ["sh", "-c", "exit 3"]
restarts = 1
backoff = [0]
expect = "reaped"
"""


def steps() -> list[str]:
    """Return the functions that the page names, in order."""
    text = PAGE.read_text(encoding="utf-8")
    (walk,) = re.findall(r"## The walk of a program that fails\n(.*?)\n## ", text, re.DOTALL)
    rows = [line.rsplit("|", 2)[1] for line in walk.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]


def code_of(name: str) -> CodeType:
    """Return the code of a function, a method or a class's beginning."""
    parts = name.split(".")
    if parts[0] != "otpy_monitors":
        parts.insert(0, "otpy_agents")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        function: Any = inspect.unwrap(found.__init__ if inspect.isclass(found) else found)
        code: CodeType = function.__code__
        return code
    raise LookupError(name)


def is_ours(file: str) -> bool:
    """Return whether a file is of the two packages on the walk."""
    return "otpy_agents" in Path(file).parts or "otpy_monitors" in Path(file).parts


async def test_a_failing_program_goes_the_way_that_the_page_draws(tmp_path: Path) -> None:
    """Each step follows the one before, and no file outside the page is involved."""
    file = tmp_path / "w.toml"
    file.write_text(LIST, encoding="utf-8")
    names = steps()
    assert len(names) > 20
    named = {code_of(name): name for name in names}
    files = {code.co_filename for code in named}
    monitors = {file for file in files if "otpy_monitors" in Path(file).parts}
    assert (len(files - monitors) <= 20, len(monitors) <= 4) == (True, True)
    taken: list[str] = []
    opened: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in named:
            taken.append(named[frame.f_code])
            caller: FrameType | None = frame
            while caller is not None:
                opened.add(caller.f_code.co_filename)
                caller = caller.f_back

    sys.setprofile(look)
    try:
        async with open_app(file) as app:
            await app.wait()
    finally:
        sys.setprofile(None)
    assert [one.ended for one in app.conclusions] == ["reaped"]
    rest = iter(taken)
    missing = next((name for name in names if name not in rest), None)
    assert missing is None, f"{missing} was not called after the steps before it"
    assert {file for file in opened if is_ours(file)} <= files

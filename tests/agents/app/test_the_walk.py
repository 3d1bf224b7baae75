"""The walk of a program that fails, as the page of the application's tree draws it."""

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
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(["otpy_agents", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        function: Any = inspect.unwrap(found.__init__ if inspect.isclass(found) else found)
        code: CodeType = function.__code__
        return code
    raise LookupError(name)


async def test_a_failing_program_goes_the_way_that_the_page_draws(tmp_path: Path) -> None:
    """Each step is taken, and after the one before."""
    file = tmp_path / "w.toml"
    file.write_text(LIST, encoding="utf-8")
    names = steps()
    assert len(names) > 20
    assert len({code_of(name).co_filename for name in names}) <= 19
    named = {code_of(name): name for name in names}
    taken: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in named:
            taken.append(named[frame.f_code])

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

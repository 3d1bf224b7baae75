"""The architecture page speaks of nothing that is not there."""

from __future__ import annotations

import ast
import asyncio
import builtins
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PACKAGE = ROOT / "otpy"

EXAMPLE = {"app", "db", "app/db", "L", "task_status", "one_for_one", "async with", "pyproject.toml"}
"""What the page makes up, and says so; and what is no name."""

NAME = re.compile(r"[A-Za-z_][\w.]*")


@cache
def _names_of_code() -> tuple[set[str], dict[str, set[str]]]:
    """Return all names that our code defines, and those of each class, inherited ones too."""
    names: set[str] = set()
    members: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names |= _defined(node)
            if isinstance(node, ast.ClassDef):
                bases[node.name] |= {ast.unparse(base).partition("[")[0] for base in node.bases}
                for inner in ast.walk(node):
                    members[node.name] |= _defined(inner)
    for name, direct in bases.items():
        above = list(direct)
        for base in above:
            members[name] |= members.get(base, set())
            above += [other for other in bases.get(base, ()) if other not in above]
    return names, members


def _defined(node: ast.AST) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return {name}
        case ast.arg(arg=name) | ast.alias(asname=str(name)):
            return {name}
        case _:
            return set()


def _files() -> list[Path]:
    return [*PACKAGE.rglob("*.py")]


def _unknown(spans: list[str]) -> list[str]:
    """Return the pieces of code among `spans` that name what does not exist."""
    names, members = _names_of_code()
    paths = [file.relative_to(ROOT).as_posix() for file in [*_files(), *ROOT.glob("tests/**/*.py")]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["id"] for one in project["tool"]["importlinter"]["contracts"]}
    elsewhere = {*dir(builtins), *dir(asyncio), *dir(asyncio.AbstractEventLoop)}
    packages = {"otpy_agents", "otpy_monitors"} | {
        folder.name for folder in [PACKAGE, *PACKAGE.iterdir()] if folder.is_dir()
    }
    known = names | contracts | elsewhere | packages | EXAMPLE

    def exists(span: str) -> bool:
        if span in known:
            return True
        if span.endswith(".py"):
            return any(f"/{path}".endswith(f"/{span}") for path in paths)
        if re.fullmatch(r"_?\w+", span):
            return any(f"/{span}/" in f"/{path}" for path in paths)
        for name in NAME.findall(span):
            first, _, rest = name.partition(".")
            if first in members and rest:
                if rest not in members[first]:
                    return False
            elif not all(part in known for part in name.split(".")):
                return False
        return True

    return [span for span in spans if not exists(span)]


def _spans(text: str) -> list[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return sorted(set(re.findall(r"`([^`]+)`", prose)))


def test_every_name_in_its_prose_exists() -> None:
    """Files, classes, functions, attributes and contracts."""
    spans = _spans(PAGE.read_text(encoding="utf-8"))
    assert len(spans) > 100
    assert _unknown(spans) == []


@pytest.mark.parametrize("span", ["Process.task_done", "group.py", "cut_off()", "Shell._at_twice"])
def test_a_name_that_does_not_exist_is_found(span: str) -> None:
    """Whatever kind of name it is."""
    assert _unknown([span]) == [span]

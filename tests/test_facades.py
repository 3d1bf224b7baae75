"""The façades of otpy: each public name has one home, and says so."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys
import traceback
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import otpy

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
TOPICS = ("specs", "server", "statem", "tasks", "registry", "partition", "signals", "snapshot")
FACADES = ("otpy", *(f"otpy.{topic}" for topic in TOPICS), "otpy.observe")
DEFINED_WHERE_THEY_STAND = ("otpy.errors", "otpy.reports")


def public_names(module: ModuleType) -> list[str]:
    """Return the names that the page of public names lists."""
    spec = importlib.util.spec_from_file_location("generate", REFERENCE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    names: list[str] = generate.public_names(module)
    return names


def is_named(value: object) -> bool:
    """Whether a value has a `__module__` of its own: it is a class or a function."""
    return inspect.isclass(value) or inspect.isfunction(value)


@pytest.mark.parametrize("home", FACADES)
def test_a_public_name_says_where_users_import_it_from(home: str) -> None:
    """The `__module__` of each class and function is its façade, and finds it there."""
    facade = importlib.import_module(home)
    values = {name: getattr(facade, name) for name in public_names(facade)}
    named = {name: value for name, value in values.items() if is_named(value)}
    assert {name: value.__module__ for name, value in named.items()} == dict.fromkeys(named, home)
    for value in named.values():
        assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value


@pytest.mark.parametrize("home", FACADES)
def test_a_public_name_is_explained_and_stands_on_the_page(home: str) -> None:
    """Each name of a façade has a docstring and an entry below its façade in `api.md`."""
    facade = importlib.import_module(home)
    names = [name for name in public_names(facade) if not inspect.ismodule(getattr(facade, name))]
    assert inspect.getdoc(facade), f"{home} has no docstring"
    assert [
        n for n in names if is_named(getattr(facade, n)) and not getattr(facade, n).__doc__
    ] == []
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {home}\n", 1)[1].split("\n## ", 1)[0]
    assert [name for name in names if f"\n### {name}\n" not in section] == []


@pytest.mark.parametrize("home", FACADES)
def test_the_table_of_a_facade_names_what_it_holds(home: str) -> None:
    """A reader need not read imports: the docstring of a façade names each of its names."""
    facade = importlib.import_module(home)
    text = inspect.getdoc(facade) or ""
    assert [name for name in public_names(facade) if name not in text] == []


def test_no_public_name_has_two_homes() -> None:
    """A name stands in one façade only, so it means one thing and is imported in one way."""
    homes: dict[str, list[str]] = defaultdict(list)
    for home in (*FACADES, "otpy.testing"):
        for name in public_names(importlib.import_module(home)):
            homes[name].append(home)
    for home in DEFINED_WHERE_THEY_STAND:
        for name, value in vars(importlib.import_module(home)).items():
            if inspect.isclass(value) and value.__module__ == home:
                homes[name].append(home)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_the_top_level_stays_small() -> None:
    """The top level is what most programs need: at most forty names beside the topics."""
    names = public_names(otpy)
    assert len([name for name in names if not inspect.ismodule(getattr(otpy, name))]) <= 40


def test_one_import_is_enough_for_every_topic() -> None:
    """`import otpy` is all that `otpy.server.Reply` and its like need."""
    program = f"import otpy; print(*[getattr(otpy, topic).__name__ for topic in {TOPICS}])"
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout.split() == [f"otpy.{topic}" for topic in TOPICS]


def test_tracebacks_and_pickles_name_the_facade() -> None:
    """A traceback and a pickle have names that can be imported."""
    with pytest.raises(otpy.InvalidSpec) as raised:
        otpy.SupervisorSpec("")
    assert traceback.format_exception_only(raised.value)[0].startswith("otpy.InvalidSpec: ")
    assert repr(otpy.tasks.Task) == "<class 'otpy.tasks.Task'>"
    result = otpy.tasks.Ok(otpy.Restart.TRANSIENT)
    kept = pickle.dumps(result)
    assert b"otpy.tasks" in kept
    assert b"behaviours" not in kept
    assert b"_core" not in kept
    assert pickle.loads(kept) == result  # noqa: S301  # our own bytes

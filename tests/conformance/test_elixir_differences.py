"""otpy's behaviour where it differs from Elixir on purpose."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import otpy
from otpy import DynamicSupervisor, InvalidSpec, Restart
from tests.conformance.elixir_case import ask, between, meanwhile, person, start, top, waits
from tests.conformance.elixir_differences import ELIXIR_DIFFERENCES
from tests.conformance.elixir_player import play
from tests.conformance.elixir_scenario import (
    Child,
    Do,
    Dynamic,
    Job,
    Names,
    Scenario,
    Step,
    Sup,
    Tasks,
)
from tests.conformance.trace import Section

TESTS = Path(__file__).parent.parent
TREE = top(Tasks("tasks"), person("ann"))


def last(tree: Sup, *steps: Step) -> Section:
    """Return the last section."""
    return play(Scenario(tree, steps))[-1]


def test_every_difference_names_its_rules_and_its_test() -> None:
    """The tests that the table names exist."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    assert len({difference.name for difference in ELIXIR_DIFFERENCES}) == len(ELIXIR_DIFFERENCES)
    for difference in ELIXIR_DIFFERENCES:
        assert difference.rules
        file, _, name = difference.test.partition("::")
        assert f"def {name}(" in texts[file], difference.test


def test_a_child_that_waits_for_its_restart_goes_by_its_id() -> None:
    """DYN-13: it is terminated by its id, and forgotten."""
    tree = top(Dynamic("dyn", max_restarts=9))
    (started,) = start("dyn", Child("a", starts="sfff"))
    section = last(tree, started, between("a", "which dyn", "terminate dyn a", "which dyn"))
    assert section.results == ["restarting", "ok", ""]


def test_tasks_of_an_unlinked_stream_end_with_its_reader() -> None:
    """TSK-11: this holds however the reader ends; no task is left."""
    args = ("nolink", waits("t", "u"), 2, "ordered", 5000, "exit", -1)
    section = last(TREE, meanwhile(ask("ann", "stream", "tasks", *args), "kill ann"))
    assert "tasks:  (0/0/0/0)" in section.tables


@pytest.mark.parametrize("reason", ["normal", "shutdown:x"])
def test_who_awaits_in_vain_ends_with_the_bare_reason(reason: str) -> None:
    """TSK-07: if the reason is clean, so is the end of the caller, and no error is reported."""
    spawned = ask("ann", "async_nolink", "tasks", Job("t"))
    section = last(TREE, spawned, meanwhile("ann: await! t 5000", f"die t {reason}"))
    assert section.events == [f"t: die {reason}"]
    assert "top: tasks=up (1/1/1/0)" in section.tables


def test_a_result_can_be_asked_for_again() -> None:
    """TSK-06: a result can be awaited more than once."""
    spawned = ask("ann", "async_nolink", "tasks", Job("t", "return"))
    again = Do("await", "t", (5000,), "ann")
    section = last(TREE, spawned, meanwhile(again, again))
    assert section.results == ["ok t", "ok t"]


def test_unregistering_nothing_is_no_news() -> None:
    """REG-12: a listener is told of an `unregister` only if a key was held."""
    tree = top(Names("names", listener="eve"), person("eve"))
    assert last(tree, Do("unregister", "names", ("hello",), "eve")).events == []


async def test_a_dynamic_child_cannot_be_significant() -> None:
    """DYN-05: the spec is refused in the caller."""
    child = otpy.ChildSpec("a", asyncio.Event().wait, significant=True, restart=Restart.TRANSIENT)
    async with otpy.start(DynamicSupervisor.spec("dyn"), hooks=()) as dyn:
        with pytest.raises(InvalidSpec, match="significant"):
            await dyn.start_child(child)

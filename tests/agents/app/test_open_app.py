"""A work list that runs in a caller's program, in a few lines and with default options."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import otpy
from otpy_agents import AlreadyRunning, InvalidWorkList, open_app
from otpy_agents.app import Event
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.store import Ledger
from otpy_monitors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from otpy_agents.agent.verification import Verifier

pytestmark = pytest.mark.real_time

LIST = """
[[assignment]]
id = "a"
argv = ["sh", "-c", "echo one; echo two"]

[[assignment]]
id = "b"
argv = ["sh", "-c", "exit 3"]
restarts = 0
expect = "reaped"
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    file = tmp_path / "w.toml"
    file.write_text(LIST)
    return file


async def test_a_list_is_worked_off_in_three_lines(work: Path) -> None:
    """The caller passes no store, hook or clean-up; the conclusions are there after the block."""
    async with open_app(work) as app:
        await app.wait()
    assert [(one.id, one.ended, one.as_expected) for one in app.conclusions] == [
        ("a", "done", True),
        ("b", "reaped", True),
    ]
    async with open_app(str(work)) as again:
        await again.wait()
    assert again.finished == {"a", "b"}
    assert again.conclusions[0].ended == "done"


async def test_each_event_is_heard_in_order(work: Path) -> None:
    """Events come in order, each with the seconds so far."""
    heard: list[Event] = []
    async with open_app(work, listen=heard.append) as app:
        await app.wait()
    mine = [event for event in heard if event.id == "a"]
    assert [event.detail["line"] for event in mine if event.name == "mortal.output"] == [
        "one",
        "two",
    ]
    assert [event.name for event in mine][-1] == "mortal.done"
    seconds = [event.seconds for event in heard]
    assert seconds == sorted(seconds)


async def test_who_raises_at_an_event_disturbs_nobody(work: Path) -> None:
    """The error goes to the loop's exception handler, and the listener hears the next event."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    heard: list[str] = []

    def fail(event: Event) -> None:
        heard.append(event.name)
        raise ValueError(event.name)

    async with open_app(work, listen=fail) as app:
        await app.wait()
    assert [one.ended for one in app.conclusions] == ["done", "reaped"]
    assert [str(context["exception"]) for context in told] == heard
    assert "mortal.done" in heard


async def test_a_branch_of_ones_own_stands_in_the_tree(work: Path) -> None:
    """The caller's branch comes last in the tree, below the root."""
    seen: list[str] = []

    async def lookout() -> None:
        seen.append(otpy.current().path)
        await asyncio.Event().wait()

    async with open_app(work, branches=[otpy.ChildSpec("Lookout", lookout)]) as app:
        assert [child.id for child in app.root.snapshot().children][-1] == "Lookout"
        await app.wait()
    assert seen == ["AppSupervisor/Lookout"]


async def test_what_is_left_by_leaving_the_block_is_gone_on_with(tmp_path: Path) -> None:
    """All is stopped in order, and the ledger is free for the next host."""
    file = tmp_path / "w.toml"
    file.write_text('[[assignment]]\nid = "a"\nargv = ["sleep", "99"]\n')
    begun = asyncio.Event()

    def hear(event: Event) -> None:
        if event.name == "mortal.started":
            begun.set()

    async with open_app(file, listen=hear) as app:
        await begun.wait()
        with pytest.raises(AlreadyRunning):
            async with open_app(file):
                pass
    assert [one.ended for one in app.conclusions] == ["pending"]
    async with Ledger(file.with_suffix(".sqlite")) as ledger:
        assert await ledger.live_attempts() == ()


async def test_budgets_that_cannot_be_read_are_an_error_of_budgets(work: Path) -> None:
    """Nothing is begun: what was spent is not known."""
    async with open_app(work) as app:
        await app.wait()
    async with Ledger(work.with_suffix(".sqlite")) as ledger:
        await ledger.agents.put("budget", "{bad")
    with pytest.raises(BudgetError, match=r"it is '\{bad', wanted JSON"):
        async with open_app(work):
            pass


async def _later(*_: object) -> None:
    """An async function."""


class Inspector:
    """An object that is called as an async function."""

    async def __call__(self, *_: object) -> None:
        """Find nothing wrong."""


@pytest.mark.parametrize(
    ("name", "got", "wanted"),
    [
        ("chaos", -1, "a number from 0"),
        ("chaos", "x", "a number from 0"),
        ("failures", {"x": 1}, "a FailureTable"),
        ("verifier", "pytest", "a function"),
        ("fates", 3, "a Fates"),
        ("branches", otpy.ChildSpec("Lookout", _later), "a list of specs of children"),
        ("branches", ["x"], "a list of specs of children"),
        ("hooks", print, "a list of functions"),
        ("listen", None, "a plain function"),
        ("listen", _later, "a plain function"),
    ],
)
async def test_what_can_never_work_is_refused_before_anything_is_opened(
    work: Path, name: str, got: object, wanted: str
) -> None:
    """No agent works for a verifier that cannot be called; one line has what was given."""
    options: Any = {name: got}
    with pytest.raises(InvalidTreeSetting) as caught:
        async with open_app(work, **options):
            pass
    assert str(caught.value).startswith(f"{name}: got {got!r:.20}")
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(work.parent.iterdir()) == [work]


def _wrapped(*given: object) -> Awaitable[None]:
    """A plain function that returns what is awaited, as decorators make them."""
    return _later(*given)


@pytest.mark.parametrize("verifier", [_later, partial(_later, 1), Inspector(), _wrapped])
async def test_a_verifier_is_whatever_is_called_as_an_async_function(
    work: Path, verifier: Verifier
) -> None:
    """A function with arguments bound to it is one, and so is an object."""
    async with open_app(work, verifier=verifier) as app:
        await app.wait()


def test_a_wrong_list_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    """No file is left beside it."""
    file = tmp_path / "w.toml"
    file.write_text("[[assignment]]\n")

    async def main() -> None:
        async with open_app(file):
            pass

    with pytest.raises(InvalidWorkList):
        asyncio.run(main())
    assert list(tmp_path.iterdir()) == [file]

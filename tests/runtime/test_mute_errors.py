"""Errors without text: the caller, the report and the log still name them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, GenServer, InvalidSpec, Restart, SupervisorFailed, SupervisorSpec
from otpy.errors import CallFailed, StartFailed, TreeStartFailed
from otpy.reports import ChildExited, MessageUnhandled
from otpy.server import CallResult
from otpy.testing import Recording
from tests.runtime.children import forever


class Mute(Exception):
    """An error without text."""

    def __str__(self) -> str:
        raise TypeError("no text")

    __repr__ = __str__


NO_TEXT = "Mute: <Mute: str() raised TypeError>"


async def crashes() -> None:
    raise Mute


async def starts(*, task_status: TaskStatus[None]) -> None:
    raise Mute


class Server(GenServer[object, object, None]):
    """A server that crashes with a mute error, or with one that would show its request."""

    def init(self) -> None:
        return None

    def handle_call(self, request: object, caller: object, state: None) -> CallResult[object, None]:
        if request == "crash":
            raise Mute
        return request  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def tree(*children: ChildSpec) -> SupervisorSpec:
    return SupervisorSpec("app", children, intensity=0)


async def test_a_tree_shows_why_a_child_crashed(reports: Recording) -> None:
    """A snapshot, the reason itself, its report and the process have a text."""
    lives: list[otpy.Process] = []

    async def crashes_once() -> None:
        lives.append(otpy.current())
        await (forever() if lives[1:] else crashes())

    spec = SupervisorSpec("app", [ChildSpec("c", crashes_once)])
    async with otpy.start(spec, hooks=[reports]) as app:
        await app.wait_for_restart("c", after=1)
        assert NO_TEXT in app.snapshot().render()
        assert str(app.child("c").last_exit) == f"crashed: {NO_TEXT}"
        assert NO_TEXT in repr(lives[0])
        assert isinstance(reports.one(ChildExited).reason, otpy.Crashed)


async def test_a_tree_that_gave_up_says_why() -> None:
    """The message of the error lists the restarts before it."""
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(tree(ChildSpec("c", crashes)), hooks=()) as app:
            await app.wait()
    assert NO_TEXT in str(caught.value)


async def test_a_tree_that_did_not_start_says_why() -> None:
    """The caller gets the tree's error, not one that the text raised."""
    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(tree(ChildSpec("c", starts)), hooks=()):
            pass
    assert NO_TEXT in str(caught.value)


async def test_a_child_that_did_not_start_says_why() -> None:
    """The same holds for one child."""
    async with otpy.start(tree(), hooks=()) as app:
        with pytest.raises(StartFailed) as caught:
            await app.start_child(ChildSpec("c", starts))
    assert NO_TEXT in str(caught.value)


@pytest.fixture
def server() -> SupervisorSpec:
    return SupervisorSpec("app", [ChildSpec("s", Server)])


async def test_a_caller_hears_why_its_server_crashed(server: SupervisorSpec) -> None:
    """The caller gets `CallFailed`."""
    async with otpy.start(server, hooks=()) as app:
        with pytest.raises(CallFailed) as caught:
            await Server.at("app/s", app).call("crash")
    assert NO_TEXT in str(caught.value)


async def test_a_wrong_result_without_text_is_named(server: SupervisorSpec) -> None:
    """The error blames the server for the result, not for its missing text."""
    async with otpy.start(server, hooks=()) as app:
        with pytest.raises(CallFailed, match=r"BadReturn.*<Mute: repr\(\) raised TypeError>"):
            await Server.at("app/s", app).call(Mute())


async def test_a_message_without_text_is_dropped_and_reported(
    server: SupervisorSpec, reports: Recording
) -> None:
    """The server goes on; the report of a huge message has a thousand characters."""
    async with otpy.start(server, hooks=[reports]) as app:
        ref = Server.at("app/s", app)
        ref.send(Mute())
        ref.send("x" * 10_000_000)
        await asyncio.sleep(0)
        first, second = reports.of(MessageUnhandled)
        assert app.child("s").incarnation == 1
    assert first.message == "<Mute: repr() raised TypeError>"
    assert len(second.message) < 1_050
    assert second.message.endswith("… (10,000,002 characters)")


async def test_a_missing_handler_names_its_request() -> None:
    """This includes a request without text."""

    class Bare(GenServer[object, object, None]):
        def init(self) -> None:
            return None

    spec = ChildSpec("s", Bare, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
        process = app.child("s")
        Bare.at(process).cast(Mute())
        reason = await process.wait()
    assert "<Mute: repr() raised TypeError>" in str(reason)


def test_a_spec_that_can_never_work_says_so() -> None:
    """This holds even where the wrong value has no text."""
    with pytest.raises(InvalidSpec, match=r"is <Mute: repr\(\) raised TypeError>, wanted"):
        ChildSpec("c", forever, restart=Mute())  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


async def test_a_start_that_returns_what_it_must_not_is_named() -> None:
    """The result is neither an awaitable nor a context manager, and has no text."""
    start: Any = lambda: Mute()  # noqa: E731, PLW0108
    with pytest.raises(TreeStartFailed, match=r"returned <Mute: repr\(\) raised TypeError>"):
        async with otpy.start(tree(ChildSpec("c", start)), hooks=()):
            pass

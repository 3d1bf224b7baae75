"""`Lifespan.wrap`: a tree around applications with and without a lifespan."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otpy
from otpy import SupervisorSpec
from otpy.testing import MockClock
from tests.runtime.children import Boom, Journal
from tests.servers.asgi_client import App, Host


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def tree(journal: Journal) -> otpy.Lifespan[otpy.Supervisor]:
    return otpy.lifespan(SupervisorSpec("web", [journal.spec("db", 1)]))


def says(*messages: str, fails_after: str = "") -> tuple[App, list[str]]:
    """Return an application that sends these messages, and a list of the messages that it got."""
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)  # let the children begin
        for message in messages:
            heard.append((await receive())["type"])
            await send({"type": f"lifespan.{message}", "message": "why"})
            if message == fails_after:
                raise Boom(message)

    return app, heard


Tree = otpy.Lifespan[otpy.Supervisor]


async def test_the_application_starts_and_stops_inside_the_tree(
    clock: MockClock, tree: Tree, journal: Journal
) -> None:
    """The application may use the children in its own start and stop."""
    at: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for event in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{event}"
            at.append(scope["state"]["otpy"].child("db").alive)
            await send({"type": f"lifespan.{event}.complete"})

    async with Host(tree.wrap(app)) as host:
        pass
    assert at == [True, True]
    assert host.said == ["startup.complete", "shutdown.complete"]
    assert journal.lines == ["+db", "-db"]


async def raises(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError(scope["type"])


async def returns(scope: Any, receive: Any, send: Any) -> None:
    return


async def returns_when_started(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "lifespan.startup.complete"})


@pytest.mark.parametrize("app", [raises, returns, returns_when_started])
async def test_an_application_without_a_lifespan_has_a_tree_all_the_same(
    clock: MockClock, tree: Tree, journal: Journal, app: App
) -> None:
    """In whatever way it declines the lifespan, the tree runs until the server stops."""
    async with Host(tree.wrap(app)) as host:
        await clock.advance(10)
        assert host.said == ["startup.complete"]
        assert tree.root.running
    assert host.said == ["startup.complete", "shutdown.complete"]
    assert journal.lines == ["+db", "-db"]


@pytest.mark.parametrize("fails_after", ["startup.failed", ""])
async def test_an_application_that_does_not_start_is_told_of_once(
    clock: MockClock, tree: Tree, journal: Journal, fails_after: str
) -> None:
    """The server gets its text once, whether it then raises or not; the tree stops."""
    app, heard = says("startup.failed", fails_after=fails_after)
    async with Host(tree.wrap(app)) as host:
        await clock.advance(5)
    assert (host.said, host.texts) == (["startup.failed"], ["why"])
    assert heard == ["lifespan.startup"]
    assert journal.lines == ["+db", "-db"]


@pytest.mark.parametrize(
    ("last", "fails_after", "said"),
    [
        ("shutdown.failed", "", "shutdown.failed"),
        ("shutdown.failed", "shutdown.failed", "shutdown.failed"),
        ("shutdown.complete", "shutdown.complete", "shutdown.failed"),
    ],
)
async def test_an_application_that_stops_badly_is_told_of_when_the_tree_has_ended(
    clock: MockClock, tree: Tree, journal: Journal, last: str, fails_after: str, said: str
) -> None:
    """The server waits for the tree, whatever the application has sent before."""
    app, _ = says("startup.complete", last, fails_after=fails_after)
    async with Host(tree.wrap(app)) as host:
        pass
    assert host.said == ["startup.complete", said]
    assert ("Boom" if fails_after else "why") in host.texts[1]
    assert journal.lines == ["+db", "-db"]
    assert clock.now == 1


async def test_an_application_that_fails_while_it_serves_takes_the_tree_along(
    clock: MockClock, tree: Tree, journal: Journal
) -> None:
    """The lifespan then ends, and later requests are refused."""
    app, _ = says("startup.complete", fails_after="startup.complete")
    async with Host(tree.wrap(app)) as host:
        await clock.advance(5)
        assert host.said == ["startup.complete", "shutdown.failed"]
        assert journal.lines == ["+db", "-db"]
        assert (await host.get()).status_code == 503


async def test_a_request_finds_the_root_where_the_server_keeps_no_state(
    clock: MockClock, tree: Tree
) -> None:
    """Servers that are older than lifespan state behave so; their scopes are not changed."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"]["otpy"])

    scopes: list[dict[str, Any]] = [{"type": "http"}, {"type": "websocket", "state": {"a": 1}}]
    async with Host(tree.wrap(returns), keeps_state=False):
        pass
    wrapped = tree.wrap(app)
    host = Host(wrapped, keeps_state=False)
    async with host:
        for scope in scopes:
            await wrapped(scope, None, None)
        assert seen[-2:] == [tree.root, tree.root]
    assert scopes == [{"type": "http"}, {"type": "websocket", "state": {"a": 1}}]


async def test_a_server_without_a_lifespan_is_told_of(tree: Tree) -> None:
    """With `uvicorn --lifespan off`, the tree was never started, so every request fails."""
    with pytest.raises(RuntimeError, match="has not run the lifespan"):
        await tree.wrap(returns)({"type": "http"}, None, None)


async def test_a_request_that_fails_is_not_in_flight_any_more(clock: MockClock, tree: Tree) -> None:
    """The error goes on to the server, as without a tree."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise Boom(scope["type"])

    wrapped: Any = tree.wrap(app)
    async with Host(wrapped):
        with pytest.raises(Boom, match="http"):
            await wrapped({"type": "http"}, None, None)
        assert wrapped._tree.requests == 0

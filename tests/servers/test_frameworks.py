"""A tree inside an application of each framework, driven by the real lifespan protocol."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from otpy.testing import MockClock
from tests.servers.asgi_client import App, Host
from tests.servers.kettle import Kettle, Tree


@pytest.fixture(params=["starlette", "fastapi", "litestar", "quart"])
def make(request: pytest.FixtureRequest) -> Callable[[Tree], App]:
    """Return the maker of each framework's application, if that framework is installed."""
    make: Callable[[Tree], App] = _module(request.param).make
    return make


def _module(framework: str) -> Any:
    pytest.importorskip(framework)
    return importlib.import_module(f"tests.servers.in_{framework}")


async def test_handlers_reach_the_tree_until_it_ends(
    clock: MockClock, make: Callable[[Tree], App]
) -> None:
    """The tree is ready before the server accepts, and stopped before the server is told."""
    kettle = Kettle()
    async with Host(make(kettle.lifespan())) as host:
        assert clock.now == 3
        assert host.said == ["startup.complete"]
        assert (await host.get()).text == "tea"
    assert kettle.log == ["+", "-"]
    assert host.said == ["startup.complete", "shutdown.complete"]


async def test_the_lifespan_fails_with_the_tree(
    clock: MockClock, make: Callable[[Tree], App]
) -> None:
    """There is no server to end; the framework shows the reason, with the crash."""
    kettle = Kettle()
    async with Host(make(kettle.lifespan())) as host:
        kettle.boils_over.set()
        await clock.advance(1)
        assert host.said == ["startup.complete", "shutdown.failed"]
    assert "Boom: boiled over" in host.texts[1]
    assert "SupervisorFailed: web/kettle: web gave up" in host.texts[1]


@pytest.mark.real_time
async def test_an_asynchronous_view_of_django_reaches_the_tree() -> None:
    """This uses the real clock, because Django does some of its work in threads."""
    kettle, in_django = Kettle(seconds=0), _module("django")
    with in_django.settings(in_django):
        async with Host(in_django.make(kettle.lifespan())) as host:
            assert host.said == ["startup.complete"]
            assert (await host.get()).text == "tea"
    assert kettle.log == ["+", "-"]
    assert host.said == ["startup.complete", "shutdown.complete"]

"""The applications in the how-to on embedding, served."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from logging.handlers import QueueListener
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.docs.snippets import ROOT, blocks
from tests.servers.asgi_client import Host

pytestmark = pytest.mark.real_time

PAGE = ROOT / "docs" / "how-to" / "embed-a-tree.md"
TREE, *PROGRAMS = [text for info, text in blocks(PAGE) if info == "python served"]
"""The tree they share, and the programs."""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """What runs the program that the page shows for a framework, and returns it as a module."""

    def load(framework: str) -> Any:
        pytest.importorskip(framework)
        for name, texts in {"service": [TREE], "main": PROGRAMS}.items():
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            for text in texts:
                if text is TREE or re.search(rf"^(from|import) {framework}\b", text, re.MULTILINE):
                    exec(compile(text, str(PAGE), "exec", dont_inherit=True), vars(module))  # noqa: S102
        return sys.modules["main"]

    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "project.settings")
    return load


@pytest.mark.parametrize("framework", ["fastapi", "starlette", "litestar", "quart"])
def test_an_application_on_the_page_answers(framework: str, program: Callable[[str], Any]) -> None:
    """With what a child of its tree holds."""
    asyncio.run(_is_served(program(framework).app))


@pytest.fixture(autouse=True)
def _own_log_ends() -> Iterator[None]:
    """End the thread of Litestar's log: it would work beside the clocks of other tests."""
    yield
    log = logging.getLogger("litestar")
    for handler in log.handlers[:]:
        if isinstance(listener := getattr(handler, "listener", None), QueueListener):
            atexit.unregister(listener.stop)
            listener.stop()
            log.removeHandler(handler)


async def _is_served(app: Any) -> None:
    async with Host(app) as host:
        assert "the answer is 42" in (await host.get()).text
    assert host.said == ["startup.complete", "shutdown.complete"]


def test_the_application_of_aiohttp_on_the_page_answers(
    program: Callable[[str], Any],
) -> None:
    """Under the server of aiohttp itself, for there is no protocol in between."""
    app = program("aiohttp").app
    web: Any = importlib.import_module("aiohttp.web")

    async def serve() -> None:
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://{host}:{port}/")).text == "the answer is 42"
        await runner.cleanup()

    asyncio.run(serve())


def test_the_application_of_django_on_the_page_answers(
    program: Callable[[str], Any],
) -> None:
    """With an asynchronous view, and settings that the reader has."""
    pytest.importorskip("django")
    in_django = importlib.import_module("tests.servers.in_django")
    with in_django.settings("main"):
        asyncio.run(_is_served(program("django").application))

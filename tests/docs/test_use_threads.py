"""The endpoints in the how-to on threads, asked as a server asks them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Coroutine
from contextlib import redirect_stdout
from io import StringIO
from types import ModuleType
from typing import Any
from unittest.mock import patch

import httpx
import pytest

import otpy
from tests.docs.snippets import ROOT, blocks

pytestmark = pytest.mark.real_time

PAGE = ROOT / "docs" / "how-to" / "use-threads.md"
PROGRAMS = dict(reversed([*blocks(PAGE)]))  # the first of each kind


def not_run(program: Coroutine[Any, Any, object]) -> None:
    program.close()


def module(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> Any:
    """Return a module that can be imported by this name."""
    made = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    with patch("asyncio.run", not_run), redirect_stdout(StringIO()):
        exec(compile(text, str(PAGE), "exec", dont_inherit=True), vars(made))  # noqa: S102
    return made


async def asked(app: Any, method: str, path: str, root: Any) -> Any:
    """Return what is answered where a lifespan has put the root of a tree."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"state": {"otpy": root}}, receive, send)

    transport = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
        answer = await client.request(method, path)
    return answer.json() if answer.status_code == 200 else answer.status_code


async def test_the_endpoints_of_fastapi_on_the_page_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In threads of a pool; when the tree has ended, too."""
    pytest.importorskip("fastapi")
    fastapi: Any = importlib.import_module("fastapi")
    house: otpy.SupervisorSpec = module(monkeypatch, "service", PROGRAMS["python"]).house
    app = fastapi.FastAPI()
    app.include_router(module(monkeypatch, "endpoints", PROGRAMS["python fastapi"]).router)
    async with otpy.start(house) as root:
        assert await asked(app, "POST", "/temperature/25", root) is None
        assert await asked(app, "GET", "/temperature", root) == (20 + 21 + 22 + 25) / 4
    assert await asked(app, "GET", "/temperature", root) == 503


async def test_the_view_of_django_on_the_page_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the thread that Django runs its sync views in."""
    pytest.importorskip("django")
    conf: Any = importlib.import_module("django.conf")
    core: Any = importlib.import_module("django.core.asgi")
    house: otpy.SupervisorSpec = module(monkeypatch, "service", PROGRAMS["python"]).house
    module(monkeypatch, "views", PROGRAMS["python django"])
    settings = {"ROOT_URLCONF": "views", "ALLOWED_HOSTS": ["*"], "SECRET_KEY": "x", "DEBUG": False}
    with patch.object(conf.settings, "_wrapped", conf.UserSettingsHolder(conf.global_settings)):
        for name, value in settings.items():
            setattr(conf.settings, name, value)
        async with otpy.start(house) as root:
            app = core.get_asgi_application()
            assert await asked(app, "GET", "/temperature", root) == {"celsius": 21.0}

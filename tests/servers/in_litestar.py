"""The kettle in a Litestar application."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, Request, get

from tests.servers.asgi_client import App
from tests.servers.kettle import Tree, tea


@get("/", media_type="text/plain")
async def endpoint(request: Request[Any, Any, Any]) -> str:
    return tea(request.app.state.otpy)


def make(tree: Tree) -> App:
    """Return the application, without logging, which would leave a thread."""
    return Litestar([endpoint], lifespan=[tree], logging_config=None)

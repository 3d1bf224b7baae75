"""The kettle in a FastAPI application."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from tests.servers.asgi_client import App
from tests.servers.kettle import Tree, tea


async def endpoint(request: Request) -> PlainTextResponse:
    return PlainTextResponse(tea(request.state.otpy))


def make(tree: Tree) -> App:
    """Return the application."""
    app = FastAPI(lifespan=tree)
    app.get("/")(endpoint)
    return app

"""The kettle in a Starlette application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.servers.asgi_client import App
from tests.servers.kettle import Tree, tea


async def endpoint(request: Request) -> Response:
    return PlainTextResponse(tea(request.state.otpy))


def make(tree: Tree) -> App:
    """Return the application."""
    return Starlette(lifespan=tree, routes=[Route("/", endpoint)])

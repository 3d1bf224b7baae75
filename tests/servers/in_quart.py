"""The kettle in a Quart application, which is wrapped."""

from __future__ import annotations

from quart import Quart, request

from tests.servers.asgi_client import App
from tests.servers.kettle import Tree, tea


async def endpoint() -> str:
    return tea(request.scope["state"]["otpy"])


def make(tree: Tree) -> App:
    """Return the application."""
    app = Quart("kitchen")
    app.add_url_rule("/", view_func=endpoint)
    return tree.wrap(app)

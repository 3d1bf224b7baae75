"""The kettle in a Django application, which has no lifespan and is wrapped."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tests.servers.asgi_client import App
from tests.servers.kettle import Tree, tea

# Not by `import`, because it has no types.
django: Any = import_module("django")
conf: Any = import_module("django.conf")
asgi: Any = import_module("django.core.asgi")
http: Any = import_module("django.http")
test_utils: Any = import_module("django.test.utils")
urls: Any = import_module("django.urls")


async def endpoint(request: Any) -> Any:
    return http.HttpResponse(tea(request.scope["state"]["otpy"]))


urlpatterns = [urls.path("", endpoint)]


@contextmanager
def settings(urlconf: object) -> Generator[None]:
    """Let Django find its URLs in the module `urlconf`; a process can configure it only once."""
    if not conf.settings.configured:
        conf.settings.configure(ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
        django.setup()
    with test_utils.override_settings(ROOT_URLCONF=urlconf):
        yield


def make(tree: Tree) -> App:
    """Return the application."""
    return tree.wrap(asgi.get_asgi_application())

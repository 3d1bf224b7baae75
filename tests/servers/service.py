"""Applications with a tree inside, for real servers: `uvicorn tests.servers.service:APP`.

Only a server imports this, never a test.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import otpy
from otpy import AutoShutdown, ChildSpec, Restart, SupervisorSpec
from otpy._runtime import server_end, stop

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

for module, name, seconds in ((server_end, "LAST_GRACE", 0.3), (stop, "KILL_GRACE", 0.1)):
    setattr(module, name, seconds)  # this runs in real time

broken = asyncio.Event()
finished = asyncio.Event()


def say(line: str) -> None:
    # In one piece: lines of several workers must not mix in the pipe that the test reads.
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


async def resource(name: str, *, task_status: TaskStatus[None]) -> None:
    """Take some time to start, and some to stop."""
    await asyncio.sleep(0.05)
    say(f"+{name}")
    task_status.started()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0.05)
        say(f"-{name}")


async def brittle() -> None:
    await broken.wait()
    raise ValueError("out of paper")


async def work() -> None:
    await finished.wait()


async def stuck(*, ready: bool, task_status: TaskStatus[None]) -> None:
    """Hold a thread that cannot be ended."""
    if ready:
        task_status.started()
    await asyncio.to_thread(threading.Event().wait)


def quit_program(_process: otpy.Process, _reason: otpy.ExitReason) -> None:
    raise SystemExit(7)


spec = SupervisorSpec(
    "web",
    [
        ChildSpec("db", resource, args=("db",)),
        ChildSpec("cache", resource, args=("cache",)),
        ChildSpec("brittle", brittle),
        ChildSpec("work", work, restart=Restart.TRANSIENT, significant=True),
    ],
    intensity=0,
    auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
)
tree = otpy.lifespan(spec)


def with_a_stuck_child(*, ready: bool) -> otpy.Lifespan[otpy.Supervisor]:
    child = ChildSpec("stuck", stuck, kwargs={"ready": ready}, shutdown=0.1)
    return otpy.lifespan(
        SupervisorSpec("web", [ChildSpec("db", resource, args=("db",)), child]),
        start_timeout=1,
        stop_timeout=0.2,
    )


async def answer(path: str) -> str:
    """Do the work of a request; the answer names the process."""
    match path:
        case "/slow" | "/slower":
            say("slow begins")
            await asyncio.sleep(0.4 if path == "/slow" else 1.5)
        case "/never":
            say("never begins")
            await asyncio.get_running_loop().create_future()
        case "/block":
            broken.set()
            await asyncio.sleep(0.3)
            time.sleep(60)  # noqa: ASYNC251 - that is what is tested
        case "/break":
            broken.set()
        case "/finish":
            finished.set()
        case "/quit":
            tree.root.child("work").on_exit(quit_program)
            finished.set()
        case _:
            pass
    return str(os.getpid())


async def plain(scope: Any, receive: Any, send: Any) -> None:
    """Answer; like many small applications, this one has no lifespan of its own."""
    assert scope["type"] == "http"
    assert scope["state"]["otpy"].path == "web"
    body = (await answer(scope["path"])).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


wrapped = tree.wrap(plain)
impatient = otpy.lifespan(spec, stop_timeout=1).wrap(plain)
brief = otpy.lifespan(
    SupervisorSpec(
        "web",
        [
            ChildSpec("work", asyncio.sleep, (0,), restart=Restart.TRANSIENT, significant=True),
            ChildSpec("db", resource, args=("db",)),
        ],
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
).wrap(plain)
hanging = with_a_stuck_child(ready=False).wrap(plain)
refusing = with_a_stuck_child(ready=True).wrap(plain)


def starlette() -> Starlette:
    from starlette.applications import Starlette  # noqa: PLC0415 - takes long
    from starlette.responses import PlainTextResponse  # noqa: PLC0415 - takes long
    from starlette.routing import Route  # noqa: PLC0415 - takes long

    async def endpoint(request: Request) -> Response:
        assert request.state.otpy is tree.root
        return PlainTextResponse(await answer(request.url.path))

    return Starlette(lifespan=tree, routes=[Route("/{path:path}", endpoint)])


def run_aiohttp() -> None:
    """Serve with aiohttp's own server."""
    from aiohttp import web  # noqa: PLC0415 - takes long

    async def endpoint(request: web.Request) -> web.Response:
        assert tree.root.running
        return web.Response(text=await answer(request.path))

    app = web.Application()
    app.cleanup_ctx.append(tree)
    app.router.add_get("/{path:.*}", endpoint)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]))


if __name__ == "__main__":
    run_aiohttp()

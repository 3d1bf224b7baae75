"""A tree inside each web server, in a process of its own with a socket of its own."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from tests.servers.server import APP, Server

pytestmark = pytest.mark.real_time

WHY = "otpy: web/brittle: web gave up: more than 0 restarts in 5 s; crashed: ValueError: out of"


def uvicorn(*options: str) -> Server:
    return _server("uvicorn", "--port", "0", *options)


def hypercorn(*options: str) -> Server:
    return _server("hypercorn", "--bind", "127.0.0.1:0", *options)


def gunicorn(*options: str) -> Server:
    return _server("gunicorn", "--bind", "127.0.0.1:0", "--workers", "2", *options)


def aiohttp() -> Server:
    return _server("aiohttp", "0", module="tests.servers.service")


def _server(package: str, *options: str, module: str | None = None) -> Server:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return Server(module or package, *options)


def break_it(server: Server) -> None:
    """Let the tree give up during a request; check that the request is still answered."""
    slow = server.ask("/slow")
    server.until("slow begins")
    answer = server.get("/break")
    assert answer is not None
    assert answer[0] == 200
    assert slow.get() == answer


def test_uvicorn_ends_with_status_1_when_the_tree_gives_up() -> None:
    """It answers requests in flight, and stderr has the reason in one line."""
    with uvicorn(APP) as server:
        server.listens()
        pid = server.pid()
        break_it(server)
        assert server.status() == 1
    said = [line for line in server.seen if line.startswith("otpy:")]
    assert said == [f"{WHY} paper; process {pid} ends, with status 1"]
    assert "SupervisorFailed" in server.output
    assert "Application shutdown failed" in server.output


def test_uvicorn_answers_what_is_in_flight_before_the_tree_stops() -> None:
    """After SIGTERM the request comes first, then the children, in reverse start order."""
    with uvicorn("--factory", "tests.servers.service:starlette") as server:
        server.listens()
        slow = server.ask("/slow")
        server.until("slow begins")
        server.terminate()
        answer = slow.get()
        assert answer is not None
        assert answer[0] == 200
        assert server.status() == -15  # as uvicorn ends after this signal without a tree
    marks = ("+db", "+cache", "Uvicorn running", '"GET /slow', "-cache", "-db", "Finished server")
    order = [next(n for n, line in enumerate(server.seen) if mark in line) for mark in marks]
    assert order == sorted(order)


def test_uvicorn_stops_in_order_when_the_tree_ends_in_good_order() -> None:
    """The status is 0, as with `otpy.run`, and the lifespan ends as at any other stop."""
    with uvicorn(APP) as server:
        server.listens()
        pid = server.pid()
        server.get("/finish")
        assert server.status() == 0
    assert f"otpy: web has ended in good order; process {pid} ends, with status 0" in server.seen
    assert "Application shutdown complete" in server.output


def test_uvicorn_stops_when_the_tree_has_ended_before_it_was_ready() -> None:
    """An end in good order is noticed even before the server is ready."""
    with uvicorn("tests.servers.service:brief") as server:
        assert server.status() == 0
    assert "web has ended in good order" in server.output


def test_uvicorn_ends_with_the_status_that_a_hook_or_callback_asks_for() -> None:
    """`SystemExit` stops the tree in order, and then the server."""
    with uvicorn("--loop", "asyncio", APP) as server:
        server.listens()
        server.get("/quit")
        assert server.status() == 7
    assert "otpy: web was shut down by SystemExit(7)" in server.output


def test_uvicorn_does_not_start_when_the_tree_hangs() -> None:
    """The text names the child, and the process ends although that child refuses to."""
    with uvicorn("tests.servers.service:hanging") as server:
        assert server.status() != 0
    why = "web/stuck: web did not start: still starting after start_timeout=1 s"
    assert why in server.output
    assert "Uvicorn running" not in server.output
    assert server.seen.index("+db") < server.seen.index("-db")


def test_hypercorn_ends_in_time_although_a_child_refuses_to() -> None:
    """This holds after SIGTERM too: the loop alone would wait for ever for the thread."""
    with hypercorn("--workers", "0", "tests.servers.service:refusing") as server:
        server.listens()
        server.terminate()
        assert server.status() == 1
    assert "-db" in server.seen
    said = [line.partition(": ")[2] for line in server.seen if line.startswith("otpy:")]
    assert re.match(
        r"web/stuck refuses to end: process \d+ will wait for it 0.2 s at most", said[0]
    )
    assert said[1].startswith("web: the server has not ended within 0.2 s")
    assert "has not ended within 0.3 s more; leaving it" in server.output


def test_uvicorn_ends_in_time_although_a_request_never_does() -> None:
    """It ends after `stop_timeout`, with the same status."""
    with uvicorn("tests.servers.service:impatient") as server:
        server.listens()
        never = server.ask("/never")
        server.until("never begins")
        server.get("/break")
        assert server.status() == 1
        assert never.get() in {None, (500, "Internal Server Error")}
    assert "otpy: web: the server has not ended within 1 s; ending its event loop" in server.seen


def test_uvicorn_ends_in_time_although_its_loop_is_blocked() -> None:
    """The last resort is a thread, which needs no loop."""
    with uvicorn("tests.servers.service:impatient") as server:
        server.listens()
        blocked = server.ask("/block")
        assert server.status() == 1
        assert blocked.get() is None
    assert "has not ended within 0.3 s more; leaving it" in server.output


def test_uvicorn_replaces_the_one_worker_whose_tree_gave_up() -> None:
    """With `--workers 2`, the other worker goes on serving."""
    with uvicorn("--workers", "2", APP) as server:
        server.listens()
        _one_is_replaced(server)
        assert f"Child process [{server.pid()}] died" not in server.output


@pytest.mark.parametrize("worker", ["uvicorn_worker.UvicornWorker", "asgi"])
def test_gunicorn_replaces_the_one_worker_whose_tree_gave_up(worker: str) -> None:
    """This holds for the workers of uvicorn, and for gunicorn's own."""
    with gunicorn("--worker-class", worker, APP) as server:
        server.listens()
        _one_is_replaced(server)
    assert "exited with code 1" in server.output


def _one_is_replaced(server: Server) -> None:
    for _ in range(2):
        server.until("+db")
    server.pid()
    answer = server.get("/break")
    assert answer is not None
    ended = answer[1]
    assert server.until("otpy:") == f"{WHY} paper; process {ended} ends, with status 1"
    server.until("+db")
    assert server.pid() != ended


def test_uvicorn_says_what_happened_under_its_reloader(tmp_path: Path) -> None:
    """With `--reload` there is one line, and nothing is served until a file changes."""
    file = tmp_path / "program.py"
    file.touch()
    with uvicorn("--reload", "--reload-dir", str(tmp_path), APP) as server:
        server.listens()
        ended = server.pid()
        break_it(server)
        server.until("Finished server process")
        assert server.get("/", timeout=0.3) is None
        os.utime(file, (2e9, 2e9))
        server.until("Reloading")
        server.until("+db")
        assert server.pid() != ended
    said = [line for line in server.seen if line.startswith("otpy:")]
    assert said == [f"{WHY} paper; process {ended} ends, with status 1"]


def test_hypercorn_ends_and_says_why() -> None:
    """Its worker cannot be asked to stop: a request in flight is answered, and later ones get 503.

    The worker ends with status 1, which hypercorn itself does not pass on.
    """
    with hypercorn(APP) as server:
        server.listens()
        slow = server.ask("/slower")
        server.until("slow begins")
        answer = server.get("/break")
        server.until("-db")
        assert server.get("/") == (503, "Service Unavailable\n")
        assert slow.get() == answer
        server.status()
    assert [line for line in server.seen if "otpy:" in line or "-db" in line] == [
        "-db",
        f"{WHY} paper; process {answer[1] if answer else None} ends, with status 1",
    ]
    assert server.seen[-1].startswith("otpy:")


def test_hypercorn_that_nobody_wrapped_ends_too() -> None:
    """Without the wrapper, requests in flight are not counted, and have one second."""
    with hypercorn("tests.servers.service:starlette()") as server:
        server.listens()
        break_it(server)
        server.status()
    assert server.seen[-1].startswith(WHY)


def test_hypercorn_without_workers_ends_with_status_1() -> None:
    """With `-w 0` it stops in order, and has that status."""
    with hypercorn("--workers", "0", APP) as server:
        server.listens()
        break_it(server)
        assert server.status() == 1
    assert WHY in server.output


def test_aiohttp_ends_with_status_1_when_the_tree_gives_up() -> None:
    """`cleanup_ctx` under `run_app` answers requests in flight too."""
    with aiohttp() as server:
        server.listens()
        break_it(server)
        assert server.status() == 1
    assert WHY in server.output
    assert server.seen[-2].startswith("otpy.SupervisorFailed: web/brittle: web gave up")

"""`otpy.lifespan` from the view of a server, without a real one."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import otpy
from otpy import AutoShutdown, ChildSpec, InvalidSpec, Restart, SupervisorFailed, SupervisorSpec
from otpy.errors import NotRunning, TreeStartFailed
from otpy.reports import Report
from otpy.testing import MockClock
from tests.runtime.children import Boom, Journal, forever
from tests.servers.asgi_client import Host

if TYPE_CHECKING:
    from anyio.abc import TaskStatus


async def slow(seconds: float, *, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(seconds)
    task_status.started()
    await forever()


async def plain(scope: Any, receive: Any, send: Any) -> None:
    """Serve without a lifespan, and refuse it as Django does."""
    if scope["type"] != "http":
        raise ValueError(scope["type"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["state"]["otpy"].path.encode()})


@pytest.fixture
def journal() -> Journal:
    return Journal()


def tree_of(*children: ChildSpec | SupervisorSpec, **options: Any) -> SupervisorSpec:
    return SupervisorSpec("web", children, **options)


async def test_the_server_may_start_when_the_tree_is_ready(clock: MockClock) -> None:
    """It may not start earlier: here it takes three seconds."""
    tree = otpy.lifespan(tree_of(ChildSpec("a", slow, args=(3,))))
    async with Host(tree.wrap(plain)) as host:
        assert clock.now == 3
        assert host.said == ["startup.complete"]
        assert (await host.get()).text == "web"


async def test_the_tree_is_stopped_before_the_server_hears_that_all_is_over(
    clock: MockClock, journal: Journal
) -> None:
    """The children stop in reverse order, and their clean-up is waited for."""
    tree = otpy.lifespan(tree_of(journal.spec("a", 1), journal.spec("b", 2)))
    async with Host(tree.wrap(plain)) as host:
        pass
    assert journal.lines == ["+a", "+b", "-b", "-a"]
    assert host.said == ["startup.complete", "shutdown.complete"]
    assert clock.now == 3


async def test_a_start_that_hangs_fails_after_20_seconds_and_names_the_child(
    clock: MockClock, journal: Journal
) -> None:
    """This holds however deep the child stands, and started children are stopped."""
    deep = SupervisorSpec("deep", [ChildSpec("b", slow, args=(1000,))])
    tree = otpy.lifespan(tree_of(journal.spec("a"), deep))
    async with Host(tree.wrap(plain)) as host:
        pass
    assert host.said == ["startup.failed"]
    why = "web/deep/b: web did not start: still starting after start_timeout=20 s"
    assert why in host.texts[0]
    assert journal.lines == ["+a", "-a"]
    assert 20 <= clock.now < 30
    assert isinstance(host.task.exception(), TreeStartFailed)


async def test_a_start_may_take_for_ever_if_it_is_told_to(clock: MockClock) -> None:
    """The option is `start_timeout=None`."""
    tree = otpy.lifespan(tree_of(ChildSpec("a", slow, args=(1000,))), start_timeout=None)
    async with tree(None):
        assert clock.now == 1000


async def test_a_tree_that_is_ready_in_time_is_not_disturbed_later(clock: MockClock) -> None:
    """The limit applies to the start only."""
    tree = otpy.lifespan(tree_of(ChildSpec("a", slow, args=(19,))))
    async with tree(None):
        await clock.advance(100)
        assert tree.root.running


async def test_a_start_that_has_failed_is_not_blamed_on_the_limit(
    clock: MockClock, journal: Journal
) -> None:
    """The limit is reached while started children are slow to stop."""

    async def fail(*, task_status: TaskStatus[None]) -> None:
        await asyncio.sleep(18)
        raise Boom("no paper")

    tree = otpy.lifespan(tree_of(journal.spec("a", 4), ChildSpec("b", fail)))
    with pytest.raises(TreeStartFailed, match="Boom: no paper"):
        async with tree(None):
            pass
    assert clock.now == 22


async def test_a_child_that_does_not_start_keeps_the_server_from_starting(
    clock: MockClock,
) -> None:
    """The start fails at once, with the error of the child."""

    async def fail(*, task_status: TaskStatus[None]) -> None:
        raise Boom("no paper")

    async with Host(otpy.lifespan(tree_of(ChildSpec("a", fail))).wrap(plain)) as host:
        pass
    assert (host.said, clock.now) == (["startup.failed"], 0)
    assert "Boom: no paper" in host.texts[0]


async def test_a_tree_that_gave_up_ends_the_lifespan_where_there_is_no_server(
    clock: MockClock, journal: Journal
) -> None:
    """A test has no SIGTERM to send, so the failure is raised, as from `otpy.start`."""
    tree = otpy.lifespan(tree_of(journal.spec("a"), intensity=0))
    async with Host(tree.wrap(plain)) as host:
        journal.crash["a"].set()
        await clock.advance(1)
        assert isinstance(host.task.exception(), SupervisorFailed)
        assert host.said == ["startup.complete", "shutdown.failed"]
        assert "Boom: a" in host.texts[1]
        assert (await host.get()).status_code == 503


async def test_a_body_that_ends_in_the_same_moment_is_not_cancelled(
    clock: MockClock, journal: Journal
) -> None:
    """The failure is raised, and no cancellation arrives afterwards."""
    tree = otpy.lifespan(tree_of(journal.spec("a"), intensity=0))
    with pytest.raises(SupervisorFailed):
        async with tree(None):
            await asyncio.sleep(0)
            journal.crash["a"].set()
            await tree.root.wait()
    await asyncio.sleep(1)


@pytest.mark.real_time
def test_a_server_in_a_thread_is_not_ended() -> None:
    """The process is not the server's own, so the lifespan raises the failure."""
    raised: list[BaseException] = []

    async def serve() -> None:
        journal = Journal()
        async with Host(otpy.lifespan(tree_of(journal.spec("a"), intensity=0)).wrap(plain)) as host:
            await asyncio.sleep(0)
            journal.crash["a"].set()
            await asyncio.wait([host.task])
            error = host.task.exception()
            assert error is not None
            raised.append(error)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    thread.join()
    assert [type(error) for error in raised] == [SupervisorFailed]


async def test_requests_are_refused_while_the_tree_stops(
    clock: MockClock, journal: Journal
) -> None:
    """This begins when the tree gives up, although its children are slow to stop."""
    tree = otpy.lifespan(tree_of(journal.spec("a", 3), journal.spec("b"), intensity=0))
    async with Host(tree.wrap(plain)) as host:
        journal.crash["b"].set()
        await clock.advance(1)
        answer = await host.get()
        assert (answer.status_code, answer.text) == (503, "Service Unavailable\n")
        assert not tree.root.ended


async def test_websockets_are_refused_too(clock: MockClock, journal: Journal) -> None:
    """They are closed before they are accepted, with the code for "try again later"."""
    tree = otpy.lifespan(tree_of(journal.spec("a"), intensity=0))
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = tree.wrap(plain)
    async with Host(app):
        journal.crash["a"].set()
        await clock.advance(1)
        await app({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1013}]


async def test_a_tree_that_ended_in_good_order_disturbs_nobody_where_there_is_no_server(
    clock: MockClock,
) -> None:
    """The body goes on, as with `otpy.start`; a wrapped application refuses to serve."""
    work = ChildSpec("a", asyncio.sleep, args=(5,), restart=Restart.TRANSIENT, significant=True)
    tree = otpy.lifespan(tree_of(work, auto_shutdown=AutoShutdown.ANY_SIGNIFICANT))
    async with Host(tree.wrap(plain)) as host:
        await clock.advance(6)
        assert tree.root.ended
        assert (await host.get()).status_code == 503
        assert not host.task.done()
    assert host.said == ["startup.complete", "shutdown.complete"]


async def test_the_root_can_be_had_while_the_server_runs(clock: MockClock) -> None:
    """The state has it under the name `otpy`; before and after the run, there is no root."""
    tree = otpy.lifespan(tree_of(ChildSpec("a", forever)))
    for _ in range(2):  # a test may run the same application again
        with pytest.raises(NotRunning, match="web"):
            _ = tree.root
        app = SimpleNamespace(state=SimpleNamespace())
        async with tree(app) as state:
            assert state == {"otpy": tree.root}
            assert app.state.otpy is tree.root
    with pytest.raises(NotRunning, match="web"):
        _ = tree.root


async def test_an_application_whose_state_takes_no_names_is_left_alone(clock: MockClock) -> None:
    """Its attribute `state` may have another meaning."""
    async with otpy.lifespan(tree_of())(SimpleNamespace(state="running")) as state:
        assert state["otpy"].running


async def test_one_lifespan_serves_one_application_at_a_time(clock: MockClock) -> None:
    """Otherwise the root would be ambiguous; the running application is not affected."""
    tree = otpy.lifespan(tree_of(ChildSpec("a", forever)))
    async with tree(None):
        with pytest.raises(RuntimeError, match="web: this lifespan runs already"):
            async with tree(None):
                pass
        assert tree.root.running


async def test_it_is_an_async_generator_for_those_who_want_one(
    clock: MockClock, journal: Journal
) -> None:
    """This is the form that aiohttp used before 3.14."""
    iterator: Any = otpy.lifespan(tree_of(journal.spec("a")))(None)
    assert aiter(iterator) is iterator
    await anext(iterator)
    await asyncio.sleep(0)
    assert journal.lines == ["+a"]
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)
    assert journal.lines == ["+a", "-a"]


async def test_hooks_get_the_reports_of_each_run(clock: MockClock) -> None:
    """This includes hooks from an iterator, which can be read only once."""
    heard: list[str] = []

    def hear(report: Report) -> None:
        heard.append(report.event)

    tree = otpy.lifespan(tree_of(ChildSpec("a", forever)), hooks=iter([hear]))
    for _ in range(2):
        async with tree(None):
            pass
    assert heard.count("child.started") == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start_timeout": 0}, "lifespan: start_timeout is 0, wanted a finite number"),
        ({"start_timeout": float("nan")}, "start_timeout is nan"),
        ({"start_timeout": float("inf")}, "start_timeout is inf"),
        ({"stop_timeout": None}, "stop_timeout is None"),
        ({"stop_timeout": -1}, "stop_timeout is -1"),
        ({"stop_timeout": "30"}, "stop_timeout is '30'"),
        ({"spec": ChildSpec("a", forever)}, "lifespan: spec is ChildSpec"),
    ],
)
def test_what_can_never_work_is_refused_where_it_is_written(
    options: dict[str, Any], text: str
) -> None:
    """The error does not wait until a server starts."""
    spec: Any = options.pop("spec", tree_of())
    with pytest.raises(InvalidSpec) as caught:
        otpy.lifespan(spec, **options)
    assert text in str(caught.value)


async def test_an_unfinished_start_can_be_cancelled(clock: MockClock, journal: Journal) -> None:
    """A server that is told to stop does so: started children are stopped, and it may run again."""
    tree = otpy.lifespan(tree_of(journal.spec("a"), ChildSpec("b", slow, args=(10,))))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2), tree(None):
            pass
    assert journal.lines == ["+a", "-a"]
    async with tree(None):
        assert tree.root.running

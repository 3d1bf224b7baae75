"""Children that a function makes at each start of their supervisor: OTP's `init/1`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import otpy
from otpy import (
    AutoShutdown,
    ChildSpec,
    ChildType,
    Crashed,
    DynamicSupervisor,
    Exit,
    Ignore,
    InvalidSpec,
    Killed,
    Restart,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from otpy._core.nesting import flat
from otpy.errors import TreeStartFailed
from otpy.reports import ChildStarted, ChildStartFailed, SupervisorStopped
from otpy.specs import DynamicSpec
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, forever, unready

AnySpec = ChildSpec | SupervisorSpec | DynamicSpec


class Source:
    """A source of children with these names, with a different list each time."""

    def __init__(self, *names: str) -> None:
        self.left = list(names)
        self.calls = 0

    def children(self) -> Iterable[AnySpec]:
        """Return one child for each letter of the next name; repeat the last name."""
        self.calls += 1
        names = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return [ChildSpec(name, forever) for name in names]


def supervisor(app: Supervisor, id: str) -> Supervisor:
    """Return the supervisor that is the child `id`."""
    found = app.child(id).supervisor
    assert isinstance(found, Supervisor)
    return found


def known(app: Supervisor, id: str) -> str:
    """Return the ids below the supervisor `id`, in start order."""
    return "".join(node.id for node in supervisor(app, id).snapshot().children)


def workers(app: Supervisor | DynamicSupervisor) -> list[str]:
    """Return the paths of all running workers, in start order."""
    found = [node for node in flat(app.snapshot()) if node.type is ChildType.WORKER]
    return [node.path for node in found if node.state == "running"]


async def restarted(app: Supervisor, id: str) -> None:
    """Kill the supervisor `id`, and wait for its next life."""
    process = app.child(id)
    process.kill()
    await app.wait_for_restart(id, after=process.incarnation)


async def test_the_function_is_called_at_each_start_of_its_supervisor(clock: MockClock) -> None:
    """The root calls its function once, a supervisor below calls its own again when restarted."""
    top, below = Source("xy"), Source("ab", "bc")

    def children() -> Iterator[AnySpec]:
        yield SupervisorSpec("n", below.children, strategy=Strategy.ONE_FOR_ALL)
        yield from top.children()

    async with otpy.start(SupervisorSpec("app", children), hooks=()) as app:
        assert workers(app) == ["app/n/a", "app/n/b", "app/x", "app/y"]
        app.child("x").kill()
        supervisor(app, "n").child("a").kill()
        await app.wait_for_restart("x", after=1)
        assert (top.calls, below.calls) == (1, 1)
        await restarted(app, "n")
        assert workers(app) == ["app/n/b", "app/n/c", "app/x", "app/y"]
        assert (top.calls, below.calls) == (1, 2)


async def test_a_function_that_ignores_its_start_is_ignored_as_a_child(
    clock: MockClock, reports: Recording
) -> None:
    """SUP-114, SUP-310, SUP-312: its siblings start, and it can be started by hand."""
    off = True

    def children() -> list[AnySpec]:
        if off:
            raise Ignore
        return [ChildSpec("w", forever)]

    spec = SupervisorSpec("app", [SupervisorSpec("n", children), ChildSpec("z", forever)])
    async with otpy.start(spec, hooks=[reports]) as app:
        assert [(row.id, row.process is None) for row in await app.which_children()] == [
            ("z", False),
            ("n", True),
        ]
        assert [r.path for r in reports.of(ChildStarted)] == ["app/z"]
        assert not reports.of(SupervisorStopped)
        assert not reports.of(ChildStartFailed)
        assert await app.restart_child("n") is None
        off = False
        assert await app.restart_child("n") is app.child("n")
        off = True
        app.child("n").kill()
        await asyncio.sleep(1)
        assert (await app.which_children())[1].process is None  # SUP-313


async def test_one_under_a_pool_that_ignores_its_start_is_forgotten(clock: MockClock) -> None:
    """DYN-08: the caller gets None."""

    def children() -> list[AnySpec]:
        raise Ignore

    async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
        assert await app.start_child(SupervisorSpec("n", children)) is None
        assert await app.which_children() == []


@pytest.mark.parametrize("error", [Boom("config"), SystemExit(3)], ids=repr)
async def test_another_exception_is_a_failed_start_for_that_reason(
    clock: MockClock, reports: Recording, error: BaseException
) -> None:
    """SUP-115: the root does not start, and started children are stopped."""

    def children() -> list[AnySpec]:
        raise error

    spec = SupervisorSpec("app", [ChildSpec("a", forever), SupervisorSpec("n", children)])
    with pytest.raises(TreeStartFailed, match="app did not start: n: crashed") as failed:
        async with otpy.start(spec, hooks=[reports]):
            pass
    assert (failed.value.path, failed.value.__cause__) == ("app/n", error)
    assert reports.one(ChildStartFailed).reason == Crashed(error)


@pytest.mark.parametrize(
    ("error", "why"),
    [(Boom("config"), "crashed: Boom: config"), (Ignore(), "its children raised Ignore")],
)
async def test_a_root_without_children_does_not_start(
    clock: MockClock, error: Exception, why: str
) -> None:
    """SUP-114, SUP-115: a root that declines does not start either."""

    def children() -> list[AnySpec]:
        raise error

    message = f"^app: app did not start: {why}$"
    with pytest.raises(TreeStartFailed, match=message) as failed:
        async with otpy.start(SupervisorSpec("app", children), hooks=()):
            pass
    assert (failed.value.path, failed.value.__cause__) == ("app", error)


async def test_a_restart_that_fails_is_tried_again(clock: MockClock, reports: Recording) -> None:
    """SUP-612: it counts as for every child; `Exit` gives the reason."""
    source, broken = Source("a"), 0

    def children() -> Iterable[AnySpec]:
        nonlocal broken
        broken -= 1
        if broken > 0:
            raise Exit(Shutdown("not yet"))
        return source.children()

    async with otpy.start(SupervisorSpec("app", [SupervisorSpec("n", children)])) as app:
        app.subscribe(reports)
        broken = 3
        await restarted(app, "n")
        assert app.child("n").incarnation == 4
        failures = [report.reason for report in reports.of(ChildStartFailed)]
        assert failures == [Shutdown("not yet")] * 2


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "app/n: children is None, wanted a collection of child specs"),
        ("ab", "app/n: children is 'ab', wanted a collection"),
        ([ChildSpec("a", forever), 5], "app/n: child is 5, wanted a ChildSpec"),
        ([ChildSpec("a", forever)] * 2, "app/n: child id is 'a', wanted an id that no sibling has"),
        (
            [ChildSpec("a", forever, restart=Restart.TRANSIENT, significant=True)],
            "app/n: child 'a': significant is True, wanted False",
        ),
    ],
)
async def test_what_it_makes_is_checked_like_a_list(
    clock: MockClock, made: Any, message: str
) -> None:
    """SUP-113, SUP-116, SUP-213: the error names the supervisor's path."""
    spec = SupervisorSpec("app", [SupervisorSpec("n", lambda: made)])
    with pytest.raises(TreeStartFailed) as failed:
        async with otpy.start(spec, hooks=()):
            pass
    assert isinstance(failed.value.__cause__, InvalidSpec)
    assert str(failed.value.__cause__).startswith(message)


async def test_significant_children_can_be_made(clock: MockClock) -> None:
    """The `auto_shutdown` of the spec with the function applies to them."""
    child = ChildSpec("a", forever, restart=Restart.TRANSIENT, significant=True)
    any_of_them = AutoShutdown.ANY_SIGNIFICANT
    spec = SupervisorSpec("app", lambda: [child], auto_shutdown=any_of_them)
    async with otpy.start(spec, hooks=()) as app:
        app.child("a").exit()
        assert await app.wait() == Shutdown()


async def test_it_runs_in_a_copy_of_the_hosts_context(clock: MockClock) -> None:
    """A variable that the function sets is not seen elsewhere."""
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    seen: list[str] = []

    async def child() -> None:
        seen.append(variable.get())
        await forever()

    def children() -> list[AnySpec]:
        seen.append(variable.get())
        variable.set("changed")
        return [ChildSpec("a", child)]

    variable.set("host")
    async with otpy.start(SupervisorSpec("app", children), hooks=()):
        await clock.advance(0)
    assert seen == ["host", "host"]


async def test_it_is_not_called_if_a_child_before_it_does_not_start(clock: MockClock) -> None:
    """SUP-306: the children that it makes would not be started."""
    source = Source("a")
    spec = SupervisorSpec("app", [ChildSpec("x", unready), SupervisorSpec("n", source.children)])
    with pytest.raises(TreeStartFailed):
        async with otpy.start(spec, hooks=()):
            pass
    assert source.calls == 0


class TestReconfiguring:
    async def test_a_list_survives_a_restart_from_above(self, clock: MockClock) -> None:
        """The children and the limits survive; a child added at run time is gone."""
        below = SupervisorSpec("n", [ChildSpec("a", forever)], shutdown=7.0)
        async with otpy.start(SupervisorSpec("app", [below]), hooks=()) as app:
            n = supervisor(app, "n")
            changed = below.replace(
                children=[ChildSpec("b", forever), ChildSpec("a", forever)],
                strategy=Strategy.ONE_FOR_ALL,
                shutdown=3.0,
            )
            await n.reconfigure(changed)
            await n.start_child(ChildSpec("added", forever))
            assert known(app, "n") == "baadded"
            await restarted(app, "n")
            assert known(app, "n") == "ba"
            kept = await app.get_childspec("n")
            assert isinstance(kept, SupervisorSpec)
            assert (kept.strategy, kept.shutdown) == (Strategy.ONE_FOR_ALL, 7.0)

    async def test_a_list_survives_a_restart_from_further_above(self, clock: MockClock) -> None:
        """Every supervisor above remembers the new list."""
        low = SupervisorSpec("low", [ChildSpec("a", forever)])
        tree = SupervisorSpec("app", [SupervisorSpec("n", [ChildSpec("z", forever), low])])
        async with otpy.start(tree, hooks=()) as app:
            await supervisor(supervisor(app, "n"), "low").reconfigure(
                low.replace(children=[ChildSpec("b", forever)])
            )
            await restarted(app, "n")
            assert workers(app) == ["app/n/z", "app/n/low/b"]

    async def test_one_that_was_added_to_a_pool_keeps_its_list(self, clock: MockClock) -> None:
        """The list lasts as long as the pool."""
        low = SupervisorSpec("low", [ChildSpec("a", forever)])
        async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
            process = await app.start_child(low)
            assert process is not None
            assert isinstance(process.supervisor, Supervisor)
            await process.supervisor.reconfigure(low.replace(children=[ChildSpec("b", forever)]))
            process.kill()
            await app.wait_for_restart("low", after=1)
            assert workers(app) == ["app/low/b"]

    async def test_a_function_wins_over_a_list(self, clock: MockClock) -> None:
        """The function is called again; reconfigured or added children are gone."""
        source = Source("a", "c")
        below = SupervisorSpec("n", source.children)
        async with otpy.start(SupervisorSpec("app", [below]), hooks=()) as app:
            n = supervisor(app, "n")
            await n.reconfigure(SupervisorSpec("n", [ChildSpec("b", forever)]))
            await n.start_child(ChildSpec("d", forever))
            assert known(app, "n") == "bad"
            await restarted(app, "n")
            assert known(app, "n") == "c"

    async def test_another_function_takes_its_place(self, clock: MockClock) -> None:
        """SUP-122: the new function is called at once, and at each later start."""
        old, new = Source("a"), Source("ab", "ef")
        async with otpy.start(
            SupervisorSpec("app", [SupervisorSpec("n", old.children)]), hooks=()
        ) as app:
            await supervisor(app, "n").reconfigure(SupervisorSpec("n", new.children))
            assert known(app, "n") == "ab"
            assert supervisor(app, "n").child("a").alive
            await restarted(app, "n")
            assert known(app, "n") == "ef"
            assert (old.calls, new.calls) == (1, 2)

    async def test_one_that_ignores_changes_nothing(self, clock: MockClock) -> None:
        """SUP-122: a function that raises passes its error to the caller."""

        def ignores() -> list[AnySpec]:
            raise Ignore

        def fails() -> list[AnySpec]:
            raise Boom

        tree = SupervisorSpec("app", [ChildSpec("a", forever)])
        async with otpy.start(tree, hooks=()) as app:
            await app.reconfigure(SupervisorSpec("app", ignores))
            with pytest.raises(Boom):
                await app.reconfigure(SupervisorSpec("app", fails))
            with pytest.raises(InvalidSpec, match="app: child is 5"):
                await app.reconfigure(SupervisorSpec("app", lambda: [5]))  # type: ignore[list-item]
            assert [child.id for child in await app.which_children()] == ["a"]
            app.child("a").kill()
            process = await app.wait_for_restart("a", after=1)
            assert process.last_exit == Killed()

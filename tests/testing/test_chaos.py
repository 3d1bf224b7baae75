"""Chaos on a live tree: the workers it strikes, their recovery, and the report."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    INFINITY,
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Intensity,
    InvalidSpec,
    Restart,
    Strategy,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.reports import ChildExited
from otpy.server import Init
from otpy.specs import GIVE_UP, DynamicSpec
from otpy.testing import FaultPlan, MockClock, Recording
from otpy.testing.chaos import Chaos, ChaosSettings
from otpy.testing.chaos_report import ChaosReport
from otpy.testing.strikes import KINDS, MARK, is_struck_error
from tests.runtime.children import Boom, forever
from tests.runtime.conftest import logs, reports
from tests.testing.test_process_kills import by_asyncio

__all__ = ["logs", "reports"]

Told = list[tuple[float, str]]


async def ready(*, task_status: TaskStatus[None]) -> None:
    task_status.started()
    await forever()


@asynccontextmanager
async def service() -> AsyncGenerator[None]:
    yield


class Server(GenServer[str, str, None]):
    """Serves nothing."""

    def init(self) -> Init[None]:
        return Init(None)


def app(*children: ChildSpec | SupervisorSpec | DynamicSpec, **options: Any) -> SupervisorSpec:
    options.setdefault("intensity", 100)
    return SupervisorSpec("app", children, **options)


async def shaken(
    spec: SupervisorSpec | DynamicSpec, reports: Recording | None = None, **settings: Any
) -> tuple[ChaosReport, Told]:
    """Shake a tree to its end, with seed 1; return the report and the lines that were told."""
    told: Told = []
    settings.setdefault("seed", 1)
    chaos = Chaos(
        spec,
        ChaosSettings(**settings),
        hooks=[] if reports is None else [reports],
        say=lambda time, line: told.append((time, line)),
    )
    assert chaos.report() is None
    async with chaos.tree() as root:
        await root.wait()
    report = chaos.report()
    assert report is not None
    return report, told


def struck(report: ChaosReport) -> list[tuple[str, str, str]]:
    return [(strike["path"], strike["kind"], strike["outcome"]) for strike in report.strikes]


# --- what is drawn --------------------------------------------------------------------------------


async def test_it_strikes_at_its_rate_for_its_time(clock: MockClock) -> None:
    """Each span of 1 / rate has one strike; the tree stops as soon as every child runs again."""
    report, _ = await shaken(app(ChildSpec("a", forever)), rate=2, seconds=5, kinds=["crash"])
    spans = [int(strike["time"] * 2) for strike in report.strikes]
    assert spans == list(range(10))
    assert (report.seconds, clock.now) == (5.0, 5.0)
    assert report.survived
    assert report.passed


async def test_a_seed_draws_the_same_strikes_again() -> None:
    """One seed draws the same moments, workers and kinds; another seed draws others."""
    spec = app(*[ChildSpec(name, forever) for name in "abc"])
    one, again, another = [(await shaken(spec, seconds=20, seed=n))[0] for n in (7, 7, 8)]
    assert one == again
    assert struck(one) != struck(another)


async def test_patterns_say_whom_it_may_strike() -> None:
    """A worker must match one of `only`, and none of `without`."""
    below = SupervisorSpec("below", [ChildSpec(n, forever) for n in ("b", "c")], intensity=100)
    report, _ = await shaken(
        app(ChildSpec("a", forever), ChildSpec("d", forever), below),
        rate=5,
        kinds=["crash"],
        only=["app/below/**", "app/a"],
        without=["**/c"],
    )
    assert {path for path, _, _ in struck(report)} == {"app/a", "app/below/b"}


async def test_workers_that_were_started_at_run_time_are_struck_too() -> None:
    """Any worker alive at a strike's moment may be hit; a temporary one is gone."""

    async def boss() -> None:
        await asyncio.sleep(5)
        job = ChildSpec("job", forever, restart=Restart.TEMPORARY)
        (found,) = [c for c in await otpy.current().root.which_children() if c.id == "pool"]
        assert isinstance(found.process, otpy.Process)
        assert isinstance(found.process.supervisor, DynamicSupervisor)
        await found.process.supervisor.start_child(job)
        await forever()

    spec = app(DynamicSupervisor.spec("pool"), ChildSpec("boss", boss))
    report, told = await shaken(spec, seconds=9, only=["app/pool/*"], kinds=["cancel"])
    assert struck(report) == [("app/pool/job", "cancel", "gone")]
    assert [line for _, line in told] == ["app/pool/job  cancel: gone, as a temporary child"]
    assert report.passed


async def test_a_worker_that_is_not_back_is_not_struck_again() -> None:
    """The outcome of the first strike is known before the next strike."""
    slow = ChildSpec("a", forever, backoff=otpy.Backoff.exponential(10, jitter=0.0))
    report, _ = await shaken(app(slow), rate=1, seconds=9, kinds=["crash"])
    assert struck(report) == [("app/a", "crash", "restarted")]
    assert report.strikes[0]["seconds"] == 10.0


# --- the kinds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "least", "most", "reason"),
    [
        ("crash", 0.0, 0.0, MARK),
        ("cancel", 0.0, 0.0, "killed"),
        ("return", 0.0, 0.0, "normal"),
        ("crash-start", 0.0, 0.0, MARK),
        ("slow-start", 0.1, 1.0, MARK),
        ("hang-start", 4.0, 4.0, MARK),
        ("crash-cleanup", 0.0, 0.0, MARK),
        ("hang", 2.0, 2.0, MARK),
        ("ignore-cancellation", 3.0, 3.0, "abandoned: refused to end"),
    ],
)
async def test_each_kind_ends_a_worker_that_comes_back(
    reports: Recording, kind: str, least: float, most: float, reason: str
) -> None:
    """The worker is back after the time its supervisor must wait: a start or shutdown limit."""
    spec = app(ChildSpec("a", ready, start_timeout=4, shutdown=2))
    report, _ = await shaken(spec, reports, seconds=1, kinds=[kind])
    assert struck(report) == [("app/a", kind, "restarted")]
    assert least <= report.strikes[0]["seconds"] <= most
    exits = [r.reason for r in reports.of(ChildExited)]
    assert reason in str(exits[0])
    assert report.abandoned == (["app/a"] if kind == "ignore-cancellation" else [])
    assert report.passed


def test_every_kind_is_in_the_table_above_or_needs_a_process() -> None:
    """No kind goes untested."""
    (mark,) = [
        mark
        for mark in test_each_kind_ends_a_worker_that_comes_back.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
    ]
    assert {row[0] for row in mark.args[1]} | {"kill-process"} == set(KINDS)


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        (ChildSpec("a", ready), set(KINDS) - {"hang-start"}),
        (ChildSpec("a", forever, start_timeout=1), set(KINDS) - {"hang-start"}),
        (
            ChildSpec("a", ready, shutdown=INFINITY, start_timeout=1),
            set(KINDS) - {"crash-cleanup", "hang", "ignore-cancellation"},
        ),
        (
            ChildSpec("a", ready, restart=Restart.TEMPORARY),
            set(KINDS) - {"crash-start", "slow-start", "hang-start"},
        ),
        (ChildSpec("a", service), set(KINDS) - {"hang-start", "ignore-cancellation"}),
        (ChildSpec("a", Server), set(KINDS) - {"hang-start", "ignore-cancellation"}),
    ],
)
async def test_a_worker_is_struck_only_as_its_supervisor_can_mend(
    spec: ChildSpec, kinds: set[str]
) -> None:
    """A worker gets no hang without a limit, and no failed start if it is never started again."""
    with FaultPlan().active(growing=True) as injected:
        async with otpy.start(app(spec), hooks=()) as root:
            await asyncio.sleep(1)
            process = root.child("a")
            suited = {
                name for name, kind in KINDS.items() if kind.suits(live_of(process), injected)
            }
    assert suited == kinds - {"kill-process"}


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_process_is_killed_where_there_is_one() -> None:
    """A worker without a process is not struck by a kill of its process."""
    spec = app(ChildSpec("a", by_asyncio), ChildSpec("b", forever))
    report, _ = await shaken(spec, rate=5, seconds=0.6, kinds=["kill-process"])
    assert report.passed
    assert {strike["path"] for strike in report.strikes} == {"app/a"}
    assert {strike["outcome"] for strike in report.strikes} == {"restarted"}


async def test_a_server_survives_everything() -> None:
    """Each kind of strike that suits a server is mended."""
    report, _ = await shaken(app(ChildSpec("a", Server)), seconds=200, settle=30)
    assert report.passed
    assert {outcome for _, _, outcome in struck(report)} == {"restarted"}
    assert {kind for _, kind, _ in struck(report)} == set(KINDS) - {
        "hang-start",
        "ignore-cancellation",
        "kill-process",
    }


def test_errors_of_strikes_are_known_from_others() -> None:
    """A group of nothing but strikes' errors is a strike's; a group with any other error is not."""
    ours = TimeoutError(MARK)
    assert is_struck_error(ours)
    assert is_struck_error(ExceptionGroup("g", [ours, ExceptionGroup("h", [ours])]))
    assert not is_struck_error(ExceptionGroup("g", [ours, ValueError()]))
    assert not is_struck_error(TimeoutError())
    assert not is_struck_error(None)


# --- what becomes of it ---------------------------------------------------------------------------


async def test_a_worker_may_withstand() -> None:
    """A worker that withstands the strike runs on, which is reported after a second."""

    async def careful() -> None:
        for _ in range(1000):
            try:
                await asyncio.sleep(1)
            except (RuntimeError, OSError):
                continue

    report, told = await shaken(app(ChildSpec("a", careful)), seconds=1, kinds=["crash"])
    assert struck(report) == [("app/a", "crash", "still runs")]
    ((time, line),) = told
    assert time - report.strikes[0]["time"] == pytest.approx(1.0, abs=0.01)
    assert line == "app/a  crash: still runs"
    assert report.passed


async def test_a_transient_worker_that_returns_is_gone_in_good_order() -> None:
    """The tree passes: every child that should run does run."""
    spec = app(ChildSpec("a", forever, restart=Restart.TRANSIENT), ChildSpec("b", forever))
    report, _ = await shaken(spec, seconds=1, only=["app/a"], kinds=["return"])
    assert struck(report) == [("app/a", "return", "gone")]
    assert report.passed


async def test_siblings_that_are_restarted_with_it_are_counted() -> None:
    """A row counts the restarts of a path, struck or not, and its time away after strikes."""
    children = [ChildSpec(name, forever) for name in "ab"]
    spec = app(*children, strategy=Strategy.ONE_FOR_ALL)
    report, _ = await shaken(spec, seconds=3, only=["app/a"], kinds=["crash"])
    rows = [(r.path, r.strikes, r.restarts, r.median, r.max) for r in report.paths]
    assert rows == [("app/a", 3, 3, 0.0, 0.0), ("app/b", 0, 3, None, None)]


async def test_a_supervisor_below_may_give_up_and_come_back() -> None:
    """The worker is back with its supervisor, and the report lists both restarts."""
    below = SupervisorSpec("below", [ChildSpec("a", forever)], intensity=0)
    report, told = await shaken(app(below), seconds=1, kinds=["crash"])
    assert report.gave_up == ["app/below"]
    assert struck(report) == [("app/below/a", "crash", "restarted")]
    assert [(row.path, row.restarts) for row in report.paths] == [
        ("app/below", 1),
        ("app/below/a", 1),
    ]
    lines = [line for _, line in told]
    assert "app/below  gave up: too many restarts, the last of app/below/a" in lines
    assert report.passed


async def test_a_root_that_gives_up_has_not_survived() -> None:
    """The block raises the failure as usual, and the report names the supervisor that gave up."""
    told: Told = []
    settings = ChaosSettings(seconds=10, kinds=["crash"])
    spec = app(ChildSpec("a", forever), intensity=1, period=100)
    chaos = Chaos(spec, settings, hooks=(), say=lambda time, line: told.append((time, line)))
    with pytest.raises(SupervisorFailed):
        async with chaos.tree() as root:
            await root.wait()
    report = chaos.report()
    assert report is not None
    assert (report.survived, report.ended) == (False, "app gave up")
    assert len(report.strikes) == 2
    assert "the tree ended too early: app gave up" in report.render()


async def test_a_child_that_gave_up_is_down() -> None:
    """The siblings run, but the child is listed as down, as it should run too."""
    own = Intensity(0, 10, then=GIVE_UP)
    spec = app(ChildSpec("a", forever, intensity=own), ChildSpec("b", forever))
    report, told = await shaken(spec, seconds=1, only=["app/a"], kinds=["crash"])
    assert struck(report) == [("app/a", "crash", "gave up")]
    assert (report.gave_up, report.down, report.survived) == (["app/a"], ["app/a"], False)
    assert told[0][1] == "app/a  gave up: too many restarts of its own"
    assert "down at the end: app/a" in report.render()


async def test_who_is_not_back_in_time_is_down(clock: MockClock) -> None:
    """A child counts as down `settle` seconds after the last strike's time, not a moment later."""
    slow = ChildSpec("a", forever, backoff=otpy.Backoff.exponential(100, jitter=0.0))
    report, told = await shaken(app(slow), seconds=1, settle=5, kinds=["crash"])
    assert struck(report) == [("app/a", "crash", "down")]
    assert (report.down, report.survived) == (["app/a"], False)
    assert told[-1][1] == "app/a  crash: down"
    assert clock.now == pytest.approx(6.0, abs=0.06)


async def test_a_tree_that_ends_by_itself_has_not_survived() -> None:
    """The tree should have run to the end; it is not struck after its own end."""

    async def ends() -> None:
        await asyncio.sleep(2.5)

    last = ChildSpec("last", ends, restart=Restart.TRANSIENT, significant=True)
    spec = app(last, ChildSpec("a", forever), auto_shutdown=otpy.AutoShutdown.ANY_SIGNIFICANT)
    report, _ = await shaken(spec, only=["app/a"], kinds=["crash"])
    assert (report.survived, report.ended, report.seconds) == (False, "shutdown", 2.5)
    assert len(report.strikes) in {2, 3}


async def test_when_nobody_can_be_struck_nothing_is_shown() -> None:
    """A tree without a strike survives, but does not pass."""
    report, _ = await shaken(app(ChildSpec("a", forever)), seconds=1, only=["app/nobody"])
    assert (report.survived, report.passed, report.strikes) == (True, False, [])
    assert report.render().startswith("0 strikes in 1.0 s: there was nobody to strike")


async def test_an_end_from_outside_ends_the_shaking() -> None:
    """After a shutdown, as by a signal, the report covers the strikes so far."""
    chaos = Chaos(
        app(ChildSpec("a", forever)),
        ChaosSettings(seconds=100, kinds=["crash"]),
        hooks=(),
        say=lambda time, line: None,
    )
    async with chaos.tree() as root:
        await asyncio.sleep(3)
        root.shut_down(otpy.Shutdown("SIGINT"))
        await root.wait()
    report = chaos.report()
    assert report is not None
    assert len(report.strikes) == 3
    assert (report.survived, report.ended) == (False, "shutdown: SIGINT")


async def test_a_tree_that_does_not_start_is_not_shaken() -> None:
    """There is no report."""

    async def broken(*, task_status: TaskStatus[None]) -> None:
        raise Boom("no")

    chaos = Chaos(app(ChildSpec("a", broken)), ChaosSettings(), hooks=(), say=print)
    with pytest.raises(SupervisorFailed):
        async with chaos.tree():
            pass
    assert chaos.report() is None


async def test_a_tree_of_every_kind_of_worker_is_shaken_hard() -> None:
    """After hundreds of strikes, every worker is restarted and the tree stands."""
    spec = app(
        ChildSpec("ready", ready, start_timeout=3, shutdown=1),
        ChildSpec("plain", forever, shutdown=1),
        ChildSpec("service", service, shutdown=1),
        ChildSpec("server", Server, shutdown=1),
        SupervisorSpec("below", [ChildSpec("x", ready, shutdown=1)], intensity=1, period=2),
        intensity=1000,
    )
    report, _ = await shaken(spec, rate=10, seconds=100, settle=30)
    assert report.passed
    assert {outcome for _, _, outcome in struck(report)} == {"restarted"}
    assert len(report.strikes) > 300


# --- report and settings --------------------------------------------------------------------------


async def test_the_report_is_a_table_or_a_line_of_json() -> None:
    """Both say the same; the seed is in both."""
    report, _ = await shaken(app(ChildSpec("a", forever)), seconds=2, kinds=["cancel"])
    assert report.render() == (
        "path   strikes  restarts  median   max\n"
        "app/a        2         2    0 ms  0 ms\n"
        "2 strikes in 2.0 s: survived, and everything runs that should (--seed 1)"
    )
    data = json.loads(report.as_json())
    assert data["seed"] == 1
    assert data["survived"] is True
    assert data["paths"] == [
        {"path": "app/a", "strikes": 2, "restarts": 2, "median": 0.0, "max": 0.0}
    ]
    assert [strike["outcome"] for strike in data["strikes"]] == ["restarted"] * 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 0}, "rate is 0, wanted a number above 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"settle": -1}, "settle is -1"),
        ({"rate": 0.1, "seconds": 5}, "seconds is 5, wanted at least 10"),
        ({"only": ["app//x"]}, "pattern is 'app//x'"),
        ({"without": [""]}, "pattern is ''"),
        ({"kinds": ["crash", "burn"]}, "kind is 'burn', wanted one of crash, cancel"),
        ({"kinds": []}, "wanted at least one"),
    ],
)
def test_settings_that_can_never_work_are_refused(settings: dict[str, Any], words: str) -> None:
    """The error has the name of the setting, the value got and the value wanted."""
    with pytest.raises(InvalidSpec) as caught:
        ChaosSettings(**settings)
    assert words in str(caught.value)


def test_a_seed_is_drawn_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each settings object draws its own seed."""
    drawn = iter((3, 4))

    def randrange(stop: int) -> int:
        return next(drawn)

    monkeypatch.setattr(random, "randrange", randrange)
    assert [ChaosSettings().seed, ChaosSettings().seed] == [3, 4]

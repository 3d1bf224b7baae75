"""The golden traces: the recorded steps of real OTP, replayed on the real runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import frozen

from otpy import AutoShutdown, Crashed, Restart, Shutdown, Strategy, SupervisorSpec
from otpy._core.reason import FailedToStart
from otpy.errors import TreeStartFailed
from otpy.reports import ChildStarted, ChildStartFailed, SupervisorStopped
from tests.golden.stage import Nope, Stage, actor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy import ChildSpec
    from otpy.testing import MockClock

ONE, ALL, REST = Strategy.ONE_FOR_ONE, Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE
ANY_SIGNIFICANT = AutoShutdown.ANY_SIGNIFICANT
ALL_SIGNIFICANT = AutoShutdown.ALL_SIGNIFICANT

temporary: Final[dict[str, Any]] = {"restart": Restart.TEMPORARY}
transient: Final[dict[str, Any]] = {"restart": Restart.TRANSIENT}
deaf: Final[dict[str, Any]] = {"traps": False}


def tree(
    strategy: Strategy, *children: str | ChildSpec | SupervisorSpec, **fields: Any
) -> SupervisorSpec:
    """Return a root with OTP's own default intensity; a name is a permanent child."""
    specs = [actor(child) if isinstance(child, str) else child for child in children]
    fields = {"intensity": 1, **fields}
    return SupervisorSpec("top", specs, strategy=strategy, **fields)


def four(strategy: Strategy) -> SupervisorSpec:
    """Return the tree of GT-02 to GT-08."""
    return tree(strategy, "a", actor("b", **temporary), actor("c", **transient), "d")


def known(strategy: Strategy) -> SupervisorSpec:
    """Return the tree of GT-09 and GT-10."""
    return tree(strategy, "a", "b", actor("c", **transient), "d")


def quiet(strategy: Strategy) -> SupervisorSpec:
    """Return the tree of GT-16 and GT-17."""
    return tree(strategy, *(actor(name, **deaf) for name in "abc"), intensity=10)


def nested(intensity: int, **fields: Any) -> SupervisorSpec:
    """Return a root over a supervisor that allows no restart, over one child."""
    sub = SupervisorSpec("sub", [actor("a")], intensity=0, **fields)
    return tree(ONE, sub, intensity=intensity)


def significant(auto: AutoShutdown, restart: Restart) -> SupervisorSpec:
    """Return the tree of GT-22 to GT-24."""
    a, b = (actor(name, significant=True, restart=restart) for name in "ab")
    return tree(ONE, a, b, "n", auto_shutdown=auto)


@frozen
class Trace:
    """One golden trace.

    Attributes:
        id: Its number in the rule book; a letter tells its cases apart.
        tree: The tree that is started.
        script: The steps; everything comes to rest between two of them.
        events: The events from the first step of the script on.
        table: The child table afterwards, newest first, `-` before children that do not run; None
            if the supervisor has ended with `shutdown`.
        errors: All error reports: context and child.
        starts: The results of the starts of one child, as `x sff`: its name, then `s` or `f` for
            each; all others succeed.
        before: Steps that come first; their events do not belong to the trace.
        counted: The number of counted restarts, where the trace says it.
        whole: Whether the events begin with the start of the tree.
    """

    id: str
    tree: SupervisorSpec
    script: list[str]
    events: str
    table: str | None
    errors: Sequence[str] = ()
    starts: str = ""
    before: Sequence[str] = ()
    counted: int | None = None
    whole: bool = False


TRACES = [
    Trace(
        "GT-01",
        tree(ONE, "a", actor("b", **temporary), "c", "d"),
        [],
        "s a, s b, f c, q b, z b, q a, z a",
        None,
        ["start_error c"],
        starts="c f",
        whole=True,
    ),
    Trace("GT-02", four(ONE), ["die a"], "die a, s a", "d c b a", ["child_terminated a"]),
    Trace("GT-03", four(ONE), ["die b"], "die b", "d c a", ["child_terminated b"]),
    Trace(
        "GT-04",
        four(ALL),
        ["die a"],
        "die a, q d, z d, q c, z c, q b, z b, s a, s c, s d",
        "d c a",
        ["child_terminated a"],
    ),
    Trace(
        "GT-05",
        four(ALL),
        ["die c"],
        "die c, q d, z d, q b, z b, q a, z a, s a, s c, s d",
        "d c a",
        ["child_terminated c"],
    ),
    Trace("GT-06", four(ALL), ["die b"], "die b", "d c a", ["child_terminated b"]),
    Trace(
        "GT-07",
        four(REST),
        ["die c"],
        "die c, q d, z d, s c, s d",
        "d c b a",
        ["child_terminated c"],
    ),
    Trace("GT-08", four(REST), ["die d"], "die d, s d", "d c b a", ["child_terminated d"]),
    Trace(
        "GT-09",
        known(ALL),
        ["die a"],
        "die a, q d, z d, s a, s b, s c, s d",
        "d c b a",
        ["child_terminated a"],
        before=["terminate b", "leave c"],
    ),
    Trace(
        "GT-10",
        known(ONE),
        ["die a"],
        "die a, s a",
        "d -c -b a",
        ["child_terminated a"],
        before=["terminate b", "leave c"],
    ),
    Trace(
        "GT-11",
        tree(ALL, "a", "b"),
        ["die b"],
        "die b, q a, z a, q x, z x, s b, s x, s a",
        "a x b",
        ["child_terminated b"],
        before=["add x", "terminate a", "delete a", "add a"],
    ),
    Trace(
        "GT-12",
        tree(ONE, "a", "z", intensity=5),
        ["die a"],
        "die a, f a, f a, s a",
        "z a",
        ["child_terminated a", "start_error a", "start_error a"],
        starts="a sff",
        counted=3,
    ),
    Trace(
        "GT-13",
        tree(ONE, "a", "z", intensity=3),
        ["die a"],
        "die a, f a, f a, f a, q z, z z",
        None,
        ["child_terminated a", *["start_error a"] * 3, "shutdown a"],
        starts="a sffffff",
    ),
    Trace(
        "GT-14",
        tree(ALL, "a", "b", "c", "d", intensity=10),
        ["die b"],
        "die b, q d, z d, q c, z c, q a, z a, s a, s b, f c, q b, z b, q a, z a, s a, s b, f c, "
        "q b, z b, q a, z a, s a, s b, s c, s d",
        "d c b a",
        ["child_terminated b", "start_error c", "start_error c"],
        starts="c sff",
        counted=3,
    ),
    Trace(
        "GT-15",
        tree(REST, "a", "b", "c", "d", intensity=10),
        ["die b"],
        "die b, q d, z d, q c, z c, s b, f c, f c, s c, s d",
        "d c b a",
        ["child_terminated b", "start_error c", "start_error c"],
        starts="c sff",
        counted=3,
    ),
    *(
        Trace(
            f"GT-16{letter}",
            quiet(strategy),
            ["die a c"],
            "die a, die c, s a, s b, s c",
            "c b a",
            ["child_terminated a", "shutdown_error c"],
            counted=1,
        )
        for letter, strategy in (("a", ALL), ("b", REST))
    ),
    Trace(
        "GT-17",
        quiet(ONE),
        ["die a c"],
        "die a, die c, s a, s c",
        "c b a",
        ["child_terminated a", "child_terminated c"],
        counted=2,
    ),
    Trace(
        "GT-18",
        tree(ONE, "a", "b", "c"),
        ["die b", "die b"],
        "die b, s b, die b, q c, z c, q a, z a",
        None,
        ["child_terminated b", "child_terminated b", "shutdown b"],
    ),
    Trace(
        "GT-19",
        tree(ONE, actor("a", **deaf), actor("b", **deaf), "z"),
        ["die a b"],
        "die a, die b, s a, q z, z z",
        None,
        ["child_terminated a", "child_terminated b", "shutdown b"],
    ),
    Trace(
        "GT-20",
        tree(ONE, "a", actor("z", cleanup_takes=0.2)),
        ["stop", "wait 0.1", "die a", "wait 0.1"],
        "q z, die a, z z",
        None,
        ["shutdown_error a"],
    ),
    Trace(
        "GT-21",
        tree(ONE, "a", actor("b", start_takes=0.3, **deaf)),
        ["wait 0.1", "cancel"],
        "s a, q a, z a",
        None,
        whole=True,
    ),
    Trace(
        "GT-22",
        significant(ANY_SIGNIFICANT, Restart.TRANSIENT),
        ["leave a"],
        "die a, q n, z n, q b, z b",
        None,
    ),
    Trace(
        "GT-23",
        significant(ALL_SIGNIFICANT, Restart.TRANSIENT),
        ["leave a", "leave b"],
        "die a, die b, q n, z n",
        None,
    ),
    Trace(
        "GT-24",
        significant(ALL_SIGNIFICANT, Restart.TEMPORARY),
        ["die a", "die b"],
        "die a, die b, q n, z n",
        None,
        ["child_terminated a", "child_terminated b"],
    ),
    Trace(
        "GT-25a",
        nested(1),
        ["die a"],
        "die a, s a",
        "sub",
        ["child_terminated sub/a", "shutdown sub/a", "child_terminated sub"],
        counted=1,
    ),
    Trace(
        "GT-25b",
        nested(1),
        ["die a", "die a"],
        "die a, s a, die a",
        None,
        [*["child_terminated sub/a", "shutdown sub/a", "child_terminated sub"] * 2, "shutdown sub"],
    ),
    Trace(
        "GT-26",
        nested(1, **transient),
        ["die a"],
        "die a",
        "-sub",
        ["child_terminated sub/a", "shutdown sub/a"],
        counted=0,
    ),
    Trace(
        "GT-27",
        nested(5),
        ["die a", "die a"],
        "s a, die a, s a, die a, f a, s a",
        "sub",
        [
            *["child_terminated sub/a", "shutdown sub/a", "child_terminated sub"] * 2,
            *["start_error sub/a", "start_error sub"],
        ],
        starts="a ssf",
        counted=3,
        whole=True,
    ),
]


def test_every_golden_trace_is_here() -> None:
    """All of GT-01 to GT-27 are here."""
    assert sorted({trace.id[:5] for trace in TRACES}) == [f"GT-{n:02}" for n in range(1, 28)]


@pytest.mark.parametrize("trace", [pytest.param(trace, id=trace.id) for trace in TRACES])
async def test_otpy_does_what_otp_was_seen_to_do(trace: Trace, clock: MockClock) -> None:
    """Events and their order, the table afterwards and the error reports are the same.

    Where OTP's children do not trap exits, they end silently; asyncio cannot end a task without
    running its code (AIO-05), so here such a child is cancelled and records nothing. In GT-21 the
    parent's death is the cancellation of the host, and a root that was never up cuts the start in
    progress short, where OTP finishes it (SUP-317). In GT-22 to GT-24 the tree ends in good order,
    and so does the host.
    """
    stage = Stage(clock)
    await stage.raise_curtain(stage.cast(trace.tree, trace.starts))
    for step in trace.before:
        await stage.act(step)
    if not trace.whole:
        stage.events.clear()
    for step in trace.script:
        await stage.act(step)
    events, errors, ended = list(stage.events), stage.errors, stage.ended
    counted = trace.counted if stage.root is None else stage.counted
    table = None if stage.root is None or stage.root.ended else await stage.table()
    await stage.drop_curtain()
    assert ", ".join(events) == trace.events
    assert table == trace.table
    assert errors == list(trace.errors)
    assert trace.counted in (None, counted)
    if trace.id == "GT-01":
        assert isinstance(ended, Shutdown)
        assert isinstance(ended.detail, FailedToStart)
    elif trace.id == "GT-21":
        assert ended is not None
    else:
        assert ended == (Shutdown() if trace.table is None else None)
    gave_up = any(error.startswith("shutdown ") and "/" not in error for error in trace.errors)
    assert (stage.failed is not None) is (gave_up or trace.id == "GT-01")


async def test_a_tree_that_does_not_start_says_which_child_and_why(clock: MockClock) -> None:
    """GT-01: the host gets an error that names c; a and b were reported as started, d was not."""
    trace = TRACES[0]
    stage = Stage(clock)
    await stage.raise_curtain(stage.cast(trace.tree, trace.starts))
    await stage.drop_curtain()
    assert isinstance(stage.failed, TreeStartFailed)
    assert stage.failed.path == "top/c"
    assert isinstance(stage.failed.__cause__, Nope)
    started = [r.path for r in stage.reports if isinstance(r, ChildStarted)]
    assert started == ["top/a", "top/b"]
    (stopped,) = (r for r in stage.reports if isinstance(r, SupervisorStopped))
    assert stopped.reason == Shutdown(FailedToStart("c", _reason_of(stage, "top/c")))


async def test_a_nested_failure_to_start_is_reported_on_every_level(clock: MockClock) -> None:
    """GT-27: the upper level's report holds the lower level's reason inside its own."""
    (trace,) = (trace for trace in TRACES if trace.id == "GT-27")
    stage = Stage(clock)
    await stage.raise_curtain(stage.cast(trace.tree, trace.starts))
    for step in trace.script:
        await stage.act(step)
    inner = _reason_of(stage, "top/sub/a")
    assert isinstance(inner, Crashed)
    assert isinstance(inner.error, Nope)
    assert _reason_of(stage, "top/sub") == Shutdown(FailedToStart("a", inner))
    await stage.drop_curtain()


def _reason_of(stage: Stage, path: str) -> Any:
    (report,) = (r for r in stage.reports if isinstance(r, ChildStartFailed) and r.path == path)
    return report.reason

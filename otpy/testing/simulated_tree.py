"""The life of a simulated tree, from its start to the checks after its stop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

from otpy import SupervisorFailed
from otpy._core.protocol import KILL_GRACE
from otpy._core.spec import DynamicSpec, SupervisorSpec
from otpy._runtime.root import RunningTree
from otpy._runtime.tree import INTERPOSER
from otpy.testing.promises import (
    PromiseBroken,
    check_lives,
    check_nothing_left,
    check_silence,
)
from otpy.testing.schedule import NoProgress
from otpy.testing.simulated_loop import SimulatedLoop
from otpy.testing.stop_bound import Starts, StopBound

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor
    from otpy.reports import Report
    from otpy.testing.schedule import Entry

Until: TypeAlias = float | Callable[[Any], bool | Awaitable[object]]
"""How long a simulated tree lives: seconds, or a function of its root; see `simulate`."""

LONGEST: Final = 86_400.0
"""Virtual seconds that starting, waiting for a condition and stopping may take, together."""


@final
class Story:
    """The known facts of a run, even if it fails.

    Attributes:
        reports: The reports of the tree.
        failure: Why it gave up or did not start.
        end: When it was over, in seconds, and what had run until then.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.reports: list[Report] = []
        self.failure: SupervisorFailed | None = None
        self.end: tuple[float, tuple[Entry, ...]] = (0.0, ())


async def live(spec: SupervisorSpec | DynamicSpec, until: Until, story: Story) -> None:
    """Start a tree on the running simulated loop, let it live, stop it and check promises.

    Raises:
        PromiseBroken: It broke one.
        NoProgress: It never came to its end.
        Exception: What `until` raised.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)  # noqa: S101 - `simulate` made it
    loop.horizon = LONGEST + (0.0 if callable(until) else until)
    unheard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unheard.append(context))

    def hook(report: Report) -> None:
        story.reports.append(report)
        loop.schedule.record.append(report)

    interpose = INTERPOSER.get()
    INTERPOSER.set(lambda tree: Starts(interpose(tree)))
    running = RunningTree(spec, [hook])
    try:
        async with running as root:
            await _reach(root, until, loop)
            bound, began = StopBound(root), loop.time()
            cast("Starts", root.tree.interposer).bound = bound
        limit = began + bound.seconds + KILL_GRACE  # and then for left-over tasks
        if loop.time() > limit:
            raise PromiseBroken(f"the stop took until {loop.time()} s, not {limit} s at most")
    except SupervisorFailed as failure:
        story.failure = failure
    await loop.until_idle()
    if running.root is not None:
        check_nothing_left({process.path for process in running.root.abandoned})
    check_lives(story.reports)
    check_silence(unheard)


async def _reach(root: AnySupervisor, until: Until, loop: SimulatedLoop) -> None:
    """Return when `until` is reached, or the tree has ended."""
    if not callable(until):
        with suppress(TimeoutError):
            async with asyncio.timeout(until):
                await root.wait()
        return
    answer = until(root)
    if inspect.isawaitable(answer):
        await answer
        return
    while not answer and not root.ended:
        if await loop.clock.step() is None:
            raise NoProgress("nothing can happen any more, and `until` is not true")
        answer = until(root)

"""Waiting until a tree has come to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from otpy._core.checks import check_timeout
from otpy._core.child import Status
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.errors import NotFound, NotRunning, OtpyError
from otpy.testing.clock import MockClock

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor, Process
    from otpy._runtime.snapshot import TreeSnapshot

_TURNS = 20  # of a real loop, in which whatever is ready runs, and what that makes ready


@final
class NotSettled(OtpyError, TimeoutError):
    """A tree did not come to rest in time.

    Attributes:
        path: Path of the supervisor that the test waited for.
        in_flight: The operations still in progress below it, one line each.
    """

    def __init__(self, path: str, timeout: float, in_flight: tuple[str, ...]) -> None:
        """Name the supervisor, the seconds it was given and what went on."""
        what = "; ".join(in_flight) or "something always became ready to run"
        super().__init__(f"{path}: not settled within {timeout:g} s: {what}")
        self.path = path
        self.in_flight = in_flight


async def settled(sup: AnySupervisor, *, timeout: float = 60.0) -> None:
    """Wait until nothing is in progress at `sup` and below, and nothing is about to be.

    That is, until all of this holds at one moment:

    - no supervisor is starting, stopping, or in the middle of a restart or a request, and none has
      a message that it has not dealt with;
    - no child is starting or has been told to end, and none has ended without its supervisor
      knowing;
    - no restart is due now;
    - nothing is ready to run that could change this. On a `MockClock` that is exact: nothing can
      run any more without the clock moving. On another loop, which does not tell, twenty turns
      must bring no change.

    A restart that is due later is not a reason to wait: the child is `backing off`, a drawing shows
    it, and the test decides when to let the time pass. So the clock moves only as far as the
    operations in progress need, such as a start that takes two seconds. What children do among
    themselves, such as messages in a server's mailbox, is their affair.

    A supervisor that has ended is settled. One that was replaced has ended: wait for the root, or
    fetch the new one.

    Args:
        sup: The root, or any supervisor of a running tree.
        timeout: Seconds of the loop's clock. A `MockClock` stands still while a task never stops
            running, such as a loop around `sleep(0)`; then only `NoProgress` ends this wait.

    Raises:
        NotSettled: It took longer; the error says what was in progress.
        ValueError: `timeout` is not a number of seconds.

    Cancellation:
        Disturbs nothing.
    """
    __tracebackhide__ = True
    check_timeout(sup.path, timeout)
    try:
        async with asyncio.timeout(timeout):
            while not await _at_rest(sup):
                pass
    except TimeoutError:
        raise NotSettled(sup.path, timeout, tuple(_in_flight(sup))) from None


async def _at_rest(sup: AnySupervisor) -> bool:
    """Wait for operations in progress; return whether none began meanwhile."""
    while any(_in_flight(sup)):
        await shell_of(sup).tree.next_change()
    try:
        clock = MockClock.current()
    except RuntimeError:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if any(_in_flight(sup)):
                return False
        return True
    await clock.advance(0)
    return not any(_in_flight(sup))


def _in_flight(sup: AnySupervisor) -> Iterator[str]:
    """Yield the operations in progress at `sup` and below, one line each."""
    waiting: list[tuple[AnySupervisor | None, TreeSnapshot]] = [(None, sup.snapshot())]
    while waiting:
        above, node = waiting.pop()
        leader = sup
        if above is not None:
            yield from _of_child(node)
            try:
                process = above.child(node.id)
            except (NotFound, NotRunning):
                continue
            if process.supervisor is None:
                yield from _of_worker(process, node)
                continue
            leader = process.supervisor
        if not leader.settled:
            yield f"{leader.path} has an operation in progress"
        waiting.extend((leader, child) for child in reversed(node.children))


def _of_child(node: TreeSnapshot) -> Iterator[str]:
    if node.state in {Status.STARTING.value, Status.STOPPING.value}:
        yield f"{node.path} is {node.state}"
    elif node.due_in is not None and node.due_in <= 0:
        yield f"{node.path} is to be restarted now"


def _of_worker(process: Process, node: TreeSnapshot) -> Iterator[str]:
    if not live_of(process).runs:
        yield f"{node.path} has ended and its supervisor does not know yet"
    elif process.alive and live_of(process).ending and node.state == Status.RUNNING.value:
        yield f"{node.path} was told to end"

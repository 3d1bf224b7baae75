"""The strikes of `otpy chaos` on a live worker: every kind, and the workers that it suits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast, final

from attrs import frozen

from otpy._core.reason import Crashed, Restart
from otpy._core.spec import INFINITY
from otpy.testing import faults
from otpy.testing.child_processes import ChildProcesses

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from otpy._core.spec import ChildSpec
    from otpy._runtime.process import LiveProcess
    from otpy.testing.faults import Fault
    from otpy.testing.injection import Injected

MARK: Final = "injected by otpy chaos"
"""The text of every error that a strike raises."""

_ERRORS: Final = (RuntimeError, ConnectionResetError, TimeoutError)
_SLOWEST: Final = 1.0  # seconds a start is held back


@final
@frozen
class StrikeKind:
    """One kind of strike.

    Attributes:
        faults: Makes the faults of a strike, those of the next start first.
        suits: Whether the worker can be struck so, and its supervisor mend it.
        ends: Whether the worker is told to end, so that its end is what goes wrong.
    """

    faults: Callable[[LiveProcess, random.Random], Sequence[Fault]]
    suits: Callable[[LiveProcess, Injected], bool] = lambda _process, _injected: True
    ends: bool = False

    def strike(self, process: LiveProcess, rng: random.Random, injected: Injected) -> None:
        """Strike the live worker `process` now."""
        for fault in self.faults(process, rng):
            injected.add(fault)
        if self.ends:  # an exit, not a stop by its supervisor: it is to come back
            process.stop(kill=False, reason=Crashed(_error(rng)))


def is_struck_error(error: BaseException | None) -> bool:
    """Whether a strike raised `error`, or all errors in a group."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(is_struck_error, group.exceptions))
    return error is not None and error.args == (MARK,)


def _error(rng: random.Random) -> Exception:
    return rng.choice(_ERRORS)(MARK)


def _spec(process: LiveProcess) -> ChildSpec:
    return cast("ChildSpec", process.spec)  # only workers are struck


def _crash(process: LiveProcess, rng: random.Random) -> list[Fault]:
    return [faults.crash(process.path, _error(rng))]


def _crash_start(process: LiveProcess, rng: random.Random) -> list[Fault]:
    return [faults.crash(process.path, _error(rng), at="start"), *_crash(process, rng)]


def _hang_start(process: LiveProcess, rng: random.Random) -> list[Fault]:
    return [faults.hang(process.path, at="start"), *_crash(process, rng)]


def _slow_ready(process: LiveProcess, rng: random.Random) -> list[Fault]:
    limit = _spec(process).start_timeout
    longest = _SLOWEST if limit is None else min(_SLOWEST, limit / 2)
    seconds = longest * rng.uniform(0.1, 1)
    return [faults.slow_ready(process.path, seconds), *_crash(process, rng)]


def _starts_again(process: LiveProcess, _injected: Injected) -> bool:
    return process.spec.restart is not Restart.TEMPORARY


def _start_is_limited(process: LiveProcess, injected: Injected) -> bool:
    """Whether a start that hangs is noticed: else the child, or its siblings, wait for ever."""
    spec = _spec(process)
    limited = spec.start_timeout is not None and not spec.ready_at_once
    return _starts_again(process, injected) and limited


def _stop_is_limited(process: LiveProcess, _injected: Injected) -> bool:
    return process.spec.shutdown is not INFINITY


def _is_cancelled(process: LiveProcess, injected: Injected) -> bool:
    """Whether it is ended by a cancellation, and not asked before."""
    asked = process.asked is not None or process.behaviour is not None
    return _stop_is_limited(process, injected) and not asked


def _has_processes(process: LiveProcess, _injected: Injected) -> bool:
    processes = ChildProcesses.at(process.parent.tree.loop)
    return processes is not None and processes.has(process)


KINDS: Final[dict[str, StrikeKind]] = {
    "crash": StrikeKind(_crash),
    "cancel": StrikeKind(lambda process, _: [faults.cancel(process.path)]),
    "return": StrikeKind(lambda process, _: [faults.return_early(process.path)]),
    "crash-start": StrikeKind(_crash_start, _starts_again),
    "slow-start": StrikeKind(_slow_ready, _starts_again),
    "hang-start": StrikeKind(_hang_start, _start_is_limited),
    "crash-cleanup": StrikeKind(
        lambda process, rng: [faults.crash(process.path, _error(rng), at="cleanup")],
        _stop_is_limited,
        ends=True,
    ),
    "hang": StrikeKind(lambda process, _: [faults.hang(process.path)], _stop_is_limited, ends=True),
    "ignore-cancellation": StrikeKind(
        lambda process, _: [faults.ignore_cancellation(process.path)], _is_cancelled, ends=True
    ),
    "kill-process": StrikeKind(
        lambda process, _: [faults.kill_process(process.path)], _has_processes
    ),
}
"""By the names that the command knows them by."""

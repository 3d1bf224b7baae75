"""mode (`mode-streaming`): services under a supervisor.

Differs: the supervisor looks at all services after each crash, stops them first to last, and
counts restarts per second.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from benchmarks.subject import NO_LIMIT, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from benchmarks.subject import Body

_MODE: Final[Any] = import_module("mode")  # installed on demand, unknown to type checkers
_SUPERVISORS: Final[Any] = import_module("mode.supervisors")


async def _run(service: Any) -> None:
    await service.body()


# Made by hand instead of by `class`, because the base is not known to type checkers.
_Worker: Final[Any] = type("Worker", (_MODE.Service,), {"run": _MODE.Service.task(_run)})


@final
class Mode(Subject):
    """Services of mode."""

    name: ClassVar[str] = "mode"

    def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody can hear anything
    ) -> AbstractAsyncContextManager[None]:
        """One supervisor, one service for each child."""
        kind = _SUPERVISORS.OneForAllSupervisor if together else _SUPERVISORS.OneForOneSupervisor
        workers: list[Any] = []
        for body in bodies:
            worker = _Worker()
            worker.body = body
            workers.append(worker)
        supervisor = kind(max_restarts=NO_LIMIT)
        supervisor.add(*workers)
        return _running(supervisor)


@asynccontextmanager
async def _running(supervisor: Any) -> AsyncGenerator[None]:
    await supervisor.start()
    yield
    await supervisor.stop()

"""`DynamicSupervisor`: children that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

from otpy._core.protocol import AddChild, TerminateChild
from otpy._core.reason import Restart
from otpy._core.spec import INFINITY, AutoShutdown, DynamicSpec, check_child
from otpy._runtime.current import current_or_none
from otpy._runtime.handle import SupervisorHandle
from otpy._runtime.process import Process
from otpy.errors import CallingSelf, NotFound

if TYPE_CHECKING:
    from otpy._core.backoff import Backoff
    from otpy._core.dynamic import DynamicMachine
    from otpy._core.spec import AnySpec, ChildSpec, Count, RestartWord, ShutdownLimit

_T = TypeVar("_T")


class DynamicSupervisor(SupervisorHandle):
    """Starts, watches and restarts children that are handed to it one by one.

    Elixir's `DynamicSupervisor`. Its children have no order and do not know of each other: each
    is restarted for itself, and all are stopped at the same time. It differs in that a slow start
    delays no sibling (there, starts queue), and in that children are named: by the id of their
    spec, with `#2`, `#3` … added where a sibling has the same.
    """

    _machine: DynamicMachine  # pyright: ignore[reportIncompatibleVariableOverride]
    _name = "DynamicSupervisor"

    @staticmethod
    def spec(
        id: str,
        *,
        max_children: int | None = None,
        intensity: Count = 3,
        period: float = 5.0,
        restart: Restart | RestartWord = Restart.PERMANENT,
        shutdown: ShutdownLimit = INFINITY,
        significant: bool = False,
        backoff: Backoff | None = None,
    ) -> DynamicSpec:
        """Return a spec, to be listed as a child or started as the root.

        Args:
            id: Its name.
            max_children: How many children it may hold; None is no limit.
            intensity: Restarts allowed within `period` over all children without a window of
                their own.
            period: Length of the restart window, in whole seconds.
            restart: As somebody's child: when it is started again. Its children are not.
            shutdown: As somebody's child: seconds it has to stop its children.
            significant: As somebody's child: whether its end can end its supervisor.
            backoff: As somebody's child: delay before each restart.

        Raises:
            InvalidSpec: If it can never work.
        """
        return DynamicSpec(
            id,
            max_children=INFINITY if max_children is None else max_children,
            intensity=intensity,
            period=period,
            restart=restart,
            shutdown=shutdown,
            significant=significant,
            backoff=backoff,
        )

    @overload
    async def start_child(self, spec: ChildSpec[_T]) -> Process[_T] | None: ...
    @overload
    async def start_child(self, spec: AnySpec) -> Process | None: ...
    async def start_child(self, spec: AnySpec) -> Process | None:
        """Start one more child (DYN-03, DYN-08).

        A supervisor that is told to end meanwhile finishes the start, within the child's `shutdown`
        limit, and answers; then it stops the child. Cancelling the caller does not stop the child.

        Returns:
            Its process, when it is ready; None if it declined to run (`Ignore`).

        Raises:
            InvalidSpec: If `spec` is none, or is significant.
            MaxChildren: If there are as many children as there may be.
            StartFailed: If it did not start; nothing is kept of it, nothing is counted.
            NotRunning: If the supervisor is ending.
        """
        check_child(self.path, spec, AutoShutdown.NEVER)
        _, process = await self._request(lambda ref: AddChild(ref, spec), spec.id)
        return process

    async def terminate_child(self, child: str | Process) -> None:
        """Stop a child and return when it is gone; nothing is kept of it (DYN-13).

        One that is just starting has its `shutdown` limit to become ready, and is stopped then.

        Args:
            child: Its id, or its process. A process that has ended names nobody.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is that child, or stands below it, and it is just starting.
            NotRunning: If the supervisor is ending.
        """
        if isinstance(child, Process):
            if not child.alive or child.parent is not self:
                raise NotFound(child.path)
            child = child.id
        key = child
        self._refuse_who_starts(key)
        await self._request(lambda ref: TerminateChild(ref, key), key)

    def _refuse_who_starts(self, key: str) -> None:
        """Raise `CallingSelf` if whoever asks for the end of `key` holds up its start."""
        process = current_or_none()
        while process is not None and not process.ready:
            if process.parent is self._shell and process.id == key:
                raise CallingSelf(process.path, "call it after task_status.started()")
            process = process.parent.process

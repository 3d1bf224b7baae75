"""`Supervisor`: a fixed list of children, started in order and stopped in reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

from otpy._core.protocol import (
    AddChild,
    DeleteChild,
    Reconfigure,
    RestartChild,
    TerminateChild,
)
from otpy._core.spec import SupervisorSpec, check_child
from otpy._runtime.current import current_or_none
from otpy._runtime.handle import SupervisorHandle
from otpy.errors import CallingSelf, InvalidSpec, NotFound

if TYPE_CHECKING:
    from otpy._core.machine import SupervisorMachine
    from otpy._core.spec import AnySpec, ChildSpec
    from otpy._runtime.process import Process

_T = TypeVar("_T")


class Supervisor(SupervisorHandle):
    """Starts, watches and restarts the children of a `SupervisorSpec`.

    It is made by `otpy.start`, or by the supervisor above it, which is where you get it:
    `process.supervisor`. Every operation waits its turn, behind a restart in progress for one, as
    in an Erlang mailbox; only `snapshot`, `child` and `whereis` answer at once.
    """

    _machine: SupervisorMachine  # pyright: ignore[reportIncompatibleVariableOverride]
    _name = "Supervisor"

    @overload
    async def start_child(self, spec: ChildSpec[_T]) -> Process[_T] | None: ...
    @overload
    async def start_child(self, spec: AnySpec) -> Process | None: ...
    async def start_child(self, spec: AnySpec) -> Process | None:
        """Add a child at the end of the start order and start it (SUP-802).

        A supervisor that is told to end meanwhile finishes a start that has begun, and answers; it
        refuses those that wait their turn.

        Returns:
            Its process, when it is ready; None if it declined to run (`Ignore`).

        Raises:
            InvalidSpec: If `spec` cannot stand under this supervisor.
            AlreadyStarted: If its id is taken by a running child.
            AlreadyPresent: If its id is taken by a child that does not run.
            StartFailed: If it did not start; nothing is kept of it, nothing is counted (SUP-803).
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        check_child(self.path, spec, self._machine.spec.auto_shutdown)
        _, process = await self._request(lambda ref: AddChild(ref, spec), spec.id)
        return process

    async def terminate_child(self, id: str) -> None:
        """Stop child `id` and return when it is gone; it stays down (SUP-806 to SUP-809).

        A permanent or transient child is kept in the table, to be started by `restart_child` or by
        a group restart; a temporary one is forgotten. A child that waits for a restart waits no
        longer; one that does not run is left as it is.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        await self._request(lambda ref: TerminateChild(ref, id), id)

    async def restart_child(self, id: str) -> Process | None:
        """Start child `id`, which is known and does not run (SUP-805).

        Returns:
            Its process, when it is ready; None if it declined to run.

        Raises:
            NotFound: If there is no such child.
            ChildRunning: If it runs.
            RestartPending: If it waits for a restart; see `retry_now`.
            StartFailed: If it did not start; it stays down, nothing is counted.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        _, process = await self._request(lambda ref: RestartChild(ref, id), id)
        return process

    async def delete_child(self, id: str) -> None:
        """Forget child `id`, which is known and does not run.

        Raises:
            NotFound: If there is no such child.
            ChildRunning: If it runs.
            RestartPending: If it waits for a restart.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        await self._request(lambda ref: DeleteChild(ref, id), id)

    async def get_childspec(self, id: str) -> AnySpec:
        """Return the spec of child `id`, in whatever state it is.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        for row in await self._table(id):
            return row.child.spec
        raise NotFound(f"{self.path}/{id}")

    async def reconfigure(self, spec: SupervisorSpec) -> None:
        """Go by `spec` from now on, without stopping or starting anything (SUP-122).

        Strategy, limits and `auto_shutdown` are replaced; restarts of the past count against the
        new limit. A known id gets its new spec: its running process goes on, is stopped by the new
        `shutdown` limit and restarted by the new `start`. An unknown id is added and not started:
        `restart_child` does that, or a restart of its group. An id that vanished from the list is
        kept, as it is. The start order is that of the new list, then the vanished ones.

        Its role as somebody's child (`restart`, `shutdown`, `significant`, `backoff`) is no part of
        this, and a later restart of this supervisor begins with the spec that the one above has:
        reconfigure that one too.

        Raises:
            InvalidSpec: If `spec` is no `SupervisorSpec`, or has another id; nothing is changed.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.

        Cancellation:
            The change is made all the same.

        Source:
            OTP `supervisor:code_change/3`. Differs: there the callback module is asked anew, here
            the spec is handed over, valid by construction.
        """
        have = self._machine.spec.id
        if not isinstance(spec, SupervisorSpec) or spec.id != have:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{self.path}: reconfigure got {spec!r}, wanted a SupervisorSpec {have!r}"
            raise InvalidSpec(msg)
        await self._request(lambda ref: Reconfigure(ref, spec), spec.id)

    def _refuse_who_is_waited_for(self) -> None:
        """Refuse a child that is not ready, from here or from a supervisor that is not (SUP-318).

        Whoever is ready may ask, whatever starts above it: its answer comes in its turn.
        """
        process = current_or_none()
        while process is not None and not process.ready:
            if process.parent is self._shell:
                raise CallingSelf(self.path, "call it after task_status.started()")
            process = process.parent.process

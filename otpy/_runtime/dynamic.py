"""A `DynamicSupervisor` at work: children that come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

from otpy._core.protocol import AddChild, TerminateChild
from otpy._core.spec import check_child
from otpy._runtime.current import current_or_none
from otpy._runtime.handles import DynamicSupervisor, Process
from otpy._runtime.operations import ShellOperations
from otpy._runtime.waiters import check_loop
from otpy.errors import CallingSelf, NotFound, NotRunning

if TYPE_CHECKING:
    from otpy._core.dynamic import DynamicMachine
    from otpy._core.protocol import RequestReply
    from otpy._core.spec import AnySpec
    from otpy._runtime.process import LiveProcess
    from otpy._runtime.shell import Asker
    from otpy.errors import ChildError


@final
class DynamicShell(DynamicSupervisor, ShellOperations):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A `DynamicSupervisor` as the runtime sees it."""

    _machine: DynamicMachine  # pyright: ignore[reportIncompatibleVariableOverride]
    _name = "DynamicSupervisor"

    async def start_child(self, spec: AnySpec) -> Any:
        check_child(self.path, spec, self._machine.spec.auto_shutdown)
        _, process = await self._request(lambda ref: AddChild(ref, spec), spec.id)
        return process

    async def terminate_child(self, child: str | Process) -> None:
        if isinstance(child, Process):
            if not child.alive or child.parent is not self:
                raise NotFound(child.path)
            child = child.id
        key = child
        self._refuse_who_starts(key)
        await self._request(lambda ref: TerminateChild(ref, key), key)

    def _refuse_who_starts(self, key: str) -> None:
        """Raise `CallingSelf` if the caller, who asks for the end of `key`, holds up its start."""
        process = current_or_none()
        while process is not None and not process.ready:
            if process.parent is self and process.id == key:
                raise CallingSelf(process.path, "call it after task_status.started()")
            process = process.parent.process

    def order_child(self, spec: AnySpec, asker: Asker) -> None:
        """Start a child, soon, and do not wait; for behaviours.

        `asker` gets the answer in the moment of the start: a reply, and the process if there is
        one. Of a refused reply `error_of` makes an error.

        Raises:
            InvalidSpec: If `spec` is none, or is significant and `auto_shutdown` is `NEVER`.
            NotRunning: If the supervisor has ended.
            WrongThread: In another thread or event loop.
        """
        check_child(self.path, spec, self._machine.spec.auto_shutdown)
        if self._exit is not None:
            raise NotRunning(self.path)
        check_loop(self.tree.loop, self)
        self._asked[asker] = None
        self.order(AddChild(asker, spec))

    def error_of(self, reply: RequestReply) -> ChildError | None:
        """Return the exception for a refused order; None if it was granted."""
        key = "" if reply.child is None else reply.child.key
        return None if reply.refusal is None else self._error(reply, None, key)

    async def start_claimed(self, spec: AnySpec) -> Process | None:
        """Start a child that only its caller wants; for behaviours.

        As `start_child`, but a caller that is cancelled before it gets the child ends it, and
        waits for that.
        """
        try:
            started: Process | None = await self.start_child(spec)
        except asyncio.CancelledError:
            unclaimed: asyncio.Future[LiveProcess | None] = self.tree.loop.create_future()
            self.tree.order(self._end_unclaimed, spec, unclaimed)  # behind the start
            process = await unclaimed
            if process is not None:
                await process.wait()
            raise
        return started

    def _end_unclaimed(self, spec: AnySpec, unclaimed: asyncio.Future[LiveProcess | None]) -> None:
        found: LiveProcess | None = None
        for child in self._machine.children.values():
            if child.spec is spec:
                found = child.process
        if found is not None:
            found.stop()
        if not unclaimed.done():
            unclaimed.set_result(found)

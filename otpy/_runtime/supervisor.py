"""A `Supervisor` at work: a fixed list of children, started in order and stopped in reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from otpy._core.protocol import (
    AddChild,
    Begin,
    DeleteChild,
    InitFailed,
    Reconfigure,
    RestartChild,
    TerminateChild,
)
from otpy._core.reason import Ignore
from otpy._core.spec import SupervisorSpec, check_child, check_children
from otpy._runtime.crash import reason_for
from otpy._runtime.current import current_or_none
from otpy._runtime.handles import Supervisor
from otpy._runtime.operations import ShellOperations
from otpy.errors import CallingSelf, InvalidSpec, NotFound

if TYPE_CHECKING:
    from otpy._core.machine import SupervisorMachine
    from otpy._core.spec import AnySpec
    from otpy._runtime.handles import Process


def _made(path: str, spec: SupervisorSpec) -> tuple[AnySpec, ...]:
    """Return the children that a function makes; nothing if they are listed."""
    make = spec.children_by
    return () if make is None else check_children(path, make(), spec.auto_shutdown)


@final
class StaticShell(Supervisor, ShellOperations):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A `Supervisor` as the runtime sees it."""

    _machine: SupervisorMachine  # pyright: ignore[reportIncompatibleVariableOverride]
    _name = "Supervisor"

    def begin(self) -> None:
        spec = self._machine.spec
        if spec.children_by is None:
            self.take(Begin())
            return
        try:
            made = self.tree.context.copy().run(_made, self.path, spec)
        except KeyboardInterrupt:  # not a failure of the supervisor: see `Tree`
            raise
        except BaseException as error:  # noqa: BLE001 - as what comes out of a child
            self.take(InitFailed(reason_for(error)))
        else:
            self.take(Begin(made))

    async def start_child(self, spec: AnySpec) -> Any:
        check_child(self.path, spec, self._machine.spec.auto_shutdown)
        _, process = await self._request(lambda ref: AddChild(ref, spec), spec.id)
        return process

    async def terminate_child(self, id: str) -> None:
        await self._request(lambda ref: TerminateChild(ref, id), id)

    async def restart_child(self, id: str) -> Process | None:
        _, process = await self._request(lambda ref: RestartChild(ref, id), id)
        return process

    async def delete_child(self, id: str) -> None:
        await self._request(lambda ref: DeleteChild(ref, id), id)

    async def get_childspec(self, id: str) -> AnySpec:
        for row in await self._table(id):
            return row.child.spec
        raise NotFound(f"{self.path}/{id}")

    async def reconfigure(self, spec: SupervisorSpec) -> None:
        have = self._machine.spec.id
        if not isinstance(spec, SupervisorSpec) or spec.id != have:  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{self.path}: reconfigure got {spec!r}, wanted a SupervisorSpec {have!r}"
            raise InvalidSpec(msg)
        try:
            made = _made(self.path, spec)
        except Ignore:  # SUP-122: nothing is to be changed
            return
        await self._request(lambda ref: Reconfigure(ref, spec, made), spec.id)

    def _refuse_who_is_waited_for(self) -> None:
        """Refuse a child that is not ready, from here or from a supervisor that is not (SUP-318).

        A ready child may ask, even while a supervisor above it starts: the answer comes in turn.
        """
        process = current_or_none()
        while process is not None and not process.ready:
            if process.parent is self:
                raise CallingSelf(self.path, "call it after task_status.started()")
            process = process.parent.process

"""otpy itself, by its public names."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, final

import otpy
from benchmarks.subject import NO_LIMIT, PERIOD, Boom, Subject
from otpy import ChildSpec, GenServer, Registry, Restart
from otpy.server import NoReply, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from benchmarks.subject import Body
    from otpy.reports import Report, ReportHook


async def _idle() -> None:
    await asyncio.get_running_loop().create_future()


def _hear(_: Report) -> None:
    pass


@final
class Echo(GenServer[Any, Any, None]):
    """Replies to each request with the request; plain handlers."""

    def init(self) -> None:
        """Have no state."""

    def handle_call(self, request: Any, caller: object, state: None) -> Reply[Any, None]:  # noqa: ARG002 - an interface
        """Serve a call."""
        return Reply(request, state)

    def handle_cast(self, request: Any, state: None) -> NoReply[None]:
        """Serve a cast."""
        if callable(request):
            request()
        return NoReply(state)


@final
class SlowEcho(GenServer[Any, Any, None]):
    """The same with `async` handlers."""

    async def init(self) -> None:
        """Have no state."""

    async def handle_call(self, request: Any, caller: object, state: None) -> Reply[Any, None]:  # noqa: ARG002 - an interface
        """Serve a call."""
        return Reply(request, state)


@final
class Pool:
    """A `DynamicSupervisor` and the spec of its children."""

    def __init__(self, supervisor: otpy.DynamicSupervisor, spec: ChildSpec) -> None:
        """Start none yet."""
        self._supervisor = supervisor
        self._spec = spec

    async def start(self) -> object:
        """Start one more child."""
        return await self._supervisor.start_child(self._spec)


@final
class Names:
    """Two registries: one with unique keys, one for groups."""

    def __init__(self, unique: Registry, groups: Registry) -> None:
        """Look up in the first, dispatch over the second."""
        self.lookup = unique.lookup
        self.dispatch = groups.dispatch


class Otpy(Subject):
    """Everything by otpy, with the log that everybody has who says nothing else."""

    name: ClassVar[str] = "otpy"
    hooks: ClassVar[Sequence[ReportHook] | None] = None

    def group(
        self, bodies: Sequence[Body], *, together: bool = False, hooks: int = 0
    ) -> AbstractAsyncContextManager[object]:
        """A `Supervisor`."""
        spec = otpy.SupervisorSpec(
            "group",
            [ChildSpec(f"child-{number}", body) for number, body in enumerate(bodies)],
            strategy=otpy.Strategy.ONE_FOR_ALL if together else otpy.Strategy.ONE_FOR_ONE,
            intensity=NO_LIMIT,
            period=PERIOD,
        )
        return otpy.start(spec, hooks=[_hear] * hooks or self.hooks)

    @asynccontextmanager
    async def pool(self, body: Body, *, permanent: bool) -> AsyncGenerator[Pool]:
        """A `DynamicSupervisor`."""
        restart = Restart.PERMANENT if permanent else Restart.TEMPORARY
        spec = otpy.DynamicSupervisor.spec("pool", intensity=NO_LIMIT, period=PERIOD)
        async with otpy.start(spec, hooks=self.hooks) as supervisor:
            yield Pool(supervisor, ChildSpec("child", body, restart=restart))

    async def escalate(self, depth: int, body: Body) -> None:
        """Supervisors in supervisors."""
        spec: otpy.SupervisorSpec | ChildSpec = ChildSpec("leaf", body)
        for level in range(depth):
            spec = otpy.SupervisorSpec(f"level-{level}", [spec], intensity=0)
        assert isinstance(spec, otpy.SupervisorSpec)  # noqa: S101 - at least one level
        with suppress(otpy.SupervisorFailed):
            async with otpy.start(spec, hooks=self.hooks) as root:
                await root.wait()

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[otpy.server.ServerRef[Any, Any]]:
        """A `GenServer`."""
        spec = otpy.SupervisorSpec("app", [ChildSpec("echo", Echo)])
        async with otpy.start(spec, hooks=self.hooks) as root:
            yield Echo.at(root.child("echo"))

    def servers(self, count: int, *, asynchronous: bool) -> AbstractAsyncContextManager[object]:
        """As many `GenServer` children of one supervisor."""
        server = SlowEcho if asynchronous else Echo
        children = [ChildSpec(f"echo-{number}", server) for number in range(count)]
        return otpy.start(otpy.SupervisorSpec("app", children), hooks=self.hooks)

    @asynccontextmanager
    async def names(self, count: int) -> AsyncGenerator[Names]:
        """Children that register themselves."""

        async def member(number: int) -> None:
            root = otpy.current().root
            Registry.of(root.child("unique")).register(number)
            Registry.of(root.child("groups")).register("all")
            await _idle()

        spec = otpy.SupervisorSpec(
            "app",
            [
                Registry.spec("unique"),
                Registry.spec("groups", keys=otpy.registry.Keys.DUPLICATE),
                *(ChildSpec(f"child-{number}", member, (number,)) for number in range(count)),
            ],
        )
        async with otpy.start(spec, hooks=self.hooks) as root:
            await asyncio.sleep(0)
            yield Names(
                *(Registry.of(root.child(name)) for name in ("unique", "groups")),
            )

    async def monitored(self, count: int, begin: Callable[[], None]) -> None:
        """`Process.monitor`."""
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        spec = otpy.SupervisorSpec("app", [_crashing("watched", gate)])
        async with otpy.start(spec, hooks=self.hooks) as root:
            watched = root.child("watched")
            monitors = [watched.monitor() for _ in range(count)]
            begin()
            gate.set_result(None)
            for monitor in monitors:
                await monitor

    async def linked(self, count: int, begin: Callable[[], None]) -> None:
        """`Process.link`."""
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        idle = (
            ChildSpec(f"other-{number}", _idle, restart=Restart.TEMPORARY)
            for number in range(count)
        )
        spec = otpy.SupervisorSpec("app", [_crashing("first", gate), *idle])
        async with otpy.start(spec, hooks=self.hooks) as root:
            first = root.child("first")
            others = [root.child(f"other-{number}") for number in range(count)]
            for other in others:
                first.link(other)
            await asyncio.sleep(0)
            begin()
            gate.set_result(None)
            for other in others:
                await other.wait()


@final
class OtpyUnheard(Otpy):
    """The same, and nobody hears of anything."""

    name: ClassVar[str] = "hooks=()"
    hooks: ClassVar[Sequence[ReportHook] | None] = ()

    def group(
        self, bodies: Sequence[Body], *, together: bool = False, hooks: int = 0
    ) -> AbstractAsyncContextManager[object]:
        """A `Supervisor`."""
        if hooks:
            self._no("hook")
        return super().group(bodies, together=together)


def _crashing(id: str, gate: asyncio.Future[None]) -> ChildSpec:
    async def crash() -> None:
        await gate
        raise Boom

    return ChildSpec(id, crash, restart=Restart.TEMPORARY)

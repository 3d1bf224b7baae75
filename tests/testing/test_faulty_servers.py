"""Faults in servers: they look the same as the real failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, Exit, GenServer, Normal, Shutdown, SupervisorFailed, SupervisorSpec
from otpy.errors import CallFailed, CallTimeout
from otpy.reports import ChildExited
from otpy.server import Caller, Init, NoReply, Reply, Stop
from otpy.testing import Fault, FaultPlan, Recording, faults
from tests.runtime.conftest import logs
from tests.testing.failing_children import seen

__all__ = ["logs"]


class Log(GenServer[str, list[str], list[str]]):
    """Keeps its messages; its subclasses hold the real failures."""

    life = 0

    async def init(self, journal: list[str]) -> Init[list[str]]:
        type(self).life += 1
        await self.prepare()
        journal.append("init")
        return Init(journal, continue_with="go on")

    async def prepare(self) -> None:
        pass

    @property
    def first(self) -> bool:
        return self.life == 1

    def got(self, what: str, state: list[str]) -> None:
        state.append(what)

    def handle_continue(self, value: str, state: list[str]) -> NoReply[list[str]]:
        state.append(value)
        return NoReply(state)

    async def handle_call(
        self, request: str, caller: Caller[list[str]], state: list[str]
    ) -> Reply[list[str], list[str]]:
        self.got(f"call {request}", state)
        return Reply(list(state), state)

    def handle_cast(self, request: str, state: list[str]) -> NoReply[list[str]]:
        self.got(f"cast {request}", state)
        return NoReply(state)

    def handle_info(
        self, message: object, state: list[str]
    ) -> NoReply[list[str]] | Stop[Any, list[str]]:
        if message == "crash":
            raise ValueError("x")
        if message == "stop":
            return Stop(Normal(), state)
        self.got(f"info {message}", state)
        return NoReply(state)

    async def terminate(self, reason: object, state: list[str]) -> None:
        state.append(f"terminate {reason}")
        await self.farewell()

    async def farewell(self) -> None:
        pass


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def error() -> ValueError:
    return ValueError("x")


class FailsInInit(Log):
    async def prepare(self) -> None:
        if self.first:
            raise error()


class ExitsInInit(Log):
    async def prepare(self) -> None:
        if self.first:
            raise SystemExit(3)


class HangsInInit(Log):
    async def prepare(self) -> None:
        await for_ever()


class IsSlow(Log):
    async def prepare(self) -> None:
        if self.first:
            await asyncio.sleep(2)


class FailsAtMessage(Log):
    wanted = "call a"

    def got(self, what: str, state: list[str]) -> None:
        if self.first and what == self.wanted:
            raise error()
        super().got(what, state)


class FailsAtCast(FailsAtMessage):
    wanted = "cast b"


class FailsAtInfo(FailsAtMessage):
    wanted = "info c"


class FailsAtTime(Log):
    async def init(self, journal: list[str]) -> Init[list[str]]:
        if not self.life:
            asyncio.get_running_loop().call_later(2.5, Log.at(otpy.current()).send, "crash")
        return await super().init(journal)


class StopsAtTime(Log):
    async def init(self, journal: list[str]) -> Init[list[str]]:
        if not self.life:
            asyncio.get_running_loop().call_later(2.5, Log.at(otpy.current()).send, "stop")
        return await super().init(journal)


class IsCancelled(Log):
    async def init(self, journal: list[str]) -> Init[list[str]]:
        task = asyncio.current_task()
        if not self.life and task is not None:
            asyncio.get_running_loop().call_later(2.5, task.cancel)
        return await super().init(journal)


class FailsInTerminate(Log):
    async def farewell(self) -> None:
        raise error()


class ExitsInTerminate(Log):
    async def farewell(self) -> None:
        raise Exit(Shutdown("done"))


class HangsInTerminate(Log):
    async def farewell(self) -> None:
        await for_ever()


async def told(kind: type[Log], plan: FaultPlan) -> list[object]:
    """Run a server of `kind`, talk to it, and return its reports, its journal and its answers."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    kind.life = 0
    reports = Recording()
    journal: list[str] = []
    heard: list[object] = []
    spec = ChildSpec("c", kind, (journal,), shutdown=2, start_timeout=4)
    with plan.active() as injected:
        try:
            async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
                server = Log.at("app/c", app)
                await asyncio.sleep(1)
                try:
                    heard.append(await server.call("a", timeout=1))
                except (CallFailed, CallTimeout) as failed:
                    heard.append((type(failed), str(failed), repr(failed.__cause__)))
                await asyncio.sleep(0)
                server.cast("b")
                server.send("c")
                await asyncio.sleep(3)
                heard.append(await server.call("d"))
        except SupervisorFailed as failed:
            heard.append((type(failed), repr(failed.__cause__)))
    assert injected.missed == ()
    return [[seen(report, began) for report in reports], journal, heard]


FAILURES: list[tuple[type[Log], Fault]] = [
    (FailsInInit, faults.crash("app/c", error(), at="start")),
    (ExitsInInit, faults.crash("app/c", SystemExit(3), at="start")),
    (HangsInInit, faults.hang("app/c", at="start")),
    (IsSlow, faults.slow_ready("app/c", 2)),
    (FailsAtMessage, faults.crash("app/c", error(), at="message")),
    (FailsAtCast, faults.crash("app/c", error(), at="message", nth=2)),
    (FailsAtInfo, faults.crash("app/c", error(), at="message", nth=3)),
    (FailsAtCast, faults.crash("app/c", error(), at="message", nth=2, after=0.5)),
    (FailsAtTime, faults.crash("app/c", error(), after=2.5)),
    (StopsAtTime, faults.return_early("app/c", after=2.5)),
    (IsCancelled, faults.cancel("app/c", after=2.5)),
    (FailsInTerminate, faults.crash("app/c", error(), at="cleanup")),
    (ExitsInTerminate, faults.crash("app/c", Exit(Shutdown("done")), at="cleanup")),
    (HangsInTerminate, faults.hang("app/c")),
]


@pytest.mark.parametrize(("kind", "fault"), FAILURES, ids=str)
async def test_a_server_fails_as_it_really_would(kind: type[Log], fault: Fault) -> None:
    """Supervisor, callers and the server's own callbacks see what a real failure shows them."""
    healthy = await told(Log, FaultPlan([fault]))
    assert healthy == await told(kind, FaultPlan())
    assert healthy != await told(Log, FaultPlan())


async def test_a_clean_up_that_fails_after_a_crash_replaces_the_reason() -> None:
    """GEN-21: what `terminate` raises is why the server ended."""
    plan = FaultPlan(
        [
            faults.crash("app/c", ValueError("first"), at="message"),
            faults.crash("app/c", KeyError("second"), at="cleanup"),
        ]
    )
    reports = Recording()
    Log.life = 0
    with plan.active():
        tree = SupervisorSpec("app", [ChildSpec("c", Log, ([],))])
        async with otpy.start(tree, hooks=[reports]) as app:
            with pytest.raises(CallFailed) as caught:
                await Log.at("app/c", app).call("a")
    assert repr(caught.value.__cause__) == "KeyError('second')"
    assert str(reports.one(ChildExited).reason) == "crashed: KeyError: 'second'"


async def test_a_server_that_obeys_is_not_cancelled() -> None:
    """`ignore_cancellation` does not hit a server that ends when it is asked."""
    plan = FaultPlan([faults.ignore_cancellation("app/c")])
    with plan.active() as injected:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", Log, ([],))]), hooks=()):
            pass
    assert injected.missed == plan.faults


async def test_a_server_can_be_stuck_and_deaf() -> None:
    """One that hangs in `terminate` and ignores being cancelled is given up."""
    plan = FaultPlan([faults.hang("app/c"), faults.ignore_cancellation("app/c")])
    with plan.active() as injected:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", Log, ([],))]), hooks=()) as app:
            pass
        assert [process.path for process in app.abandoned] == ["app/c"]
    assert injected.missed == ()

"""A server that serves: start, messages, replies, continues."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Exit,
    GenServer,
    Ignore,
    Normal,
    Restart,
    Shutdown,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours.server import Server
from otpy.errors import (
    BadReturn,
    CallFailed,
    StartFailed,
    StartTimeout,
    TreeStartFailed,
)
from otpy.reports import MessageUnhandled, Report
from otpy.server import Caller, Init, NoReply, Reply, Stop
from otpy.testing import MockClock, Recording
from tests.behaviours.servers import (
    Add,
    Counter,
    Get,
    Script,
    blocked,
    echo,
    note,
    running,
)
from tests.runtime.children import Boom, forever, turns


def counters(*children: ChildSpec) -> SupervisorSpec:
    return SupervisorSpec("app", children or [ChildSpec("counter", Counter, (10,))])


class TestStart:
    async def test_a_subclass_stands_in_a_spec_like_any_other_start(self) -> None:
        """`ChildSpec("counter", Counter, args)` is a server; its `init` gets the args."""
        spec = ChildSpec("counter", Counter, kwargs={"start": 3})
        async with otpy.start(counters(spec), hooks=()) as app:
            counter = Counter.at("app/counter", app)
            assert await counter.call(Get()) == 3
            assert await counter.call(Add(2)) == 5
            counter.cast(Add(5))
            assert await counter.call(Get()) == 10

    async def test_it_is_ready_when_init_has_returned(self, clock: MockClock) -> None:
        """GEN-02: the next sibling starts only then; `init` may be async."""

        async def slow(_: Script) -> str:
            await asyncio.sleep(3)
            return "state"

        log: list[Any] = []
        specs = [ChildSpec("s", Script, (log, None, slow)), ChildSpec("next", Counter)]
        async with otpy.start(counters(*specs), hooks=()) as app:
            assert clock.now == 3
            assert app.child("s").ready
            assert await Script.at("app/s", app).get_state() == "state"

    @pytest.mark.parametrize(
        ("error", "cause"),
        [(Boom("no"), Boom), (Exit(Shutdown("no")), None), (SystemExit(3), None)],
    )
    async def test_a_failed_init_is_a_failed_start(
        self, error: BaseException, cause: type | None
    ) -> None:
        """GEN-02: the start fails with the error of `init`, and `terminate` is not called."""

        def bad(_: Script) -> Any:
            raise error

        log: list[Any] = []
        async with otpy.start(counters(), hooks=()) as app:
            with pytest.raises(StartFailed) as caught:
                await app.start_child(ChildSpec("s", Script, (log, None, bad)))
            assert cause is None or isinstance(caught.value.__cause__, cause)
            assert log == []

    async def test_init_may_decline(self) -> None:
        """GEN-01: `Ignore` is not a failure."""

        def declines(_: Script) -> Any:
            raise Ignore

        async with otpy.start(counters(), hooks=()) as app:
            spec = ChildSpec("s", Script, ([], None, declines))
            assert await app.start_child(spec) is None

    @pytest.mark.parametrize(
        "result", [Reply(1, 2), NoReply(1), Stop(Normal(), 1, 2), Init(1, timeout=-1)]
    )
    async def test_init_must_not_return_what_a_handler_does(self, result: Any) -> None:
        """GEN-01: a handler's result is a bad return value of `init`."""
        with pytest.raises(TreeStartFailed) as caught:
            async with otpy.start(counters(ChildSpec("s", Script, ([], result)))):
                pass
        assert isinstance(caught.value.__cause__, BadReturn)

    async def test_a_server_without_init_does_not_start(self) -> None:
        """A server without `init` has no state to begin with."""

        class Empty(GenServer[Any, Any, Any]):
            """Overrides nothing."""

        with pytest.raises(TreeStartFailed, match=r"Empty\.init"):
            async with otpy.start(counters(ChildSpec("e", Empty)), hooks=()):
                pass

    async def test_a_start_timeout_kills_a_slow_init(self, clock: MockClock) -> None:
        """GEN-06: the start fails at its timeout, and no child remains."""

        async def slow(_: Script) -> None:
            await asyncio.sleep(60)

        async with otpy.start(counters(), hooks=()) as app:
            spec = ChildSpec("s", Script, ([], None, slow), start_timeout=2)
            with pytest.raises(StartTimeout):
                await app.start_child(spec)
            assert clock.now == 2
            assert len(await app.which_children()) == 1

    async def test_its_name_is_there_before_init_and_gone_with_it(self, clock: MockClock) -> None:
        """GEN-04: a call finds the starting server and fails with its start; a retry works."""
        plan: list[Any] = [Boom("no"), "state"]

        async def tries(_: Script) -> Any:
            await asyncio.sleep(1)
            if isinstance(result := plan.pop(0), Boom):
                raise result
            return result

        async with otpy.start(counters(), hooks=()) as app:
            spec = ChildSpec("s", Script, ([], None, tries))
            ref = Script.at("app/s", app)
            starting = asyncio.ensure_future(app.start_child(spec))
            await clock.advance(0)
            call = asyncio.ensure_future(ref.call(echo(1)))
            with pytest.raises(CallFailed) as failed:
                await call
            assert isinstance(failed.value.__cause__, Boom)
            with pytest.raises(StartFailed):
                await starting
            starting = asyncio.ensure_future(app.start_child(spec))
            await clock.advance(0)
            assert await ref.call(echo(2)) == 2
            assert await starting is app.child("s")

    async def test_each_life_begins_anew(self) -> None:
        """AIO-11: each life has a new object and a new state."""
        async with otpy.start(counters(), hooks=()) as app:
            counter = Counter.at("app/counter", app)
            await counter.call(Add(5))
            app.child("counter").kill()
            await app.wait_for_restart("counter", after=1)
            assert await counter.call(Get()) == 10

    async def test_a_pool_holds_servers_too(self) -> None:
        """The caller addresses a server of a pool by its process."""
        pool = DynamicSupervisor.spec("pool")
        async with otpy.start(pool, hooks=()) as sup:
            one = await sup.start_child(ChildSpec("c", Counter, (1,)))
            two = await sup.start_child(ChildSpec("c", Counter, (2,)))
            assert one is not None
            assert two is not None
            assert await Counter.at(two).call(Get()) == 2
            assert await Counter.at(one).call(Get()) == 1

    async def test_nothing_is_made_until_it_is_used(self) -> None:
        """A server has no queue, no signals and no table of callers before its first message."""
        async with running() as (_, process, ref, _log):
            server = live_of(process).behaviour
            assert isinstance(server, Server)
            assert server.mailbox.queue is None
            assert server.owed is None
            assert live_of(process).watchers is None
            ref.send("x")
            assert server.mailbox.queue is not None


class TestContinue:
    async def test_it_runs_after_the_start_and_before_any_message(self, clock: MockClock) -> None:
        """GEN-07: it also runs before a message that was sent during `init`."""

        def init(server: Script) -> Any:
            Script.at(otpy.current()).send("early")
            return Init("state", continue_with="first")

        order: list[Any] = []
        spec = ChildSpec("s", Script, (order, None, init))

        def hook(report: Report) -> None:
            order.append(report.event)

        async with otpy.start(counters(spec), hooks=[hook]):
            await clock.advance(0)
            assert order == ["child.started", ("continue", "first"), "early"]

    async def test_continues_may_chain(self, clock: MockClock) -> None:
        """GEN-07: each continue is done before the next message."""

        def second(server: Script, state: Any) -> Any:
            return NoReply("three", continue_with="end")

        def first(server: Script, state: Any) -> Any:
            Script.at(otpy.current()).cast(note("message"))
            return NoReply("two", continue_with=second)

        async with running(Init("one", continue_with=first)) as (_, _process, ref, log):
            await clock.advance(0)
            assert [entry[1] for entry in log[:3]] == [first, second, "end"]
            assert log[3:] == ["message"]
            assert await ref.get_state() == "three"

    async def test_a_crash_in_it_is_no_failed_start(self) -> None:
        """GEN-07: the start has already succeeded."""

        def crash(server: Script, state: Any) -> Any:
            raise Boom("later")

        async with running(Init("one", continue_with=crash)) as (_, process, _ref, log):
            assert process.ready
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert log[-1] == ("terminate", reason, "one")

    async def test_a_reply_comes_before_the_continue(self, clock: MockClock) -> None:
        """GEN-09: the caller does not wait for the continue."""

        async def later(server: Script, state: Any) -> Any:
            await asyncio.sleep(5)
            return NoReply("late")

        async with running() as (_, _process, ref, _log):
            got = await ref.call(lambda s, c, state: Reply("now", state, continue_with=later))
            assert (got, clock.now) == ("now", 0)
            assert await ref.call(lambda s, c, state: Reply(state, state), None) == "late"


class TestMessages:
    async def test_all_kinds_are_served_in_order_of_arrival(self, clock: MockClock) -> None:
        """GEN-08: the server serves one message at a time, even while a callback waits."""
        async with running() as (_, _process, ref, log):
            calls = [asyncio.ensure_future(ref.call(blocked(1, "one")))]
            await clock.advance(0)
            ref.cast(note("two"))
            ref.send("three")
            calls.append(asyncio.ensure_future(ref.call(blocked(1, "four"))))
            await clock.advance(0)
            ref.send("five")
            assert await asyncio.gather(*calls) == ["one", "four"]
            await clock.advance(0)
            assert log == ["one", "two", "three", "four", "five"]

    async def test_messages_to_oneself_do_not_keep_the_loop(self, clock: MockClock) -> None:
        """A server that is never idle lets other tasks run, and stops when its turn comes."""

        def again(server: Script, state: Any) -> Any:
            Script.at(otpy.current()).cast(again)
            return NoReply(state)

        async with running() as (_, process, ref, _log):
            ref.cast(again)
            await turns(10)
            process.exit()
            assert await process.wait() == Shutdown()

    async def test_unhandled_messages_are_reported_and_dropped(
        self, reports: Recording, logs: list[MutableMapping[str, Any]]
    ) -> None:
        """GEN-24: each is reported as one warning, and the server goes on."""
        async with otpy.start(counters(), hooks=[reports, otpy.log_reports(None)]) as app:
            counter = Counter.at("app/counter", app)
            counter.send({"what": "ever"})
            assert await counter.call(Get()) == 10
            report = reports.one(MessageUnhandled)
            assert (report.path, report.message) == ("app/counter", "{'what': 'ever'}")
            shell_of(app).tree.hooks.clear()
            counter.send("unseen")
            assert await counter.call(Get()) == 10
        assert len(reports.of(MessageUnhandled)) == 1

    @pytest.mark.parametrize("kind", ["call", "cast", "continue"])
    async def test_a_missing_handler_crashes(self, kind: str) -> None:
        """GEN-24: the error names the class and the message."""

        class Bare(GenServer[str, str, int]):
            """A server with a state and nothing else."""

            def init(self) -> Init[int]:
                return Init(0, continue_with="go" if kind == "continue" else None)

        spec = ChildSpec("bare", Bare, restart=Restart.TEMPORARY)
        async with otpy.start(counters(spec), hooks=()) as app:
            process = app.child("bare")
            if kind == "call":
                with pytest.raises(CallFailed, match=r"Bare\.handle_call: 'hi'"):
                    await Bare.at(process).call("hi")
            elif kind == "cast":
                Bare.at(process).cast("hi")
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert isinstance(reason.error, NotImplementedError)

    async def test_cast_and_send_never_fail(self) -> None:
        """GEN-16: the target may be unknown, dead, or not a server."""
        plain = ChildSpec("plain", forever, restart=Restart.TEMPORARY)
        async with otpy.start(counters(plain), hooks=()) as app:
            for target in ("app/nobody", "elsewhere", "app/plain"):
                Counter.at(target, app).cast(Add())
                Counter.at(target, app).send("x")
            server = await app.start_child(ChildSpec("c", Counter, restart=Restart.TEMPORARY))
            assert server is not None
            server.kill()
            await server.wait()
            Counter.at(server).cast(Add())
            assert live_of(server).behaviour is None


class TestReply:
    async def test_a_reply_may_come_later_and_from_elsewhere(self, clock: MockClock) -> None:
        """GEN-17: a task of the server may reply, and so may another child."""

        def defer(server: Script, caller: Caller[str], state: Any) -> Any:
            async def work() -> None:
                await asyncio.sleep(2)
                caller.reply("done")

            server.log.append(asyncio.ensure_future(work()))
            return NoReply(state)

        callers: list[Caller[str]] = []

        def hand_over(server: Script, caller: Caller[str], state: Any) -> Any:
            callers.append(caller)
            return NoReply(state)

        async with running() as (app, _process, ref, _log):
            assert await ref.call(defer) == "done"
            assert clock.now == 2
            call = asyncio.ensure_future(ref.call(hand_over))
            await clock.advance(0)

            async def other() -> None:
                callers[0].reply("from another")
                await forever()

            await app.start_child(ChildSpec("other", other))
            assert await call == "from another"
            assert callers[0].process is None
            assert repr(callers[0]) == "<Caller outside answered>"

    async def test_the_first_reply_counts(self) -> None:
        """GEN-17: a reply from inside the callback counts; the callback's result is dropped."""

        def twice(server: Script, caller: Caller[str], state: Any) -> Any:
            caller.reply("first")
            return Reply("second", state)

        async with running() as (_, _process, ref, _log):
            assert await ref.call(twice) == "first"

    async def test_a_server_that_replied_and_then_crashes_does_no_harm(self) -> None:
        """GEN-17: the caller has already got its reply."""

        def reply_and_crash(server: Script, caller: Caller[str], state: Any) -> Any:
            caller.reply("ok")
            raise Boom

        async with running() as (_, process, ref, _log):
            assert await ref.call(reply_and_crash) == "ok"
            assert isinstance(await process.wait(), Crashed)

    async def test_a_caller_knows_who_asks(self, clock: MockClock) -> None:
        """`Caller.process` is the child whose code made the call."""
        seen: list[Caller[int]] = []

        def keep(server: Script, caller: Caller[Any], state: Any) -> Any:
            seen.append(caller)
            return Reply(None, state)

        async with running() as (app, _process, ref, _log):

            async def child() -> None:
                await ref.call(keep)
                await forever()

            process = await app.start_child(ChildSpec("child", child))
            await clock.advance(0)
            assert seen[0].process is process
            assert repr(seen[0]) == "<Caller 'app/child' answered>"

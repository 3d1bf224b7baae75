"""The life of a container in virtual time, with an engine that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast, final

import pytest

from otpy.testing import MockClock
from otpy_agents.docker.engine import DockerEngine
from otpy_agents.docker.frames import STDERR, STDOUT, Frame
from otpy_agents.errors import EngineError, SpawnFailed
from otpy_agents.sandbox import Ended, Job, SandboxLimits
from otpy_agents.sandbox.container import LOST_AFTER, POLL, RunningContainer
from otpy_agents.sandbox.launch import Launch
from otpy_agents.store.redaction import Redaction

RUNNING: Mapping[str, object] = {"Status": "running", "ExitCode": 0}


def exited(code: int, **more: object) -> dict[str, object]:
    return {"Status": "exited", "ExitCode": code, "OOMKilled": False, "Error": "", **more}


@final
class FakeEngine:
    """An engine whose one container does as the test says, and that notes what it is asked."""

    def __init__(self) -> None:
        self.now: Mapping[str, object] | None = RUNNING
        self.log: list[Frame] = []
        self.unsent: list[Frame] = []
        self.asked: list[str] = []
        self.looks: list[float] = []
        self.silent = False
        self.refuse: set[str] = set()
        self.log_breaks_after = -1
        self.obeys = True
        self.over = asyncio.Event()

    def end(self, state: Mapping[str, object] | None, *, log_ends: bool = True) -> None:
        self.now = state
        if log_ends:
            self.over.set()

    async def _ask(self, what: str, takes: float = 0.0) -> None:
        self.asked.append(what)
        await asyncio.sleep(takes)
        if self.silent:
            raise EngineError(what, None, "no answer")
        if what in self.refuse:
            raise EngineError(what, 500, "open-sesame is refused")

    async def create(self, name: str, body: Mapping[str, Any]) -> str:
        await self._ask("create", 0.1)
        return "id-of-it"

    async def start(self, id: str) -> None:
        await self._ask("start", 0.1)

    async def state(self, id: str) -> Mapping[str, object] | None:
        self.looks.append(asyncio.get_running_loop().time())
        if self.silent:
            raise EngineError("state", None, "no answer")
        return self.now

    async def logs(self, id: str, *, follow: bool) -> AsyncGenerator[Frame]:
        self.asked.append("logs" if follow else "whole log")
        if not follow and self.now is None:
            raise EngineError("logs", 404, "no such container")
        for number, frame in enumerate(self.log if follow else [*self.log, *self.unsent]):
            if number == self.log_breaks_after:
                self.log_breaks_after = -1
                raise EngineError("logs", None, "connection lost")
            yield frame
        if follow:
            await self.over.wait()

    async def stop(self, id: str, grace: float) -> None:
        self.asked.append("stop")
        if not self.obeys and self.now == RUNNING:
            # As the engine does: it answers when the container has ended, killed or not.
            with_grace = asyncio.ensure_future(self.over.wait())
            await asyncio.wait({with_grace}, timeout=grace)
            with_grace.cancel()
        await self._ask("stopped")
        self.end(exited(143 if self.obeys else 137))

    async def kill(self, id: str) -> None:
        await self._ask("kill")
        self.end(exited(137))

    async def remove(self, id: str) -> None:
        await self._ask(f"remove {id}", 0.2)
        self.end(None)


def job(**more: Any) -> Job:
    return Job(
        run_id="r",
        attempt=1,
        launch=Launch(argv=("agent",)),
        cwd=Path("/work"),
        environment={},
        marker={"OTPY_RUN": "r"},
        **more,
    )


@pytest.fixture
async def engine() -> FakeEngine:
    """An engine with a container that runs until the test ends it."""
    return FakeEngine()


def container(engine: FakeEngine, *, exists: bool = False, **more: Any) -> RunningContainer:
    lines: list[str] = []
    return RunningContainer(
        cast("DockerEngine", engine),
        job(**more),
        id="id-of-it" if exists else "",
        name="its-name",
        body=None if exists else {},
        remove=True,
        on_stdout=lines.append,
        on_stderr=lines.append,
    )


async def test_its_state_is_looked_at_every_three_quarters_of_a_second(
    engine: FakeEngine, clock: MockClock
) -> None:
    """RUN-06: it is looked at even while the log is silent."""
    async with container(engine) as running:
        await clock.advance(4 * POLL)
        began = engine.looks[0]
        assert [look - began for look in engine.looks] == [0, POLL, 2 * POLL, 3 * POLL, 4 * POLL]
        engine.end(exited(3), log_ends=False)
        ended = await running.wait()
        assert (ended.exit_code, ended.container_state) == (3, exited(3))
        # The log did not end with it, and the wait for the log has a limit.
        assert asyncio.get_running_loop().time() - began <= 5 * POLL + 5


async def test_the_end_of_the_log_brings_the_end_at_once(engine: FakeEngine) -> None:
    """The end comes without another look at the state."""
    loop = asyncio.get_running_loop()
    async with container(engine) as running:
        await asyncio.sleep(0.1)
        asked = loop.time()
        engine.end(exited(0))
        assert (await running.wait()).exit_code == 0
        assert loop.time() == asked


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"Status": "exited"}, None),
        ({"Status": "dead", "ExitCode": None}, None),
        ({"Status": "dead", "ExitCode": 137, "OOMKilled": True}, 137),
        (None, None),
    ],
)
async def test_an_exit_code_that_is_not_told_is_not_zero(
    engine: FakeEngine, state: Mapping[str, object] | None, code: int | None
) -> None:
    """C-37: an unknown exit is not a success; nor is a container that was removed from outside."""
    async with container(engine) as running:
        engine.end(state)
        ended = await running.wait()
    assert (ended.exit_code, ended.container_state) == (code, state)


@pytest.mark.parametrize("later", [0.1, 2.0])
async def test_spent_memory_is_told_though_the_engine_hears_of_the_end_first(
    engine: FakeEngine, later: float
) -> None:
    """The engine reports both by separate events, in any order; a busy one takes a while."""
    async with container(engine) as running:
        engine.end(exited(137))
        loop = asyncio.get_running_loop()
        loop.call_later(later, engine.end, exited(137, OOMKilled=True))
        ended = await running.wait()
    assert (ended.container_state or {})["OOMKilled"] is True


async def test_what_we_kill_is_over_at_once(engine: FakeEngine) -> None:
    """The reason is known, so the engine is not asked for it."""
    async with container(engine) as running:
        asked = asyncio.get_running_loop().time()
        await running.kill()
        assert asyncio.get_running_loop().time() == asked


async def test_it_is_removed_however_it_ended(engine: FakeEngine) -> None:
    """RUN-11, RUN-15: with force, once, and by its id."""
    async with container(engine) as running:
        engine.end(exited(1))
        await running.wait()
    assert engine.asked == ["create", "start", "logs", "whole log", "remove id-of-it"]
    assert running.survivors == ()


async def test_a_lost_log_goes_on_where_it_was_lost(engine: FakeEngine) -> None:
    """The engine sends it from the beginning; nothing is heard twice and nothing is missed."""
    engine.log = [Frame(STDOUT, b"one\ntw"), Frame(STDERR, b"bad\n"), Frame(STDOUT, b"o\nthree\n")]
    engine.log_breaks_after = 2
    async with container(engine) as running:
        await asyncio.sleep(2 * POLL)
        engine.end(exited(0))
        ended = await running.wait()
    assert (ended.stdout, ended.stderr) == ("one\ntwo\nthree\n", "bad\n")
    assert engine.asked.count("logs") == 2


async def test_last_words_that_were_not_sent_to_a_follower_are_heard(engine: FakeEngine) -> None:
    """Docker ends the stream of a log with the container, even in the middle of a flood."""
    engine.log, engine.unsent = [Frame(STDOUT, b"one\ntw")], [Frame(STDOUT, b"o\ndone\n")]
    async with container(engine) as running:
        engine.end(exited(0))
        assert (await running.wait()).stdout == "one\ntwo\ndone\n"


async def test_a_log_is_cut_and_cleaned_as_everywhere(engine: FakeEngine) -> None:
    """So are the words of the engine about the end."""
    engine.log = [Frame(STDOUT, b"open-se"), Frame(STDOUT, b"same\n")]
    secrets = Redaction({"A_KEY": "open-sesame"})
    async with container(engine, secrets=secrets) as running:
        engine.end(exited(127, Error="exec: open-sesame: not found"))
        ended = await running.wait()
    assert ended.stdout == "[A_KEY]\n"
    assert ended.container_state == exited(127, Error="exec: [A_KEY]: not found")


async def test_a_silent_engine_is_waited_for_and_then_nobody_knows(engine: FakeEngine) -> None:
    """A short silence is survived; after a long one the container counts as a survivor."""
    loop = asyncio.get_running_loop()
    async with container(engine) as running:
        await asyncio.sleep(1)
        engine.silent = True
        await asyncio.sleep(LOST_AFTER / 2)
        engine.silent = False
        await asyncio.sleep(1)
        engine.silent, began = True, loop.time()
        ended = await running.wait()
        assert LOST_AFTER - POLL <= loop.time() - began <= LOST_AFTER + 2 * POLL
    assert ended == Ended(exit_code=None)
    assert [str(one) for one in running.survivors] == ["its-name (container id-of-it)"]


@pytest.mark.parametrize("refused", ["create", "start"])
async def test_what_cannot_be_started_is_removed_and_a_typed_error(
    engine: FakeEngine, refused: str
) -> None:
    """It is removed by its name, because the container may exist without an answer."""
    engine.refuse = {refused}
    with pytest.raises(SpawnFailed, match="cannot start 'agent': \\[A_KEY\\] is refused"):
        async with container(engine, secrets=Redaction({"A_KEY": "open-sesame"})):
            pytest.fail("started")
    assert engine.asked[-1] == f"remove {'its-name' if refused == 'create' else 'id-of-it'}"


async def test_a_stop_asks_and_waits(engine: FakeEngine) -> None:
    """RUN-12: the whole log is read after the stop."""
    async with container(engine, limits=SandboxLimits(grace=7)) as running:
        await asyncio.sleep(1)
        await running.stop()
        assert (await running.wait()).exit_code == 143
    assert engine.asked[2:] == ["logs", "stop", "stopped", "whole log", "remove id-of-it"]


async def test_a_kill_cuts_the_grace_of_a_stop(engine: FakeEngine) -> None:
    """It is a container kill (RUN-12), and both return."""
    engine.obeys = False
    loop = asyncio.get_running_loop()
    async with container(engine, limits=SandboxLimits(grace=100)) as running:
        stopping = asyncio.create_task(running.stop())
        await asyncio.sleep(1)
        asked = loop.time()
        await running.kill()
        await stopping
        assert loop.time() - asked < 1
    assert "kill" in engine.asked


@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.15, 0.2, 1.0])
async def test_cancelled_at_any_moment_it_is_removed(engine: FakeEngine, after: float) -> None:
    """The container may be about to be created, about to be started, or running."""

    async def attempt() -> None:
        async with container(engine) as running:
            await running.wait()

    task = asyncio.create_task(attempt())
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.asked[-1].startswith("remove") or engine.asked == []
    assert len([one for one in engine.asked if one.startswith("remove")]) <= 1


async def test_a_cancellation_while_leaving_cuts_the_grace(engine: FakeEngine) -> None:
    """The container is killed, removed, and the cancellation delivered."""
    engine.obeys = False
    loop = asyncio.get_running_loop()

    async def attempt() -> None:
        async with container(engine, limits=SandboxLimits(grace=100)):
            await asyncio.sleep(1)

    task = asyncio.create_task(attempt())
    await asyncio.sleep(5)
    asked = loop.time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert loop.time() - asked < 2
    assert engine.asked[-2:] == ["stopped", "remove id-of-it"] or "kill" in engine.asked


async def test_an_adopted_container_is_heard_from_its_beginning(engine: FakeEngine) -> None:
    """Nothing is created or started, and it is removed like every other."""
    engine.log = [Frame(STDOUT, b"written before the crash\n")]
    async with container(engine, exists=True) as running:
        await asyncio.sleep(1)
        engine.end(exited(0))
        assert (await running.wait()).stdout == "written before the crash\n"
    assert engine.asked == ["logs", "whole log", "remove id-of-it"]


async def test_silence_is_counted_from_the_last_output(engine: FakeEngine) -> None:
    """C-01: the silence is counted, whatever follows from it."""
    async with container(engine) as running:
        await asyncio.sleep(10)
        assert running.quiet >= 10
        assert running.output_bytes == 0


async def test_a_container_must_be_started_first(engine: FakeEngine) -> None:
    """Using it outside its block is a mistake that says so."""
    with pytest.raises(RuntimeError, match="wanted `async with`"):
        await container(engine).wait()

"""One attempt in a container: its start, its log, its state, and its certain end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, final

from otpy_agents.completion import to_completion
from otpy_agents.docker.engine import ANSWER_TIME, DockerEngine
from otpy_agents.docker.frames import STDERR, STDOUT
from otpy_agents.errors import EngineError, SpawnFailed
from otpy_agents.sandbox.behaviour import (
    ContainerIdentity,
    Ended,
    Identity,
    Job,
    LeftOver,
    Listener,
)
from otpy_agents.sandbox.output import Output
from otpy_agents.sandbox.place import artifacts_of

__all__ = ["LOST_AFTER", "POLL", "RunningContainer"]

POLL: Final = 0.75
"""Seconds between two looks at the state of a container (RUN-06)."""

LOST_AFTER: Final = 30.0
"""Seconds without an answer of the engine after which nobody knows how an attempt ended."""

_LOG_TIME: Final = 5.0
_OVER: Final = frozenset({"exited", "dead"})
_KILLED: Final = 137
_LOOKS: Final = 4  # for its cause, which a busy engine hears of late


@final
class RunningContainer:
    """An attempt that is a container; see `Running`.

    Entering creates and starts it, or goes on with one that exists. Leaving ends and removes it.

    Args:
        engine: The container engine.
        job: Its job.
        name: Its name.
        body: What to create; None for a container that exists.
        id: The container that exists.
        remove: Whether it is removed at the end, and not only killed.
        on_stdout: As in `Sandbox.run`.
        on_stderr: As in `Sandbox.run`.
    """

    def __init__(
        self,
        engine: DockerEngine,
        job: Job,
        *,
        name: str,
        body: Mapping[str, Any] | None,
        id: str = "",
        remove: bool,
        on_stdout: Listener,
        on_stderr: Listener,
    ) -> None:
        self.survivors: tuple[LeftOver, ...] = ()
        self._engine, self._job, self._name, self._body = engine, job, name, body
        self._remove = remove
        # Until the engine has told the id, the name, which is ours alone, leads to it.
        self._id = id or name
        self._output = Output(
            limit=job.output_limit, secrets=job.secrets, on_stdout=on_stdout, on_stderr=on_stderr
        )
        self._taken = {STDOUT: 0, STDERR: 0}
        self._takers = {STDOUT: self._output.take_stdout, STDERR: self._output.take_stderr}
        self._watch: asyncio.Task[Ended] | None = None
        self._hurry: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended_by_us = False

    @property
    def identity(self) -> Identity:
        """See `Running.identity`."""
        return ContainerIdentity(self._id)

    @property
    def output_bytes(self) -> int:
        """See `Running.output_bytes`."""
        return self._output.seen

    @property
    def quiet(self) -> float:
        """See `Running.quiet`."""
        return asyncio.get_running_loop().time() - self._output.last

    async def __aenter__(self) -> RunningContainer:
        try:
            if self._body is not None:
                await to_completion(self._start(self._body))
        except BaseException:
            # Cancelled, or without an answer: the container may exist all the same.
            await to_completion(self._leave(), on_cancel=self._cut_grace)
            raise
        self._watch = asyncio.create_task(self._until_ended(), name=f"watch {self._name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await to_completion(self._leave(), on_cancel=self._cut_grace)

    async def wait(self) -> Ended:
        """See `Running.wait`."""
        if self._watch is None:
            message = f"{self._name}: got a container that was not started, wanted `async with`"
            raise RuntimeError(message)
        return await asyncio.shield(self._watch)

    async def stop(self) -> None:
        """See `Running.stop`."""
        await to_completion(self._end_politely(), on_cancel=self._cut_grace)
        await self.wait()

    async def kill(self) -> None:
        """See `Running.kill`."""
        self._ended_by_us = True
        await to_completion(self._engine.kill(self._id))
        await self.wait()

    async def _start(self, body: Mapping[str, Any]) -> None:
        program = self._job.launch.argv[0]
        try:
            self._id = await self._engine.create(self._name, body)
            await self._engine.start(self._id)
        except EngineError as error:
            raise SpawnFailed(program, self._job.secrets(error.reason)) from error

    async def _until_ended(self) -> Ended:
        """Follow the log and look at the state until it has ended (RUN-06, RUN-07)."""
        log = asyncio.create_task(self._follow_log(), name=f"log {self._name}")
        try:
            state = await self._last_state(log)
        finally:
            log.cancel()
            await asyncio.wait({log})
        if state is not None:
            # Docker stops following when the container ends, not when it has sent all of its log.
            with contextlib.suppress(EngineError):
                await self._take_log(follow=False)
        self._output.finish()
        return Ended(
            exit_code=_exit_code(state),
            container_state=self._clean(state),
            stdout=self._output.stdout,
            stderr=self._output.stderr,
            cut=self._output.cut,
            artifacts=await artifacts_of(self._job),
        )

    async def _last_state(self, log: asyncio.Task[None]) -> Mapping[str, object] | None:
        """Return how it ended; None if it is gone or its engine has been silent for too long."""
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            try:
                state = await self._engine.state(self._id)
            except EngineError:
                if loop.time() - heard >= LOST_AFTER:
                    return None
            else:
                heard = loop.time()
                if state is None or state.get("Status") in _OVER:
                    # Also when somebody else has removed it: what it wrote is on its way. And a
                    # read that is cancelled in the turn in which its end arrives makes anyio
                    # complain to the loop.
                    await self._rest_of_log(log)
                    return await self._with_its_cause(state)
            # The log ends with the container, so its end is seen at once.
            if log.done():
                await asyncio.sleep(POLL)
            else:
                await asyncio.wait({log}, timeout=POLL)

    async def _with_its_cause(
        self, state: Mapping[str, object] | None
    ) -> Mapping[str, object] | None:
        """Look again at a container killed by others: the engine may hear of the end first.

        It hears apart from it that the memory was spent.
        """
        if state is None or state.get("ExitCode") != _KILLED or state.get("OOMKilled"):
            return state
        if self._ended_by_us:
            return state
        for _ in range(_LOOKS):
            await asyncio.sleep(POLL)
            with contextlib.suppress(EngineError):
                state = await self._engine.state(self._id) or state
            if state.get("OOMKilled"):
                break
        return state

    async def _follow_log(self) -> None:
        """Read its output; after a lost connection continue at the same place."""
        while True:
            try:
                return await self._take_log(follow=True)
            except EngineError:
                await asyncio.sleep(POLL)

    async def _take_log(self, *, follow: bool) -> None:
        """Read the log from its beginning, and keep the part not yet read."""
        known, passed = dict(self._taken), {STDOUT: 0, STDERR: 0}
        async with contextlib.aclosing(self._engine.logs(self._id, follow=follow)) as frames:
            async for frame in frames:
                size, stream = len(frame.data), frame.stream
                old = min(size, max(0, known[stream] - passed[stream]))
                passed[stream] += size
                if old < size:
                    self._taken[stream] += size - old
                    self._takers[stream](frame.data[old:])

    async def _rest_of_log(self, log: asyncio.Task[None]) -> None:
        """Wait for the end of the log, which may be far behind, as long as something comes."""
        seen = -1
        while not log.done() and seen != self._output.seen:
            seen = self._output.seen
            await asyncio.wait({log}, timeout=_LOG_TIME)

    def _clean(self, state: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """Return the state without secrets: its `Error` may quote the command."""
        if state is None:
            return None
        secrets = self._job.secrets
        return {
            key: secrets(text) if isinstance(text, str) else text for key, text in state.items()
        }

    async def _end_politely(self) -> None:
        """Ask it to end, at most until the grace is over or cut."""
        self._ended_by_us = True
        stop = asyncio.ensure_future(self._engine.stop(self._id, self._job.limits.grace))
        try:
            await asyncio.wait({stop, self._hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                await self._engine.kill(self._id)
                await asyncio.wait({stop}, timeout=ANSWER_TIME)
        finally:
            stop.cancel()
            await asyncio.wait({stop})
        if not stop.cancelled():
            stop.result()

    async def _leave(self) -> None:
        """End and remove it, within the grace and two answers of the engine (RUN-15)."""
        watch = self._watch
        try:
            if watch is not None and not watch.done():
                with contextlib.suppress(EngineError):
                    await self._end_politely()
                    await asyncio.wait({watch}, timeout=_LOG_TIME)  # it sees the end by itself
            # With force, so that it is killed if it runs all the same.
            await (self._engine.remove if self._remove else self._engine.kill)(self._id)
        except EngineError:
            self.survivors = (LeftOver(self._name, ContainerIdentity(self._id)),)
        finally:
            if watch is not None:
                watch.cancel()
                await asyncio.wait({watch})
            self._output.finish()

    def _cut_grace(self) -> None:
        if not self._hurry.done():
            self._hurry.set_result(None)


def _exit_code(state: Mapping[str, object] | None) -> int | None:
    """Return the exit code; None if the engine does not say, which is not a success (C-37)."""
    code = state.get("ExitCode") if state is not None else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None

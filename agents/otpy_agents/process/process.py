"""One worker: a real process in a session of its own, its output, and its certain end.

`async with spawn(...)` is the whole contract: when the block has been left, however it was left,
nothing the worker started is alive any more (G-02), within `grace` and a bounded rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, final

import anyio
import anyio.abc
import anyio.to_thread
import psutil
from attrs import frozen

from otpy_agents.completion import to_completion
from otpy_agents.errors import SpawnFailed
from otpy_agents.process.guardian import Guardian
from otpy_agents.process.guardian_program import END_WITHIN
from otpy_agents.process.orphans import Orphan, end_found, find, same_start
from otpy_agents.process.pipe import OutputPipe

__all__ = ["LINE_LIMIT", "ExitStatus", "LineBuffer", "WorkerProcess", "spawn"]

LINE_LIMIT: Final = 8192
"""Bytes of a line that are kept; what is cut off is marked."""

_CUT: Final = " …[cut]"
_ROUNDS: Final = 5
_LOOK: Final = 0.25  # seconds between two looks whether somebody outside woke what is frozen
_MARKER: Final = ("OTPY_LIST", "OTPY_ASSIGNMENT", "OTPY_INCARNATION")


@frozen
class ExitStatus:
    """How a worker ended: exactly one of the two is set.

    Attributes:
        code: Exit code.
        signal: Name of the signal that ended it, for example `SIGKILL`.
    """

    code: int | None = None
    signal: str | None = None

    @classmethod
    def of(cls, returncode: int) -> ExitStatus:
        """Return the status that the standard library writes as `returncode` (negative: signal)."""
        if returncode >= 0:
            return cls(code=returncode)
        try:
            return cls(signal=signal.Signals(-returncode).name)
        except ValueError:
            return cls(signal=f"signal {-returncode}")

    @property
    def succeeded(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.signal is None else self.signal


@final
class LineBuffer:
    """Turns chunks of bytes into lines; holds at most `LINE_LIMIT` bytes of an unfinished one."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._overlong = False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes, oldest first, without their line ends.

        Bytes that are not UTF-8 become the replacement character. A line over `LINE_LIMIT` bytes
        is returned as soon as it is too long, cut and marked; the rest of it is dropped.
        """
        lines: list[str] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._extend(piece, lines)
            if not self._overlong:
                lines.append(self._take())
            self._overlong = False
        self._extend(rest, lines)
        return lines

    def flush(self) -> list[str]:
        """Return the last line if the output did not end with a line end."""
        return [self._take()] if self._partial else []

    def _extend(self, piece: bytes, lines: list[str]) -> None:
        if self._overlong:
            return
        room = LINE_LIMIT - len(self._partial)
        self._partial += piece[:room]
        if len(piece) > room:
            lines.append(self._take() + _CUT)
            self._overlong = True

    def _take(self) -> str:
        text = self._partial.decode("utf-8", "replace").removesuffix("\r")
        self._partial.clear()
        return text


@final
class WorkerProcess:
    """A worker and everything it starts; made by `spawn`, used as an async context manager.

    A guardian stands between it and the host, and ends it when the host dies (see `guardian`).

    The worker leads its own session and process group. Its standard input is a file, or empty. Its
    two output streams share one pipe, so that their lines keep their order, unless `on_output`
    takes them apart.

    Entering starts it and raises `SpawnFailed` if the system refuses. Leaving ends whatever is
    still alive. Cancellation, at any point and any number of times, does the same before it goes
    on; a cancellation that arrives while the worker is being ended cuts the grace.

    Attributes:
        pid: Its process id, equal to its process group and session. 0 before the start.
        create_time: Its start in Unix seconds, by psutil. 0.0, which no process matches, if it
            ended before it could be asked.
        status: How it ended; None while it runs.
        output_bytes: Bytes of output so far.
        last_output: Time of the loop, in seconds, when it last wrote something, was started or was
            let go on.
        last_line: Its newest complete line; empty with `on_output`.
        paused: Whether `pause` was called last.
        left_over: Processes it had started and left running when it ended by itself; ended since.
            Filled when the block is left, oldest first.
        survivors: Processes that even SIGKILL did not end in time; normally empty.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        grace: float,
        on_line: Callable[[str], object] | None,
        on_output: tuple[Callable[[bytes], object], Callable[[bytes], object]] | None = None,
        on_chunk: Callable[[int], object] | None = None,
        on_pause: Callable[[bool], object] | None = None,
        marker: Mapping[str, str] | None = None,
        wrapped: bool = False,
        record: Path | None = None,
        stdin: Path | None = None,
    ) -> None:
        self.argv, self.cwd, self.grace = tuple(argv), cwd, grace
        self.pid = 0
        self.create_time = 0.0
        self.status: ExitStatus | None = None
        self.output_bytes = 0
        self.last_output = 0.0
        self.last_line = ""
        self.paused = False
        self._frozen = False
        self._look: asyncio.TimerHandle | None = None
        self.left_over: tuple[Orphan, ...] = ()
        self.survivors: tuple[Orphan, ...] = ()
        self._env = dict(env)
        self._marker = (
            dict(marker)
            if marker is not None
            else {name: env[name] for name in _MARKER if name in env}
        )
        self._wrapped = wrapped
        self._stdin = Path(os.devnull) if stdin is None else stdin
        self._on_line = on_line
        self._on_chunk = on_chunk
        self._on_pause = on_pause
        self._lines = LineBuffer()
        takers = on_output if on_output is not None else (self._take_lines,)
        self._pipes = [OutputPipe(partial(self._take, taker)) for taker in takers]
        self._process: anyio.abc.Process | None = None
        self._guardian: Guardian | None = None
        self._record = record
        self._hurry: asyncio.Future[None] | None = None

    @property
    def pgid(self) -> int:
        """Process group of the worker, which it leads."""
        return self.pid

    def __repr__(self) -> str:
        state = self.status or ("paused" if self.paused else "running")
        return f"<WorkerProcess {self.argv[0]!r} pid={self.pid} {state}>"

    async def __aenter__(self) -> WorkerProcess:
        try:
            await to_completion(self._start())
        except BaseException:
            # Cancelled while starting: the process may exist, unknown to all other code.
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave()

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        ended = None if self._guardian is None else self._guardian.ended
        return ended.result() if ended is not None and ended.done() else None

    async def wait(self) -> ExitStatus:
        """Wait until the worker itself has ended and return how.

        All it wrote has been handed to `on_line` by then, except an unfinished last line while
        something it left behind still holds the pipe. Cancellation only stops the waiting.
        """
        guardian = self._running()
        self.status = ExitStatus.of(await asyncio.shield(guardian.ended))
        # Whatever the worker wrote is in the pipe now. Waiting for the end of file instead would
        # hang for as long as a grandchild keeps the other end open.
        self._drain()
        return self.status

    async def terminate_group(self) -> None:
        """End the worker and everything it started, and wait until that is done.

        SIGTERM to the group, at most `grace` seconds, SIGKILL, then whatever still carries the
        marker of this attempt, until nothing is found. Takes at most `grace` and a few seconds.
        Cancellation does not stop it; it cuts the grace and is delivered at the end.
        """
        self._running()
        await to_completion(self._end(), on_cancel=self.cut_grace)

    def cut_grace(self) -> None:
        """Let a running or later `terminate_group` go on to SIGKILL at once."""
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)

    @property
    def quiet(self) -> float:
        """Seconds since it last wrote something or was started; 0 while it is paused."""
        if self.paused:
            return 0.0
        return asyncio.get_running_loop().time() - self.last_output

    def kill_group(self) -> None:
        """Kill the whole group on the spot (SIGKILL); nothing happens if the worker has ended."""
        self._signal_group(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the whole group (SIGSTOP); nothing happens if the worker has ended."""
        self._signal_group(signal.SIGSTOP)
        self.paused = True
        if self._on_pause is not None:
            self._on_pause(True)
        self._look_later()

    def resume(self) -> None:
        """Let a frozen group go on (SIGCONT)."""
        self._signal_group(signal.SIGCONT)
        self.paused = self._frozen = False
        self.last_output = asyncio.get_running_loop().time()  # silence while frozen is not a stall
        if self._on_pause is not None:
            self._on_pause(False)

    def _look_later(self) -> None:
        self._look_no_more()
        if self.paused and self.pid and self.exit_code is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_again)

    def _look_again(self) -> None:
        if self.paused and not self._woken():
            self._look_later()

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _woken(self) -> bool:
        """Note that the frozen worker was continued from outside (`kill -CONT`)."""
        try:
            stopped = psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False
        if stopped or not self._frozen:  # SIGSTOP takes a moment to arrive
            self._frozen = stopped
            return False
        self.resume()
        return True

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._hurry = loop.create_future()
        write_ends: list[int] = []
        self._guardian = guardian = Guardian(
            self.argv,
            self._env,
            marker=self._marker,
            grace=self.grace,
            wrapped=self._wrapped,
            record=self._record,
        )
        stdin: int | None = None
        try:
            guardian.open()
            for pipe in self._pipes:
                # One by one, so that the first is closed below if the second cannot be made.
                write_ends.append(pipe.open())  # noqa: PERF401 - see above
            # The end of its input comes by itself, and nobody has to feed it.
            stdin = os.open(self._stdin, os.O_RDONLY)
            # With the reading ends held by the guardian no worker dies of the death of the host.
            held = [pipe.end for pipe in self._pipes if pipe.end is not None]
            self._process = await anyio.open_process(
                guardian.command(held),
                stdin=stdin,
                stdout=write_ends[0],
                stderr=subprocess.STDOUT if len(write_ends) == 1 else write_ends[1],
                cwd=self.cwd,
                env=guardian.environment,
                start_new_session=True,
                pass_fds=(*guardian.descriptors, *held),
            )
            guardian.listen()
            self.pid = await guardian.started
        except (OSError, ValueError) as error:
            raise SpawnFailed(self.argv[0], str(error)) from error
        finally:
            for descriptor in (*write_ends, *(() if stdin is None else (stdin,))):
                os.close(descriptor)
        self.last_output = loop.time()
        for pipe in self._pipes:
            pipe.listen()
        with contextlib.suppress(psutil.Error):
            self.create_time = psutil.Process(self.pid).create_time()

    async def _leave(self) -> None:
        """End everything and give the pipe back."""
        self._look_no_more()
        try:
            if self.pid:
                await to_completion(self._end(), on_cancel=self.cut_grace)
        finally:
            self._look_no_more()  # it may have been frozen while it was being ended
            self._drain()
            for line in self._lines.flush():
                self._tell(line)
            for pipe in self._pipes:
                pipe.close()
            if self._guardian is not None:
                self._guardian.close()
            if self._process is not None:
                await to_completion(self._surely(self._process, self._process.wait))

    async def _surely(
        self, guardian: anyio.abc.Process, wait: Callable[[], Awaitable[object]]
    ) -> None:
        """Wait for an effect that only the guardian can have; kill a hanging guardian."""
        try:
            async with asyncio.timeout(END_WITHIN + 1.0):
                await wait()
        except TimeoutError:  # frozen from outside, or what survived even SIGKILL holds it up
            guardian.kill()
            await wait()

    async def _end(self) -> None:
        """End the group and every straggler; see `terminate_group`."""
        guardian, process = self._running(), self._process
        assert process is not None  # noqa: S101 - for type checkers: it was started
        by_itself = guardian.ended.done()
        if not by_itself:
            guardian.disown()
        grace = self.grace
        for _ in range(_ROUNDS):
            found = await anyio.to_thread.run_sync(self._find)
            # What is inside a wrapper that has ended is being ended by the kernel: seen or not, it
            # says nothing about the worker.
            if by_itself and not self.left_over and not self._wrapped:
                self.left_over = tuple(found)
            self.survivors = ()
            if not found:
                break
            self.survivors = await end_found(
                found, grace, group=self.pid, hurry=self._hurry, wrapped=self._wrapped
            )
            # Only the first round is polite: later ones meet what was forked by the dying.
            grace = 0.0
        if not any(orphan.pid == self.pid for orphan in self.survivors):
            await self._surely(process, self.wait)

    def _find(self) -> list[Orphan]:
        """Return what of this attempt is alive, the worker included."""
        # The number of the session is ours for certain: the guardian does not let go of the ended
        # worker, unless it was killed, and then the stragglers hold it.
        below = None if self._process is None else self._process.pid
        sessions = () if self._stranger() else (self.pid,)
        return find(self._marker, sessions=sessions, below=below)

    def _stranger(self) -> bool:
        """Tell whether the pid of the ended worker already belongs to another process."""
        with contextlib.suppress(psutil.Error):
            return not same_start(psutil.Process(self.pid).create_time(), self.create_time)
        return False

    def _signal_group(self, number: signal.Signals) -> None:
        """Signal the group, but only while its leader runs."""
        if self.pid and self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _running(self) -> Guardian:
        if self._guardian is None or not self.pid:
            message = f"{self!r}: got a worker that was not started, wanted `async with`"
            raise RuntimeError(message)
        return self._guardian

    def _take(self, taker: Callable[[bytes], object], data: bytes) -> None:
        self.output_bytes += len(data)
        self.last_output = asyncio.get_running_loop().time()
        taker(data)
        if self._on_chunk is not None:
            self._on_chunk(len(data))

    def _take_lines(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._tell(line)

    def _drain(self) -> None:
        for pipe in self._pipes:
            pipe.drain()

    def _tell(self, line: str) -> None:
        self.last_line = line
        if self._on_line is None:
            return
        try:
            self._on_line(line)
        except Exception as error:  # noqa: BLE001 - a listener must never stop the reading
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"on_line of {self!r} raised", "exception": error}
            )


def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    grace: float = 5.0,
    on_line: Callable[[str], object] | None = None,
    on_output: tuple[Callable[[bytes], object], Callable[[bytes], object]] | None = None,
    on_chunk: Callable[[int], object] | None = None,
    on_pause: Callable[[bool], object] | None = None,
    marker: Mapping[str, str] | None = None,
    wrapped: bool = False,
    record: Path | None = None,
    stdin: Path | None = None,
) -> WorkerProcess:
    """Return a worker to be started by `async with`.

    Args:
        argv: Program and arguments; no shell is involved.
        cwd: Its working directory.
        env: Its complete environment, from `worker_environment`; the marker in it is what its
            stragglers are found by.
        grace: Seconds between SIGTERM and SIGKILL; 0 means SIGKILL at once.
        on_line: Called with each line of output, in order. If it raises, the loop's exception
            handler is told and reading goes on.
        on_output: Instead of `on_line`: called with each chunk of standard output, and of the error
            stream. The two are then read apart. Must not raise.
        on_chunk: Called with the size of each piece of output, in bytes, after the lines that end
            in it. Must not raise.
        on_pause: Called with True when it is frozen, and with False when it is let go on, also by
            somebody outside (`kill -CONT`). Must not raise.
        marker: Variables of `env` that its stragglers are found by; None for those of a work list.
        wrapped: Whether the program runs inside another that does not hand signals on and ends with
            it. The outer one is then spared by SIGTERM.
        record: File in which its guardian writes down how it ended by itself, for `exit_on_disk`;
            the caller deletes it when it has stored the exit. None for nowhere.
        stdin: The file that it has as its standard input; None for one that is empty.

    Example:
        ```python
        async with spawn(argv, cwd=work, env=environment, grace=5.0, on_line=print) as process:
            status = await process.wait()
        # here the whole group is gone
        ```
    """
    return WorkerProcess(
        argv,
        cwd=cwd,
        env=env,
        grace=grace,
        on_line=on_line,
        on_output=on_output,
        on_chunk=on_chunk,
        on_pause=on_pause,
        marker=marker,
        wrapped=wrapped,
        record=record,
        stdin=stdin,
    )

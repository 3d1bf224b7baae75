from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from otpy_agents.errors import SpawnFailed
from otpy_agents.process.orphans import find
from otpy_agents.process.pipe import OutputPipe
from otpy_agents.process.process import LINE_LIMIT, ExitStatus, LineBuffer, WorkerProcess, spawn
from otpy_agents.sandbox.marker import attempt_marker, worker_environment
from tests.agents.host import PATIENCE

# One system call for the line: of two processes that `print`, the parts could be mixed.
STUBBORN = (
    "import os,signal,time;signal.signal(signal.SIGTERM,signal.SIG_IGN);os.write(1,b'up\\n');"
)
SLEEP = "time.sleep(99)"


class Worker:
    """Starts Python code as a worker, and notes its line `up`."""

    def __init__(self, tmp_path: Path) -> None:
        self.list_id = uuid.uuid4().hex
        self.marker = attempt_marker(self.list_id, "a", 1)
        self.lines: list[str] = []
        self.up = asyncio.Event()
        self.pauses: list[bool] = []
        self.chunks: list[int] = []
        self.tmp_path = tmp_path

    def hear(self, line: str) -> None:
        self.lines.append(line)
        if line == "up":
            self.up.set()

    def python(
        self, code: str, *, grace: float = 5.0, on_line: Callable[[str], object] | None = None
    ) -> WorkerProcess:
        return self.run([sys.executable, "-c", code], grace=grace, on_line=on_line)

    def run(
        self,
        argv: list[str],
        *,
        grace: float = 5.0,
        on_line: Callable[[str], object] | None = None,
    ) -> WorkerProcess:
        environment = worker_environment(
            os.environ,
            {},
            list_id=self.list_id,
            assignment="a",
            incarnation=1,
            restarts=0,
            work=self.tmp_path,
            notes=self.tmp_path / "NOTES",
        )
        return spawn(
            argv,
            cwd=self.tmp_path,
            env=environment,
            grace=grace,
            on_line=on_line or self.hear,
            on_chunk=self.chunks.append,
            on_pause=self.pauses.append,
        )

    def alive(self) -> list[str]:
        return [str(orphan) for orphan in find(self.marker)]


@pytest.fixture
async def worker(tmp_path: Path) -> Worker:
    """Starts the workers of one test."""
    return Worker(tmp_path)


@pytest.mark.real_time
async def test_output_arrives_in_order_and_complete(worker: Worker) -> None:
    """Both streams share one pipe; an unfinished last line is a line too."""
    async with worker.run(["sh", "-c", "echo one; echo two >&2; printf three"]) as process:
        status = await process.wait()
    assert (status, worker.lines) == (ExitStatus(code=0), ["one", "two", "three"])
    assert (process.output_bytes, process.last_line) == (13, "three")
    assert process.left_over == process.survivors == ()


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 3", "exit code 3"), ("kill -KILL $$", "SIGKILL"), ("kill -TERM $$", "SIGTERM")],
)
async def test_an_end_is_a_code_or_a_signal(worker: Worker, script: str, expected: str) -> None:
    """The exit status names what happened."""
    async with worker.run(["sh", "-c", script]) as process:
        status = await process.wait()
    assert str(status) == expected
    assert not status.succeeded


@pytest.mark.real_time
async def test_a_worker_leads_its_own_session_and_has_no_input(worker: Worker) -> None:
    """Its group, session and pid are one number, and a read of its input ends at once."""
    code = "import os,sys;print(os.getpgid(0),os.getsid(0),os.getpid(),repr(sys.stdin.read()))"
    async with worker.python(code) as process:
        assert (await process.wait()).succeeded
    assert worker.lines == [f"{process.pid} {process.pgid} {process.pid} ''"]


@pytest.mark.real_time
async def test_the_start_of_a_worker_is_known(worker: Worker) -> None:
    """Together with the pid it identifies the process for ever."""
    async with worker.python(f"import time;{SLEEP}", grace=0.0) as process:
        assert process.create_time == psutil.Process(process.pid).create_time()


@pytest.mark.real_time
async def test_what_cannot_be_started_is_a_typed_error(worker: Worker, tmp_path: Path) -> None:
    """A missing program, a file that is not a program and a bad argument raise one error."""
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    for argv in (["/no/such/program"], [str(tmp_path / "text")], ["a\0b"]):
        with pytest.raises(SpawnFailed) as caught:
            async with worker.run(argv):
                pytest.fail("started")
        assert caught.value.program == argv[0]
        assert caught.value.__cause__ is not None


@pytest.mark.real_time
async def test_grandchildren_of_a_worker_that_exits_0_are_ended_and_reported(
    worker: Worker,
) -> None:
    """One in the group and one in a session of its own: both are found (G-02)."""
    code = (
        "from subprocess import Popen\n"
        "near, far = Popen(['sleep', '99']), Popen(['sleep', '98'], start_new_session=True)"
    )
    async with worker.python(code) as process:
        assert (await process.wait()).succeeded
    assert [orphan.name for orphan in process.left_over] == ["sleep", "sleep"]
    assert {orphan.session == process.pid for orphan in process.left_over} == {True, False}
    assert worker.alive() == []


@pytest.mark.real_time
async def test_waiting_does_not_hang_on_a_pipe_that_is_held_open(worker: Worker) -> None:
    """The worker's own output is complete although a grandchild keeps the pipe."""
    async with worker.run(["sh", "-c", "sleep 99 & echo last words"]) as process:
        await process.wait()
        assert worker.lines == ["last words"]
        assert len(worker.alive()) == 1
    assert worker.alive() == []


@pytest.mark.real_time
async def test_a_grandchild_without_marker_is_found_by_its_session(worker: Worker) -> None:
    """Clearing the environment does not help a process that stays in the session."""
    script = "env -i /bin/sh -c 'echo up; exec /bin/cat /dev/zero >/dev/null' & exec sleep 99"
    async with worker.run(["sh", "-c", script]) as process:
        await worker.up.wait()
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    (left,) = process.left_over
    assert (left.assignment, left.session) == ("", process.pid)
    assert find({}, sessions=[process.pid]) == []


@pytest.mark.real_time
async def test_a_worker_that_obeys_is_not_killed(worker: Worker) -> None:
    """SIGTERM comes once, and there is time to clean up."""
    # By a handler it would be lost if it came just before the sleep that it is to end.
    code = (
        "import signal,sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print('up', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "print('bye', flush=True)\n"
        "sys.exit(4)\n"
    )
    async with worker.python(code) as process:
        await worker.up.wait()
        await process.terminate_group()
        assert process.status == ExitStatus(code=4)
    assert worker.lines == ["up", "bye"]


@pytest.mark.real_time
async def test_a_worker_that_refuses_is_killed_after_its_grace(worker: Worker) -> None:
    """AIO-28: the grace is waited for, and then the whole group goes."""
    loop = asyncio.get_running_loop()
    code = f"import signal;signal.signal(15,signal.SIG_IGN);import os;os.fork();{STUBBORN}{SLEEP}"
    async with worker.python(code, grace=0.1) as process:
        await worker.up.wait()
        asked = loop.time()
    assert process.status == ExitStatus(signal="SIGKILL")
    assert 0.1 <= loop.time() - asked < 1.5
    assert worker.alive() == []


@pytest.mark.real_time
async def test_a_frozen_worker_can_still_be_ended(worker: Worker) -> None:
    """A paused group is woken so that it can obey."""
    async with worker.python("import os,time;os.write(1,b'up\\n');time.sleep(99)") as process:
        await worker.up.wait()
        process.pause()
        assert process.paused
        # Unless it has really stopped, SIGTERM would be taken before the SIGSTOP still pending.
        async with asyncio.timeout(PATIENCE):
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert process.status == ExitStatus(signal="SIGTERM")


@pytest.mark.real_time
async def test_pause_and_resume_act_on_the_group(worker: Worker) -> None:
    """A worker that is resumed finishes normally."""
    async with worker.run(["sh", "-c", "echo up; read x </dev/null; exit 0"]) as process:
        await worker.up.wait()
        process.pause()
        assert process.quiet == 0.0
        began = process.last_output
        await asyncio.sleep(0.002)  # uvloop's clock goes by milliseconds
        process.resume()
        assert process.last_output > began
        assert (await process.wait()).succeeded
    assert worker.pauses == [True, False]
    process.pause()


@pytest.mark.real_time
async def test_one_that_somebody_outside_lets_go_on_is_no_longer_paused(worker: Worker) -> None:
    """`kill -CONT` is noticed without a call."""
    async with worker.python("import time;print('up', flush=True);time.sleep(99)") as process:
        await worker.up.wait()
        process.pause()
        async with asyncio.timeout(PATIENCE):
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.6)  # the worker must be seen frozen before it is seen awake
        assert worker.pauses == [True]
        os.killpg(process.pgid, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE):
            while process.paused:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert worker.pauses == [True, False]


@pytest.mark.real_time
async def test_each_byte_is_told_though_no_line_ends(worker: Worker) -> None:
    """A budget of output thus also holds for a worker that never ends a line."""
    async with worker.python("print('x' * 300_000, end='')") as process:
        await process.wait()
    assert sum(worker.chunks) == process.output_bytes == 300_000


@pytest.mark.real_time
@pytest.mark.parametrize("cancels", [1, 2, 5])
async def test_cancellation_leaves_nothing_behind(worker: Worker, cancels: int) -> None:
    """The group is gone when the task ends, after any number of cancellations."""
    process = worker.python(f"import os;os.fork() or os.setsid();{STUBBORN}{SLEEP}", grace=0.1)

    async def work() -> None:
        async with process:
            await process.wait()

    task = asyncio.create_task(work())
    await worker.up.wait()
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.status is not None
    assert worker.alive() == []


@pytest.mark.real_time
async def test_a_second_cancellation_cuts_the_grace(worker: Worker) -> None:
    """The second cancellation does not wait for a grace of minutes."""
    process = worker.python(STUBBORN + SLEEP, grace=600)
    loop = asyncio.get_running_loop()

    async def work() -> None:
        async with process:
            await process.wait()

    task = asyncio.create_task(work())
    await worker.up.wait()
    asked = loop.time()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({task})
    assert loop.time() - asked < 2
    assert worker.alive() == []


@pytest.mark.real_time
async def test_cancellation_while_starting_leaves_nothing_behind(worker: Worker) -> None:
    """A worker that was started but never handed over is ended, too."""
    for turns in range(6):
        process = worker.python(STUBBORN + SLEEP, grace=0.05)
        task = asyncio.create_task(process.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            await process.__aexit__(None, None, None)
        assert worker.alive() == []


@pytest.mark.real_time
async def test_an_anyio_scope_does_not_make_a_busy_loop_of_the_end(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its repeated cancellation is held back, so the grace is a grace and costs no time."""
    loop = asyncio.get_running_loop()
    call_soon: Any = loop.call_soon
    turns = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal turns
        turns += 1
        return call_soon(*args, **kwargs)

    asked = loop.time()
    with anyio.CancelScope() as scope:
        async with worker.python(STUBBORN + SLEEP, grace=0.2) as process:
            await worker.up.wait()
            asked = loop.time()
            monkeypatch.setattr(loop, "call_soon", counted)
            scope.cancel()
            await process.wait()
    assert loop.time() - asked >= 0.2
    assert turns < 500
    assert worker.alive() == []


@pytest.mark.real_time
async def test_a_listener_that_raises_does_not_stop_the_reading(worker: Worker) -> None:
    """The loop's exception handler gets the error, and every line is still read."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(str(context["exception"]))
    )

    def refuse(line: str) -> None:
        raise ValueError(line)

    async with worker.python("print('a');print('b')", on_line=refuse) as process:
        assert (await process.wait()).succeeded
    assert (told, process.last_line) == (["a", "b"], "b")


@pytest.mark.real_time
async def test_a_flood_of_output_is_counted_and_does_not_block_the_worker(worker: Worker) -> None:
    """More than a pipe holds goes through."""
    async with worker.python("print('x' * 99 + '\\n' + ('y' * 99 + '\\n') * 20_000)") as process:
        assert (await process.wait()).succeeded
    assert process.output_bytes == 2_000_101
    assert len(worker.lines) == 20_002


async def test_a_worker_must_be_started_first(worker: Worker) -> None:
    """Using it outside its block is a mistake that says so."""
    with pytest.raises(RuntimeError, match="wanted `async with`"):
        await worker.python("").wait()


def test_lines_are_cut_where_they_are_too_long() -> None:
    """A line keeps 8 KiB and a mark; the rest of it is dropped, the next one is whole."""
    buffer = LineBuffer()
    lines = buffer.feed(b"a" * (LINE_LIMIT + 1))
    assert lines == ["a" * LINE_LIMIT + " …[cut]"]
    assert buffer.feed(b"more of it") == []
    assert buffer.feed(b"and the end\nnext\r\n\n" + b"b" * LINE_LIMIT + b"\n") == [
        "next",
        "",
        "b" * LINE_LIMIT,
    ]
    assert buffer.flush() == []


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A worker may write what it likes; a letter cut by a chunk is put together."""
    buffer = LineBuffer()
    assert buffer.feed(b"\xff\xc3") == []
    assert buffer.feed(b"\xa4\nrest") == ["\ufffdä"]
    assert buffer.flush() == ["rest"]


def test_signals_without_a_name_have_a_number() -> None:
    """Real-time signals are reported, too."""
    assert str(ExitStatus.of(-signal.SIGRTMIN - 3)).startswith(("SIG", "signal"))
    assert str(ExitStatus.of(-1000)) == "signal 1000"


def test_the_environment_is_complete_and_clean(tmp_path: Path) -> None:
    """A restarted worker gets the reason, but no variable of an outer run (TREE-36)."""
    environment = worker_environment(
        {"PATH": "/bin", "OTPY_LAST_EXIT": "outer", "A": "0"},
        {"A": "1"},
        list_id="L",
        assignment="a",
        incarnation=2,
        restarts=1,
        work=tmp_path,
        notes=tmp_path / "NOTES",
        last_exit="it ended with exit code 1\0" + "x" * 5000,
    )
    note = environment.pop("OTPY_LAST_EXIT")
    assert note.startswith("you were restarted because it ended with exit code 1\ufffdx")
    assert len(note) < 1100
    assert environment == {
        "PATH": "/bin", "A": "1", "OTPY_LIST": "L", "OTPY_ASSIGNMENT": "a",
        "OTPY_INCARNATION": "2", "OTPY_RESTARTS": "1", "OTPY_WORK": str(tmp_path),
        "OTPY_NOTES": str(tmp_path / "NOTES"),
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    first = worker_environment(
        {"OTPY_LAST_EXIT": "outer"}, {}, list_id="L", assignment="a", incarnation=1, restarts=0,
        work=tmp_path, notes=tmp_path / "NOTES",
    )  # fmt: skip
    assert "OTPY_LAST_EXIT" not in first


async def test_a_full_pipe_is_taken_in_pieces() -> None:
    """A command to end a run that floods us is heard after a few thousand lines, not after all."""
    written = b"y\n" * 32768
    chunks: list[bytes] = []
    pipe = OutputPipe(chunks.append)
    end = pipe.open()
    try:
        os.write(end, written)
        pipe.drain()
        assert b"".join(chunks) == written
        assert max(map(len, chunks)) <= len(written) // 8
    finally:
        os.close(end)
        pipe.close()

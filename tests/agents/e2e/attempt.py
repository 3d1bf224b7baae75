"""One attempt of a real CLI through its adapter, from the launch to the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread
from attrs import frozen

from otpy_agents.process.orphans import end_found, find
from otpy_agents.run import (
    Adapter,
    AttemptRequest,
    Classification,
    Launch,
    LineSplitter,
    Orphan,
    Transcript,
    attempt_marker,
    classify,
)

__all__ = ["Outcome", "attempt"]

LIMIT: Final = 50.0
"""Seconds after which an attempt is stopped and counts as one that did not end."""
GRACE: Final = 3.0
_ROUNDS: Final = 5


@frozen(kw_only=True)
class Outcome:
    """The end of an attempt.

    Attributes:
        cli: Name of the adapter.
        session: The session that it led.
        code: Exit code, negative for a signal.
        by_itself: Whether it ended without a stop.
        stdout: Its whole standard output.
        stderr: Its whole standard error.
        transcript: The sum of its events.
        verdict: The result of `classify`; meaningless for a stopped attempt.
        left_over: The processes it left running when it ended by itself.
        survivors: The processes still alive after all were ended.
    """

    cli: str
    session: int
    code: int
    by_itself: bool
    stdout: str
    stderr: str
    transcript: Transcript
    verdict: Classification
    left_over: tuple[Orphan, ...]
    survivors: tuple[Orphan, ...]

    @property
    def left_behind(self) -> tuple[Orphan, ...]:
        """The processes it left running, without the one shell that Codex does not wait for.

        That shell reads its user's settings in a session of its own. On a loaded machine it may
        outlast the answer, with any programs of its pipes, and these may outlast the shell.
        """
        apart = {one.session for one in self.left_over} - {self.session}
        leaders = {one.name for one in self.left_over if one.pid in apart}
        if self.cli == "codex" and len(apart) == 1 and leaders <= {"bash"}:
            return tuple(one for one in self.left_over if one.session not in apart)
        return self.left_over

    def __str__(self) -> str:
        end = "by itself" if self.by_itself else "stopped"
        tail = f"{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-2000:]}"
        return f"exit {self.code} {end}: {self.verdict}\n--- stdout\n{tail}"


async def attempt(
    adapter: Adapter,
    request: AttemptRequest,
    *,
    environment: Mapping[str, str],
    cwd: Path,
    until: Awaitable[object] | None = None,
) -> Outcome:
    """Start the CLI, wait for its end, or stop it when `until` is done, and judge it.

    None of its processes is alive afterwards; cancellation ends it too, at once.

    Args:
        adapter: The CLI.
        request: The task, and how to do it.
        environment: The variables it inherits.
        cwd: Its working directory.
        until: When to stop it; None lets it go on to its end, or to `LIMIT`.
    """
    launch = adapter.launch(request)
    for path, text in launch.files.items():
        path.write_text(text, encoding="utf-8")
    marker = attempt_marker(uuid.uuid4().hex, adapter.name, 1)
    with (launch.stdin or Path(os.devnull)).open("rb") as stdin:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            cwd=cwd,
            env={**environment, **launch.environment, **marker},
            stdin=stdin,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    assert process.stdout is not None
    assert process.stderr is not None
    out = asyncio.ensure_future(process.stdout.read())
    err = asyncio.ensure_future(process.stderr.read())
    left_over: tuple[Orphan, ...] = ()
    try:
        by_itself = await _first(process.wait(), until)
        if by_itself:
            left_over = tuple(await anyio.to_thread.run_sync(find, marker))
    finally:
        survivors = await _end(marker, process.pid)
        code = await process.wait()
        # Only now, as left-over processes hold the pipes too.
        stdout, stderr = await out, await err
    words = stdout.decode(errors="replace"), stderr.decode(errors="replace")
    return Outcome(
        cli=adapter.name,
        session=process.pid,
        code=code,
        by_itself=by_itself,
        stdout=words[0],
        stderr=words[1],
        transcript=_read(adapter, stdout, stderr, _report(launch)),
        verdict=classify(adapter.name, exit_code=code, stdout=words[0], stderr=words[1]),
        left_over=left_over,
        survivors=survivors,
    )


async def _first(ended: Awaitable[int], until: Awaitable[object] | None) -> bool:
    """Wait for the end, for `until` or for `LIMIT`; return whether it was the end."""
    end = asyncio.ensure_future(ended)
    waiting: list[asyncio.Future[object] | asyncio.Future[int]] = [end]
    if until is not None:
        waiting.append(asyncio.ensure_future(until))
    try:
        await asyncio.wait(waiting, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED)
        return end.done()
    finally:
        for future in waiting:
            future.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await future


async def _end(marker: Mapping[str, str], leader: int) -> tuple[Orphan, ...]:
    """End all processes with the marker, first gently, and return those that survive SIGKILL."""
    survivors: tuple[Orphan, ...] = ()
    grace = GRACE
    for _ in range(_ROUNDS):
        found = await anyio.to_thread.run_sync(find, marker)
        if not found:
            return ()
        survivors = await end_found(found, grace, group=leader)
        grace = 0.0
    return survivors


def _report(launch: Launch) -> bytes:
    if launch.report is None or not launch.report.exists():
        return b""
    return launch.report.read_bytes()


def _read(adapter: Adapter, stdout: bytes, stderr: bytes, report: bytes) -> Transcript:
    transcript = Transcript()
    parser, splitter = adapter.parser(), LineSplitter()
    for line in (*splitter.feed(stdout), *splitter.feed(report), *splitter.end()):
        transcript.add(parser.feed(line))
    if adapter.errors_on_stderr:
        parser = adapter.parser()
        for line in (*splitter.feed(stderr), *splitter.end()):
            transcript.add(parser.feed(line))
    return transcript

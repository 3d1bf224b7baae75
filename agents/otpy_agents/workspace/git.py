"""One git command at a time, as a process, with typed errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import anyio.to_thread
import psutil
from attrs import frozen

from otpy_agents.clock import CLOCK
from otpy_agents.completion import to_completion
from otpy_agents.errors import (
    ChangesetDirty,
    ChangesetTaken,
    GitFailed,
    GitMissing,
    NotARepository,
    WorktreeLocked,
)
from otpy_agents.workspace.place import entries

__all__ = ["GitAnswer", "Git"]

LIMIT: Final = 300.0
"""Seconds one command may take."""

PATIENCE: Final = 5.0
"""Seconds that a cancelled caller leaves a command to end by itself; SIGTERM follows."""

LOCK_AGE: Final = 10.0
"""Seconds after which a lock that no git process can have is taken for left over."""

_TRIES: Final = 20
_PAUSE: Final = 0.1

_SETTINGS: Final = (
    # Hooks and monitors of the repository could do anything, or refuse; this is not for them.
    *("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false"),
    # The same holds for its programs for differences, signatures and logins, and its submodules.
    *("-c", "diff.external=", "-c", "log.showSignature=false", "-c", "credential.helper="),
    *("-c", "submodule.recurse=false", "-c", "core.alternateRefsCommand="),
    *("-c", "commit.gpgSign=false", "-c", "core.safecrlf=false", "-c", "advice.detachedHead=false"),
    # What goes on in the background would outlive the command.
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)
_KEPT: Final = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}
_LOCK: Final = re.compile(r"Unable to create '(.+?\.lock)': File exists")
_HALF_MADE: Final = re.compile(r"failed to read \S*worktrees/[^/]+/commondir")
"""What git says while another one makes or removes a work tree beside it."""
_TAKEN: Final = re.compile(r"is already (?:checked out|used by worktree) at '(.+?)'")
_DIRTY: Final = re.compile(r"would be overwritten by|Please commit your changes|not uptodate")


@frozen
class GitAnswer:
    """What a git command said.

    Attributes:
        code: Its exit code.
        out: Its output.
        error: Its error stream, in one line.
    """

    code: int
    out: bytes
    error: str

    @property
    def text(self) -> str:
        """Its output without the last line feed."""
        return os.fsdecode(self.out).removesuffix("\n")


@final
class Git:
    """Runs git in the work trees of one repository.

    Nothing of the environment or of the repository makes git ask, page, or run a hook.

    Args:
        ceiling: Folder above which no repository is looked for: a work tree that has lost its
            `.git` must not be taken for a part of the repository around it.
        settings: Settings that hold for each command, as `name=value`.
        variables: Environment variables that each command gets, by name.
        keeps: File descriptors that each command inherits. A lock on one is held until the last
            command has ended, even if this process is killed before.
    """

    def __init__(
        self,
        ceiling: Path | None = None,
        *,
        settings: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
        keeps: tuple[int, ...] = (),
    ) -> None:
        self._ceiling = ceiling
        self._settings = tuple(part for one in settings for part in ("-c", one))
        self._variables = dict(variables or {})
        self._keeps = keeps

    def also(self, variables: Mapping[str, str]) -> Git:
        """Return a copy that gives its commands more environment variables."""
        made = Git(self._ceiling, variables={**self._variables, **variables}, keeps=self._keeps)
        made._settings = self._settings
        return made

    async def run(
        self, where: Path, *args: str, stdin: bytes = b"", at: float | None = None
    ) -> GitAnswer:
        """Run a git command and return its output.

        A lock that a killed git has left behind is removed, and one that is held is waited for, two
        seconds at most; so is another git that just makes or removes a work tree. A command is not
        cut by cancellation at once, but asked to end after a few seconds; git removes its locks
        then.

        Args:
            where: The work tree.
            args: The arguments.
            stdin: Its input.
            at: Time of a commit it makes, in Unix seconds.

        Raises:
            GitMissing: There is no git.
            NotARepository: `where` is in no repository.
            ChangesetTaken: A branch is checked out elsewhere.
            ChangesetDirty: Files would be overwritten.
            WorktreeLocked: A lock is held.
            GitFailed: It refused for another reason, or took too long.
        """
        answer = await self.ask(where, *args, stdin=stdin, at=at)
        if answer.code:
            raise _error(where, args, answer.error)
        return answer

    async def ask(
        self, where: Path, *args: str, stdin: bytes = b"", at: float | None = None
    ) -> GitAnswer:
        """Do as `run` does, but leave the exit code to the caller."""
        lock = where
        for _ in range(_TRIES):
            answer = await self._once(where, args, stdin, at)
            found = _LOCK.search(answer.error) if answer.code else None
            if found is None and not (answer.code and _HALF_MADE.search(answer.error)):
                return answer
            if found is None:
                await asyncio.sleep(_PAUSE)
                continue
            lock = where / found[1]
            if await anyio.to_thread.run_sync(_left_over, lock, where):
                lock.unlink(missing_ok=True)
            else:
                await asyncio.sleep(_PAUSE)
        raise WorktreeLocked(where, str(lock))

    async def commit(self, where: Path, name: str, *options: str) -> str:
        """Return the commit that a name stands for; empty if it is none.

        Args:
            where: The work tree.
            name: For example a branch.
            options: What comes before the command.
        """
        asked = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        answer = await self.ask(where, *options, *asked)
        return answer.text if answer.code == 0 else ""

    async def _once(
        self, where: Path, args: tuple[str, ...], stdin: bytes, at: float | None
    ) -> GitAnswer:
        loop = asyncio.get_running_loop()
        processes: list[asyncio.subprocess.Process] = []
        timers: list[asyncio.TimerHandle] = []

        def hurry() -> None:
            if not timers:
                timers.append(loop.call_later(PATIENCE, _terminate, processes))

        work = self._communicate(where, args, stdin, at, processes)
        try:
            return await to_completion(work, on_cancel=hurry)
        finally:
            for timer in timers:
                timer.cancel()

    async def _communicate(
        self,
        where: Path,
        args: tuple[str, ...],
        stdin: bytes,
        at: float | None,
        processes: list[asyncio.subprocess.Process],
    ) -> GitAnswer:
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                *_SETTINGS,
                *self._settings,
                *args,
                cwd=where,
                env=self._environment(at),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us, who finish what was begun
                pass_fds=self._keeps,
            )
        except OSError as error:
            if entries(where) is not None and isinstance(error, FileNotFoundError):
                raise GitMissing(where) from error
            raise NotARepository(where, error.strerror or str(error)) from error
        processes.append(process)
        try:
            async with asyncio.timeout(LIMIT):
                out, spoken = await process.communicate(stdin)
        except TimeoutError:
            _terminate(processes)
            await process.wait()
            raise GitFailed(where, args[0], f"no end after {LIMIT:g} s") from None
        said = " ".join(spoken.decode(errors="replace").split())
        return GitAnswer(process.returncode or 0, out, said)

    def _environment(self, at: float | None) -> dict[str, str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name in _KEPT
        }
        environment |= {
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_EDITOR": "true",
            "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch by programs it names
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        for person in ("AUTHOR", "COMMITTER"):
            environment[f"GIT_{person}_NAME"] = "otpy"
            environment[f"GIT_{person}_EMAIL"] = "otpy@localhost"
            if at is not None:
                environment[f"GIT_{person}_DATE"] = f"@{int(at)} +0000"
        if self._ceiling is not None:
            environment["GIT_CEILING_DIRECTORIES"] = str(self._ceiling)
        return environment | self._variables


def _terminate(processes: list[asyncio.subprocess.Process]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()


def _error(where: Path, args: tuple[str, ...], said: str) -> Exception:
    if "not a git repository" in said or "must be run in a work tree" in said:
        return NotARepository(where, said)
    if taken := _TAKEN.search(said):
        return ChangesetTaken(where, f"its branch in use at {taken[1]}", "a branch of its own")
    if _DIRTY.search(said):
        return ChangesetDirty(where, f"files that would be overwritten ({said})")
    return GitFailed(where, " ".join(args[:2]), said)


def _left_over(lock: Path, where: Path) -> bool:
    """Tell whether a lock is there and no git process can have it.

    Git holds a lock for moments. One that other programs may share is given some time too: not all
    that work on a repository are called git.
    """
    try:
        age = CLOCK() - lock.stat().st_mtime
    except FileNotFoundError:
        return True
    shared = lock.parent.parent.name != "worktrees"
    if shared and age < LOCK_AGE:
        return False
    root = next((one.parent for one in lock.parents if one.name == ".git"), lock.parent)
    return not any(_concerns(process, (root, where)) for process in psutil.process_iter())


def _concerns(process: psutil.Process, folders: tuple[Path, Path]) -> bool:
    """Tell whether this is a git that works in one of the folders."""
    try:
        if not process.name().startswith("git"):
            return False
        cwd, line = Path(process.cwd()), "\0".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True  # somebody else's git: it may be the one
    return any(cwd.is_relative_to(one) or str(one) in line for one in folders)

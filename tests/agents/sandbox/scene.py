"""Shared by the tests of sandboxes: jobs with a marker of their own, and their output."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, final

import psutil

from otpy_agents.process.orphans import find
from otpy_agents.sandbox import Job, Running, Sandbox
from otpy_agents.sandbox.launch import Launch

STUBBORN = "import signal;signal.signal(signal.SIGTERM,signal.SIG_IGN);"
# Not that of a virtual environment, which may be in /tmp, where bubblewrap shows nothing.
PYTHON = str(Path(sys.executable).resolve())
UP = "import os,time;os.write(1,b'up\\n');"
# In naps: a signal that comes between Python's last look for one and a sleep is handled after that.
SLEEP = "[time.sleep(0.1) for _ in range(990)]"


@final
class Scene:
    """Runs jobs in one sandbox, collects their output, and finds their remains."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.cwd = folder / "work"
        self.cwd.mkdir()
        self.run_id = uuid.uuid4().hex[:10]
        self.marker = {"OTPY_RUN": self.run_id, "OTPY_ATTEMPT": "1"}
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.up = asyncio.Event()

    def hear(self, line: str) -> None:
        self.stdout.append(line)
        if line == "up":
            self.up.set()

    def job(
        self,
        *argv: str,
        files: Mapping[Path, str] | None = None,
        stdin: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Job:
        base = dict(os.environ) if self.sandbox.inherits else dict[str, str]()
        fields: dict[str, Any] = {"network": False, **more}
        return Job(
            run_id=self.run_id,
            attempt=1,
            launch=Launch(argv=argv, files=files or {}, stdin=stdin),
            cwd=self.cwd,
            environment={**base, **(environment or {})},
            marker=self.marker,
            **fields,
        )

    def start(self, job: Job) -> AbstractAsyncContextManager[Running]:
        return self.sandbox.run(job, on_stdout=self.hear, on_stderr=self.stderr.append)

    def run(self, *argv: str, **more: Any) -> AbstractAsyncContextManager[Running]:
        return self.start(self.job(*argv, **more))

    def shell(self, code: str, **more: Any) -> AbstractAsyncContextManager[Running]:
        return self.run("sh", "-c", code, **more)

    def python(self, code: str, **more: Any) -> AbstractAsyncContextManager[Running]:
        return self.run(PYTHON, "-c", code, **more)

    def alive(self) -> list[str]:
        """Return the processes that carry the marker."""
        return [str(orphan) for orphan in find(self.marker)]


def sleepers(seconds: str) -> list[int]:
    """Return the processes that sleep for these seconds, with any environment."""
    found: list[int] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command: list[str] | None = process.info["cmdline"]
        living = process.info["status"] != psutil.STATUS_ZOMBIE
        if living and command is not None and command[-2:] == ["sleep", seconds]:
            found.append(process.pid)
    return found

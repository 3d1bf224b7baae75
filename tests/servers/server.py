"""A web server in a process of its own, which serves an application of `service.py`."""

from __future__ import annotations

import http.client
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self, final

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0  # generous: it is only waited out if a test fails
APP = "tests.servers.service:wrapped"


@final
class Server:
    """`with Server("uvicorn", "--port", "0", APP) as server`: a server until the end of the block.

    Attributes:
        seen: The lines of its output so far.
    """

    def __init__(self, module: str, *options: str) -> None:
        self.seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._port = 0
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # its workers end with it
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def output(self) -> str:
        """The output so far."""
        return "\n".join(self.seen)

    def until(self, text: str) -> str:
        """Return the next line that contains `text`."""
        deadline = time.monotonic() + PATIENCE
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"no {text!r} in:\n{self.output}"
            self.seen.append(line)
            if text in line:
                return line

    def listens(self) -> None:
        """Wait until the server prints its address."""
        line = self.until("http://127.0.0.1:")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None
        self._port = int(found[1])

    def get(self, path: str, timeout: float = PATIENCE) -> tuple[int, str] | None:
        """Return status and body of the answer; None if none came."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def pid(self) -> str:
        """Return the process that answers, as soon as one does."""
        deadline = time.monotonic() + PATIENCE
        while (got := self.get("/")) is None or got[0] != 200:
            assert time.monotonic() < deadline, f"no answer:\n{self.output}"
            time.sleep(0.02)
        return got[1]

    def ask(self, path: str) -> Answer:
        """Send a request, without waiting for its answer."""
        return Answer(self, path)

    def terminate(self) -> None:
        self._process.terminate()

    def status(self) -> int:
        """Wait for the end of the server and return its exit status."""
        status = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)  # a surviving worker would hold the pipe
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.seen.append(line)
        return status


@final
class Answer:
    """A request in flight."""

    def __init__(self, server: Server, path: str) -> None:
        self._got: tuple[int, str] | None = None
        self._thread = threading.Thread(target=self._ask, args=(server, path))
        self._thread.start()

    def _ask(self, server: Server, path: str) -> None:
        self._got = server.get(path)

    def get(self) -> tuple[int, str] | None:
        """Return the answer."""
        self._thread.join()
        return self._got

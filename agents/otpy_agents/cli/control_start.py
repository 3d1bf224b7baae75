"""The loop of a project in the foreground, and which project that is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final
from urllib.parse import unquote, urlsplit

from attrs import evolve, frozen

import otpy
from otpy import OtpyError, SupervisorSpec
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail, system_line
from otpy_agents.cli.run_words import harmless
from otpy_agents.cli.signals import hear_signals
from otpy_agents.clock import CLOCK
from otpy_agents.control.loop.protocol import EndLoop, ProjectOutcome
from otpy_agents.control.server import ControlSettings, open_projects
from otpy_agents.control.server.performer import ERROR
from otpy_agents.control.state import InHand, time_text
from otpy_agents.control.stores import ControlStore, SqliteControl
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.sqlite import project_stream
from otpy_agents.errors import InvalidStore, StoreUnreachable
from otpy_agents.log import log_beside
from otpy_agents.store.hosts import default_state
from otpy_agents.store.redaction import Redaction

if TYPE_CHECKING:
    from otpy_agents.control.stores.redis import RedisControl

__all__ = ["ControlPlace", "ControlStart"]

_BASE: Final = 128
_STDIN: Final = 0
_STATUS: Final = {ProjectOutcome.COMPLETED: 0, ProjectOutcome.HALTED: 3}


@final
@frozen(kw_only=True)
class ControlPlace:
    """Which project is meant.

    Attributes:
        root: Folder of the sandbox.
        redis: Where it is in Redis; its key counts in a file, too.
        store: `sqlite:FILE`, `redis://HOST:PORT`, or empty for the event log of the user.
        secrets: Names of variables whose values are kept out of what is shown or stored.
    """

    root: Path
    redis: RedisPlace
    store: str
    secrets: tuple[str, ...]

    @property
    def clean(self) -> Redaction:
        """What takes secrets out of a text."""
        return Redaction(os.environ, names=self.secrets)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ControlStore]:
        """Open its store.

        Raises:
            InvalidStore: There is no such store.
        """
        path = log_beside(default_state(os.environ))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stream = project_stream(self.root, self.redis.state_key)
        match urlsplit(self.store):
            case ("redis", _, _, _, _):
                place = self._in_redis()
                stream = project_stream(self.root, place.project)
                try:
                    from otpy_agents.control.stores.redis import RedisControl  # noqa: PLC0415
                except ModuleNotFoundError:
                    missing = "redis is not installed: pip install 'otpy-tree[redis]'"
                    raise StoreUnreachable(str(place), missing) from None
                store: SqliteControl | RedisControl = RedisControl(
                    place, path, stream, clean=self.clean
                )
            case ("sqlite", "", file, "", "") if Path(file).name:
                store = SqliteControl(Path(file), stream, str(self.root), clean=self.clean)
            case ("", "", "", "", ""):
                store = SqliteControl(path, stream, str(self.root), clean=self.clean)
            case _:
                raise InvalidStore(self.store)
        async with store:
            yield store

    def _in_redis(self) -> RedisPlace:
        """Return the place that the URL and the options name."""
        try:
            url = urlsplit(self.store)
            host, port = url.hostname or self.redis.host, url.port or self.redis.port
            database = int(url.path.removeprefix("/") or self.redis.state_db)
        except ValueError:
            raise InvalidStore(self.store) from None
        login = [None if part is None else unquote(part) for part in (url.username, url.password)]
        return evolve(
            self.redis,
            host=host,
            port=port,
            state_db=database,
            user=login[0] or None,
            password=login[1],
        )


@final
class ControlStart:
    """A loop in the foreground, signals included (CTL-53).

    Its exit code tells a service manager what not to start again: 0 a completion, 3 a halt
    (CTL-59, C-31).
    """

    def __init__(self, place: ControlPlace, settings: ControlSettings, *, quiet: bool) -> None:
        self._place, self._settings, self._quiet = place, settings, quiet
        self._clean = place.clean
        self._caught: list[signal.Signals] = []
        self._main: asyncio.Task[Any] | None = None
        self._typed = b""

    def run(self) -> NoReturn:
        """Work until the loop has ended, and leave with its exit code."""
        end: EndLoop | None = None
        try:
            with asyncio.Runner() as runner:
                hear_signals(runner.get_loop(), self._on_signal)
                end = runner.run(self._work())
        except asyncio.CancelledError:
            pass
        except InvalidStore as error:
            fail(error, 2)
        except OtpyError as error:
            fail(error, 1)
        except OSError as error:
            fail(system_line(error), 1)
        if end is None:
            say("stopped; the task in hand comes first at the next start")
            raise SystemExit(_BASE + self._caught[0])
        if end.outcome is ProjectOutcome.BROKEN:
            fail(self._clean(end.line), 1)
        say(self._clean(f"{end.outcome}: {end.line}{_next(end)}"))
        raise SystemExit(_STATUS[end.outcome])

    def _on_signal(self, number: signal.Signals) -> None:
        self._caught.append(number)
        if self._main is not None:
            self._main.cancel()

    async def _work(self) -> EndLoop:
        self._main = asyncio.current_task()
        async with self._place.open():
            pass  # a store that cannot be opened is said before any tree
        async with open_projects(default_state(os.environ)) as projects:
            spec = SupervisorSpec("AppSupervisor", [projects.spec()])
            async with otpy.start(spec):
                project = projects.work_on(
                    self._place.open, self._settings, confirm=self._confirm, say=self._tell
                )
                return await projects.wait(project)

    def _tell(self, tag: str, line: str) -> None:
        """Write a line of the application log (CTL-49); errors are told to the quiet, too."""
        stream = sys.stderr if tag == ERROR else sys.stdout
        if tag == ERROR or not self._quiet:
            line = self._clean(f"{time_text(CLOCK())} [{tag}] {line}")
            with contextlib.suppress(OSError):  # nobody may read it; the work goes on
                print(harmless(line), file=stream, flush=True)

    async def _confirm(self, hand: InHand) -> bool:
        """Ask before a dispatch; anything but y, and the end of input, means no (CTL-21)."""
        task = hand.task
        text = (
            f"{task.task_id} ({task.intent}): let {task.tool} do attempt {hand.attempt + 1}? [y/N] "
        )
        print(harmless(self._clean(text)), end="", file=sys.stderr, flush=True)
        try:
            return (await self._line()).strip().lower() in {b"y", b"yes"}
        except asyncio.CancelledError:
            print(file=sys.stderr)  # what follows begins a line
            raise

    async def _line(self) -> bytes:
        """Return the next line that is typed; at the end of the input, what there is."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._typed:
            readable = asyncio.Event()
            try:
                loop.add_reader(_STDIN, readable.set)
            except OSError:  # a file can be read at once, and a closed one has ended
                readable.set()
            try:
                await readable.wait()
            finally:
                loop.remove_reader(_STDIN)
            try:
                chunk = os.read(_STDIN, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                break
            self._typed += chunk
        line, _, self._typed = self._typed.partition(b"\n")
        return line


def _next(end: EndLoop) -> str:
    """Return what the operator can do after a halt."""
    if end.state is None:
        return ""
    goes_on = "; `otpy-agents control resume`, then `start`, goes on"
    if end.state.in_hand is None:
        return goes_on
    task_id = end.state.in_hand.task.task_id
    return f"{goes_on} with {task_id}; `block {shlex.quote(task_id)}` gives it up"

"""`otpy-agents events`: what all that runs here has told, from any terminal, now or years later."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
from attrs import frozen
from rich.console import Console
from rich.text import Text

from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import at, one_line
from otpy_agents.cli.view import plain_details, printable
from otpy_agents.clock import CLOCK
from otpy_agents.errors import AgentsError
from otpy_agents.log import Difference, EventLog, EventStore, Stored, log_beside
from otpy_agents.store import default_state
from otpy_agents.store.retention import seconds_of

__all__ = ["events"]

T = TypeVar("T")

_INTERRUPTED: Final = 130
_KEY: Final = "otpy_agents.log"
_LAST: Final = 10  # events that are shown before those that come, as `tail -f` does
_LONGEST: Final = 200
_NESTED: Final = 80
_UNSHOWN: Final = frozenset({"component", "workflow_id", "at"})  # what stands elsewhere in a line
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
_GLOB: Final = frozenset("*?[")

_EPILOG = """\b
SINCE is an age (90s, 30m, 12h, 7d), a moment of this machine's time zone
(2026-11-23 or "2026-11-23 08:30"), or the position of an event: those behind it are
shown. NAME and KIND may have * and ?, as files in a shell.

\b
Exit status:
  0    done
  1    there is no log, or it cannot be read, or it is not as it was written
  2    the command line is wrong
  130  stopped by Ctrl-C

\b
Examples:
  otpy-agents events --since 1h
  otpy-agents events -f --kind 'mortal.*'
  otpy-agents events --kind 'command_*'
  otpy-agents events -f --json | jq -c 'select(.event_type == "run.ended")'
  otpy-agents events verify
"""


def _remember(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.meta[_KEY] = value


_log_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--log",
    type=click.Path(path_type=Path, readable=False),  # opening it says more
    metavar="FILE",
    expose_value=False,
    callback=_remember,
    help="Another log; default events.sqlite3 beside $OTPY_STATE, or in ~/.local/state/otpy.",
)


@frozen(kw_only=True)
class _Wanted:
    """Which events are shown.

    Attributes:
        stream: Of streams of this name; None for all.
        kind: Of types of this name; None for all.
    """

    stream: str | None
    kind: str | None

    @property
    def one_stream(self) -> str | None:
        """The one stream that can be meant, which SQLite finds by itself."""
        return None if self.stream is None or _GLOB & set(self.stream) else self.stream

    def has(self, event: Stored) -> bool:
        """Whether an event is wanted."""
        return fnmatchcase(event.stream, self.stream or "*") and fnmatchcase(
            event.name, self.kind or "*"
        )


@click.group(invoke_without_command=True, epilog=_EPILOG)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--stream", metavar="NAME", help="Only events of this run, list or other stream.")
@click.option("--kind", metavar="KIND", help="Only events of this type.")
@click.option("--since", metavar="SINCE", help="Only later ones; with -f default the last ten.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per event.")
@_log_option
@click.pass_context
def events(
    context: click.Context,
    *,
    follow: bool,
    stream: str | None,
    kind: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """Show what runs, lists and operators have done, oldest first.

    All programs of this user tell their events to one log, in one order and for ever. It can be
    read whether or not anything runs, and no writer ever waits for a reader.
    """
    if context.invoked_subcommand is not None:
        return
    after = None if since is None else _point(since)
    wanted = _Wanted(stream=stream, kind=kind)
    show = _as_json if as_json else _printer()

    async def work(log: EventStore) -> None:
        position = after if isinstance(after, int) else 0
        if isinstance(after, float):
            position = await log.position_at(after)
        elif after is None and follow:
            position = max(0, await log.end() - _LAST)
        found = log.follow if follow else log.read
        async for event in found(after=position, stream=wanted.one_stream):
            if wanted.has(event):
                show(event)

    _use(work)


@events.command()
@_log_option
def verify() -> None:
    """Check that every event is as it was written, none is missing, and tables say the same.

    Each event carries the hash of the one before it. Archives are checked too. What `verify` cannot
    see is the end of a log that was cut off with care; an export that is kept elsewhere shows that.
    """
    number = _use(lambda log: log.verify())
    print(f"{_counted(number, 'event')}, all as they were written")
    differences = _use(lambda log: log.compare(), tables=_Tables.LOOK)
    _show_differences(differences)
    if differences:
        rows = _counted(len(differences), "row")
        fail(f"{rows} of the tables differ; `otpy-agents events rebuild` rebuilds them", 1)


@events.command()
@_log_option
def rebuild() -> None:
    """Rebuild the tables that are folded from events, and show the rows that differed.

    The tables then hold exactly what the events say; archives are read too.
    """
    differences = _use(lambda log: log.rebuild(), tables=_Tables.CHANGE)
    _show_differences(differences)
    number = _counted(len(differences), "row")
    print(f"rebuilt; {number} differed" if differences else "rebuilt; nothing differed")


def _show_differences(differences: Iterable[Difference]) -> None:
    for one in differences:
        print(printable(f"{one.projection} {one.key}: {one.stored}, folded {one.folded}"))


@events.command(
    epilog="\b\nExamples:\n  otpy-agents events export > events.jsonl\n"
    "  otpy-agents events export --stream run/3f2a > run.jsonl\n"
)
@_log_option
@click.option("--stream", metavar="NAME", help="Only events of this stream.")
def export(stream: str | None) -> None:
    """Write all events as lines of JSON, each with its hash and the one before it.

    Such lines can be checked without the log. What was archived stands in the archives already, in
    the same form.
    """
    _use(lambda log: log.export(print, stream=stream))


@events.command(
    epilog="\b\nExamples:\n  otpy-agents events archive --older-than 90d --dry-run\n"
    "  otpy-agents events archive --older-than 90d\n"
)
@_log_option
@click.option(
    "--older-than",
    "age",
    metavar="AGE",
    required=True,
    help="Streams whose last event is older, for example 90d or 12h.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be moved.")
def archive(age: str, *, dry_run: bool) -> None:
    """Move streams that are over into a compressed file, and make the log smaller.

    The file lies in the folder `events.archive` beside the log, is read back and checked before
    anything leaves the log, and must be kept: `verify` and `rebuild` read it.
    """
    seconds = seconds_of(age)
    if seconds is None:
        raise click.UsageError(f"--older-than: got {age!r}, wanted an age such as 90d or 12h.")
    before = CLOCK() - seconds
    moved = _use(lambda log: log.move(before=before, dry_run=dry_run))
    streams, size = _counted(moved.streams, "stream"), f"{_log().stat().st_size / 1e6:.1f} MB"
    what = f"{streams} with {_counted(moved.events, 'event')}"
    if moved.file is None:
        print(f"would move {what}; the log has {size}" if dry_run else f"moved nothing; {size}")
    else:
        print(f"moved {what} to {moved.file}; the log has {size}")


# --- the log --------------------------------------------------------------------------------------


def _log() -> Path:
    """Return the log of the command that is being carried out."""
    stated: Path | None = click.get_current_context().meta.get(_KEY)
    return log_beside(default_state(os.environ)) if stated is None else stated


class _Tables(Enum):
    """What is done with the tables of a log."""

    NOTHING = "nothing"
    LOOK = "look"
    CHANGE = "change"


def _use(work: Callable[[EventLog], Awaitable[T]], *, tables: _Tables = _Tables.NOTHING) -> T:
    """Return what `work` finds in the log; leave if it cannot, or Ctrl-C is typed."""
    path = _log()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        fail(f"{path}: got no event log, wanted one; whatever runs first begins it", 1)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", 1)

    async def using() -> T:
        async with _opened(path, tables) as log:
            return await work(log)

    try:
        return asyncio.run(using())
    except AgentsError as error:
        fail(error, 1)
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


def _opened(path: Path, tables: _Tables) -> EventLog:
    if tables is _Tables.NOTHING:
        return EventLog(path)
    from otpy_agents.cli.whole_log import whole_log  # noqa: PLC0415 - imports all there is

    return whole_log(path, looks=tables is _Tables.LOOK)


def _point(since: str) -> int | float:
    """Return the position, or the moment in Unix seconds, that is meant; leave if none is."""
    if since.isdecimal():
        return int(since)
    seconds = seconds_of(since)
    if seconds is not None:
        return CLOCK() - seconds
    try:
        return datetime.fromisoformat(since).timestamp()
    except (ValueError, OverflowError, OSError):
        _refuse(since)


def _refuse(since: str) -> NoReturn:
    wanted = "an age such as 30m, a moment such as 2026-11-23, or a position"
    raise click.UsageError(f"--since: got {since!r}, wanted {wanted}.")


# --- rendering ------------------------------------------------------------------------------------


def _as_json(event: Stored) -> None:
    print(json.dumps(event.plain()), flush=True)


def _printer() -> Callable[[Stored], None]:
    """Return what prints an event for people: in colours on a terminal, else as it is."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        return lambda event: print(*_words(event), flush=True)

    def show(event: Stored) -> None:
        moment, stream, kind, *rest = _words(event)
        line = Text.assemble((moment, "dim"), " ", (stream, "cyan"), " ", (kind, "bold"))
        console.print(line.append("".join(f" {word}" for word in rest)), soft_wrap=True)

    return show


def _words(event: Stored) -> list[str]:
    """Return an event in words: time, stream, type, subject, actor and fields."""
    words = [at(event.at), printable(event.stream), printable(event.name)]
    words += [printable(about)] if (about := event.fields.get("component")) else []
    said = {"by": event.actor, **event.fields}
    shown = [key for key in said if key not in _UNSHOWN and said[key] not in _EMPTY]
    told = plain_details({key: _short(said[key]) for key in shown})
    return [*words, told] if told else words


def _short(value: Any) -> Any:
    if isinstance(value, dict | list):
        return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")), _NESTED)
    return one_line(value, _LONGEST) if isinstance(value, str) else value


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""The log of the program, wherever that is. Writing to it never raises."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import structlog

from otpy._core.text import in_one_line
from otpy._runtime.alarm import Alarm
from otpy._runtime.log_console import console_logger
from otpy._runtime.printable import printable
from otpy._runtime.stderr import STDERR

if TYPE_CHECKING:
    Fields = dict[str, Any]

NAME: Final = "otpy"
"""The name of the logger, of structlog and of `logging`."""

_LEVELS: Final = {"debug": logging.DEBUG, "warning": logging.WARNING, "error": logging.ERROR}
_FIRST_PAUSE: Final = 1.0  # seconds until a log that has failed is tried again
_LAST_PAUSE: Final = 60.0  # each pause is twice as long as the one before, up to this


@final
class ProgramLog:
    """The target of a program's log: a given logger, or the one that the program uses itself.

    That is structlog if the program has configured it; else `logging` if its logger "otpy", or one
    above that, has a handler; else stderr. The first entry that is written decides, and not the
    start of a tree: a program may configure its log after that.

    An entry that cannot be written is counted. The first of them is written to stderr, with the
    reason; their number is logged as `log.lost` as soon as the log works again.
    """

    def __init__(self, logger: Any = None) -> None:
        """Write to `logger`, one of structlog's; None leaves it to the program."""
        self._target: _Target | None = None if logger is None else _Structlog(logger)
        self._lost = 0
        self._why = ""
        self._pause = _FIRST_PAUSE
        self._retry = Alarm(self._try_again)

    def writes(self, level: str) -> bool:
        """Whether an entry of this level may be written, as far as it can be known."""
        target = self._target
        return (_target_of_the_program() if target is None else target).writes(level)

    def write(self, level: str, event: str, **fields: Any) -> None:
        """Write an entry.

        Args:
            level: "debug", "warning" or "error".
            event: Its name.
            **fields: What there is to know, as text or numbers; `exc_info` is an exception.
        """
        try:
            if self._target is None:
                kind = _target_of_the_program()
                if not kind.writes(level):
                    return
                self._target = kind()
            if "exc_info" in fields:
                fields["exc_info"] = printable(fields["exc_info"])
            self._tell_loss(self._target)
            self._target.write(level, event, fields)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a log must not break what it tells of
            self.lose(error, event, fields)

    def finish(self) -> None:
        """Give what stderr has not taken a last chance, for a moment; try nothing later."""
        self._retry.unset()
        STDERR.drain()

    def lose(self, error: BaseException, event: str, fields: Fields) -> None:
        """Count an entry that could not be written because of `error`."""
        self._lost += 1
        if self._lost == 1:
            self._why = in_one_line(error)
            lost = f"{event} {_pairs(fields)}"
            STDERR.write(f"otpy: the log failed: {self._why}; lost: {lost}\n")
        self._retry.set(self._pause)

    def _tell_loss(self, target: _Target) -> None:
        if self._lost:
            target.write("error", "log.lost", {"entries": self._lost, "reason": self._why})
            self._lost = 0
            self._pause = _FIRST_PAUSE

    def _try_again(self) -> None:
        if self._target is None:
            return
        try:
            self._tell_loss(self._target)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - see `write`
            self._pause = min(2 * self._pause, _LAST_PAUSE)
            self._retry.set(self._pause)


class _Target(Protocol):
    """What entries are written to."""

    @staticmethod
    def writes(level: str, /) -> bool:
        """Whether an entry of this level may be written."""
        ...

    def write(self, level: str, event: str, fields: Fields, /) -> None:
        """Write an entry."""


class _Structlog:
    """A logger of structlog."""

    def __init__(self, logger: Any = None) -> None:
        self._logger = structlog.get_logger(NAME) if logger is None else logger

    @staticmethod
    def writes(level: str) -> bool:  # noqa: ARG004 - only the logger knows
        return True

    def write(self, level: str, event: str, fields: Fields) -> None:
        getattr(self._logger, level)(event, **fields)


@final
class _Console(_Structlog):
    """Lines on stderr."""

    def __init__(self) -> None:
        super().__init__(console_logger())

    @staticmethod
    def writes(level: str) -> bool:
        return level != "debug"


@final
class _Stdlib:
    """The logger of `logging`."""

    @staticmethod
    def writes(level: str) -> bool:
        return logging.getLogger(NAME).isEnabledFor(_LEVELS[level])

    def write(self, level: str, event: str, fields: Fields) -> None:
        error = fields.pop("exc_info", None)
        # The names that a record has already, also those that the program's own factory gives it.
        taken = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
        extra = {
            f"{NAME}_{name}" if name in taken else name: value
            for name, value in {"event": event, **fields}.items()
        }
        stack = fields.pop("stack", None)
        text = _pairs(fields) + ("" if stack is None else f"\n{stack}")
        template = f"{event} %s"  # by which trackers of errors tell them apart
        log = logging.getLogger(NAME)
        log.log(_LEVELS[level], template, text, exc_info=error, extra=extra)


def _target_of_the_program() -> type[_Structlog | _Stdlib]:
    if structlog.is_configured():
        return _Structlog
    return _Stdlib if logging.getLogger(NAME).hasHandlers() else _Console


def _pairs(fields: Fields) -> str:
    return " ".join(f"{name}={value!r}" for name, value in fields.items() if name != "exc_info")

"""The log of programs that have configured none: readable lines on stderr."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from otpy._runtime.stderr import STDERR

if TYPE_CHECKING:
    from structlog.typing import EventDict

ENTRY_LIMIT: Final = 30_000
"""Characters of one entry, its traceback included, that are written."""
_HEAD: Final = 20_000


def console_logger(*, verbose: bool = False) -> Any:
    """Return a structlog logger that writes to stderr, one line an event, tracebacks as Python's.

    It never waits and never raises, whatever stderr is. What nobody reads, or a full disk does not
    take, is kept and tried again, 256 kB of it; of what is lost beyond that the number is written
    as soon as anything can be. An entry of more than 30,000 characters is cut in its middle.

    Args:
        verbose: Whether debug events, such as each start, are written too.
    """
    import structlog  # noqa: PLC0415 - it takes a third of the time of `import otpy`

    return structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", STDERR)),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S"),
            structlog.dev.ConsoleRenderer(
                colors=STDERR.is_terminal(),
                exception_formatter=structlog.dev.plain_traceback,
            ),
            _cut,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
    )


def _cut(_: object, __: str, entry: EventDict | str) -> str:
    """Leave out the middle of an entry that is too long: what went wrong stands at its end."""
    text = str(entry)
    left_out = len(text) - ENTRY_LIMIT
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]}\n… {left_out:,} characters …\n{text[_HEAD + left_out :]}"

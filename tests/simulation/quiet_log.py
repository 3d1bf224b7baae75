"""The default log of a tree, with a logger that discards its entries."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import final


@final
class QuietLog(logging.Handler):
    """A logger that makes the text of each entry, and counts the entries.

    Attributes:
        entries: The number of reports that were written, or summed up because of the limit.
        lost: The entries that could not be written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0
        self.lost: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Handle an entry."""
        text = self.format(record)
        if "log.lost" in text:
            self.lost.append(text)
        else:
            self.entries += getattr(record, "more", 1)

    @contextmanager
    def attached(self) -> Generator[None]:
        """Make this logger the only log of the program."""
        logger = logging.getLogger("otpy")
        before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.level, logger.propagate = before

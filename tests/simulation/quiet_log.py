"""The default log of a tree, into a logger that writes nothing down."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import final


@final
class QuietLog(logging.Handler):
    """Makes the text of each entry, and counts them.

    Attributes:
        entries: How many reports were written, or summed up as those that the limit has hidden.
        lost: What could not be written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0
        self.lost: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take an entry."""
        text = self.format(record)
        if "log.lost" in text:
            self.lost.append(text)
        else:
            self.entries += getattr(record, "more", 1)

    @contextmanager
    def attached(self) -> Generator[None]:
        """Be where the program logs, instead of everything else."""
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

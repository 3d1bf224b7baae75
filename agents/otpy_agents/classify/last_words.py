"""Finds the final error message in output that is meant for people."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import Final

from otpy_agents.adapters.adapter import PlainText
from otpy_agents.adapters.stream import plain

__all__ = ["error_in", "is_json", "notice_in", "opening_in"]

_HEAD: Final = 200
_TAIL: Final = 64 * 1024
_LINES_BACK: Final = 200
_LINES_LONG: Final = 20

_NOISE: Final = re.compile(
    r"\s*$"
    r"|\s+at \S"
    r"|\(node:\d+\)"
    r"|\(Use `node --trace"
    r"|\s*[\]})]+[,;]?\s*$"
    r"|npm (?:notice|warn)\b"
    r"|npm (?:error|ERR!)\s*(?:A complete log of this run\b|$)"
    r"|note: run with `RUST_BACKTRACE"
    r"|warning\b"
    r"|Node\.js v\d"
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z?\s+(?:ERROR|WARN|INFO|DEBUG|TRACE)\b"
    r"|\[?(?:DEBUG|INFO|TRACE|WARN)\b",
    re.IGNORECASE,
)
_MARK: Final = re.compile(
    r"\W{0,4}(?:[\w.]*(?:error|exception)\b[^:]{0,80}:|fatal(?: error)?:|[✗✘×]\s|"
    r"(?:[\w ]{1,30} )?failed:|\[API Error|npm (?:error|ERR!) code\s|"
    r"thread '[^']{0,80}'(?: \(\d+\))? panicked at |unknown (?:argument|option|command)s?\b)",
    re.IGNORECASE,
)


def is_json(stdout: str, words: PlainText) -> bool:
    """Return whether standard output began as JSON, as far as it came."""
    begin = plain(stdout[:_HEAD]).replace("\r\n", "\n").lstrip()
    return bool(begin) and any(
        begin.startswith(head) or head.startswith(begin) for head in words.heads
    )


def error_in(stderr: str, words: PlainText) -> str:
    """Return the last error message on the error stream; empty if there is nothing but noise.

    It begins with the last line that looks like an error, or else is the last line with those that
    are indented below it.
    """
    lines = _lines(stderr, words)
    for back, line in enumerate(islice(reversed(lines), _LINES_BACK), start=1):
        if _MARK.match(line) or words.openings.match(line.lstrip()):
            begin = len(lines) - back
            return "\n".join(lines[begin : begin + _LINES_LONG]).strip()
    begin = len(lines) - 1
    while begin > 0 and lines[begin][0].isspace():
        begin -= 1
    return "\n".join(lines[begin:][:_LINES_LONG]).strip()


def _lines(text: str, words: PlainText) -> list[str]:
    tail = plain(text[-_TAIL:]).replace("\r\n", "\n").replace("\r", "\n")
    return [
        line for line in tail.split("\n") if not _NOISE.match(line) and not words.noise.match(line)
    ]


def opening_in(stdout: str, words: PlainText) -> str:
    """Return the CLI's own error at the end of standard output; empty if the model speaks there."""
    tail = plain(stdout[-_TAIL:]).replace("\r\n", "\n").replace("\r", "\n")
    last: deque[str] = deque((line for line in tail.split("\n") if line.strip()), maxlen=1)
    line = last[0].strip() if last else ""
    return line if words.openings.match(line) else ""


def notice_in(answer: str, words: PlainText) -> str:
    """Return `answer` if all of it is an error that the CLI gave out as an answer."""
    line = answer.strip()
    return line if words.notices is not None and words.notices.fullmatch(line) else ""

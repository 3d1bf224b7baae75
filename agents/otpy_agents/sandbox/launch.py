"""The launch in a sandbox: a command with its environment, its files and its input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

__all__ = ["Launch"]


@frozen(kw_only=True)
class Launch:
    """How to start one attempt.

    Attributes:
        argv: The command. It never holds the prompt: an argument has at most 128 KiB on Linux, and
            every user of the machine can read it.
        environment: Variables to set beside the inherited ones.
        files: Text of files to write before the start, by path.
        stdin: One of `files` that the command has as its standard input. None: it finds the end of
            it at once.
        report: A file that the CLI writes about itself when it ends, if it gets that far. Its lines
            are for the parser, behind those of standard output. None: there is none.
        session: Id that the new session gets, for a CLI that lets it be chosen; None if the CLI
            chooses.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(factory=dict[str, str])
    files: Mapping[Path, str] = field(factory=dict[Path, str])
    stdin: Path | None = None
    report: Path | None = None
    session: str | None = None

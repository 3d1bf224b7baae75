"""Which repository a command of `otpy-agents engine` is about."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import click

from otpy_agents.cli.refusal import fail

__all__ = ["repository_option", "target_option", "target_paths", "top_of"]

P = ParamSpec("P")
T = TypeVar("T")


target_option = click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="FILE",
    help="A file that the task is about, relative to DIR; may be repeated.",
)
"""Give a command the option `--target`; it is called with the files, as they were typed."""


def repository_option(command: Callable[Concatenate[Path, P], T]) -> Callable[P, T]:
    """Give a command the option `--repo`; it is called with the folder that was named."""

    @click.option(
        "--repo",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path(),
        metavar="DIR",
        help="A folder of the repository.  [this one]",
    )
    @wraps(command)
    def placed(*args: Any, repo: Path, **rest: Any) -> Any:
        return command(repo, *args, **rest)

    return cast("Callable[P, T]", placed)


def top_of(folder: Path) -> Path:
    """Return the top of the work tree that a folder is in, without links; or leave with status 1.

    Args:
        folder: Any folder of it.
    """
    start = folder.resolve()
    for place in (start, *start.parents):
        if (place / ".git").exists():
            return place
    return fail(f"--repo: got {str(start)!r}, wanted a folder in a git repository (`git init`)", 1)


def target_paths(files: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Return files as contexts take them: relative to the top of the work tree, with `/`.

    One outside of it begins with `..`, and is refused there.

    Args:
        files: As they were typed, relative to `folder`.
        folder: A folder of the work tree.
    """
    here, top = folder.resolve(), top_of(folder)
    # A link is not followed here, but named: its reader looks where it leads to.
    paths = (os.path.relpath(os.path.normpath(here / file), top) for file in files)
    return tuple(Path(path).as_posix() for path in paths)

"""Which paths name a file of the repository: for plans, tasks and contexts."""

from __future__ import annotations

from typing import Final

__all__ = ["REPOSITORY_PATH", "path_fault"]

REPOSITORY_PATH: Final = "a file of the repository, relative to its root and without '..'"
"""What is wanted, for errors."""


def path_fault(path: str) -> str:
    """Return what a path names that is not a file of the repository; empty if it may be one.

    Args:
        path: With `/`.
    """
    parts = path.split("/")
    if path in {"", "."} or ".." in parts or path.startswith("/") or "\0" in path:
        return "is outside of the repository"
    if any(part.lower() == ".git" for part in parts):
        return "is git's own"
    return ""

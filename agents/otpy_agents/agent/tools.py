"""The targets of a tool call, as far as its name and its input show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from otpy_monitors import activity

__all__ = ["is_helper", "touched_by"]

_WRITERS: Final = frozenset(
    {
        *("edit", "multiedit", "write", "notebookedit", "write_file", "replace", "create"),
        *("str_replace", "str_replace_editor", "apply_patch", "file_change", "edit_file"),
    }
)
_SHELLS: Final = frozenset(
    {"bash", "shell", "sh", "run_shell_command", "command_execution", "exec_command", "powershell"}
)
_HELPERS: Final = frozenset({"task", "agent"})
_FETCHERS: Final = frozenset({"web_fetch"})
_PATCHED: Final = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_PATHS: Final = ("file_path", "path", "notebook_path", "absolute_path", "filename")
_ADDRESS: Final = re.compile(r"https?://[^\s'\"<>]+")


def is_helper(tool: str) -> bool:
    """Return whether a tool is a helper, an agent of its own, at work as long as the call is open.

    Args:
        tool: Its name, as any of the CLIs calls it.
    """
    return tool.lower() in _HELPERS


def touched_by(
    tool: str, given: Mapping[str, object], agent: str, now: float
) -> Iterator[activity.Activity]:
    """Yield the files, commands and hosts that a call touches; nothing of tools that only read.

    What a tool does beyond its input nobody can tell from here; a sandbox is what holds it.

    Args:
        tool: Its name, as any of the CLIs calls it.
        given: Its input.
        agent: Key of the agent.
        now: When.
    """
    name = tool.lower()
    if name in _WRITERS:
        paths = tuple(_paths(given))
        if paths:
            yield activity.FilesTouched(agent, now, paths)
    if name in _SHELLS:
        line = given.get("command", given.get("cmd", ""))
        if isinstance(line, list):
            line = " ".join(map(str, cast("list[object]", line)))
        if isinstance(line, str) and line:
            yield activity.CommandRun(agent, now, line)
    for host in dict.fromkeys(_hosts(name, given)):
        yield activity.NetworkUsed(agent, now, host)


def _paths(given: Mapping[str, object]) -> Iterator[str]:
    for key in _PATHS:
        path = given.get(key)
        if isinstance(path, str) and path:
            yield path
    patch = given.get("input")
    if isinstance(patch, str):
        yield from _PATCHED.findall(patch)
    changes = given.get("changes")
    if isinstance(changes, list):
        for change in cast("list[object]", changes):
            if isinstance(change, dict):
                path = cast("dict[str, object]", change).get("path")
                if isinstance(path, str):
                    yield path


def _hosts(tool: str, given: Mapping[str, object]) -> Iterator[str]:
    # Gemini has no field for addresses, and takes them from the prompt.
    words = ("prompt",) if tool in _FETCHERS and "url" not in given else ()
    for key in ("url", "command", "cmd", *words):
        text = given.get(key)
        if isinstance(text, str):
            for address in _ADDRESS.finditer(text):
                host = urlsplit(address.group()).hostname
                if host:
                    yield host

"""What checks one rule on one life of an agent. A judge reads no clock and acts on nothing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeAlias, assert_never, final

from attrs import frozen

from otpy_monitors.activity import (
    Activity,
    AgentCard,
    CommandRun,
    FilesTouched,
    NetworkUsed,
    ToolCallBegan,
    UsageSeen,
)
from otpy_monitors.rules import (
    Check,
    CommandBlocked,
    Custom,
    FilesOutside,
    NetworkForbidden,
    SameCall,
    TokenSpeed,
    TooManyChildren,
)

Resolve: TypeAlias = Callable[[Path], Path]
"""Turns an absolute path into the one it really leads to, as `Path.resolve` does."""


@final
@frozen
class Grew:
    """The agent has a child more; told once for each child, however it became known.

    Attributes:
        agent: Its key.
        child: Key of the child.
        count: How many children it has now.
    """

    agent: str
    child: str
    count: int


class Judge(Protocol):
    """Checks one rule on one life of an agent."""

    def look(self, deed: Activity | Grew) -> str:
        """Return the complaint about the agent's activity, in one line; "" if there is none."""
        ...


def judge_of(check: Check, card: AgentCard, resolve: Resolve) -> Judge:
    """Return a judge of `check` that has seen nothing yet.

    Args:
        check: What must not be done.
        card: Of the agent that must not do it.
        resolve: Turns an absolute path into the one it really leads to.
    """
    match check:
        case FilesOutside():
            return _Files(check, card, resolve)
        case CommandBlocked():
            return _Commands(check)
        case NetworkForbidden():
            return _Network(check)
        case TooManyChildren():
            return _Children(check)
        case TokenSpeed():
            return _Tokens(check)
        case SameCall():
            return _Calls(check)
        case Custom():
            return _Own(check, card)
        case _:
            assert_never(check)


class _Files:
    def __init__(self, check: FilesOutside, card: AgentCard, resolve: Resolve) -> None:
        self._folders = (*card.directories, *check.also)
        self._cwd = card.cwd
        self._resolve = resolve

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, FilesTouched):
            return ""
        # Resolved each time: a folder may be made, or become a link, while the agent runs.
        folders = [self._resolve(folder) for folder in self._folders]
        for path in map(Path, deed.paths):
            if self._cwd is None and not path.is_absolute():
                return f"{path} is written, and what it starts from is not known"
            real = self._resolve((self._cwd or Path("/")) / path)
            if not any(real.is_relative_to(folder) for folder in folders):
                return f"{real} is written, which lies outside"
        return ""


class _Commands:
    def __init__(self, check: CommandBlocked) -> None:
        self._patterns = check.patterns

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, CommandRun):
            return ""
        for pattern in self._patterns:
            found = pattern.search(deed.line)
            if found is not None:
                return f"a command holds {found.group()!r}"
        return ""


class _Network:
    def __init__(self, check: NetworkForbidden) -> None:
        self._allow = None if check.allow is None else [_host(one) for one in check.allow]
        self._deny = [_host(one) for one in check.deny]

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, NetworkUsed):
            return ""
        host = _host(deed.host)
        if any(fnmatchcase(host, pattern) for pattern in self._deny):
            return f"{host} is reached for, which is denied"
        allowed = self._allow if self._allow is not None else ["*"] if self._deny else []
        if not any(fnmatchcase(host, pattern) for pattern in allowed):
            return f"{host} is reached for, which is not allowed"
        return ""


def _host(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


class _Children:
    def __init__(self, check: TooManyChildren) -> None:
        self._at_most = check.at_most

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, Grew) or deed.count <= self._at_most:
            return ""
        return f"{deed.child} is its child number {deed.count}, of {self._at_most} at most"


class _Tokens:
    """After a finding it counts from nothing, so that the next one takes as many tokens again."""

    def __init__(self, check: TokenSpeed) -> None:
        self._check = check
        self._window: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._so_far: dict[str, int] = {}

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, UsageSeen):
            return ""
        tokens = deed.input_tokens + deed.output_tokens
        if deed.run:
            # What a session had used before it was first heard of was not used just now.
            before = self._so_far.get(deed.run, tokens if deed.cumulative else 0)
            self._so_far[deed.run] = tokens
            tokens = 0 if deed.late else max(0, tokens - before)
        self._window.append((deed.at, tokens))
        self._sum += tokens
        while self._window[0][0] < deed.at - self._check.seconds:
            self._sum -= self._window.popleft()[1]
        if self._sum <= self._check.tokens:
            return ""
        found = f"{self._sum} tokens within {self._check.seconds:g} s"
        self._window.clear()
        self._sum = 0
        return f"{found}, of {self._check.tokens} at most"


class _Calls:
    """After a finding it counts from nothing, so that the next one takes as many calls again."""

    def __init__(self, check: SameCall) -> None:
        self._check = check
        self._made: deque[tuple[float, bytes]] = deque()
        self._times: Counter[bytes] = Counter()

    def look(self, deed: Activity | Grew) -> str:
        if not isinstance(deed, ToolCallBegan):
            return ""
        key, seconds = _fingerprint(deed), self._check.seconds
        if seconds is not None:
            while self._made and self._made[0][0] < deed.at - seconds:
                self._drop()
        elif self._made and self._made[0][1] != key:
            self._made.clear()
            self._times.clear()
        self._made.append((deed.at, key))
        self._times[key] += 1
        if self._times[key] < self._check.times:
            return ""
        del self._times[key]
        self._made = deque(made for made in self._made if made[1] != key)
        within = "in a row" if seconds is None else f"within {seconds:g} s"
        return f"{deed.tool!r} is called {self._check.times} times {within} with the same input"

    def _drop(self) -> None:
        _, key = self._made.popleft()
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]


def _fingerprint(call: ToolCallBegan) -> bytes:
    text = json.dumps([call.tool, dict(call.input)], sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class _Own:
    def __init__(self, check: Custom, card: AgentCard) -> None:
        self._predicate = check.predicate
        self._card = card

    def look(self, deed: Activity | Grew) -> str:
        if isinstance(deed, Grew):
            return ""
        found = self._predicate(deed, self._card)
        if found is not None and not isinstance(found, str):
            msg = f"the predicate returned {found!r}, wanted a text or None"
            raise TypeError(msg)
        return found or ""

"""Violation rules as values: forbidden activities, and their consequences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias, final

from attrs import field, frozen

from otpy import InvalidSpec
from otpy_monitors.activity import Activity, AgentCard


class Action(StrEnum):
    """The consequence of a violation (TREE-47)."""

    LOG = "log"
    """It is written to the log."""
    NOTIFY = "notify"
    """The parent and the user are told."""
    PAUSE = "pause"
    """The worker's process group is frozen."""
    WARN = "warn"
    """A message goes into the worker."""
    REAP = "reap"
    """The worker is ended and not restarted."""


Predicate: TypeAlias = Callable[[Activity, AgentCard], str | None]
"""Returns what is wrong with an activity, in one line; None or "" if nothing is. Must not block."""


@final
@frozen
class FilesOutside:
    """Files are written outside the folders of the agent's card.

    Attributes:
        also: Further folders in which every agent may write; absolute.
    """

    also: tuple[Path, ...] = ()


@final
@frozen
class CommandBlocked:
    """A command is run that one of the patterns is found in.

    Attributes:
        patterns: Searched in the command as one would type it, in order.
    """

    patterns: tuple[re.Pattern[str], ...]


@final
@frozen
class NetworkForbidden:
    """Another machine is reached for that is not allowed, or is denied.

    Hosts are given as names or addresses, or as shell patterns such as `*.example.org`, in
    any case. With neither list no host is allowed.

    Attributes:
        allow: The hosts that may be reached; None for all but those in `deny`, if `deny` is given.
        deny: The hosts that must not be reached, even if `allow` names them.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@final
@frozen
class TooManyChildren:
    """The agent has more children at once than it may.

    Attributes:
        at_most: How many it may have.
    """

    at_most: int


@final
@frozen
class TokenSpeed:
    """Tokens are used faster than allowed. Those read from a cache do not count.

    Attributes:
        tokens: How many may be used within `seconds`.
        seconds: Length of the window.
    """

    tokens: int
    seconds: float


@final
@frozen
class SameCall:
    """One tool is called again and again with the same input.

    Attributes:
        times: The call that is too many: 3 allows two.
        seconds: They count if they are made within this time, whatever else is called in between;
            None if they count while no other call comes in between.
    """

    times: int
    seconds: float | None = None


@final
@frozen
class Custom:
    """A predicate of the user's own finds fault with an activity.

    Attributes:
        predicate: Called with each activity of the agent, and its card.
        name: Its name in a rule file, as `module:function`; empty if it is in none.
    """

    predicate: Predicate
    name: str = ""


Check: TypeAlias = (
    FilesOutside
    | CommandBlocked
    | NetworkForbidden
    | TooManyChildren
    | TokenSpeed
    | SameCall
    | Custom
)


@final
@frozen
class ViolationRule:
    """One violation rule.

    Attributes:
        name: Unique among the rules; appears in reasons and logs.
        check: What must not be done.
        action: What follows if it is done.
        agents: Shell patterns of the keys of the agents it is for.

    Raises:
        InvalidSpec: If a number is out of range, a list is empty or a path is not absolute.
    """

    name: str
    check: Check
    action: Action
    agents: tuple[str, ...] = ("*",)

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        self._demand(bool(self.name), "name", self.name, "a name")
        self._demand(bool(self.agents), "agents", self.agents, "at least one pattern")
        match self.check:
            case FilesOutside(also=also):
                for folder in also:
                    self._demand(folder.is_absolute(), "also", str(folder), "absolute paths")
            case CommandBlocked(patterns=patterns):
                self._demand(bool(patterns), "patterns", patterns, "at least one pattern")
            case TooManyChildren(at_most=count):
                self._demand(count >= 0, "at_most", count, "a number from 0")
            case TokenSpeed(tokens=tokens, seconds=seconds):
                self._demand(tokens > 0, "tokens", tokens, "a number above 0")
                self._demand(0 < seconds < math.inf, "seconds", seconds, "seconds above 0")
            case SameCall(times=times, seconds=seconds):
                self._demand(times >= 2, "times", times, "a number from 2")  # noqa: PLR2004 - said
                within = seconds is None or 0 < seconds < math.inf
                self._demand(within, "seconds", seconds, "seconds above 0")
            case NetworkForbidden() | Custom():
                pass

    def _demand(self, held: bool, what: str, got: object, wanted: str) -> None:  # noqa: FBT001
        if not held:
            msg = f"rule {self.name!r}: {what} is {got!r}, wanted {wanted}"
            raise InvalidSpec(msg)

    def is_for(self, agent: str) -> bool:
        """Return whether the rule is for the agent of that key."""
        return any(fnmatchcase(agent, pattern) for pattern in self.agents)


def _tuple(rules: Iterable[ViolationRule]) -> tuple[ViolationRule, ...]:
    return tuple(rules)


@final
@frozen
class RuleBook:
    """The rules in force: read once, and out of the reach of those they are for.

    Attributes:
        rules: In the order in which they are checked.
        files: The files that the rules come from: the rule file first, then the modules of its
            predicates; empty for rules made in Python. No agent may write them.
        digest: SHA-256 of the rule file as it was read, in hex; empty for rules made in Python.

    Raises:
        InvalidSpec: If two rules share a name.
    """

    rules: tuple[ViolationRule, ...] = field(converter=_tuple)
    files: tuple[Path, ...] = ()
    digest: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuse a second rule of the same name."""
        names = [rule.name for rule in self.rules]
        for number, name in enumerate(names):
            if name in names[:number]:
                msg = f"rules: {name!r} is there for the second time, wanted a unique name"
                raise InvalidSpec(msg)

"""Which functions may be report hooks: others are refused where they are handed over."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, cast, final

from otpy._core.checks import refuse
from otpy.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy.reports import ReportHook


@final
class Hooks(list["ReportHook"]):
    """The report hooks of a tree, in order of subscription."""

    __slots__ = ("_ask_again", "_routine")

    def __init__(self, hooks: Iterable[ReportHook]) -> None:
        """Hold `hooks`, which have not been asked yet."""
        super().__init__(hooks)
        self._routine = False
        self._ask_again = -math.inf

    def append(self, hook: ReportHook) -> None:
        """Add a hook, which is asked at the next occasion."""
        super().append(hook)
        self._ask_again = -math.inf

    def hears_routine(self, now: float) -> bool:
        """Whether any of them wants reports of routine; see `ReportHook`.

        It is of interest at every start and stop, and to ask a log for its level takes a tenth as
        long as those do; so they are asked once a second.
        """
        if now >= self._ask_again:
            self._ask_again = now + 1
            self._routine = any(getattr(hook, "hears_routine", True) for hook in self)
        return self._routine


def checked_hook(who: str, hook: object) -> ReportHook:
    """Return `hook` if it can be one.

    Raises:
        InvalidSpec: If it cannot be called, or is a coroutine function, which would not be awaited.
    """
    called: Any = getattr(hook, "__call__", None)  # noqa: B004 - an object may have an async one
    if called is None:
        refuse(who, "a hook", hook, "a function of one report")
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(called):
        refuse(who, "a hook", hook, "a plain function: nobody awaits a coroutine function here")
    return cast("ReportHook", hook)


def checked_hooks(who: str, hooks: Iterable[ReportHook]) -> list[ReportHook]:
    """Return `hooks` as a list.

    Raises:
        InvalidSpec: If it is not an iterable, or one of them cannot be a hook.
    """
    try:
        listed = list(hooks)
    except TypeError as error:
        msg = f"{who}: hooks is {hooks!r}, wanted a list of functions of one report"
        raise InvalidSpec(msg) from error
    return [checked_hook(who, hook) for hook in listed]

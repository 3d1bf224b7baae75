"""The signals that a command in the foreground hears."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["hear_signals"]

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hear_signals(
    loop: asyncio.AbstractEventLoop,
    hear: Callable[[signal.Signals], object],
    numbers: Iterable[signal.Signals] = _ENDING,
) -> list[signal.Signals]:
    """Call a function for each signal, until the loop is closed.

    Where a signal is ignored, as SIGHUP is under nohup, it stays ignored.

    Args:
        loop: It calls the function.
        hear: Called with the signal.
        numbers: Which ones; the three that end a program unless given.

    Returns:
        Those that are heard.
    """
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, hear, number)
    return heard

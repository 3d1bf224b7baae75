"""The operating system's signals that end a program, while a tree is the program.

| signal | handled |
|---|---|
| SIGINT | unless the program was started with it ignored, as the job of a script is (`program &`) |
| SIGTERM | always |
| SIGHUP | unless the program was started with it ignored, by `nohup` |
"""

from __future__ import annotations

import signal
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from otpy._runtime.current import current_or_none
from otpy._runtime.forks import undone_in_forks

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from types import FrameType

_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@final
class _Handler:
    """What Python calls on a signal. It lives as long as it is the handler of one."""

    __slots__ = ("__weakref__", "_hear")

    def __init__(self, hear: Callable[[int, FrameType | None], object]) -> None:
        self._hear = hear

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._hear(number, frame)


@final
class ProgramSignals:
    """Handles those signals for as long as a block lasts; a child that is forked does not.

    It tells when other code replaces its handler: at once if Python drops
    that, or, if the other one keeps it (`signal.signal` returns it) to call it or to put it back,
    when the next signal comes or the block ends.
    """

    def __init__(
        self,
        hear: Callable[[int, FrameType | None], object],
        replaced: Callable[[signal.Signals, str], object],
    ) -> None:
        """Call `hear` on signals, between two bytecodes; `replaced` with who replaced a handler."""
        self._hear = hear
        self._replaced = replaced
        self._before: dict[signal.Signals, Any] = {}
        self._ours: dict[signal.Signals, weakref.ref[_Handler]] = {}

    @contextmanager
    def handled(self, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        """Handle them, and put the handlers back that were there before."""
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN or number is signal.SIGTERM:
                self._before[number] = before
        for number in self._before:
            # asyncio's own handler for its wake-up descriptor: a signal then wakes an idle loop,
            # wherever it strikes. Ours instead of it, for a loop that never becomes idle.
            loop.add_signal_handler(number, int)
            ours = _Handler(self._hear)
            self._ours[number] = weakref.ref(ours, partial(self._dropped, number))
            signal.signal(number, ours)
            del ours
        forget = undone_in_forks(self._undo)
        try:
            yield
        finally:
            forget()
            self.look()
            self._ours.clear()  # they are dropped now, without a notice
            for number, handler in self._before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler or signal.SIG_DFL)

    def look(self) -> None:
        """See which handlers were replaced of late."""
        for number in tuple(self._ours):
            if not self._stands(number):
                self._tell(number, "the program")

    def _stands(self, number: signal.Signals) -> bool:
        return signal.getsignal(number) is self._ours[number]()

    def _dropped(self, number: signal.Signals, _: object) -> None:
        if number in self._ours:
            process = current_or_none()
            self._tell(number, "the program" if process is None else process.path)

    def _tell(self, number: signal.Signals, who: str) -> None:
        del self._ours[number]  # it is told once
        self._replaced(number, who)

    def _undo(self) -> None:
        """Put the handlers back in a forked child, which has no loop that acts on a signal."""
        standing = [number for number in self._ours if self._stands(number)]
        self._ours.clear()
        for number in standing:
            signal.signal(number, self._before[number] or signal.SIG_DFL)

"""Where the command `otpy-agents` begins: Ctrl-C is heard before anything else is loaded."""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType
from typing import NoReturn

__all__ = ["main"]

_STDERR = 2
_INTERRUPTED = 130


def main() -> NoReturn:
    """Carry out the command line of the process, and leave with its exit status.

    Ctrl-C while modules are loaded ends it with one line and status 130. From then on each command
    hears it by itself. Where SIGINT is ignored, as for what a script puts into the background, it
    stays so.

    Raises:
        SystemExit: Always.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    gc.disable()  # modules make no garbage, and to look for it takes a tenth of the time
    from otpy_agents.cli import main as command  # noqa: PLC0415 - only now Ctrl-C is heard

    command.main(on_loaded=_hand_over)


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Leave at once: nothing has been begun, and a half-loaded module could not clean up."""
    try:
        os.write(_STDERR, b"otpy-agents: interrupted\n")
    finally:
        os._exit(_INTERRUPTED)


def _hand_over() -> None:
    """Leave Ctrl-C to the command, which is loaded; asyncio takes it from the default handler."""
    gc.freeze()  # what is loaded lasts as long as the process
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)

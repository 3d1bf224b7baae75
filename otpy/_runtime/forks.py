"""What concerns this process alone, and is undone in every child that is forked from it."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNDO: Final[dict[object, Callable[[], object]]] = {}
_FORKING: Final[Any] = threading.local()  # the signals that this thread blocked before it forked


def undone_in_forks(undo: Callable[[], object]) -> Callable[[], object]:
    """Call `undo` in each child that is forked from now on.

    Returns:
        A function that ends that.
    """
    token = object()
    _UNDO[token] = undo
    return partial(_UNDO.pop, token, None)


def _before() -> None:
    """Let no signal reach a child as long as it has handlers that are not meant for it."""
    if _UNDO:
        _FORKING.mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _unblock() -> None:
    mask = _FORKING.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_in_child() -> None:
    for token in tuple(_UNDO):
        _UNDO.pop(token)()
    _unblock()


if hasattr(os, "register_at_fork"):  # cannot be taken back, so it is done once
    os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_after_in_child)

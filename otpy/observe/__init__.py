"""Looks at a running tree from outside.

| you want | you use |
|---|---|
| to hear of a child that blocks the event loop, while it does | `watch_loop` |
"""

from __future__ import annotations

from otpy.observe.loop_watch import BlockHook as BlockHook
from otpy.observe.loop_watch import LoopBlocked as LoopBlocked
from otpy.observe.loop_watch import watch_loop as watch_loop

__all__ = ["BlockHook", "LoopBlocked", "watch_loop"]

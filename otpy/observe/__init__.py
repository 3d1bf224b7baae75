"""Looks at a running tree from outside.

| you want | you use |
|---|---|
| to hear of a child that blocks the event loop, while it does | `watch_loop` |
| to take what it tells | `LoopBlocked`, `BlockHook` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy.observe.loop_watch import BlockHook as BlockHook
from otpy.observe.loop_watch import LoopBlocked as LoopBlocked
from otpy.observe.loop_watch import watch_loop as watch_loop

_be_home(globals())

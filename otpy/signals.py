"""Signals: how processes hear of each other's end.

| you want | you use |
|---|---|
| to hear once how another ends, with `Process.monitor` | `Monitor`, `Down` |
| to hear how linked ones end, instead of ending too | `trap_exit`, `ExitSignals`, `ExitSignal` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy._runtime.handles import Down as Down
from otpy._runtime.handles import ExitSignal as ExitSignal
from otpy._runtime.handles import Monitor as Monitor
from otpy._runtime.links import ExitSignals as ExitSignals
from otpy._runtime.links import trap_exit as trap_exit

_be_home(globals())

"""Snapshots: the visible state of a running tree, and the history of one that gave up.

| you want | you use |
|---|---|
| to see a tree as it stands, from `snapshot` | `TreeSnapshot` |
| to list the children of a supervisor, from `which_children` | `ChildInfo`, `RESTARTING` |
| to count them, from `count_children` | `Counts` |
| to read the history in `SupervisorFailed` | `RestartRecord` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy._runtime.blame import RestartRecord as RestartRecord
from otpy._runtime.handles import RESTARTING as RESTARTING
from otpy._runtime.handles import ChildInfo as ChildInfo
from otpy._runtime.snapshot import Counts as Counts
from otpy._runtime.snapshot import TreeSnapshot as TreeSnapshot

_be_home(globals())

"""What specs are written with beside the names at the top.

| you want | you use |
|---|---|
| to annotate the spec of a dynamic supervisor, from `DynamicSupervisor.spec` | `DynamicSpec` |
| to say what happens when a child has used up its own `Intensity` | `ESCALATE`, `GIVE_UP` |
| to annotate a function that makes the children of a supervisor | `MakesChildren` |
| to annotate what a child calls when it is ready | `TaskStatus` |
"""

from __future__ import annotations

from otpy._core.spec import ESCALATE as ESCALATE
from otpy._core.spec import GIVE_UP as GIVE_UP
from otpy._core.spec import DynamicSpec as DynamicSpec
from otpy._core.spec import MakesChildren as MakesChildren
from otpy._core.start import TaskStatus as TaskStatus
from otpy._facade import be_home as _be_home

_be_home(globals())

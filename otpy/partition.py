"""Partitions: the keys by which a `PartitionSupervisor` spreads its load.

| you want | you use |
|---|---|
| to annotate a key that leads to one of the partitions | `RoutingKey` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy.behaviours.partition import RoutingKey as RoutingKey

_be_home(globals())

"""Registries: the entries of a `Registry`, and its notices.

| you want | you use |
|---|---|
| to say whether a key may be registered twice | `Keys` |
| to know who is registered, with which value | `Entry` |
| to hear of it | `Registered`, `Unregistered` |
| to address a server by its key | `Via` |
| to name the type of `Registry.at(…)` | `RegistryRef` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy.behaviours.registry import RegistryRef as RegistryRef
from otpy.behaviours.registry_entry import Entry as Entry
from otpy.behaviours.registry_entry import Keys as Keys
from otpy.behaviours.registry_entry import Registered as Registered
from otpy.behaviours.registry_entry import Unregistered as Unregistered
from otpy.behaviours.via import Via as Via

_be_home(globals())

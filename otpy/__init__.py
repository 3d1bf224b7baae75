"""Erlang/OTP-style supervision trees for asyncio.

| you want | you use |
|---|---|
| to say what runs | `ChildSpec`, `ChildType`, `SupervisorSpec`, `DynamicSupervisor.spec` |
| to say what happens when it fails | `Restart`, `Strategy`, `Intensity`, `Backoff` |
| to say how long it may take to end | `BRUTAL_KILL`, `INFINITY` |
| to end it with some of its children | `AutoShutdown` |
| to run it | `start` in an async program, `lifespan` in a web server, `run` as a whole program |
| to talk to it | `Supervisor`, `DynamicSupervisor`, `Process`, `current` |
| to talk to it in other threads | `Portal` |
| to keep a state and serve requests | `GenServer` |
| to let the state decide how | `GenStateMachine` |
| to run a function beside yourself | `TaskSupervisor` |
| to spread load over several of a kind | `PartitionSupervisor` |
| to find a process by a name of its own | `Registry` |
| to know why something ended | `Normal`, `Shutdown`, `Killed`, `Crashed`, `Abandoned` |
| to annotate what `lifespan` returns, or any of these reasons | `Lifespan`, `ExitReason` |
| to decide, in a child, how it ends | `Exit`, `Ignore` |
| to catch what is raised | `OtpyError`, `InvalidSpec`, `SupervisorFailed` |
| to read what happens | `log_reports`, `console_logger` |

What else a topic has is in a module of its own, and `import otpy` is enough for these:

| about | look into |
|---|---|
| specs | `otpy.specs` |
| servers and their callbacks | `otpy.server` |
| state machines and their callbacks | `otpy.statem` |
| tasks and how they came out | `otpy.tasks` |
| registries and their listeners | `otpy.registry` |
| partitions | `otpy.partition` |
| monitors, links and exit signals | `otpy.signals` |
| how a tree stands | `otpy.snapshot` |
| what happens, as values | `otpy.reports` |
| what can be raised | `otpy.errors` |

Two more are imported by their own names: `otpy.observe`, which watches a running tree, and
`otpy.testing`.
"""

from __future__ import annotations

from otpy import errors as errors
from otpy import partition as partition
from otpy import registry as registry
from otpy import reports as reports
from otpy import server as server
from otpy import signals as signals
from otpy import snapshot as snapshot
from otpy import specs as specs
from otpy import statem as statem
from otpy import tasks as tasks
from otpy._core.backoff import Backoff as Backoff
from otpy._core.reason import Abandoned as Abandoned
from otpy._core.reason import Crashed as Crashed
from otpy._core.reason import Exit as Exit
from otpy._core.reason import ExitReason as ExitReason
from otpy._core.reason import Ignore as Ignore
from otpy._core.reason import Killed as Killed
from otpy._core.reason import Normal as Normal
from otpy._core.reason import Restart as Restart
from otpy._core.reason import Shutdown as Shutdown
from otpy._core.spec import BRUTAL_KILL as BRUTAL_KILL
from otpy._core.spec import INFINITY as INFINITY
from otpy._core.spec import AutoShutdown as AutoShutdown
from otpy._core.spec import ChildSpec as ChildSpec
from otpy._core.spec import ChildType as ChildType
from otpy._core.spec import Intensity as Intensity
from otpy._core.spec import Strategy as Strategy
from otpy._core.spec import SupervisorSpec as SupervisorSpec
from otpy._facade import be_home as _be_home
from otpy._runtime.current import current as current
from otpy._runtime.handles import DynamicSupervisor as DynamicSupervisor
from otpy._runtime.handles import Portal as Portal
from otpy._runtime.handles import Process as Process
from otpy._runtime.handles import Supervisor as Supervisor
from otpy._runtime.lifespan import Lifespan as Lifespan
from otpy._runtime.lifespan import lifespan as lifespan
from otpy._runtime.log import log_reports as log_reports
from otpy._runtime.log_console import console_logger as console_logger
from otpy._runtime.root import start as start
from otpy._runtime.run import run as run
from otpy.behaviours.gen_server import GenServer as GenServer
from otpy.behaviours.gen_statem import GenStateMachine as GenStateMachine
from otpy.behaviours.partition import PartitionSupervisor as PartitionSupervisor
from otpy.behaviours.registry import Registry as Registry
from otpy.behaviours.task_supervisor import TaskSupervisor as TaskSupervisor
from otpy.errors import InvalidSpec as InvalidSpec
from otpy.errors import OtpyError as OtpyError
from otpy.errors import SupervisorFailed as SupervisorFailed

_be_home(globals())

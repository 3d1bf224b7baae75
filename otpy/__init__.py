"""Erlang/OTP-style supervision trees for asyncio.

| you want | you use |
|---|---|
| to say what runs | `ChildSpec`, `SupervisorSpec`, `DynamicSupervisor.spec` |
| to say what happens when it fails | `Restart`, `Strategy`, `Intensity`, `Backoff` |
| to run it | `start` in an async program, `lifespan` in a web server, `run` as a whole program |
| to talk to it | `Supervisor`, `DynamicSupervisor`, `Process`, `current` |
| to talk to it in other threads | `Portal` |
| to keep a state and serve requests | `GenServer`, `ServerRef`, `Reply`, `NoReply`, `Stop` |
| to let processes watch each other | `Process.monitor`, `Process.link`, `trap_exit` |
| to run a function beside yourself | `TaskSupervisor`, `Task` |
| to spread load over several of a kind | `PartitionSupervisor` |
| to find a process by a name of its own | `Registry`, `Via` |
| to know why something ended | `Normal`, `Shutdown`, `Killed`, `Crashed`, `Abandoned` |
| to decide, in a child, how it ends | `Exit`, `Ignore` |
| to end it with some of its children | `AutoShutdown` |
| to hear what happens | `otpy.reports`, `log_reports` |
| to know what can be raised | `otpy.errors` |
| to test it | `otpy.testing` |
"""

from __future__ import annotations

from otpy import errors as errors
from otpy import reports as reports
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
from otpy._core.request import Request as Request
from otpy._core.spec import BRUTAL_KILL as BRUTAL_KILL
from otpy._core.spec import ESCALATE as ESCALATE
from otpy._core.spec import GIVE_UP as GIVE_UP
from otpy._core.spec import INFINITY as INFINITY
from otpy._core.spec import AutoShutdown as AutoShutdown
from otpy._core.spec import ChildSpec as ChildSpec
from otpy._core.spec import ChildType as ChildType
from otpy._core.spec import DynamicSpec as DynamicSpec
from otpy._core.spec import Intensity as Intensity
from otpy._core.spec import Strategy as Strategy
from otpy._core.spec import SupervisorSpec as SupervisorSpec
from otpy._core.start import TaskStatus as TaskStatus
from otpy._runtime.blame import RestartRecord as RestartRecord
from otpy._runtime.current import current as current
from otpy._runtime.dynamic import DynamicSupervisor as DynamicSupervisor
from otpy._runtime.lifespan import Lifespan as Lifespan
from otpy._runtime.lifespan import lifespan as lifespan
from otpy._runtime.log import log_reports as log_reports
from otpy._runtime.log_console import console_logger as console_logger
from otpy._runtime.portal import Portal as Portal
from otpy._runtime.process import Process as Process
from otpy._runtime.root import start as start
from otpy._runtime.run import run as run
from otpy._runtime.signals import Down as Down
from otpy._runtime.signals import ExitSignal as ExitSignal
from otpy._runtime.signals import ExitSignals as ExitSignals
from otpy._runtime.signals import Monitor as Monitor
from otpy._runtime.signals import trap_exit as trap_exit
from otpy._runtime.snapshot import RESTARTING as RESTARTING
from otpy._runtime.snapshot import ChildInfo as ChildInfo
from otpy._runtime.snapshot import Counts as Counts
from otpy._runtime.snapshot import TreeSnapshot as TreeSnapshot
from otpy._runtime.supervisor import Supervisor as Supervisor
from otpy.behaviours.gen_server import GenServer as GenServer
from otpy.behaviours.mailbox import Caller as Caller
from otpy.behaviours.partition import PartitionSupervisor as PartitionSupervisor
from otpy.behaviours.registry import Registry as Registry
from otpy.behaviours.registry_entry import Entry as Entry
from otpy.behaviours.registry_entry import Keys as Keys
from otpy.behaviours.registry_entry import Registered as Registered
from otpy.behaviours.registry_entry import Unregistered as Unregistered
from otpy.behaviours.results import TIMEOUT as TIMEOUT
from otpy.behaviours.results import CallResult as CallResult
from otpy.behaviours.results import Init as Init
from otpy.behaviours.results import NoReply as NoReply
from otpy.behaviours.results import Reply as Reply
from otpy.behaviours.results import Result as Result
from otpy.behaviours.results import Stop as Stop
from otpy.behaviours.server_ref import ServerRef as ServerRef
from otpy.behaviours.task import Task as Task
from otpy.behaviours.task import callers as callers
from otpy.behaviours.task_result import Exited as Exited
from otpy.behaviours.task_result import Ok as Ok
from otpy.behaviours.task_result import TaskFailed as TaskFailed
from otpy.behaviours.task_stream import OnTimeout as OnTimeout
from otpy.behaviours.task_supervisor import TaskSupervisor as TaskSupervisor
from otpy.behaviours.via import Via as Via
from otpy.errors import InvalidSpec as InvalidSpec
from otpy.errors import OtpyError as OtpyError
from otpy.errors import SupervisorFailed as SupervisorFailed

__all__ = [
    "BRUTAL_KILL",
    "ESCALATE",
    "GIVE_UP",
    "INFINITY",
    "RESTARTING",
    "TIMEOUT",
    "Abandoned",
    "AutoShutdown",
    "Backoff",
    "CallResult",
    "Caller",
    "ChildInfo",
    "ChildSpec",
    "ChildType",
    "Counts",
    "Crashed",
    "Down",
    "DynamicSpec",
    "DynamicSupervisor",
    "Entry",
    "Exit",
    "ExitReason",
    "ExitSignal",
    "ExitSignals",
    "GenServer",
    "Exited",
    "Ignore",
    "Init",
    "Intensity",
    "InvalidSpec",
    "Keys",
    "Killed",
    "Lifespan",
    "Monitor",
    "NoReply",
    "Normal",
    "Ok",
    "OnTimeout",
    "OtpyError",
    "PartitionSupervisor",
    "Portal",
    "Process",
    "Reply",
    "Registered",
    "Registry",
    "Request",
    "Restart",
    "RestartRecord",
    "Result",
    "ServerRef",
    "Shutdown",
    "Stop",
    "Strategy",
    "Supervisor",
    "SupervisorFailed",
    "SupervisorSpec",
    "Task",
    "TaskFailed",
    "TaskStatus",
    "TaskSupervisor",
    "TreeSnapshot",
    "Unregistered",
    "Via",
    "callers",
    "console_logger",
    "current",
    "errors",
    "lifespan",
    "log_reports",
    "reports",
    "run",
    "start",
    "trap_exit",
]

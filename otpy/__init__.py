"""Erlang/OTP-style supervision trees for asyncio.

| you want | you use |
|---|---|
| to say what runs | `ChildSpec`, `SupervisorSpec`, `DynamicSupervisor.spec` |
| to say what happens when it fails | `Restart`, `Strategy`, `Intensity`, `Backoff` |
| to run it | `start` in an async program, `run` as a whole program |
| to talk to it | `Supervisor`, `DynamicSupervisor`, `Process`, `current` |
| to know why something ended | `Normal`, `Shutdown`, `Killed`, `Crashed`, `Abandoned` |
| to decide, in a child, how it ends | `Exit`, `Ignore` |
| to end it with some of its children | `AutoShutdown` |
| to hear what happens | `otpy.reports`, `log_reports` |
| to know what can be raised | `otpy.errors` |
| to test it | `otpy.testing` |
"""

from __future__ import annotations

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
from otpy._runtime.blame import RestartRecord as RestartRecord
from otpy._runtime.current import current as current
from otpy._runtime.dynamic import DynamicSupervisor as DynamicSupervisor
from otpy._runtime.log import console_logger as console_logger
from otpy._runtime.log import log_reports as log_reports
from otpy._runtime.process import Process as Process
from otpy._runtime.root import start as start
from otpy._runtime.run import run as run
from otpy._runtime.snapshot import RESTARTING as RESTARTING
from otpy._runtime.snapshot import ChildInfo as ChildInfo
from otpy._runtime.snapshot import Counts as Counts
from otpy._runtime.snapshot import TreeSnapshot as TreeSnapshot
from otpy._runtime.supervisor import Supervisor as Supervisor
from otpy.errors import InvalidSpec as InvalidSpec
from otpy.errors import OtpyError as OtpyError
from otpy.errors import SupervisorFailed as SupervisorFailed

__all__ = [
    "BRUTAL_KILL",
    "ESCALATE",
    "GIVE_UP",
    "INFINITY",
    "RESTARTING",
    "Abandoned",
    "AutoShutdown",
    "Backoff",
    "ChildInfo",
    "ChildSpec",
    "ChildType",
    "Counts",
    "Crashed",
    "DynamicSpec",
    "DynamicSupervisor",
    "Exit",
    "ExitReason",
    "Ignore",
    "Intensity",
    "InvalidSpec",
    "Killed",
    "Normal",
    "OtpyError",
    "Process",
    "Restart",
    "RestartRecord",
    "Shutdown",
    "Strategy",
    "Supervisor",
    "SupervisorFailed",
    "SupervisorSpec",
    "TreeSnapshot",
    "console_logger",
    "current",
    "log_reports",
    "run",
    "start",
]

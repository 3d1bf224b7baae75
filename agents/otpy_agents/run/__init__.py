"""Workers as operating system processes, agent CLIs among them.

Their start, their output and their certain end; how each agent CLI is called, what its output means
and why it failed.
"""

from __future__ import annotations

from otpy_agents.run.adapter import Access as Access
from otpy_agents.run.adapter import Adapter as Adapter
from otpy_agents.run.adapter import Launch as Launch
from otpy_agents.run.adapter import Parser as Parser
from otpy_agents.run.adapter import PlainText as PlainText
from otpy_agents.run.adapter import Request as Request
from otpy_agents.run.adapter import Wording as Wording
from otpy_agents.run.classification import classify as classify
from otpy_agents.run.events import Event as Event
from otpy_agents.run.events import Fault as Fault
from otpy_agents.run.events import Final as Final
from otpy_agents.run.events import Problem as Problem
from otpy_agents.run.events import Retrying as Retrying
from otpy_agents.run.events import SessionSeen as SessionSeen
from otpy_agents.run.events import Spent as Spent
from otpy_agents.run.events import Text as Text
from otpy_agents.run.events import ToolEnded as ToolEnded
from otpy_agents.run.events import ToolStarted as ToolStarted
from otpy_agents.run.failures import ERROR_TYPES as ERROR_TYPES
from otpy_agents.run.failures import Classification as Classification
from otpy_agents.run.failures import Detail as Detail
from otpy_agents.run.failures import ErrorType as ErrorType
from otpy_agents.run.failures import error_table as error_table
from otpy_agents.run.marker import attempt_marker as attempt_marker
from otpy_agents.run.marker import list_marker as list_marker
from otpy_agents.run.marker import worker_environment as worker_environment
from otpy_agents.run.orphans import Orphan as Orphan
from otpy_agents.run.orphans import Recorded as Recorded
from otpy_agents.run.process import ExitStatus as ExitStatus
from otpy_agents.run.process import WorkerProcess as WorkerProcess
from otpy_agents.run.process import spawn as spawn
from otpy_agents.run.registry import adapter_names as adapter_names
from otpy_agents.run.registry import find_adapter as find_adapter
from otpy_agents.run.stream import JsonLines as JsonLines
from otpy_agents.run.stream import LineSplitter as LineSplitter
from otpy_agents.run.transcript import Transcript as Transcript
from otpy_agents.run.usage import Usage as Usage
from otpy_agents.run.usage import UsageMeter as UsageMeter

__all__ = [
    "Access",
    "Adapter",
    "Classification",
    "Detail",
    "ERROR_TYPES",
    "ErrorType",
    "Event",
    "ExitStatus",
    "Fault",
    "Final",
    "JsonLines",
    "Launch",
    "LineSplitter",
    "Orphan",
    "Parser",
    "PlainText",
    "Problem",
    "Recorded",
    "Request",
    "Retrying",
    "SessionSeen",
    "Spent",
    "Text",
    "ToolEnded",
    "ToolStarted",
    "Transcript",
    "Usage",
    "UsageMeter",
    "Wording",
    "WorkerProcess",
    "adapter_names",
    "attempt_marker",
    "classify",
    "error_table",
    "find_adapter",
    "list_marker",
    "spawn",
    "worker_environment",
]

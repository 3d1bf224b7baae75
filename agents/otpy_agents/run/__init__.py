"""Workers as operating system processes, agent CLIs among them.

Their start, their output and their certain end; how each agent CLI is called, what its output means
and why it failed; and what a run of several attempts does about that.
"""

from __future__ import annotations

from otpy_agents.adapters.adapter import Access as Access
from otpy_agents.adapters.adapter import Adapter as Adapter
from otpy_agents.adapters.adapter import AttemptRequest as AttemptRequest
from otpy_agents.adapters.adapter import Parser as Parser
from otpy_agents.adapters.adapter import PlainText as PlainText
from otpy_agents.adapters.adapter import Wording as Wording
from otpy_agents.adapters.registry import adapter_names as adapter_names
from otpy_agents.adapters.registry import find_adapter as find_adapter
from otpy_agents.adapters.stream import JsonLines as JsonLines
from otpy_agents.attempt.events import CliFault as CliFault
from otpy_agents.attempt.events import Event as Event
from otpy_agents.attempt.events import Final as Final
from otpy_agents.attempt.events import Problem as Problem
from otpy_agents.attempt.events import Retrying as Retrying
from otpy_agents.attempt.events import SessionSeen as SessionSeen
from otpy_agents.attempt.events import Spent as Spent
from otpy_agents.attempt.events import Text as Text
from otpy_agents.attempt.events import ToolEnded as ToolEnded
from otpy_agents.attempt.events import ToolStarted as ToolStarted
from otpy_agents.attempt.failures import ERROR_TYPES as ERROR_TYPES
from otpy_agents.attempt.failures import Classification as Classification
from otpy_agents.attempt.failures import Detail as Detail
from otpy_agents.attempt.failures import ErrorType as ErrorType
from otpy_agents.attempt.failures import error_table as error_table
from otpy_agents.attempt.transcript import Transcript as Transcript
from otpy_agents.attempt.usage import Usage as Usage
from otpy_agents.attempt.usage import UsageMeter as UsageMeter
from otpy_agents.classify.classification import classify as classify
from otpy_agents.process.lines import LineSplitter as LineSplitter
from otpy_agents.process.orphans import Orphan as Orphan
from otpy_agents.process.orphans import Recorded as Recorded
from otpy_agents.process.process import ExitStatus as ExitStatus
from otpy_agents.process.process import WorkerProcess as WorkerProcess
from otpy_agents.process.process import spawn as spawn
from otpy_agents.run.decide.chain import AgentChain as AgentChain
from otpy_agents.run.decide.chain import AgentInstance as AgentInstance
from otpy_agents.run.decide.chain import AgentSelection as AgentSelection
from otpy_agents.run.decide.chain import SelectionMode as SelectionMode
from otpy_agents.run.decide.chain import build_chain as build_chain
from otpy_agents.run.decide.chain import default_agent as default_agent
from otpy_agents.run.decide.cooldown import Cooldown as Cooldown
from otpy_agents.run.decide.cooldown import CooldownTable as CooldownTable
from otpy_agents.run.decide.cooldown import VendorAccount as VendorAccount
from otpy_agents.run.decide.liveness import Liveness as Liveness
from otpy_agents.run.decide.liveness import LivenessKind as LivenessKind
from otpy_agents.run.decide.policy import FailureAction as FailureAction
from otpy_agents.run.decide.policy import FailureRule as FailureRule
from otpy_agents.run.decide.policy import FatalScope as FatalScope
from otpy_agents.run.decide.policy import RetryPolicy as RetryPolicy
from otpy_agents.run.decide.protocol import RunControl as RunControl
from otpy_agents.run.decide.result import AttemptRecord as AttemptRecord
from otpy_agents.run.decide.result import Cause as Cause
from otpy_agents.run.decide.result import Ending as Ending
from otpy_agents.run.decide.result import RunOutcome as RunOutcome
from otpy_agents.run.decide.result import RunResult as RunResult
from otpy_agents.run.decide.result import StopCause as StopCause
from otpy_agents.run.decide.result import VendorSession as VendorSession
from otpy_agents.run.decide.state import RunPhase as RunPhase
from otpy_agents.run.decide.state import RunState as RunState
from otpy_agents.sandbox.launch import Launch as Launch
from otpy_agents.sandbox.marker import attempt_marker as attempt_marker
from otpy_agents.sandbox.marker import list_marker as list_marker
from otpy_agents.sandbox.marker import run_marker as run_marker
from otpy_agents.sandbox.marker import worker_environment as worker_environment

__all__ = [
    "Access",
    "VendorAccount",
    "FailureAction",
    "Adapter",
    "AgentInstance",
    "AgentSelection",
    "AttemptRecord",
    "Cause",
    "AgentChain",
    "Classification",
    "RunControl",
    "Cooldown",
    "CooldownTable",
    "Detail",
    "ERROR_TYPES",
    "Ending",
    "ErrorType",
    "Event",
    "ExitStatus",
    "FatalScope",
    "CliFault",
    "Final",
    "JsonLines",
    "Launch",
    "LineSplitter",
    "Liveness",
    "LivenessKind",
    "Orphan",
    "RunOutcome",
    "Parser",
    "RunPhase",
    "PlainText",
    "Problem",
    "Recorded",
    "AttemptRequest",
    "RetryPolicy",
    "Retrying",
    "FailureRule",
    "RunResult",
    "RunState",
    "SelectionMode",
    "SessionSeen",
    "Spent",
    "StopCause",
    "Text",
    "ToolEnded",
    "ToolStarted",
    "Transcript",
    "Usage",
    "UsageMeter",
    "VendorSession",
    "Wording",
    "WorkerProcess",
    "adapter_names",
    "attempt_marker",
    "build_chain",
    "classify",
    "default_agent",
    "error_table",
    "find_adapter",
    "list_marker",
    "run_marker",
    "spawn",
    "worker_environment",
]

"""The work list and the tree that works on it.

| you want | you use |
|---|---|
| the whole tree | `app_supervisor`, a `Project` for each list, one `Workplace` |
| to start an agent, and to speak to it | `MortalPool.spawn`, `Mortal` |
| to know where an agent stands | `AgentState`, `MOVES` |
| to say what follows a failure | `FailureTable`, `FailureRow`, `Gang`, `StartRate` |
"""

from __future__ import annotations

from otpy_agents.agent.failures import Consequence as Consequence
from otpy_agents.agent.failures import FailureClass as FailureClass
from otpy_agents.agent.failures import FailureRow as FailureRow
from otpy_agents.agent.failures import FailureTable as FailureTable
from otpy_agents.agent.state import MOVES as MOVES
from otpy_agents.agent.state import Agent as Agent
from otpy_agents.agent.state import AgentState as AgentState
from otpy_agents.agent.state import Happening as Happening
from otpy_agents.agent.state import Move as Move
from otpy_agents.agent.verification import Complaint as Complaint
from otpy_agents.agent.workplace import Workplace as Workplace
from otpy_agents.store.records import Outcome as Outcome
from otpy_agents.tree.app import app_supervisor as app_supervisor
from otpy_agents.tree.jake import jake_supervisor as jake_supervisor
from otpy_agents.tree.pool import Mortal as Mortal
from otpy_agents.tree.pool import MortalPool as MortalPool
from otpy_agents.tree.project import Project as Project
from otpy_agents.worklist.assignment import AgentWork as AgentWork
from otpy_agents.worklist.assignment import Assignment as Assignment
from otpy_agents.worklist.assignment import Expectation as Expectation
from otpy_agents.worklist.assignment import Role as Role
from otpy_agents.worklist.assignment import WorkList as WorkList
from otpy_agents.worklist.gang import Gang as Gang
from otpy_agents.worklist.gang import GangAction as GangAction
from otpy_agents.worklist.start_rate import StartRate as StartRate

__all__ = [
    "MOVES",
    "Agent",
    "AgentState",
    "AgentWork",
    "Assignment",
    "Complaint",
    "Consequence",
    "Outcome",
    "Expectation",
    "FailureClass",
    "FailureRow",
    "FailureTable",
    "Gang",
    "GangAction",
    "Happening",
    "Mortal",
    "MortalPool",
    "Move",
    "Project",
    "Role",
    "StartRate",
    "WorkList",
    "Workplace",
    "app_supervisor",
    "jake_supervisor",
]

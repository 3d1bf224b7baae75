"""Prompts for agents, from templates, with as little of the project as they need."""

from __future__ import annotations

from otpy_agents.control.prompts.build import clarification_prompt as clarification_prompt
from otpy_agents.control.prompts.build import first_prompt as first_prompt
from otpy_agents.control.prompts.build import fix_prompt as fix_prompt
from otpy_agents.control.prompts.build import helper_prompt as helper_prompt
from otpy_agents.control.prompts.build import question_prompt as question_prompt
from otpy_agents.control.prompts.snapshot import take_snapshot as take_snapshot
from otpy_agents.control.prompts.task_types import TaskType as TaskType
from otpy_agents.control.prompts.task_types import read_task_types as read_task_types
from otpy_agents.control.prompts.task_types import shipped_task_types as shipped_task_types
from otpy_agents.control.prompts.task_types import type_of as type_of

__all__ = [
    "TaskType",
    "clarification_prompt",
    "first_prompt",
    "fix_prompt",
    "question_prompt",
    "read_task_types",
    "shipped_task_types",
    "take_snapshot",
    "type_of",
]

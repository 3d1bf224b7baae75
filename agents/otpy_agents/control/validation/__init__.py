"""Verdicts on an agent's work, by rules alone."""

from __future__ import annotations

from otpy_agents.control.validation.demands import refuse_impossible as refuse_impossible
from otpy_agents.control.validation.sentences import SENTENCE_RULES as SENTENCE_RULES
from otpy_agents.control.validation.sentences import SentenceRule as SentenceRule
from otpy_agents.control.validation.sentences import rules_table as rules_table
from otpy_agents.control.validation.validate import AgentOutcome as AgentOutcome
from otpy_agents.control.validation.validate import RunCommand as RunCommand
from otpy_agents.control.validation.validate import find_format_halt as find_format_halt
from otpy_agents.control.validation.validate import validate as validate
from otpy_agents.sandbox.commands import CommandOutcome as CommandOutcome

__all__ = [
    "SENTENCE_RULES",
    "AgentOutcome",
    "CommandOutcome",
    "RunCommand",
    "SentenceRule",
    "find_format_halt",
    "refuse_impossible",
    "rules_table",
    "validate",
]

"""What kind of work a task is, inferred from its words (ENG-33)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["TASK_TYPES", "infer_task_type"]

_OTHERWISE: Final = "code_gen"
_MAKE: Final = r"(?:add|creat|writ|updat|extend)\w* (?:\w+ ){0,2}"
"""What is made tells the type, and not that it is made; "add a login with tests" makes a login."""

_WORDS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        kind: re.compile(rf"\b(?:{words})", re.IGNORECASE)
        for kind, words in {
            "architecture": r"architect|design(?!er)|plan\b|propos|break (?:\w+ )?down|migration",
            "refactoring": (
                r"refactor|renam|restructur|clean(?:ing)? up|simplif|extract|deduplicat|split\b"
                r"|move\b|inline\b"
            ),
            "debugging": r"debug|bug\b|fix|crash|fail|broken|regress|error\b|traceback|repair|mend",
            "testing": rf"(?:{_MAKE})?(?:tests?\b|testing|coverage|pytest|unittest)",
            "documentation": (
                rf"(?:{_MAKE})?(?:document|docs?\b|docstring|readme|changelog|tutorial|typo)"
            ),
            "review": r"review|audit|assess|vulnerabilit",
            _OTHERWISE: r"implement|add|creat|build|writ|support|introduc|generat|new\b|endpoint",
        }.items()
    }
)

TASK_TYPES: Final = tuple(_WORDS)
"""The types there are. Where two are equally likely, the earlier one is taken."""


def infer_task_type(task: str) -> str:
    """Return the type of a task, one of `TASK_TYPES`; `code_gen` if no word says another.

    The first word that tells a type counts most, since a task begins with what is to be done; the
    number of such words decides between two that begin with the same one.
    """
    found = {
        kind: (-match.start(), len(words.findall(task)))
        for kind, words in _WORDS.items()
        if (match := words.search(task)) is not None
    }
    return max(found, key=found.__getitem__, default=_OTHERWISE)

"""Which questions are asked about what no rule could tell, and what answers come to (CTL-45).

Nothing is asked here: the loop asks. An agent's word never counts as much as a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import evolve

from otpy_agents.control.project_folder import Mention, Obstacle, search
from otpy_agents.control.report import (
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)

__all__ = ["MOST_QUESTIONS", "find_mentions", "next_question", "settled_by"]

MOST_QUESTIONS: Final = 4
"""Questions about each criterion of a task, over all its attempts (CTL-45)."""

_FIRST_WORD: Final = re.compile(r"[\W_]*([^\W_]+)")
_SAID: Final = {"yes": CriterionVerdict.PASSED, "no": CriterionVerdict.FAILED}
_ANSWER_SHOWN: Final = 200

# No criterion is a page; its first words say what it is about.
_CRITERION_LIMIT: Final = 1000
_WORDS_LIMIT: Final = 12
_MENTIONS_PER_FILE: Final = 2
_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|„([^“”\n]+)[“”]|«([^»\n]+)»")
# A path, a name in code, or a word that is long enough to say something.
_WORD: Final = re.compile(r"[\w./-]*\w[./]\w[\w./-]*|\w{3,}")
# Words of many criteria and of most texts.
_COMMON: Final = frozenset(
    {
        *("the", "and", "for", "with", "that", "this", "from", "into", "are", "was", "has"),
        *("have", "had", "not", "all", "any", "each", "every", "must", "should", "shall", "can"),
        *("will", "may", "does", "when", "where", "which", "than", "then", "there", "their"),
        *("its", "file", "files", "code", "project", "exists", "exist", "contains", "contain"),
        *("works", "work", "correctly", "properly", "handles", "handle", "uses", "use", "new"),
        *("der", "die", "das", "und", "mit", "für", "von", "ist", "sind", "wird", "werden"),
        *("ein", "eine", "einen", "den", "dem", "alle", "muss", "soll", "kann", "datei"),
    }
)


def find_mentions(folder: Path, criterion: str) -> tuple[Mention, ...]:
    """Return where a project has words of a criterion, at most two places of a file.

    What the criterion quotes is looked for; if it quotes nothing, its words are.
    """
    words = sorted(_words(criterion[:_CRITERION_LIMIT]), key=len, reverse=True)
    if not words:
        return ()
    pattern = "|".join(rf"(?<!\w){re.escape(word)}" for word in words)
    found = search(folder, re.compile(pattern, re.IGNORECASE), per_file=_MENTIONS_PER_FILE)
    return () if isinstance(found, Obstacle) else found.mentions


def _words(criterion: str) -> Iterator[str]:
    quoted = [part for match in _QUOTED.findall(criterion) for part in match if part.strip()]
    said = quoted or [word for word in _WORD.findall(criterion) if word.casefold() not in _COMMON]
    yield from list(dict.fromkeys(said))[:_WORDS_LIMIT]


def next_question(
    report: ValidationReport, asked: Mapping[str, int], *, of_failed: bool
) -> str | None:
    """Return the criterion that is asked about next; None if nothing is left to ask.

    Each is asked about once before one of them is asked about again.

    Args:
        report: What was found, and what answers have settled since.
        asked: How often each criterion was asked about.
        of_failed: Whether those that failed are asked about too, as before a task is blocked.
    """
    names = [*report.uncertain_criteria, *(report.failed_criteria if of_failed else ())]
    left = [name for name in names if asked.get(name, 0) < MOST_QUESTIONS]
    return min(left, key=lambda name: asked.get(name, 0), default=None)


def settled_by(
    report: ValidationReport, criterion: str, words: str, *, may_override: bool
) -> ValidationReport:
    """Return the report after an answer about a criterion.

    Its first word counts, if that is yes or no; anything else leaves the report as it is. What it
    settles is never surer than `MEDIUM`.

    Args:
        report: What was found.
        criterion: What was asked about.
        words: The answer.
        may_override: Whether an answer also settles what a rule has failed (C-22).
    """
    first = _FIRST_WORD.match(words)
    verdict = _SAID.get(first[1].lower()) if first else None
    if verdict is None:
        return report
    said = " ".join(words.split())[:_ANSWER_SHOWN]

    def settled(one: CriterionReport) -> CriterionReport:
        uncertain = one.verdict is CriterionVerdict.UNCERTAIN
        if one.criterion != criterion or not (uncertain or may_override):
            return one
        saw = f"an agent: {said} (before: {one.saw})"
        return evolve(one, verdict=verdict, quality=MatchQuality.MEDIUM, saw=saw)

    return ValidationReport.of(map(settled, report.criteria))

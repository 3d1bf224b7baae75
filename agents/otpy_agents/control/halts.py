"""Detects stops, questions and misunderstandings in an agent's final words (CTL-40 to CTL-42).

Only the final answer is read, never a file's content or a tool's output (C-32). Of it, code, diffs,
quotations and tables are passed over: they are about something, and nobody says them. What is left
is matched line by line with a table of patterns that are narrow on purpose. A halt that is missed
is found by the validation, which believes nothing; a false one stops a project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from otpy_agents.control.table_file import read_tables
from otpy_agents.errors import InvalidControlTable

__all__ = ["HALTS", "Halt", "HaltReason", "HaltRule", "find_halt", "halts_table", "read_halts"]

_LINE_LIMIT: Final = 1000
_EXCERPT_LIMIT: Final = 200
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+(?=\S)")


class HaltReason(StrEnum):
    """Why the loop halts, or asks for another attempt."""

    CURSOR_EXEC_FAILURE = "CURSOR_EXEC_FAILURE"
    """The agent could not be executed, took too long, or had no folder to work in."""
    BLOCKED = "BLOCKED"
    """The agent says that it cannot go on."""
    OUTPUT_FORMAT_INVALID = "OUTPUT_FORMAT_INVALID"
    """The answer has not the form that the task demands."""
    ASKED_QUESTION = "ASKED_QUESTION"
    """The agent waits for an answer."""
    AMBIGUITY = "AMBIGUITY"
    """The agent says that the task can be read in more than one way."""

    @property
    def critical(self) -> bool:
        """Whether the project halts at once; otherwise the agent gets a clarification."""
        return self not in {HaltReason.ASKED_QUESTION, HaltReason.AMBIGUITY}


@frozen
class Halt:
    """A halt that was found.

    Attributes:
        reason: Why.
        pattern: The pattern that found it, or what else did.
        excerpt: The line it was found in, cut.
    """

    reason: HaltReason
    pattern: str
    excerpt: str

    @property
    def critical(self) -> bool:
        """Whether the project halts at once."""
        return self.reason.critical


@frozen
class HaltRule:
    """A pattern that stands for a halt.

    Attributes:
        reason: The halt it stands for.
        pattern: A regular expression, in any case; it is searched for in each line of prose.
        example: A line in which it is found.
        last: Whether only the last sentence counts: who goes on talking after a question does not
            wait.
    """

    reason: HaltReason
    pattern: str
    example: str
    last: bool = False


_EXEC, _BLOCKED, _FORMAT, _QUESTION, _AMBIGUITY = HaltReason

# What must be settled before an agent goes on, in contrast to an offer to do more.
_PERMISSION: Final = (
    r"(?:proceed|continue|go ahead|start|begin|apply|make (?:this|these|that|the) change\w*"
    r"|do (?:this|that|it)|use|choose|prefer|pick|take)\b"
)
_WANT: Final = r"(?:(?:would|do) you (?:like|want|wish|prefer)|want)(?: me)?(?: to)?\b"
_THE_TASK: Final = (
    r"(?:(?:the|this|your|these|those) (?:\w+ )?"
    r"(?:task|request|requirements?|instructions?|specification|spec|criteri(?:on"
    r"|a)|wording|goal|prompt))"
)

HALTS: Final[tuple[HaltRule, ...]] = (
    HaltRule(
        _EXEC,
        r"^(?:(?:ba|z|da)?sh: (?:line )?(?:\d+: )?)?(?:cursor-agent|cursor|claude"
        r"|codex|copilot|gemini)"
        r": (?:command not found|not found|permission denied|no such file or directory)$",
        "cursor-agent: command not found",
    ),
    HaltRule(
        _EXEC,
        r"^(?:error: )?spawn [\w./-]+ (?:ENOENT|EACCES|E2BIG)$",
        "Error: spawn cursor-agent ENOENT",
    ),
    HaltRule(
        _BLOCKED,
        r"^(?:status:? )?blocked(?: *[:\u2014\u2013-] *\S.*|[.!]?)$",
        "BLOCKED: there is no network here",
    ),
    HaltRule(
        _BLOCKED,
        r"^(?:so |but |unfortunately,? |sorry,? |right now,? )*(?:I am|I'm|I"
        r" was|the task is|this task is)"
        r" (?:currently |completely |still |now )?blocked\b(?! (?:size|list|user|account|ip)\b)",
        "I am blocked by the missing credentials.",
    ),
    HaltRule(
        _BLOCKED,
        r"\bI (?:can(?:no|')t|am unable to|'m unable to|am not able to|'m not"
        r" able to|could not|couldn't)"
        r" (?:proceed|continue|go on|complete (?:the|this|your) (?:task|request|work)"
        r"|finish (?:the|this|your) (?:task|request|work))\b",
        "I cannot proceed without the API key.",
    ),
    HaltRule(
        _FORMAT,
        r"\bI (?:can(?:no|')t|am unable to|'m unable to|could not|couldn't|won't)"
        r" (?:answer|respond|reply|produce|provide|return|output)\b.{0,40}\b(?:as"
        r"|in|valid) (?:\w+ ){0,2}(?:JSON|format)\b",
        "I cannot answer in the requested format.",
    ),
    HaltRule(
        _QUESTION,
        r"^question: *\S",
        "QUESTION: which of the two parsers is meant?",
    ),
    HaltRule(
        _QUESTION,
        r"\b(?:should|shall|may|can|could|do) I\b[^?]*\?$",
        "Should I use tabs or spaces?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        rf"\b{_WANT}(?! (?:also|further|more|additional|help)\b)[^?]*\b{_PERMISSION}[^?]*\?$",
        "Would you like me to proceed with the migration?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        rf"\b{_WANT}[^?]*[, ]or\b[^?]*\?$",
        "Want me to delete the old files, or would you rather keep them?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"^(?:your (?:call|choice|decision)|what do you think|thoughts)\?$",
        "Your call?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"^(?:so,? |and |but |first,? )*(?:which|what|where|who|how)\b[^?]*\b(?:you"
        r"|your|should|prefer|want|expect\w*|mean)\b[^?]*\?$",
        "Which database should the service use?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"\b(?:could|can|would) you (?:please )?(?:clarify|confirm|tell me|specify"
        r"|provide|share|let me know|paste|point me)\b[^?]*\?$",
        "Could you please clarify which file you mean?",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"\bplease (?:clarify|confirm|specify|tell me|let me know) (?:which|what"
        r"|whether|how|where|who|if I should)\b",
        "Please confirm which of these I should use.",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"\blet me know (?:which|whether I should|how you(?:'d| would) (?:like"
        r"|prefer)(?: me)? to proceed|what you(?:'d| would) prefer)\b",
        "Let me know which option you prefer and I will continue.",
        last=True,
    ),
    HaltRule(
        _QUESTION,
        r"\bI need (?:more information|clarification|your (?:input|decision|confirmation"
        r"|approval))\b",
        "I need your decision before I change the schema.",
    ),
    HaltRule(
        _AMBIGUITY,
        r"^ambigu(?:ity|ous): *\S",
        "AMBIGUITY: 'fast' may mean latency or throughput",
    ),
    HaltRule(
        _AMBIGUITY,
        rf"\b{_THE_TASK} (?:is|are|was|were|seems?(?: to be)?|remains?) (?:\w+"
        rf" )?(?:ambiguous|unclear|contradictory|underspecified)\b",
        "The requirements are ambiguous.",
    ),
    HaltRule(
        _AMBIGUITY,
        r"\b(?:it is|it's|it was) (?:not clear|unclear|ambiguous)(?: to me)?"
        r" (?:what|which|whether|how|if|where)\b.*\b(?:you|your|task|request"
        r"|instructions?|requirements?|criteri\w+|should|meant|wanted|expected"
        r"|intended)\b",
        "It is unclear whether you wanted the tests deleted.",
    ),
    HaltRule(
        _AMBIGUITY,
        r"\b(?:I am|I'm|I was) not sure (?:what|which|whether|how|if) (?:\w+"
        r" ){0,3}(?:you|I should)\b",
        "I'm not sure which file you mean.",
    ),
    HaltRule(
        _AMBIGUITY,
        rf"\b(?:{_THE_TASK}|this|it) (?:could|can|may|might) (?:mean|be (?:read"
        rf"|interpreted|understood)) (?:either|in (?:two|several|more|different"
        rf"|multiple)|as)\b",
        "The instructions can be read in two ways.",
    ),
)
"""How halts are found: the gravest reason first, of it the first pattern, then the first line."""


def find_halt(final_words: str, table: tuple[HaltRule, ...] = HALTS) -> Halt | None:
    """Return the halt in an agent's final words, the gravest if there are several.

    Args:
        final_words: The agent's final answer, of any length.
        table: The patterns; `(*HALTS, HaltRule(…))` for more of them.
    """
    lines = tuple(_said_lines(final_words))
    if not lines:
        return None
    last = _SENTENCE_END.split(lines[-1])[-1:]
    for reason in HaltReason:
        rules = [rule for rule in table if rule.reason is reason]
        for rule in rules:
            pattern = re.compile(rule.pattern, re.IGNORECASE)
            for line in last if rule.last else lines:
                if pattern.search(line):
                    return Halt(reason, rule.pattern, line[:_EXCERPT_LIMIT])
    return None


def halts_table(table: tuple[HaltRule, ...] = HALTS) -> str:
    """Return the table as lines of text: the reason, whether it is critical, and an example."""
    width = max(map(len, HaltReason))
    return "\n".join(
        f"{rule.reason:<{width}}  {'halts' if rule.reason.critical else 'asks ':<5}  {rule.example}"
        for rule in table
    )


def read_halts(path: Path) -> tuple[HaltRule, ...]:
    """Return the table with an operator's own patterns, which come after ours.

    The file has tables `[[halt]]` with `reason`, `pattern` and, as they may be left out, `example`
    and `last`.

    Raises:
        InvalidControlTable: The file cannot be read, or one of its patterns can never work.
    """
    rows = read_tables(path, "halt", _KEYS)
    return (*HALTS, *(_rule(path, number, row) for number, row in enumerate(rows, 1)))


_KEYS: Final = ("reason", "pattern", "example", "last")


def _rule(path: Path, number: int, row: dict[str, Any]) -> HaltRule:
    place = f"halt {number}"
    if row.get("reason") not in tuple(HaltReason):
        wanted = ", ".join(HaltReason)
        raise InvalidControlTable(path, f"{place}.reason", repr(row.get("reason")), wanted)
    pattern = row.get("pattern")
    try:
        re.compile(cast("str", pattern))
    except (re.error, TypeError) as error:
        wanted = f"a regular expression ({error})"
        raise InvalidControlTable(path, f"{place}.pattern", repr(pattern), wanted) from error
    last = row.get("last", False)
    if not isinstance(last, bool):
        raise InvalidControlTable(path, f"{place}.last", repr(last), "true or false")
    return HaltRule(HaltReason(row["reason"]), str(pattern), str(row.get("example", "")), last)


_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})")
# A line of code, of a diff, of a quotation or of a table, and what a shell shows.
_NO_PROSE: Final = re.compile(r"^(?: {4}|\t|[+>|$%#]|-(?!\s)|@@|diff --git|index [0-9a-f]{7,})")
_HEADING: Final = re.compile(r"^#{1,6}\s+")
_INLINE_CODE: Final = re.compile(r"`[^`]*`")
# "what do you mean?" in quotation marks was said by somebody else.
_QUOTATION: Final = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»")
_MARKS: Final = re.compile(
    r"^(?:[-*•]\s+|\d+[.)]\s+)?(?:\[[ xX]\]\s+)?|[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}"
)


def _said_lines(words: str) -> Iterator[str]:
    """Return the lines of prose, without the marks of Markdown."""
    fence = ""
    in_hunk = False
    for raw in words.splitlines():
        mark = _FENCE.match(raw)
        in_hunk = raw.startswith("@@") or (in_hunk and raw[:1] in {"", " ", "+", "-", "\\"})
        if mark is not None and not fence:
            fence = mark[1]
        elif mark is not None and raw.strip() == mark[1] and mark[1].startswith(fence):
            fence = ""
        elif not fence and not in_hunk:
            line = _said(raw[:_LINE_LIMIT])
            if line:
                yield line


def _said(raw: str) -> str:
    line = _HEADING.sub("", raw)
    if line == raw and _NO_PROSE.match(raw):
        return ""
    line = _INLINE_CODE.sub("`…`", line.replace("’", "'"))
    line = _QUOTATION.sub('"…"', line)
    return _MARKS.sub("", line.strip()).strip()

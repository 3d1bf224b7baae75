"""Packs a prompt: the most important parts first, within the budget of the role."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from otpy_agents.engine.context.candidates import Candidate, candidates
from otpy_agents.engine.context.values import (
    CHARACTERS,
    PROTECTED,
    ContextRequest,
    ContextSource,
    FileText,
    MissingFile,
    PackedContext,
    Part,
    PartKind,
    UnreadableFile,
    tokens_of,
)
from otpy_agents.engine.roles import RoleConfig
from otpy_agents.errors import TargetRefused
from otpy_agents.prompt_text import prompt_templates

__all__ = ["pack"]

_TEMPLATES: Final = Path(__file__).with_name("templates")
_TICKS: Final = re.compile(r"`{3,}")
# A note on what was left out may not take the room of what it speaks of.
_NOTE: Final = 1200
_NOTE_SHARE: Final = 8
# So many in a row without room, and those behind them are not read either.
_MISSES: Final = 50
_NOTE_BEGIN: Final = "These are not shown; read them in your folder if you need them:\n"
_TARGET_NOTE: Final = "This file is not there yet."


@frozen
class _Block:
    """A part, and its text in the prompt; empty if it is left out, for want of room or else."""

    part: Part
    text: str = ""
    crowded: bool = False

    @property
    def is_told(self) -> bool:
        """Whether the worker is told that it is left out: it may look for itself."""
        return not self.text and (self.crowded or self.part.kind is PartKind.TARGET)


def pack(request: ContextRequest, source: ContextSource) -> PackedContext:
    """Return the prompt for a worker (ENG-20 to ENG-23).

    What the role, the task, the feedback and the form of the answer say is always in it. Of the
    rest each part gets room in its turn, the most important first, and is left out if the room that
    is left does not hold it; a file that does not fit whole is shown by its outline, if the source
    has one. The same request and source give the same prompt.

    Raises:
        TargetRefused: A target is outside of the work tree, in git's own folder, or no file.
    """
    # A plan may say `./a.py`, or name a file twice.
    named = dict.fromkeys(map(posixpath.normpath, request.targets))
    request = evolve(request, targets=tuple(named))
    targets = _targets(request, source)
    chosen = candidates(request, source, targets)
    first = next(
        (n for n, one in enumerate(chosen) if one.kind is not PartKind.TARGET), len(chosen)
    )
    wanted: list[Candidate] = [
        *chosen[:first],
        *(Candidate(PartKind.SECTION, one.title, "added", one.text) for one in request.sections),
        *chosen[first:],
    ]
    limit = request.role.context.token_budget * CHARACTERS
    note = min(_NOTE, limit // _NOTE_SHARE)
    bare = len(_filled(request, headings=True))
    source = evolve(source, read=cache(source.read))  # what is weighed twice is read once
    blocks, more = _blocks(wanted, source, limit - bare)
    if any(one.is_told for one in blocks):
        blocks, more = _blocks(wanted, source, limit - bare - note)
    prompt = _filled(
        request,
        targets=[one.text for one in blocks if one.text and one.part.kind is PartKind.TARGET],
        context=[one.text for one in blocks if one.text and one.part.kind is not PartKind.TARGET],
        left_out=_note([one for one in blocks if one.is_told], more, note),
    )
    return PackedContext(
        prompt=prompt,
        tokens=tokens_of(len(prompt)),
        budget=request.role.context.token_budget,
        parts=(*_protected(request), *(one.part for one in blocks)),
        more=more,
    )


def _targets(request: ContextRequest, source: ContextSource) -> dict[str, str]:
    """Return the texts of the targets that can be read.

    Raises:
        TargetRefused: One may not be asked for.
    """
    texts: dict[str, str] = {}
    for path in request.targets:
        match source.read(path):
            case FileText(text):
                texts[path] = text
            case UnreadableFile(why=why, refused=True):
                raise TargetRefused(path, why)
            case _:
                pass
    return texts


def _protected(request: ContextRequest) -> Iterator[Part]:
    texts = (
        "\n".join((request.role.system_prompt, *_rules(request.role.config))),
        request.task,
        request.feedback,
        request.output,
    )
    for kind, text in zip(PROTECTED, texts, strict=True):
        if text:
            cost = tokens_of(len(text))
            yield Part(kind=kind, name=str(kind), tokens=cost, included=True, why="always")


def _blocks(
    wanted: Sequence[Candidate], source: ContextSource, room: int
) -> tuple[list[_Block], int]:
    """Give room, in characters, to one part after the other; return how many were not weighed."""
    blocks: list[_Block] = []
    misses = 0
    for number, one in enumerate(wanted):
        if misses == _MISSES:
            return blocks, len(wanted) - number
        block = _block(one, source, room)
        if block is not None:
            blocks.append(block)
            room -= len(block.text) + 1 if block.text else 0
            if one.kind in {PartKind.ALWAYS, PartKind.INCLUDED}:
                misses = misses + 1 if block.crowded else 0
    return blocks, 0


def _block(one: Candidate, source: ContextSource, room: int) -> _Block | None:
    """Return a part with its text if it fits, without if not; None for a file that is gone."""
    part = Part(kind=one.kind, name=one.path, tokens=0, included=False, why=one.why)
    if one.kind in {PartKind.DIFF, PartKind.SECTION}:
        text = _fenced("", one.text, "diff") if one.kind is PartKind.DIFF else f"{one.text}\n"
        return _fitted(part, f"## {_title(one)}\n\n{text}", room)
    # A character has at most four bytes; what is longer than that needs no reading.
    size = source.size(one.path)
    if size > max(room, 0) * 4 and one.path not in source.outlines:
        return _crowded_out(part, size, room)
    match source.read(one.path):
        case FileText(text):
            whole = _fitted(part, f"## {_title(one)}\n\n{_fenced(one.path, text)}", room)
            outline = source.outlines.get(one.path)
            if whole.text or outline is None:
                return whole
            shown = f"## {_title(one)} (outline)\n\n{_fenced(one.path, outline)}"
            short = _fitted(evolve(part, why=f"{part.why}, as an outline"), shown, room)
            return short if short.text else whole
        case UnreadableFile(why=why, size=length):
            return _Block(evolve(part, tokens=tokens_of(length), why=why))
        case MissingFile():
            if one.kind is not PartKind.TARGET:
                return None
            return _fitted(
                evolve(part, why="target, to be made"),
                f"## {_title(one)}\n\n{_TARGET_NOTE}\n",
                room,
            )


def _fitted(part: Part, text: str, room: int) -> _Block:
    if len(text) + 1 > room:
        return _crowded_out(part, len(text), room)
    return _Block(evolve(part, included=True, tokens=tokens_of(len(text))), text)


def _crowded_out(part: Part, length: int, room: int) -> _Block:
    cost, left = tokens_of(length), max(0, room) // CHARACTERS
    why = f"no room: {cost:,} tokens, {left:,} left"
    return _Block(evolve(part, tokens=cost, why=why), crowded=True)


def _title(one: Candidate) -> str:
    name = _printable(one.path)
    return f"Changes in {name}" if one.kind is PartKind.DIFF else name


def _fenced(path: str, text: str, language: str = "") -> str:
    """Return a text between fences that it does not have itself."""
    longest = max(map(len, _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    _, dot, ending = path.rpartition("/")[2].rpartition(".")
    word = language or (ending if dot and ending.isalnum() else "")
    return f"{fence}{word}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}\n"


def _note(left_out: Sequence[_Block], more: int, limit: int) -> str:
    """Return the note to the worker on omitted parts, in at most `limit` characters."""
    lines: list[str] = []
    length = len(_NOTE_BEGIN)
    for number, block in enumerate(left_out):
        line = _told(block)
        rest = len(left_out) + more - number - 1
        length += len(line) + 1
        if length + (len(_rest(rest)) if rest else 0) > limit:
            lines.append(_rest(rest + 1))
            more = 0
            break
        lines.append(line)
    if more:
        lines.append(_rest(more))
    note = _NOTE_BEGIN + "\n".join(lines)
    return note if lines and len(note) <= limit else ""


def _rest(count: int) -> str:
    return f"- and {count:,} more"


def _told(block: _Block) -> str:
    part = block.part
    name = _printable(part.name)
    shown = f"changes in {name}" if part.kind is PartKind.DIFF else name
    return f"- {shown} ({part.tokens:,} tokens)" if block.crowded else f"- {shown} ({part.why})"


def _printable(name: str) -> str:
    # A name may have any sign in it, a line feed too.
    return "".join(sign if sign.isprintable() else "�" for sign in name)


def _rules(config: RoleConfig) -> list[str]:
    """Return the rules that a role's settings give its worker."""
    rules: list[str] = []
    if config.tdd:
        rules.append(
            "- Write the test first, see it fail, and then write the code that makes it pass."
        )
    if config.coverage_target is not None:
        rules.append(f"- Tests must cover at least {config.coverage_target:g} % of the code.")
    return rules


def _filled(
    request: ContextRequest,
    *,
    targets: Sequence[str] = (),
    context: Sequence[str] = (),
    left_out: str = "",
    headings: bool = False,
) -> str:
    """Return the prompt; with all headings, it is as long as an empty one can be."""
    empty = [""] if headings else []
    text = (
        prompt_templates(_TEMPLATES)
        .get_template("prompt.md.j2")
        .render(
            system_prompt=request.role.system_prompt,
            rules=_rules(request.role.config),
            task=request.task.strip(),
            feedback=request.feedback.strip(),
            targets=targets or empty,
            context=context or empty,
            left_out=left_out or (" " if headings else ""),
            output=request.output.strip(),
        )
    )
    return f"{text.strip()}\n"

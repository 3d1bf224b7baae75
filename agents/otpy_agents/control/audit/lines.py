"""What the events of a project come to as lines: of its audit, and of its prompts. Pure.

Each line has the fields that other programs know, and one of ours, `otpy`: the position of its
event in the log, the hash of the line before it, and its own. So each line can be made again from
the log, and one that was changed, removed or moved is found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterable, Mapping
from typing import Any, Final, final

from attrs import frozen

from otpy_agents.control.state import time_text
from otpy_agents.control.state_change import changed
from otpy_agents.log import Stored
from otpy_agents.log.chain import canonical

__all__ = ["AUDIT", "NOTHING", "PROMPTS", "WRITTEN", "AuditTrail", "Head"]

AUDIT: Final = "audit.log.jsonl"
"""Name of the file of what was done."""

PROMPTS: Final = "prompts.log.jsonl"
"""Name of the file of prompts and answers."""

WRITTEN: Final = "audit_written"
"""Name of the event that says how far a file is written: project, file, number and hash."""

_AUDITED: Final = frozenset(
    {
        *("task_start", "task_complete", "task_blocked", "halt", "completed"),
        *("interrogation_prompt", "interrogation_response", "outside_write"),
        *("helper_prompt", "helper_response", "audit_altered"),
    }
)
_FIRST: Final = "0" * 64
_USUAL: Final = ("task_id", "validation_report", "prompt", "response")


@final
@frozen
class Head:
    """The last line of a file.

    Attributes:
        number: Of it, over all files that the file has become; 0 if there is none.
        hash: Its own.
    """

    number: int
    hash: str


NOTHING: Final = Head(0, _FIRST)
"""The head of a file without a line."""


@final
class AuditTrail:
    """Follows the events of one project and makes the lines of both files.

    Attributes:
        position: Of the last event that was taken in; 0 before the first.
        heads: By file, the last line that was made.
        kept: By project and file, the last line that is known to be on the disk (G-14). The files
            lie where agents work, so that is kept in the log.
    """

    def __init__(self) -> None:
        self.position = 0
        self.heads = {AUDIT: NOTHING, PROMPTS: NOTHING}
        self.kept: dict[tuple[str, str], Head] = {}
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] = {}
        self._said: dict[str, str] = {}

    async def take_all(self, events: AsyncIterable[Stored]) -> dict[str, list[str]]:
        """Take in the next events; return the lines that they make, by file and in order."""
        lines: dict[str, list[str]] = {AUDIT: [], PROMPTS: []}
        async for event in events:
            if made := self.take(event):
                lines[made[0]].append(made[1])
        return lines

    def take(self, event: Stored) -> tuple[str, str] | None:
        """Take in the next event; return the file and the line that it makes, if it makes one."""
        self.position = event.position
        match event.name:
            case "project_changed":
                self._before = self._after
                known = {} if event.fields["fresh"] else self._after
                self._after = changed(known, event.fields["change"])
                return None
            case "prompt":
                return self._prompt(event)
            case name if name == WRITTEN:
                fields = event.fields
                head = Head(fields["number"], fields["hash"])
                self.kept[fields["project"], fields["file"]] = head
                return None
            case name if name in _AUDITED:
                return self._audit(event)
            case _:
                return None

    def _audit(self, event: Stored) -> tuple[str, str]:
        fields = event.fields
        task_id = fields.get("task_id")
        more = {name: value for name, value in fields.items() if name not in _USUAL}
        line = {
            "event": event.name.upper(),
            "task_id": task_id,
            "timestamp": time_text(event.at),
            "state_before": self._before,
            "state_after": self._after,
            "validation_report": fields.get("validation_report"),
            "prompt": fields.get("prompt", self._said.get(f"PROMPT {task_id}")),
            "response": fields.get("response", self._said.get(f"RESPONSE {task_id}")),
            **more,
        }
        if event.actor:
            line["actor"] = event.actor
        return AUDIT, self._chained(AUDIT, event, line)

    def _prompt(self, event: Stored) -> tuple[str, str]:
        fields = event.fields
        kind = "RESPONSE" if fields["type"] == "RESPONSE" else "PROMPT"
        self._said[f"{kind} {fields['task_id']}"] = fields["content"]
        line = {
            "task_id": fields["task_id"],
            "iteration": fields["iteration"],
            "type": fields["type"],
            "content": fields["content"],
            "metadata": {
                "agent_mode": fields.get("agent_mode"),
                "working_directory": fields.get("working_directory"),
                "prompt_length": len(fields["content"]),
            },
            "timestamp": time_text(event.at),
        }
        return PROMPTS, self._chained(PROMPTS, event, line)

    def _chained(self, file: str, event: Stored, line: Mapping[str, Any]) -> str:
        last = self.heads[file]
        chain = {"position": event.position, "previous": last.hash}
        digest = hashlib.sha256(canonical({**line, "otpy": chain}).encode()).hexdigest()
        self.heads[file] = Head(last.number + 1, digest)
        return json.dumps({**line, "otpy": {**chain, "hash": digest}}, ensure_ascii=False)

"""What the events of one attempt amount to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from otpy_agents.attempt.events import (
    CliFault,
    Event,
    Final,
    Problem,
    Retrying,
    SessionSeen,
    Spent,
    Text,
    ToolEnded,
    ToolStarted,
)
from otpy_agents.attempt.usage import Usage

__all__ = ["Transcript"]


@final
class Transcript:
    """Collects the events of one attempt; `add` them in the order they came.

    Attributes:
        session: Id to resume by; None if none was told.
        model: The model, where it was told.
        usage: The last reading of what was spent; None if there was none.
        answer: The model's answer so far.
        denied: Tools that were refused.
        fault: The last error; None if none was told or the CLI got over it.
        retry: The last error the CLI tried again after.
        seen: Whether there was any event.
        finished: Whether the CLI said that it is done.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.session: str | None = None
        self.model = ""
        self.usage: Usage | None = None
        self.denied: list[str] = []
        self.fault: CliFault | None = None
        self.retry: CliFault | None = None
        self.seen = False
        self.finished = False
        self._texts: list[str] = []
        self._answer: str | None = None
        self._tools: dict[str, str] = {}
        self.add(events)

    def add(self, events: Iterable[Event]) -> None:
        """Take in new events."""
        for event in events:
            self.seen = True
            self._take(event)

    @property
    def spoken(self) -> bool:
        """Whether the model itself said anything, as far as the CLI tells whose words they are."""
        return bool(self._texts)

    @property
    def busy(self) -> bool:
        """Whether a tool is in use."""
        return bool(self._tools)

    @property
    def answer(self) -> str:
        """The answer of the final event, or the text so far."""
        return self._answer if self._answer is not None else "".join(self._texts)

    def _take(self, event: Event) -> None:
        match event:
            case SessionSeen(session, model):
                self.session = session
                self.model = model or self.model
            case Text(text):
                self._texts.append(text)
            case ToolStarted(call=call, name=name):
                self._tools[call] = name
            case ToolEnded(call, _ok, denied):
                name = self._tools.pop(call, call)
                if denied:
                    self.denied.append(name)
            case Spent(usage, model):
                self.usage = usage
                self.model = model or self.model
            case Retrying(fault):
                self.retry = fault
            case Problem(fault):
                self.fault = fault
            case Final(answer, fault, denied):
                self._finish(answer, fault, denied)

    def _finish(self, answer: str | None, fault: CliFault | None, denied: tuple[str, ...]) -> None:
        self.finished = True
        if answer:
            self._answer = answer
        # The final event knows best, but some only point at the error that came before.
        self.fault = self._join(fault) if fault is not None else None
        self.denied.extend(name for name in denied if name not in self.denied)

    def _join(self, fault: CliFault) -> CliFault:
        before = self.fault
        if before is None or (fault.message and fault.message != before.message):
            return fault
        return CliFault(
            before.message,
            fault.status or before.status,
            (*fault.codes, *before.codes),
            f"{before.hints} {fault.hints}".strip(),
        )

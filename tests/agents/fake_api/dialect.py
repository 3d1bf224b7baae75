"""What the server must know of a vendor to speak its API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.agents.fake_api.replies import Answer, Error, Refusal, UseTool

__all__ = ["Dialect", "event"]


def event(data: Mapping[str, object] | str, name: str = "") -> str:
    """Return one server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


class Dialect(Protocol):
    """One API of one vendor."""

    @property
    def name(self) -> str:
        """Name for people."""
        ...

    def understands(self, path: str) -> bool:
        """Return whether a request for `path` asks the model for an answer."""
        ...

    def wants_stream(self, path: str, body: Mapping[str, object]) -> bool:
        """Return whether the answer is to come as a stream of events."""
        ...

    def stream(self, model: str, reply: Answer | UseTool) -> Sequence[str]:
        """Return the events of an answer, at least two, as they are sent."""
        ...

    def document(self, model: str, reply: Answer | UseTool) -> Mapping[str, object]:
        """Return the same answer as one document."""
        ...

    def refusal(self, error: Error) -> Refusal:
        """Return the refusal that this vendor sends for an error."""
        ...

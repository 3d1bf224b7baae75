"""What a store of the control plane promises (CTL-22, CTL-25, C-19, C-39, G-19)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, final

from attrs import field, frozen

from otpy_agents.control.state import ProjectState
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import InvalidTask
from otpy_agents.log import EventLog

__all__ = ["ControlStore", "Record"]


@final
@frozen
class Record:
    """Something that happened, to be told to the event log with a change of the state.

    Attributes:
        name: Of the event, such as `task_completed`.
        fields: What it says, as JSON has it.
    """

    name: str
    fields: Mapping[str, Any] = field(factory=dict[str, Any], hash=False)


class ControlStore(ABC):
    """State, queue and lease of one project; an async context manager.

    A task is never lost between queue and state: `reserve` hands it out and keeps it, the state
    that has it in hand is written, and then `settle` lets the queue forget it (C-39). Whatever was
    reserved and not settled is handed out first.

    Attributes:
        log: The event log, in which each change of the state is an event.
        stream: Of the project there.

    Raises:
        LedgerError: Any operation: the store cannot be used.
    """

    log: EventLog
    stream: str

    @property
    def identity(self) -> str:
        """What the project is always known by: what its audit is made from (CTL-60)."""
        return f"{self.stream} in {self.log.path.resolve()}"

    @abstractmethod
    async def load(self) -> ProjectState:
        """Return the state.

        Raises:
            StateMissing: There is none.
            StateError: It cannot be used as it is.
        """

    @abstractmethod
    async def change(
        self, before: ProjectState | None, after: ProjectState, *records: Record, actor: str = ""
    ) -> ProjectState:
        """Apply the difference of two states to the stored state; return the result.

        What others have changed since `before` was loaded stays, and a halted project stays halted.

        Args:
            before: As it was loaded; None for a new project, or to start over.
            after: As it is to be.
            records: What is told with it, in order.
            actor: Who does it; empty for the loop.

        Raises:
            StateError: The state that is stored cannot be used as it is.
            ProjectHeld: Another host has taken the lease.
        """

    @abstractmethod
    async def halt(self, reason: str, details: str, *records: Record, actor: str = "") -> None:
        """Halt the project, even if its state lacks a field (CTL-10, CTL-54).

        Args:
            reason: In one word.
            details: For a person; may be empty.
            records: What is told with it.
            actor: Who does it; empty for the loop.

        Raises:
            StateMissing: There is no state.
        """

    @abstractmethod
    async def halted(self) -> ProjectState:
        """Wait until the project is halted, by whatever program, and return its state."""

    @abstractmethod
    async def tell(self, *records: Record) -> None:
        """Tell the log what happened, without a change of the state."""

    @abstractmethod
    async def push(self, tasks: Sequence[ControlTask], *, actor: str = "") -> None:
        """Put tasks at the end of the queue, all of them or none."""

    @abstractmethod
    async def reserve(self) -> ControlTask | None:
        """Return the next task and keep it until it is settled; None if there is none.

        Raises:
            InvalidTask: The entry in the queue is not a task; it stays there.
        """

    @abstractmethod
    async def settle(self, task_id: str) -> None:
        """Let the queue forget a task that was reserved; nothing if it has."""

    @abstractmethod
    async def queued(self) -> tuple[ControlTask, ...]:
        """Return the tasks that wait, those that are reserved first."""

    @abstractmethod
    async def unreadable(self) -> tuple[InvalidTask, ...]:
        """Return why entries of the queue are no tasks, and how each is removed."""

    @abstractmethod
    def lease(self) -> AbstractAsyncContextManager[int]:
        """Hold the project for the length of a block, which gets a fencing number (G-19).

        Raises:
            ProjectHeld: Another host holds it; it is named.
        """

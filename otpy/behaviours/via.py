"""Names for processes, as values that can be handed around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from attrs import frozen

if TYPE_CHECKING:
    from otpy._runtime.handles import Process


class Directory(Protocol):
    """What finds a process by a key: a `Registry` or a `PartitionSupervisor`."""

    def whereis(self, key: Any, /) -> Process:
        """Return the process that `key` stands for; raise an `OtpyError` if there is none."""
        ...


@final
@frozen
class Via:
    """The process that a key stands for at the moment of use: Elixir's `:via` (REG-10, PAR-05).

    It outlives the process: after a restart it means the new one. It does not register anybody.

    Attributes:
        directory: Where to look: a `Registry` with unique keys, or a `PartitionSupervisor`; made by
            `at`, it is looked for at each use too.
        key: What to look for.
    """

    directory: Directory
    key: Any

    def whereis(self) -> Process:
        """Return the process now.

        Raises:
            NotRegistered: If no process of the registry holds the key.
            NotRunning: If the registry has ended, or the partition is between two lives.
            KeysNotUnique: If several processes of the registry may hold it.
            PartitionError: If there is no partition for it.
        """
        return self.directory.whereis(self.key)

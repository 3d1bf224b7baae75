"""Names for processes, as values that can be handed around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from attrs import frozen

from otpy._core.text import shown
from otpy._runtime.current import current
from otpy.errors import NotRunning

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor, Process


class Directory(Protocol):
    """What finds a process by a key: a `Registry` or a `PartitionSupervisor`."""

    def whereis(self, key: Any, /) -> Process:
        """Return the process that `key` stands for; raise an `OtpyError` if there is none."""
        ...


@runtime_checkable
class NameBook(Directory, Protocol):
    """A directory whose keys processes hold: a `Registry`."""

    def __otpy_hold__(self, key: Any, process: Process, /) -> None:
        """Let `process` hold `key`; raise if it cannot."""
        ...


@final
@frozen
class Via:
    """The process that a key stands for at the moment of use: Elixir's `:via` (REG-10, PAR-05).

    It outlives the process: after a restart it means the new one. As `ChildSpec.register` it is the
    name that the child holds; no other use of it registers a process.

    Attributes:
        directory: Where to look: a `Registry` with unique keys, or a `PartitionSupervisor`; made by
            `at`, it is looked for at each use too. Or the path of a registry, such as
            `"app/names"`, for a spec that is written before there is a tree.
        key: What to look for.
    """

    directory: Directory | str
    key: Any

    def __str__(self) -> str:
        """Return the key, as it is drawn beside a child."""
        return shown(self.key)

    def whereis(self, root: AnySupervisor | None = None) -> Process:
        """Return the process now.

        Args:
            root: The root supervisor that a path begins with; that of the running child if none is
                given.

        Raises:
            NotRegistered: If no process of the registry holds the key.
            NotRunning: If the registry has ended, or the partition is between two lives.
            NotFound: If nothing has the path of the registry.
            KeysNotUnique: If several processes of the registry may hold it.
            PartitionError: If there is no partition for it.
            NotSupervised: If it has a path, no root is given, and no child is running.
            TypeError: If the process at that path is not a registry.
        """
        directory = self.directory
        if isinstance(directory, str):
            directory = _book_at(directory, root or current().root)
        return directory.whereis(self.key)

    def __otpy_unfit__(self) -> str | None:
        """Return what `ChildSpec.register` wants instead; None if this will do."""
        if not isinstance(self.directory, NameBook | str):
            return "Via(registry, key)"
        try:
            hash(self.key)
        except TypeError:
            return "Via(registry, key) with a key that can be hashed"
        return "Via(registry, key) with a key" if self.key is None else None

    def __otpy_hold__(self, process: Process, /) -> None:
        """Let `process` hold the key; for its supervisor."""
        book: Any = self.directory
        if isinstance(book, str):
            book = _book_at(book, process.root)
        book.__otpy_hold__(self.key, process)


def _book_at(path: str, root: AnySupervisor) -> NameBook:
    process = root.whereis(path)
    if not process.ready:
        raise NotRunning(path)
    book: object = process.value
    if not isinstance(book, NameBook):
        raise TypeError(f"Via: {process!r} was not made by Registry.spec()")
    return book

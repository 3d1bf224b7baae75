"""The entries and notices of a registry."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from typing_extensions import TypeVar as TypeVarWithDefault

    from otpy._runtime.handles import Process

    KeyT = TypeVarWithDefault("KeyT", bound=Hashable, default=Any)
    ValueT = TypeVarWithDefault("ValueT", default=Any)
else:  # a default is for type checkers, and known to Python since 3.13
    KeyT, ValueT = TypeVar("KeyT"), TypeVar("ValueT")


class Keys(Enum):
    """How many processes may hold a key of a registry (REG-01)."""

    UNIQUE = "unique"
    """One."""
    DUPLICATE = "duplicate"
    """Any number, and each of them any number of times."""


@final
@frozen
class Entry(Generic[KeyT, ValueT]):
    """One entry of a registry.

    Attributes:
        key: The key.
        process: The process that registered it.
        value: The value that it registered with it.
    """

    key: KeyT
    process: Process
    value: ValueT


@final
@frozen
class Registered(Generic[KeyT, ValueT]):
    """Told to listeners: a process has registered a key (REG-12).

    Attributes:
        registry: Path of the registry.
        key: The key.
        process: The process.
        value: The value that it registered with the key.
    """

    registry: str
    key: KeyT
    process: Process
    value: ValueT


@final
@frozen
class Unregistered(Generic[KeyT]):
    """Told to listeners: a process has unregistered a key. Not told when it ends (REG-12).

    Attributes:
        registry: Path of the registry.
        key: The key.
        process: The process.
    """

    registry: str
    key: KeyT
    process: Process


Listener: TypeAlias = "Callable[[Registered | Unregistered], object]"
"""Takes what happened in a registry; must not block."""


def strict_form(key: Hashable) -> Hashable:
    """Return a form of `key` that equals only keys of the same types: 1, 1.0 and True differ."""
    if isinstance(key, tuple):
        items = cast("tuple[Hashable, ...]", key)
        return type(items), tuple(strict_form(item) for item in items)
    return type(key), key

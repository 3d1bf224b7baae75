"""`Registry`: processes found by keys of their choice, and forgotten when they end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, cast, final

from attrs import evolve, frozen

from otpy._core.checks import check_member, refuse
from otpy._core.reason import Restart, Shutdown, signal_of
from otpy._core.spec import ChildSpec
from otpy._runtime.current import current
from otpy._runtime.links import trapped
from otpy._runtime.process import LiveProcess, live_of
from otpy._runtime.waiters import check_loop
from otpy.behaviours.registry_entry import (
    Entry,
    Keys,
    KeyT,
    Registered,
    Unregistered,
    ValueT,
    strict_form,
)
from otpy.behaviours.target import Whereabouts, whereabouts
from otpy.errors import AlreadyRegistered, KeysNotUnique, NotRegistered, NotRunning

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
    from contextlib import AbstractAsyncContextManager

    from otpy._core.reason import ExitReason
    from otpy._core.spec import RestartWord, ShutdownLimit
    from otpy._runtime.handles import AnySupervisor, Process
    from otpy.behaviours.registry_entry import Listener
    from otpy.behaviours.target import Target


@asynccontextmanager
async def _serve(keys: Keys, listeners: tuple[Listener, ...]) -> AsyncGenerator[Registry]:
    """Be the child: its value is the registry of this life."""
    yield Registry(live_of(current()), keys, listeners)


_NOTHING: Any = None  # the value of a key that was registered without one


@final
class _Queue:
    """The holder of a registry's lock, and those that wait for it."""

    __slots__ = ("length", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0


@final
class Registry(Generic[KeyT, ValueT]):
    """Processes by key; Elixir's `Registry`, one child of one tree.

    `Registry[str, int]` has text as keys and numbers as values; plain `Registry` has anything.

    `Registry.spec` is its spec and `Registry.of(process)` the registry, which stands for one life
    of that child. When it ends, so do the processes registered in it (REG-13), so that no process
    believes to be known that is not; list it before those that use it.

    Only the calling process is registered, by itself, or a child by its spec
    (`ChildSpec.register`), and what a process holds is gone in the moment it ends (REG-07).
    Nothing here waits, but for `lock`. Every operation raises `NotRunning` when the registry has
    ended (REG-16). What looks something up may be called in any thread; what changes something,
    and `lock`, raise `WrongThread` in another than the event loop's.

    Attributes:
        path: Path of the registry.
        unique: Whether only one process may hold a key.
    """

    def __init__(self, process: LiveProcess, keys: Keys, listeners: Iterable[Listener]) -> None:
        """Make the registry that lives as long as `process`; for `Registry.spec`."""
        self.path = process.path
        self.unique = keys is Keys.UNIQUE
        self._process = process
        self._listeners = list(listeners)
        self._serial = 0
        self._entries: dict[
            Hashable, dict[int, Entry[KeyT, ValueT]]
        ] = {}  # by strict key and serial number
        self._owned: dict[Process, dict[int, Hashable]] = {}  # strict keys by serial number
        self._forget: dict[Process, Callable[[], object]] = {}
        self._meta: dict[Hashable, Any] = {}
        self._queues: dict[Hashable, _Queue] = {}
        process.on_exit(self._end)

    def __repr__(self) -> str:
        """Return path and number of entries."""
        return f"<Registry {self.path!r} entries={sum(map(len, self._owned.values()))}>"

    @classmethod
    def spec(
        cls,
        id: str,
        *,
        keys: Keys = Keys.UNIQUE,
        listeners: Iterable[Listener] = (),
        restart: Restart | RestartWord = Restart.PERMANENT,
        shutdown: ShutdownLimit = 5.0,
    ) -> ChildSpec[Registry[KeyT, ValueT]]:
        """Return a spec, to be listed as a child (REG-01).

        Args:
            id: Its name.
            keys: How many processes may hold a key.
            listeners: Called with `Registered` and `Unregistered`, in order, when it has been
                done. One that raises is taken off the list, and reported as `HookFailed`.
            restart: When it is started again; it comes back empty.
            shutdown: Seconds it has to end; it needs none.

        Raises:
            InvalidSpec: If it can never work.
        """
        who, heard = f"Registry {id!r}", tuple(listeners)
        check_member(who, "keys", keys, Keys)
        for listener in heard:
            if not callable(listener):
                refuse(who, "listener", listener, "something to call")
        serve: Callable[[Keys, tuple[Listener, ...]], AbstractAsyncContextManager[Any]] = _serve
        return ChildSpec(id, serve, (keys, heard), restart=restart, shutdown=shutdown)

    @classmethod
    def of(cls, process: Process) -> Registry[KeyT, ValueT]:
        """Return the registry that runs in `process`: `Registry.of(root.child("names"))`.

        `Registry[str, int].of(...)` says of what types its keys and values are; that they are is
        the caller's word.

        Raises:
            TypeError: If it is none, or not ready yet.
        """
        found: Any = process.value
        if not isinstance(found, Registry):
            raise TypeError(f"Registry.of: {process!r} was not made by Registry.spec()")
        return cast("Registry[KeyT, ValueT]", found)

    @classmethod
    def at(cls, target: Target, root: AnySupervisor | None = None) -> RegistryRef[KeyT, ValueT]:
        """Return a handle that follows the registry through restarts: `Registry.at("app/names")`.

        Args:
            target: Its path or its name (`Via`), to mean whichever life has it at the moment of
                use; a function that returns its process; or its process, to mean this one life.
            root: The root supervisor that the path begins with; that of the running child if none
                is given.

        Raises:
            NotSupervised: If `target` is a path, no root is given, and no child is running.
        """
        return RegistryRef(whereabouts(cls.__name__, target, root))

    # --- what the calling process does -----------------------------------------------------------

    def register(self, key: KeyT, value: ValueT = _NOTHING) -> None:
        """Let the calling process hold `key`, with `value` (REG-02, REG-04).

        Args:
            key: Anything hashable. Keys of different types differ: 1, 1.0 and True are three
                (REG-05), also inside of tuples.
            value: The value that others find with the key.

        Raises:
            AlreadyRegistered: If a process holds it, even the calling one; unique keys only.
            NotSupervised: If the caller is not a process.
            NotRunning: If the registry or the calling process has ended.
            WrongThread: In another thread than the event loop's.
        """
        self._hold(key, self._caller(), value)

    def unregister(
        self, key: KeyT, where: Callable[[Entry[KeyT, ValueT]], bool] | None = None
    ) -> None:
        """Remove the entries of the calling process under `key` (REG-06, REG-15).

        All its entries, or those for which `where` is true. Those of others are left as they are,
        and a key that it does not hold is not an error.

        Raises:
            NotSupervised: If the caller is not a process.
            NotRunning: If the registry or the calling process has ended.
            WrongThread: In another thread than the event loop's.
        """
        caller, strict = self._caller(), strict_form(key)
        owned = self._owned.get(caller, {})
        chosen = [number for number, held in owned.items() if held == strict]
        if where is not None:
            chosen = [number for number in chosen if where(self._entries[strict][number])]
        for number in chosen:
            del owned[number]
            self._remove(strict, number)
        if chosen and not owned:  # REG-13: unlinked with its last key
            del self._owned[live_of(caller)]
            self._forget.pop(caller)()
        if chosen:
            self._tell(Unregistered(self.path, key, caller))

    def update_value(self, key: KeyT, fn: Callable[[ValueT], ValueT]) -> tuple[ValueT, ValueT]:
        """Replace the value of a key that the calling process holds by `fn(value)` (REG-08).

        Returns:
            The new value and the old one.

        Raises:
            NotRegistered: If the calling process does not hold it.
            KeysNotUnique: If the keys are not unique.
            NotSupervised: If the caller is not a process.
            NotRunning: If the registry or the calling process has ended.
            WrongThread: In another thread than the event loop's.
        """
        self._check_unique()
        caller, strict = self._caller(), strict_form(key)
        entries = self._entries.get(strict, {})
        for number, entry in entries.items():
            if entry.process is caller:
                new = fn(entry.value)
                entries[number] = evolve(entry, value=new)
                return new, entry.value
        raise NotRegistered(self.path, key)

    # --- what any process does -------------------------------------------------------------------

    def lookup(self, key: KeyT) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of `key`, in order of registration; none is of a dead process."""
        if not self._process.alive:  # all of this without further calls, for speed
            raise NotRunning(self.path)
        strict: Hashable = (key.__class__, key)
        if isinstance(key, tuple):
            strict = strict_form(cast("Hashable", key))
        entries = self._entries.get(strict)
        if entries is None:
            return []
        held = [*entries.values()]  # in one step, whatever the loop does meanwhile: see `_found`
        if len(held) == 1:
            return held if held[0].process.alive else []
        return [entry for entry in held if entry.process.alive]

    def whereis(self, key: KeyT) -> Process:
        """Return the process that holds `key`, for `Via(registry, key)` (REG-10).

        Raises:
            NotRegistered: If there is none.
            KeysNotUnique: If there may be several.
            NotRunning: If the registry has ended.
        """
        self._check_unique()
        for entry in self.lookup(key):
            return entry.process
        raise NotRegistered(self.path, key)

    def keys(self, process: Process) -> list[KeyT]:
        """Return the keys that `process` holds, one for each entry, in order (REG-05)."""
        self._check_running()
        owned = [*self._owned.get(process, {}).items()] if process.alive else []
        found = [self._entries.get(strict, {}).get(number) for number, strict in owned]
        return [entry.key for entry in found if entry is not None]  # it may be gone meanwhile

    def values(self, key: KeyT, process: Process) -> list[ValueT]:
        """Return the values that `process` registered with `key`, in order (REG-05)."""
        return [entry.value for entry in self.lookup(key) if entry.process is process]

    def count(self) -> int:
        """Return the number of entries (REG-05)."""
        return len(self.select())

    def match(
        self, key: KeyT, where: Callable[[Entry[KeyT, ValueT]], bool]
    ) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of `key` for which `where` is true (REG-15)."""
        return [entry for entry in self.lookup(key) if where(entry)]

    def select(
        self, where: Callable[[Entry[KeyT, ValueT]], bool] | None = None
    ) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of all keys, or those for which `where` is true (REG-15)."""
        self._check_running()
        found = [entry for strict in [*self._entries] for entry in self._found(strict)]
        return found if where is None else [entry for entry in found if where(entry)]

    def dispatch(self, key: KeyT, fn: Callable[[list[Entry[KeyT, ValueT]]], object]) -> None:
        """Call `fn` with all entries of `key`, in the caller, unless there are none (REG-09).

        What `fn` raises reaches the caller.
        """
        entries = self.lookup(key)
        if entries:
            fn(entries)

    @asynccontextmanager
    async def lock(self, key: KeyT) -> AsyncGenerator[None]:
        """Let callers with the same key into the block one by one, in order of arrival (REG-15).

        It has nothing to do with who holds the key. It is released when the block is left in
        whatever way. The same caller must not enter it twice: it would wait for itself.
        """
        self._check_running()
        check_loop(self._process.parent.tree.loop, self._process)
        strict = strict_form(key)
        queue = self._queues.setdefault(strict, _Queue())
        queue.length += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[strict]

    # --- what belongs to the registry itself -----------------------------------------------------

    def meta(self, key: Hashable, default: Any = None) -> Any:
        """Return the value stored by `put_meta`, or `default` (REG-11)."""
        self._check_running()
        return self._meta.get(key, default)

    def put_meta(self, key: Hashable, value: Any) -> None:
        """Store something that belongs to no process (REG-11)."""
        self._check_changing()
        self._meta[key] = value

    def delete_meta(self, key: Hashable) -> None:
        """Delete the value stored by `put_meta`, if there is one (REG-11)."""
        self._check_changing()
        self._meta.pop(key, None)

    # --- inside ----------------------------------------------------------------------------------

    def __otpy_hold__(self, key: KeyT, process: Process, /) -> None:
        """Let `process` hold `key`, as its spec says (`ChildSpec.register`); for `Via`."""
        self._check_changing()
        self._check_unique()
        self._hold(key, process, _NOTHING)

    def _hold(self, key: KeyT, process: Process, value: ValueT) -> None:
        strict = strict_form(key)
        if self.unique and (found := self._found(strict)):
            raise AlreadyRegistered(self.path, key, found[0].process)
        self._serial += 1
        self._entries.setdefault(strict, {})[self._serial] = Entry(key, process, value)
        if process not in self._owned:
            self._owned[process] = {}
            self._forget[process] = process.on_exit(self._gone)
        self._owned[process][self._serial] = strict
        self._tell(Registered(self.path, key, process, value))

    def _check_running(self) -> None:
        if not self._process.alive:
            raise NotRunning(self.path)

    def _check_changing(self) -> None:
        self._check_running()
        self._process.parent.tree.check_thread(self._process)

    def _check_unique(self) -> None:
        self._check_running()
        if not self.unique:
            raise KeysNotUnique(f"{self.path}: several processes may hold a key")

    def _caller(self) -> Process:
        self._check_changing()
        caller = current()
        if not caller.alive:  # it was given up, or this is what it left behind
            raise NotRunning(caller.path)
        return caller

    def _found(self, strict: Hashable) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of a key.

        A process that has just ended calls back in order: who asked it before us, and now looks
        here, must not find it any more (REG-03). Another thread may look while the loop changes
        what is here: so each dictionary is copied first, in one step.
        """
        entries = [*self._entries.get(strict, {}).values()]
        return [entry for entry in entries if entry.process.alive]

    def _remove(self, strict: Hashable, number: int) -> None:
        entries = self._entries[strict]
        del entries[number]
        if not entries:
            del self._entries[strict]

    def _gone(self, process: Process, _: ExitReason) -> None:
        """Remove a dead process's entries before anyone can see it dead (REG-03, REG-07)."""
        del self._forget[process]
        for number, strict in self._owned.pop(process).items():
            self._remove(strict, number)

    def _end(self, _: Process, reason: ExitReason) -> None:
        """End the processes that rely on their registration, with the registry (REG-13)."""
        owners = tuple(self._owned)
        for forget in self._forget.values():
            forget()
        self._forget.clear()
        self._owned.clear()
        self._entries.clear()
        for owner in owners:
            if not trapped(live_of(owner), self._process, reason):
                live_of(owner).stop(reason=signal_of(reason) or Shutdown())

    def _tell(self, news: Registered | Unregistered) -> None:
        for listener in tuple(self._listeners):
            if not self._process.parent.tree.guarded(self.path, listener, news):
                self._listeners.remove(listener)


@final
@frozen
class RegistryRef(Generic[KeyT, ValueT]):
    """A handle that follows a registry through restarts; made by `Registry.at(…)`.

    Each method is that of `Registry`, of the life that is there at the moment of use. Each raises
    `NotFound`, `NotRegistered` or `NotRunning` if there is none, and `TypeError` if what is there
    is not a registry.
    """

    _whereabouts: Whereabouts

    def now(self) -> Registry[KeyT, ValueT]:
        """Return the registry that is there now."""
        process = self._whereabouts.whereis()
        if not process.ready:
            raise NotRunning(process.path)
        return Registry[KeyT, ValueT].of(process)

    def register(self, key: KeyT, value: ValueT = _NOTHING) -> None:
        """Let the calling process hold `key`, with `value`."""
        self.now().register(key, value)

    def unregister(
        self, key: KeyT, where: Callable[[Entry[KeyT, ValueT]], bool] | None = None
    ) -> None:
        """Remove the entries of the calling process under `key`."""
        self.now().unregister(key, where)

    def update_value(self, key: KeyT, fn: Callable[[ValueT], ValueT]) -> tuple[ValueT, ValueT]:
        """Replace the value of a key that the calling process holds by `fn(value)`."""
        return self.now().update_value(key, fn)

    def lookup(self, key: KeyT) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of `key`, in order of registration."""
        return self.now().lookup(key)

    def whereis(self, key: KeyT, /) -> Process:
        """Return the process that holds `key`, for `Via(Registry.at(…), key)`."""
        return self.now().whereis(key)

    def __otpy_hold__(self, key: KeyT, process: Process, /) -> None:
        """Let `process` hold `key`, as its spec says; for `Via`."""
        self.now().__otpy_hold__(key, process)

    def keys(self, process: Process) -> list[KeyT]:
        """Return the keys that `process` holds, one for each entry, in order."""
        return self.now().keys(process)

    def values(self, key: KeyT, process: Process) -> list[ValueT]:
        """Return the values that `process` registered with `key`, in order."""
        return self.now().values(key, process)

    def count(self) -> int:
        """Return the number of entries."""
        return self.now().count()

    def match(
        self, key: KeyT, where: Callable[[Entry[KeyT, ValueT]], bool]
    ) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of `key` for which `where` is true."""
        return self.now().match(key, where)

    def select(
        self, where: Callable[[Entry[KeyT, ValueT]], bool] | None = None
    ) -> list[Entry[KeyT, ValueT]]:
        """Return the entries of all keys, or those for which `where` is true."""
        return self.now().select(where)

    def dispatch(self, key: KeyT, fn: Callable[[list[Entry[KeyT, ValueT]]], object]) -> None:
        """Call `fn` with all entries of `key`, in the caller, unless there are none."""
        self.now().dispatch(key, fn)

    def lock(self, key: KeyT) -> AbstractAsyncContextManager[None]:
        """Let callers with the same key into the block one by one; the lock is of one life."""
        return self.now().lock(key)

    def meta(self, key: Hashable, default: Any = None) -> Any:
        """Return the value stored by `put_meta` in this life, or `default`."""
        return self.now().meta(key, default)

    def put_meta(self, key: Hashable, value: Any) -> None:
        """Store something that belongs to no process, for this life."""
        self.now().put_meta(key, value)

    def delete_meta(self, key: Hashable) -> None:
        """Delete the value stored by `put_meta`, if there is one."""
        self.now().delete_meta(key)

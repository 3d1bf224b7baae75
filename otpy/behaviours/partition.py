"""`PartitionSupervisor`: several children of one kind, and a stable choice among them."""

from __future__ import annotations

import asyncio
import os
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from attrs import evolve, field, frozen

from otpy._core.checks import check_kind, refuse
from otpy._core.reason import Restart
from otpy._core.spec import (
    INFINITY,
    AnySpec,
    ChildSpec,
    Strategy,
    SupervisorSpec,
    Then,
    refuse_child,
)
from otpy._runtime.handles import Process, Supervisor
from otpy._runtime.shells import shell_of
from otpy._runtime.supervisor import StaticShell
from otpy._runtime.waiters import check_loop
from otpy.behaviours.target import Whereabouts, whereabouts
from otpy.errors import ChildRunning, NotFound, NotRunning, PartitionError, RestartPending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otpy._core.backoff import Backoff
    from otpy._core.spec import Count, RestartWord, ShutdownLimit, StrategyWord
    from otpy._runtime.handles import AnySupervisor
    from otpy.behaviours.target import Target

RoutingKey: TypeAlias = "int | str | bytes | float | tuple[RoutingKey, ...] | None"
"""A key with the same hash in every process."""


@final
class _Table:
    """How many partitions there are, and how many are in use; one for each life.

    It is kept with the supervisor, so that all handles see one number.
    """

    __slots__ = ("bound", "lock", "total")

    def __init__(self, total: int) -> None:
        self.total = self.bound = total
        self.lock = asyncio.Lock()


def _table_of(supervisor: StaticShell) -> _Table | None:
    """Return the table of `supervisor`, made on first use; None if something else keeps there."""
    if supervisor.behaviour is None:
        total = 0
        while _has(supervisor, str(total)):
            total += 1
        supervisor.behaviour = _Table(total)
    return supervisor.behaviour if isinstance(supervisor.behaviour, _Table) else None


def _has(supervisor: Supervisor, id: str) -> bool:
    try:
        supervisor.child(id)
    except NotFound:
        return False
    except NotRunning:
        pass
    return True


def _checked(supervisor: Process | AnySupervisor | Whereabouts) -> Supervisor | Whereabouts:
    return supervisor if isinstance(supervisor, Whereabouts) else _partitioned(supervisor)


def _partitioned(supervisor: Process | AnySupervisor) -> Supervisor:
    found = supervisor.supervisor if isinstance(supervisor, Process) else supervisor
    table = _table_of(shell_of(found)) if isinstance(found, Supervisor) else None
    if table is None or not table.total:
        msg = f"PartitionSupervisor: {supervisor!r} was not made by PartitionSupervisor.spec()"
        raise TypeError(msg)
    return cast("Supervisor", found)


@final
@frozen
class PartitionSupervisor:
    """Runs several children of one kind; Elixir's `PartitionSupervisor`.

    A thin handle around the `Supervisor` that `PartitionSupervisor.spec` describes, whose children
    have the ids "0" to "n-1" (PAR-02). It costs little to make. `PartitionSupervisor(process)`
    stands for one life of that supervisor, and `PartitionSupervisor.at("app/shards")` for whichever
    has that path at the moment of use; how many partitions are in use is a matter of one life.

    Args:
        supervisor: The supervisor it stands for; it may be given as its process.

    Raises:
        TypeError: If that has no partitions.
    """

    _supervisor: Supervisor | Whereabouts = field(converter=_checked)

    @classmethod
    def at(cls, target: Target, root: AnySupervisor | None = None) -> PartitionSupervisor:
        """Return a handle that follows the supervisor through restarts.

        Args:
            target: Its path or its name (`Via`), to mean whichever life has it at the moment of
                use; a function that returns its process; or its process, to mean this one life.
            root: The root supervisor that the path begins with; that of the running child if none
                is given.

        Returns:
            The handle, of which each use raises `NotFound`, `NotRegistered` or `NotRunning` if
            there is none then, and `TypeError` if what is there is of another kind.

        Raises:
            NotSupervised: If `target` is a path, no root is given, and no child is running.
        """
        return cls(whereabouts("PartitionSupervisor", target, root))

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor it stands for now.

        Raises:
            NotFound, NotRegistered, NotRunning: If there is none.
            TypeError: If what is in its place has no partitions.
        """
        it = self._supervisor
        return _partitioned(it.whereis()) if isinstance(it, Whereabouts) else it

    @staticmethod
    def spec(
        id: str,
        child: AnySpec,
        *,
        partitions: int | None = None,
        with_arguments: Callable[[tuple[Any, ...], int], Iterable[Any]] | None = None,
        strategy: Strategy | StrategyWord = Strategy.ONE_FOR_ONE,
        intensity: Count = 3,
        period: float = 5.0,
        restart: Restart | RestartWord = Restart.PERMANENT,
        shutdown: ShutdownLimit = INFINITY,
        significant: bool = False,
        backoff: Backoff | None = None,
    ) -> SupervisorSpec:
        """Return a spec, to be listed as a child or started as the root (PAR-01, PAR-02).

        Args:
            id: Its name.
            child: What each partition is; its id is replaced by its number. Its arguments fit
                its function, also if each partition gets others.
            partitions: How many there are; None is the number of cores.
            with_arguments: Called with the arguments of `child` and a partition's number; returns
                the arguments of that partition.
            strategy: Who is restarted when a partition fails.
            intensity: Restarts allowed within `period` over all partitions.
            period: Length of the restart window, in whole seconds.
            restart: As a child: when it is started again.
            shutdown: As a child: seconds it has to stop its children.
            significant: As a child: whether its end can end its supervisor.
            backoff: As a child: delay before each restart.

        Raises:
            InvalidSpec: If it can never work. A temporary child cannot, nor one whose own
                `intensity` is `GIVE_UP`: it would be forgotten some day, and its keys would lead
                nowhere for good. Nor can one with `register`, for only one process holds a name.
        """
        who, n = f"PartitionSupervisor {id!r}", partitions
        if n is None:
            n = os.cpu_count() or 1
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse(who, "partitions", n, "a whole number of at least 1, or None")
        if not isinstance(child, AnySpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse_child(who, child)
        if child.restart is Restart.TEMPORARY:
            refuse(who, "restart of the child", child.restart, "PERMANENT or TRANSIENT")
        own = child.intensity if isinstance(child, ChildSpec) else None
        if own is not None and own.then is Then.GIVE_UP:
            refuse(who, "intensity of the child", own, "one that escalates, or None")
        if isinstance(child, ChildSpec) and child.register is not None:
            refuse(who, "register of the child", child.register, "None: one process holds a name")
        if with_arguments is not None:
            if not callable(with_arguments):
                refuse(who, "with_arguments", with_arguments, "a function, or None")
            check_kind(who, "child", child, ChildSpec, "a ChildSpec, to be given arguments")
        return SupervisorSpec(
            id,
            [_partition(child, index, with_arguments) for index in range(n)],
            strategy=strategy,
            intensity=intensity,
            period=period,
            restart=restart,
            shutdown=shutdown,
            significant=significant,
            backoff=backoff,
        )

    @property
    def partitions(self) -> int:
        """How many partitions are in use.

        Raises:
            NotRunning: If the supervisor has ended (PAR-07).
        """
        return _bound(self.supervisor)

    def route(self, key: RoutingKey) -> Process:
        """Return the process of the partition that `key` belongs to (PAR-03, PAR-04).

        An `int` leads to the partition of its absolute value modulo their number. Text, bytes,
        floats, booleans, None and tuples of such are hashed, in every program alike, which
        Python's own `hash` is not.

        Raises:
            NotRunning: If that partition is between two lives, or the supervisor has ended.
            PartitionError: If there is no partition (PAR-06), or `key` is of another type.
        """
        supervisor = self.supervisor
        bound, path = _bound(supervisor), supervisor.path
        if not bound:
            raise PartitionError(f"{path}: there are no partitions")
        if isinstance(key, int) and not isinstance(key, bool):
            index = abs(key) % bound
        else:
            index = zlib.crc32(_bytes_of(path, key)) % bound
        process = supervisor.child(str(index))
        if not process.ready:
            raise NotRunning(process.path)
        return process

    def whereis(self, key: RoutingKey, /) -> Process:
        """Do as `route`, for `Via(partitions, key)` (PAR-05)."""
        return self.route(key)

    async def resize(self, partitions: int) -> int:
        """Use another number of partitions, from 0 to as many as there were at first (PAR-06).

        When there are to be fewer, no key leads to the surplus any more before it is stopped; when
        there are to be more, they are started before keys lead to them. Calls wait for each other.
        A cancelled call, or one that raises, leaves the routing right, and partitions running that
        nobody uses, until the next call.

        Returns:
            How many were in use before.

        Raises:
            PartitionError: If there can be no such number.
            WrongThread: In another thread or event loop.
            StartFailed: If a partition did not start.
            NotRunning: If the supervisor is ending.
        """
        supervisor, n = self.supervisor, partitions
        table = _own_table(supervisor)
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= table.total:  # pyright: ignore[reportUnnecessaryIsInstance]
            wanted = f"a whole number from 0 to {table.total}"
            raise PartitionError(f"{supervisor.path}: partitions is {n!r}, wanted {wanted}")
        check_loop(shell_of(supervisor).tree.loop, supervisor)
        async with table.lock:
            before = _bound(supervisor)
            table.bound = min(before, n)
            for index in reversed(range(n, table.total)):
                await supervisor.terminate_child(str(index))
            for index in range(before, n):
                with suppress(ChildRunning, RestartPending):  # left by a call that was cut off
                    await supervisor.restart_child(str(index))
            table.bound = n
        return before


def _own_table(supervisor: Supervisor) -> _Table:
    return cast("_Table", shell_of(supervisor).behaviour)


def _bound(supervisor: Supervisor) -> int:
    """Return how many partitions are in use; raise `NotRunning` if it has ended (PAR-07)."""
    if supervisor.ended:
        raise NotRunning(supervisor.path)
    return _own_table(supervisor).bound


def _partition(
    child: AnySpec,
    index: int,
    with_arguments: Callable[[tuple[Any, ...], int], Iterable[Any]] | None,
) -> AnySpec:
    if isinstance(child, ChildSpec):
        args = child.args if with_arguments is None else with_arguments(child.args, index)
        return child.replace(id=str(index), args=args)
    return evolve(child, id=str(index))


def _bytes_of(path: str, key: object) -> bytes:
    """Return something to be hashed; two keys that differ may share it."""
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, tuple):
        items = cast("tuple[object, ...]", key)
        return b"(" + b",".join(_bytes_of(path, item) for item in items)
    if key is None or isinstance(key, int | float):
        return repr(key).encode()
    raise PartitionError(f"{path}: {key!r} has no stable hash; give text or a number instead")

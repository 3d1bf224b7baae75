"""Never run: mypy and pyright check what a spec takes."""

from __future__ import annotations

from typing import assert_type

from otpy import (
    AutoShutdown,
    ChildSpec,
    DynamicSupervisor,
    PartitionSupervisor,
    Registry,
    Restart,
    Strategy,
    SupervisorSpec,
    TaskSupervisor,
)


async def swift() -> None:
    """Take nothing."""


WORDS = SupervisorSpec(
    "app",
    [
        ChildSpec("a", swift, restart="transient"),
        ChildSpec("b", swift, restart=Restart.TEMPORARY),
        DynamicSupervisor.spec("c", restart="temporary"),
        Registry.spec("d", restart="transient"),
        PartitionSupervisor.spec("e", ChildSpec("x", swift), strategy="rest_for_one"),
    ],
    strategy="one_for_all",
    auto_shutdown="any_significant",
    restart="permanent",
)
assert_type(WORDS.strategy, Strategy)
assert_type(WORDS.auto_shutdown, AutoShutdown)
assert_type(WORDS.restart, Restart)

ChildSpec("a", swift, restart="always")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
SupervisorSpec("b", strategy="all")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
SupervisorSpec("c", auto_shutdown="yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
DynamicSupervisor.spec("d", restart="never")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def words(tasks: TaskSupervisor) -> None:
    """The words are the same wherever a restart type is taken."""
    await tasks.start_child(swift, restart="permanent")
    await tasks.start_child(swift, restart="x")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

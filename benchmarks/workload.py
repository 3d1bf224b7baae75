"""What a workload is: something to do, and what is measured while it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.meter import Reading
    from benchmarks.subject import Subject

    Measure: TypeAlias = Callable[[Subject, int], Awaitable[Reading]]


@final
@frozen
class Metric:
    """One number of a workload.

    Attributes:
        key: Its name in readings, where `.cpu` and `.wall` are added if it is a time.
        title: Its name in the table.
        unit: `us` (microseconds), `bytes`, or whatever else it counts.
        goal: The most that otpy's number may be, as a multiple of the floor's; None sets none.
        most: The most that otpy's number may be by itself, in `unit`; None sets none.
        compared: Whether a smaller number of another project makes that one the better.
    """

    key: str
    title: str
    unit: str = "us"
    goal: float | None = None
    most: float | None = None
    compared: bool = True


@final
@frozen
class Workload:
    """Something that every subject does, or cannot do.

    Attributes:
        name: What it is called on the command line.
        measure: Does it once with a subject and a size, in a process of its own.
        size: How many of what, for real.
        short: The same for a quick look; 0 leaves it out.
        tiny: The same to warm up with, so that nothing is imported while time is taken.
        others: The same for subjects that are neither the floor nor otpy, and may take minutes for
            all of it; 0 leaves them out, None stands for `size`.
        metrics: What `measure` returns readings of.
        everywhere: Whether it is measured on every interpreter and loop, not on the first only.
    """

    name: str
    measure: Measure
    size: int
    short: int
    tiny: int
    metrics: tuple[Metric, ...]
    others: int | None = None
    everywhere: bool = True

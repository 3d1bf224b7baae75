"""The smallest plan that still makes a simulation fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from otpy.testing.fault_plan import FaultPlan

if TYPE_CHECKING:
    from otpy.testing.faults import Fault

MOST_RUNS = 200
"""How many smaller plans are tried at most."""


def shrunk(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """Return a plan that still `fails`, with fewer faults, and rounder and smaller numbers.

    Faults are left out by halves, quarters and so on down to single ones, then each is made
    simpler, until nothing more can go or `MOST_RUNS` plans were tried.
    """
    tries = iter(range(MOST_RUNS))

    def still(faults: tuple[Fault, ...]) -> bool:
        return next(tries, None) is not None and fails(FaultPlan(faults))

    faults = _fewer(plan.faults, still)
    for place in range(len(faults)):
        faults = _simpler(faults, place, still)
    return FaultPlan(faults)


def _fewer(
    faults: tuple[Fault, ...], still: Callable[[tuple[Fault, ...]], bool]
) -> tuple[Fault, ...]:
    size = len(faults)
    while size:
        place = 0
        while place < len(faults):
            rest = faults[:place] + faults[place + size :]
            if still(rest):
                faults = rest
            else:
                place += size
        size //= 2
    return faults


def _simpler(
    faults: tuple[Fault, ...], place: int, still: Callable[[tuple[Fault, ...]], bool]
) -> tuple[Fault, ...]:
    found = True
    while found:
        found = False
        for simple in _simplifications(faults[place]):
            smaller = (*faults[:place], simple, *faults[place + 1 :])
            if still(smaller):
                faults, found = smaller, True
                break
    return faults


def _simplifications(fault: Fault) -> Iterator[Fault]:
    """Yield versions of `fault` with one number smaller, the boldest first."""
    if fault.times != 1:
        yield evolve(fault, times=1)
    for nth in {1, fault.nth // 2} if fault.nth > 1 else ():
        yield evolve(fault, nth=nth)
    if fault.after:
        for after in _smaller(fault.after):
            yield evolve(fault, after=after)
    if fault.seconds > 0:
        for seconds in _smaller(fault.seconds):
            if seconds:
                yield evolve(fault, seconds=seconds)


def _smaller(number: float) -> list[float]:
    """Return numbers from 0 on below `number`, the smallest first."""
    candidates = {0.0, float(int(number)), round(number / 2, 3), int(number * 10) / 10}
    return sorted(candidate for candidate in candidates if candidate < number)

"""Who shares the fate of one child: those restarted with it, and the supervisor that ends with it.

Pure questions to a child table. `machine.py` decides when they are asked, and what is done then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy._core.child import Status
from otpy._core.spec import AutoShutdown, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otpy._core.child import Child


def group_of(failed: Child, children: Mapping[str, Child], strategy: Strategy) -> list[Child]:
    """Return the failed child and those the strategy restarts with it, in start order."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return [failed]
        case Strategy.ONE_FOR_ALL:
            return list(children.values())
        case Strategy.REST_FOR_ONE:
            group = list(children.values())
            return group[group.index(failed) :]


def ends_with_it(children: Mapping[str, Child], auto_shutdown: AutoShutdown) -> bool:
    """Whether a supervisor ends that has just lost a significant child (SUP-901 to SUP-903).

    `children` are those it has left, and the lost one if its spec was kept.
    """
    match auto_shutdown:
        case AutoShutdown.NEVER:  # it was significant under a spec that has been replaced since
            return False
        case AutoShutdown.ANY_SIGNIFICANT:
            return True
        case AutoShutdown.ALL_SIGNIFICANT:
            significant = (child for child in children.values() if child.spec.significant)
            return all(child.status is Status.UNDEFINED for child in significant)

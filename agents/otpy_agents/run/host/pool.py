"""The shape of the branch of runs: supervisors and children, and nothing that happens."""

from __future__ import annotations

from typing import Final

from otpy import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    Restart,
    Strategy,
    SupervisorSpec,
)
from otpy.specs import DynamicSpec
from otpy_agents.run.host.attempt import MARGIN
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.task import ATTEMPTS, RunTask

__all__ = ["RUNS", "pool_spec", "run_spec"]

RUNS: Final = "runs"
"""Id of the supervisor of all runs."""

_CRASHES: Final = 5
_PERIOD: Final = 60.0


def pool_spec() -> DynamicSpec:
    """Return the spec of `RunPool`, whose children are runs."""
    return DynamicSupervisor.spec(RUNS)


def run_spec(run: LiveRun) -> SupervisorSpec:
    """Return the spec of one run: its attempts, and behind them the task that decides about them.

    It ends with its task. A task that crashes is restarted alone, and takes up the attempt. Five
    crashes in a minute are too many: then the attempt is ended, and the run stays unfinished in the
    store. The run is temporary, because what has to survive it is stored, and because a hopeless
    one must not use up the restarts of all.
    """
    return SupervisorSpec(
        run.id,
        [
            DynamicSupervisor.spec(ATTEMPTS),
            ChildSpec(
                "task",
                RunTask,
                (run,),
                restart=Restart.TRANSIENT,
                significant=True,
                # It waits for the end of its attempt before it ends.
                shutdown=run.order.sandbox.limits.grace + MARGIN,
                backoff=Backoff.exponential(0.05, max=5.0),
            ),
        ],
        strategy=Strategy.REST_FOR_ONE,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        intensity=_CRASHES,
        period=_PERIOD,
        restart=Restart.TEMPORARY,
    )

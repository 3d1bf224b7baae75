"""All workloads and all subjects, by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from benchmarks.workloads.idle import IDLE
from benchmarks.workloads.linearity import LINEARITY
from benchmarks.workloads.messages import (
    ASYNC_SERVER_MEMORY,
    ASYNC_SERVERS,
    CALL,
    CAST,
    SERVER_MEMORY,
    SERVERS,
)
from benchmarks.workloads.pool import CHURN, CHURN_MEMORY, MILLION, POOL
from benchmarks.workloads.restart import ESCALATION, HOOKS, LATENCY, STORM, TOGETHER
from benchmarks.workloads.signals import NAMES, SIGNALS
from benchmarks.workloads.start import MEMORY, START

if TYPE_CHECKING:
    from benchmarks.subject import Subject
    from benchmarks.workload import Workload

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload
    for workload in (
        START, MEMORY, STORM, LATENCY, TOGETHER, ESCALATION, CALL, CAST, IDLE, CHURN, CHURN_MEMORY,
        SERVERS, ASYNC_SERVERS, SERVER_MEMORY, ASYNC_SERVER_MEMORY, POOL, SIGNALS, NAMES, HOOKS,
        LINEARITY, MILLION,
    )
}  # fmt: skip

FLOOR: Final = "floor"
OTPY: Final = "otpy"
ERLANG: Final = "erlang"

PEERS: Final[dict[str, str]] = {
    "mode": "mode-streaming==0.7.1",
    "pykka": "pykka==4.5.0",
}
"""What other projects are installed by, by the name of their column."""

_PLACES: Final = {
    FLOOR: "benchmarks.subjects.floor:Floor",
    OTPY: "benchmarks.subjects.ours:Otpy",
    "mode": "benchmarks.subjects.mode_services:Mode",
    "pykka": "benchmarks.subjects.pykka_actors:Pykka",
}


def subject_of(name: str) -> Subject:
    """Return the subject `name`; only now is its project imported."""
    module, _, cls = _PLACES[name].partition(":")
    subject: Subject = getattr(import_module(module), cls)()
    return subject

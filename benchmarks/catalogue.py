"""All workloads and all subjects, by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

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
from benchmarks.workloads.restart import BURST, ESCALATION, HOOKS, LATENCY, STORM, TOGETHER
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
        BURST, LINEARITY, MILLION,
    )
}  # fmt: skip

FLOOR: Final = "floor"
OTPY: Final = "otpy"
UNHEARD: Final = "hooks=()"
"""otpy where nobody hears of anything."""
ERLANG: Final = "erlang"

OWN: Final = (FLOOR, OTPY, UNHEARD)


@final
@frozen
class Peer:
    """Another project.

    Attributes:
        requirement: What it is installed by, with what it forgets to ask for.
        place: Where its `Subject` is; None where a program of its own does the workloads.
        differs: What it does otherwise than otpy and the floor, and so need not pay for.
        restarts: Whether it restarts anything; what does not is no rival.
    """

    requirement: str
    place: str | None
    differs: str
    restarts: bool = True


PEERS: Final[dict[str, Peer]] = {
    "anyio": Peer(
        "anyio==4.16.0",
        "benchmarks.subjects.anyio_groups:AnyioGroup",
        "task groups: no restart of one child, no window, stops all at once, in no order; the"
        " server is a task and two memory streams",
    ),
    "aiotools": Peer(
        "aiotools==2.2.4 typing_extensions",
        "benchmarks.subjects.aiotools_scopes:AiotoolsScope",
        "restarts nothing, and so is not compared; stops all at once, in no order",
        restarts=False,
    ),
    "mode": Peer(
        "mode-streaming==0.7.1",
        "benchmarks.subjects.mode_services:Mode",
        "looks at all services after each crash, counts restarts per second, stops first to last",
    ),
    "otpylib": Peer(
        "otpylib==0.5.18",
        "benchmarks.subjects.otpylib_processes:Otpylib",
        "restarts normal ends too, counts by the wall clock; a stop cancels the children first to"
        " last and waits for none of them (here it is waited for)",
    ),
    "fauxtp": Peer(
        "fauxtp==0.3.1",
        "benchmarks.subjects.fauxtp_actors:Fauxtp",
        "has no restart window, stops all at once, in no order",
    ),
    "triotp": Peer(
        "triotp==0.2.1",
        None,
        "runs on trio, in a program of its own; each child restarts within its own task, counted"
        " for itself; stops all at once, in no order",
    ),
    "pykka": Peer(
        "pykka==4.5.0",
        "benchmarks.subjects.pykka_actors:Pykka",
        "actors in threads, whose plain handlers run beside the caller; no supervisor, and a crowd"
        " calls one after the other",
    ),
}
"""Other projects, by the names of their columns."""


def subject_of(name: str) -> Subject:
    """Return the subject `name`; only now is its project imported."""
    places = {
        FLOOR: "benchmarks.subjects.floor:Floor",
        OTPY: "benchmarks.subjects.ours:Otpy",
        UNHEARD: "benchmarks.subjects.ours:OtpyUnheard",
        **{peer: what.place for peer, what in PEERS.items() if what.place},
    }
    module, _, cls = places[name].partition(":")
    subject: Subject = getattr(import_module(module), cls)()
    return subject

"""The cases of Elixir's tests of `PartitionSupervisor` with an equivalent, with their names."""

from __future__ import annotations

from typing import Final

from tests.conformance.elixir_case import Case, case, start, top
from tests.conformance.elixir_scenario import Child, Dynamic, Partitions, Server

SERVERS: Final = top(Partitions("parts", Server("s")))
DYNAMICS: Final = top(Partitions("parts", Dynamic("d")))
CHILDREN: Final = top(Partitions("parts", Child("c", ends="silent")))
INTEGERS: Final = (0, 1, 2, 3, 4, 5, 6, -1, -2, -3, -4, 1000, -1001)

PARTITIONS: Final[list[Case]] = [
    case(
        "start_link/1 on success with atom name",
        "PAR-02 PAR-03 PAR-05",
        DYNAMICS,
        "partitions parts",
        *(step for n in range(5) for step in start(f"parts/{n}", Child(f"a{n}"))),
        "die a4",
        "terminate parts/0 a0",
        "terminate parts/0 a1",
    ),
    case(
        "start_link/1 with_arguments",
        "PAR-02 PAR-03 PAR-05",
        SERVERS,
        "partitions parts",
        *(f"call parts/{number}" for number in INTEGERS),
    ),
    *(
        case(
            f"integer keys among {count}",
            "PAR-03",
            top(Partitions("parts", Server("s"), count)),
            "partitions parts",
            *(f"whereis parts/{number}" for number in INTEGERS),
        )
        for count in (1, 2, 4, 7)
    ),
    case(
        "start_link/1 raises on bad partitions",
        "PAR-01",
        top(),
        *start("top", Partitions("parts", Server("s"), 0)),
        "which top",
    ),
    case(
        "stop/1 is synchronous",
        "PAR-07",
        top(),
        *start("top", Partitions("parts", Server("s"))),
        "terminate top parts",
        "call parts/0",
        "which top",
    ),
    case(
        "a stop of its own",
        "PAR-02",
        CHILDREN,
        "stop parts normal",
        "partitions parts",
    ),
    case("which_children/1 returns all partitions", "PAR-02 PAR-03", CHILDREN, "which parts"),
    case("count_children/1 with workers", "PAR-02", CHILDREN, "count parts"),
    case("count_children/1 with supervisors", "PAR-02", DYNAMICS, "count parts"),
    case(
        "keys lead to the new process after a restart",
        "PAR-04",
        SERVERS,
        "call parts/1",
        "kill parts.1",
        "call parts/1",
        "whereis parts/4",
    ),
    case(
        "each partition is restarted for itself, until there were too many",
        "PAR-01 PAR-04",
        CHILDREN,
        *("die parts.0", "die parts.1", "exit parts.2 boom", "whereis parts/2"),
        "die parts.1",
        "which top",
        "whereis parts/1",
    ),
    case(
        "children of a partition are gone after its restart",
        "PAR-04",
        DYNAMICS,
        *start("parts/1", Child("a", ends="silent", shutdown="brutal_kill")),
        "kill parts.1",
        *start("parts/4", Child("b")),
    ),
]

"""The cases of Elixir's tests of `DynamicSupervisor` that have an equivalent, with their names."""

from __future__ import annotations

from typing import Final

from tests.conformance.elixir_case import Case, between, case, meanwhile, start, top
from tests.conformance.elixir_scenario import Child, Dynamic, Sup

DYN: Final = top(Dynamic("dyn"))
MANY: Final = top(Dynamic("dyn", max_restarts=100))
ONE: Final = top(Dynamic("dyn", max_children=1, max_restarts=100))
NONE: Final = top(Dynamic("dyn", max_children=0))

STARTING: Final = [
    case(
        "multiple supervisors can be supervised and identified with simple child spec",
        "DYN-03 ESU-07",
        top(Dynamic("one"), Dynamic("two")),
        *start("top", Dynamic("three"), Dynamic("three")),
        "which top",
    ),
    case(
        "init/1 set default options",
        "DYN-01",
        DYN,
        *start("dyn", *(Child(f"a{number}", ends="silent") for number in range(5))),
        *[f"die a{number}" for number in range(4)],
        "which dyn",
    ),
    case(
        "start_child/2 supports new child spec as tuple",
        "DYN-03 DYN-08",
        DYN,
        *start("dyn", Child("a", restart="temporary")),
        "die a normal",
    ),
    case("start_child/2 supports new child spec", "DYN-08", DYN, *start("dyn", Child("a"))),
    case(
        "equal ids are fine",
        "DYN-03 DYN-12",
        DYN,
        *start("dyn", *(Child(name, id="m", restart="transient") for name in "abc")),
        "terminate dyn b",
        "die a",
        "die c normal",
    ),
    case(
        "start_child/2 with invalid child spec",
        "DYN-04 DYN-05",
        DYN,
        *start("dyn", Child("a", restart="sometimes")),
    ),
    case(
        "start_child/2 with invalid valid shutdown",
        "DYN-04 DYN-05",
        DYN,
        *start("dyn", Child("a", shutdown=-1)),
    ),
    case(
        "start_child/2 with valid shutdown",
        "DYN-05",
        MANY,
        *start("dyn", Child("a", shutdown=1, ends="silent")),
        "exit a shutdown",
    ),
    case(
        "start_child/2 with different returns",
        "DYN-08",
        DYN,
        *start("dyn", Child("a", starts="v"), Child("b"), Child("c", starts="i")),
        *start("dyn", Child("d", starts="f"), Child("e", starts="h")),
    ),
    case(
        "start_child/2 with throw/error/exit", "DYN-08", DYN, *start("dyn", Child("a", starts="e"))
    ),
    case("start_child/2 with max_children", "DYN-07", NONE, *start("dyn", Child("a"))),
    case(
        "room is made by whoever ends",
        "DYN-07",
        ONE,
        *start("dyn", Child("a", restart="temporary"), Child("b")),
        "die a",
        *start("dyn", Child("c"), Child("d")),
    ),
]

RESTARTING: Final = [
    case(
        "temporary child is not restarted regardless of reason",
        "DYN-17 SUP-403",
        DYN,
        *start("dyn", *(Child(name, restart="temporary", ends="silent") for name in "abcd")),
        "exit a shutdown",
        "exit b boom",
        "die c normal",
        "die d shutdown:x",
    ),
    case(
        "transient child is restarted unless normal/shutdown/{shutdown, _}",
        "DYN-17 SUP-401",
        DYN,
        *start("dyn", *(Child(name, restart="transient", ends="silent") for name in "abcd")),
        "exit a shutdown",
        "exit b shutdown:x",
        "exit c boom",
        "die d normal",
    ),
    case(
        "permanent child is restarted regardless of reason",
        "DYN-17 SUP-402",
        MANY,
        *start("dyn", *(Child(name, ends="silent") for name in "abcd")),
        "exit a shutdown",
        "exit b shutdown:x",
        "exit c boom",
        "die d normal",
    ),
    case(
        "child is restarted with different values",
        "DYN-09 DYN-10 DYN-12",
        MANY,
        *start("dyn", Child("a"), Child("b", starts="sv"), Child("c", starts="si")),
        *start("dyn", Child("d", starts="sf"), Child("e", starts="se")),
        "die a",
        "die b",
        "die c",
        between("d", "count dyn", "which dyn"),
        between("e", "count dyn", "which dyn"),
        "which dyn",
    ),
    case(
        "restarting on init children counted in max_children",
        "DYN-07 DYN-10",
        ONE,
        *start("dyn", Child("a", starts="sf")),
        between("a", "count dyn"),
        *start("dyn", Child("b")),
    ),
    case(
        "restarting on exit children counted in max_children",
        "DYN-07",
        ONE,
        *start("dyn", Child("a", ends="silent")),
        "exit a shutdown",
        *start("dyn", Child("b")),
    ),
    case(
        "child is restarted when trying again",
        "DYN-10",
        top(Dynamic("dyn", max_restarts=2)),
        *start("dyn", Child("a", starts="sf")),
        "die a",
    ),
    case(
        "child triggers maximum restarts",
        "DYN-10 DYN-17",
        top(Dynamic("dyn", max_restarts=1)),
        *start("dyn", Child("a", starts="sfff"), Child("b")),
        "die a",
        "which top",
    ),
    case(
        "child triggers maximum intensity when trying again",
        "DYN-10 DYN-17",
        top(Dynamic("dyn", max_restarts=10)),
        *start("dyn", Child("a", starts="s" + 20 * "f")),
        "die a",
    ),
    case(
        "a supervisor without restarts",
        "DYN-17 SUP-508",
        top(Dynamic("dyn", max_restarts=0)),
        *start("dyn", Child("a", restart="transient"), Child("b")),
        "die a normal",
        "die b",
    ),
    case(
        "children may be supervisors",
        "DYN-12 DYN-17",
        DYN,
        *start("dyn", Sup("sub", (Child("a"),), max_restarts=0), Dynamic("inner")),
        *start("inner", Child("b")),
        "die a",
        "terminate inner b",
    ),
]

ENDS: Final = ("shutdown", "shutdown:x", "normal", "boom")
TERMINATING: Final = [
    case(
        f"terminate/2 terminates children with {name}",
        "DYN-14 DYN-15",
        top(),
        *start("top", Dynamic("dyn")),
        *start("dyn", *children),
        "terminate top dyn",
        "restart top dyn",
    )
    for name, children in (
        ("brutal kill", [Child(n, shutdown="brutal_kill") for n in "abc"]),
        ("infinity shutdown", [Child(n, shutdown="infinity") for n in "abc"]),
        (
            "infinity shutdown and abnormal reason",
            [Child(n, shutdown="infinity", ends="shutdown:x") for n in "abc"],
        ),
        ("integer shutdown", [Child(n, shutdown=1000) for n in "abc"]),
        (
            "integer shutdown and abnormal reason",
            [Child(n, shutdown=1000, ends="shutdown:x") for n in "abc"],
        ),
        (
            "expired integer shutdown",
            [
                Child("a", shutdown=20, ends="silent"),
                Child("b", shutdown=20, ends="refuses"),
                Child("c", shutdown=20, ends="silent"),
            ],
        ),
        (
            "permanent restart and normal reason",
            [Child(n, shutdown="infinity", ends="normal") for n in "abc"],
        ),
        (
            "mixed children",
            [Child("a", shutdown="infinity"), Child("b", shutdown="brutal_kill")],
        ),
        (
            "every end of every kind",
            [
                Child(f"{restart[:5]}_{end.replace(':', '_')}", restart=restart, ends=end)
                for restart in ("permanent", "transient", "temporary")
                for end in ENDS
            ],
        ),
        (
            "limits of different length",
            [Child("a", shutdown=300, takes=20), Child("b", shutdown=20, takes=500)],
        ),
    )
]

BY_HAND: Final = [
    case(
        f"terminate_child/2 terminates child with {name}",
        "DYN-13",
        DYN,
        *start("dyn", child),
        "terminate dyn a",
        "terminate dyn a",
        "count dyn",
    )
    for name, child in (
        ("brutal kill", Child("a", shutdown="brutal_kill")),
        ("integer shutdown", Child("a", shutdown=1000)),
        ("a limit that expires", Child("a", shutdown=20, ends="refuses")),
    )
]

MORE: Final = [
    case(
        "terminate_child/2 terminates restarting child",
        "DYN-10 DYN-13",
        MANY,
        *start("dyn", Child("a", starts="sffff")),
        between("a", "which dyn", "terminate dyn a", "count dyn"),
        "terminate dyn a",
        "count dyn",
    ),
    case(
        "terminate_child/2 of what has ended or never was a child",
        "DYN-13",
        top(Dynamic("dyn"), Child("x")),
        *start("dyn", Child("a", restart="temporary")),
        "die a",
        "terminate dyn a",
        "terminate dyn x",
    ),
    case(
        "calls to what has ended",
        "DYN-16",
        top(),
        *start("top", Dynamic("dyn")),
        "terminate top dyn",
        "which dyn",
        *start("dyn", Child("a")),
        meanwhile("restart top dyn", *start("dyn", Child("b")), "count dyn"),
    ),
]

DYNAMIC: Final[list[Case]] = [*STARTING, *RESTARTING, *TERMINATING, *BY_HAND, *MORE]

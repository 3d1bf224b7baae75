"""Scenarios whose steps meet an operation in progress: slow starts and held-up stops."""

from __future__ import annotations

from typing import Final

from tests.conformance.case import Case, case, permanent, start, sub, together, top
from tests.conformance.scenario import HELD, POOL, Call, Die, Release, Stop, Sup, Worker

LET_GO: Final = Release()


def pool(*, strategy: str = "one_for_one") -> Sup:
    """Return a tree with a pool of permanent children."""
    return top("a", sub("p", "pattern", strategy=POOL, intensity=2), "b", strategy=strategy)


GROUPS: Final = ("one_for_one", "one_for_all", "rest_for_one")

MEETINGS: Final[list[Case]] = [
    *(
        case(
            f"queries_behind_a_restart_{strategy}",
            "SUP-613 SUP-810 SUP-811",
            top("a", "b", "c", intensity=9, strategy=strategy),
            together("die b", "which", "count"),
        )
        for strategy in GROUPS
    ),
    *(
        case(
            f"calls_meet_a_restart_{strategy}",
            "SUP-302 SUP-613 SUP-810 SUP-811",
            top("a", permanent("b", starts="sw"), "c", intensity=9, strategy=strategy),
            "die b",
            "which",
            "count",
            start(permanent("n")),
            "die a",
            "terminate c",
            LET_GO,
            "which",
        )
        for strategy in GROUPS
    ),
    case(
        "calls_meet_a_restart_that_fails",
        "SUP-612 SUP-620 SUP-613",
        top("a", permanent("b", starts="sWw"), "c", intensity=9, strategy="rest_for_one"),
        "die b",
        "which",
        "restart b",
        LET_GO,
        "terminate b",
        LET_GO,
        "which",
    ),
    case(
        "calls_meet_a_stop_by_hand",
        "SUP-806 SUP-613 SUP-810",
        top("a", permanent("b", takes=HELD), "c", intensity=9),
        "terminate b",
        "count",
        "restart b",
        "die c",
        LET_GO,
        "which",
    ),
    case(
        "a_start_by_hand_is_finished_by_a_stop",
        "AIO-10 SUP-717",
        top("a"),
        start(permanent("b", starts="w")),
        Stop(),
        LET_GO,
    ),
    case(
        "a_start_by_hand_that_fails_is_answered_by_a_stop",
        "AIO-10 SUP-717 SUP-803",
        top("a"),
        start(permanent("b", starts="W")),
        Stop(),
        LET_GO,
    ),
    case(
        "a_restart_is_finished_by_a_stop",
        "AIO-10 SUP-717",
        top("a", permanent("b", starts="sw")),
        "die b",
        Stop(),
        LET_GO,
    ),
    case(
        "a_restart_that_fails_is_dropped_by_a_stop",
        "AIO-10 SUP-717 SUP-612",
        top("a", permanent("b", starts="sW")),
        "die b",
        Stop(),
        LET_GO,
    ),
    case(
        "a_start_in_a_pool_is_finished_by_a_stop",
        "AIO-10 SUP-709",
        pool(),
        start(permanent("x", starts="w"), "top/p"),
        Stop(),
        LET_GO,
    ),
    case(
        "a_restart_in_a_pool_is_finished_by_a_stop",
        "AIO-10 SUP-709",
        pool(),
        start(permanent("x", starts="sw"), "top/p"),
        Die("top/p/x"),
        Stop(),
        LET_GO,
    ),
    case(
        "a_start_in_a_pool_is_finished_before_a_group_restart",
        "AIO-10 SUP-603 SUP-709",
        pool(strategy="one_for_all"),
        start(permanent("x", starts="w"), "top/p"),
        "die a",
        LET_GO,
        Call("top/p", "which"),
    ),
    case(
        "a_life_in_a_pool",
        "SUP-624 DYN-10 DYN-13 DYN-17",
        pool(),
        start(permanent("x"), "top/p"),
        start(permanent("y", starts="sf"), "top/p"),
        start(permanent("z", starts="f"), "top/p"),
        Die("top/p/x"),
        Call("top/p", "which"),
        Call("top/p", "terminate", "x"),
        Call("top/p", "count"),
        Die("top/p/y"),
        "which",
    ),
    *(
        case(
            f"significant_simple_{kind}_{mode}",
            "SUP-901 SUP-902 SUP-903 SUP-905 SUP-906 SUP-910 SUP-911",
            top(
                "a",
                sub(
                    "p",
                    Worker("pattern", kind, significant=True),
                    strategy=POOL,
                    intensity=5,
                    auto_shutdown=mode,
                    restart="transient",
                ),
            ),
            *(start(Worker(name, kind, significant=True), "top/p") for name in "xyz"),
            Call("top/p", "terminate", "x"),
            Die("top/p/y"),
            Die("top/p/y", "normal"),
            Die("top/p/z", "shutdown"),
            "which",
        )
        for kind in ("transient", "temporary")
        for mode in ("any_significant", "all_significant")
    ),
    case(
        "what_comes_together_while_a_child_starts",
        "SUP-512 SUP-613",
        top("a", permanent("b", starts="sw"), "c", intensity=9, strategy="one_for_all"),
        "die b",
        together("die a", "which", "terminate a", "restart a"),
        LET_GO,
        "which",
    ),
]

"""The cases of OTP's own supervisor suite that have an equivalent, with their names."""

from __future__ import annotations

from typing import Final

from tests.conformance.case import (
    Case,
    case,
    permanent,
    start,
    sub,
    temporary,
    together,
    top,
    transient,
)
from tests.conformance.scenario import Call, Die, Worker
from tests.conformance.significance_cases import SIGNIFICANCE_SUITE

RESTARTS: Final = ("permanent", "transient", "temporary")
GROUPS: Final = ("one_for_one", "one_for_all", "rest_for_one")
REASONS: Final = ("normal", "shutdown", "shutdown:x", "boom")

STARTING: Final = [
    case("sup_start_normal", "SUP-118 SUP-716", top(), "which", "stop shutdown"),
    case(
        "sup_start_ignore_child",
        "SUP-311 SUP-312 SUP-810 SUP-811",
        top(),
        start(permanent("a", starts="i")),
        start(permanent("b")),
        "which",
        "count",
        start(permanent("a")),
        "restart a",
        "restart a",
    ),
    case(
        "sup_start_ignore_temporary_child",
        "SUP-310",
        top(temporary("a", starts="i"), "b"),
        "which",
        "count",
    ),
    case(
        "sup_start_ignore_temporary_child_start_child",
        "SUP-311",
        top(),
        start(temporary("a", starts="i")),
        "which",
        start(temporary("a")),
    ),
    case(
        "sup_start_child_returns_error",
        "SUP-803 REP-09",
        top(),
        start(permanent("a", starts="fe")),
        start(permanent("a")),
        "which",
        start(permanent("a")),
    ),
    case(
        "sup_start_restart_child_returns_error",
        "SUP-805 REP-09",
        top(permanent("a", starts="sf")),
        "terminate a",
        "restart a",
        "which",
        "restart a",
    ),
    case(
        "sup_start_map",
        "SUP-814 SUP-207",
        top("a", permanent("b", shutdown="brutal_kill"), transient("c", shutdown="infinity")),
        "get a",
        "get b",
        "get c",
        "get d",
        start(transient("d", significant=True)),
    ),
]

STOPPING: Final = [
    case(
        "sup_stop_infinity",
        "SUP-703 SUP-708",
        top(permanent("a", shutdown="infinity", takes=5), sub("b", "x")),
        "stop shutdown",
    ),
    case(
        "sup_stop_timeout",
        "SUP-702 SUP-705",
        top(permanent("a"), permanent("b", shutdown=20, ends="refuses")),
        "stop shutdown",
    ),
    case(
        "sup_stop_brutal_kill",
        "SUP-701 SUP-704",
        top(permanent("a"), permanent("b", shutdown="brutal_kill")),
        "stop shutdown",
    ),
    case(
        "sup_stop_race",
        "SUP-704 SUP-711",
        top(*(Worker(f"{r[:4]}{i}", r) for r in RESTARTS for i, _ in enumerate(REASONS)), "z"),
        together(
            "stop shutdown",
            *(Die(f"top/{r[:4]}{i}", why) for r in RESTARTS for i, why in enumerate(REASONS)),
        ),
    ),
    case(
        "sup_stop_manual",
        "SUP-720",
        top(
            "a",
            permanent("b", shutdown="brutal_kill"),
            permanent("c", shutdown=20, ends="refuses"),
        ),
        Call("top", "stop", "normal"),
    ),
]

ADMINISTRATION: Final = [
    case(
        "child_adm",
        "SUP-801 SUP-802 SUP-806 SUP-807 SUP-808 SUP-809",
        top(),
        start(permanent("a")),
        start(permanent("a")),
        "delete a",
        "restart a",
        "terminate a",
        "terminate a",
        start(permanent("a")),
        "restart a",
        "terminate a",
        "delete a",
        "delete a",
        "restart a",
        "terminate a",
        start(permanent("a")),
        "stop shutdown",
        "which",
        start(permanent("b")),
        "terminate a",
    ),
    case(
        "which_children",
        "SUP-810 SUP-806",
        top(),
        start(permanent("a")),
        start(permanent("b")),
        "which",
        "terminate a",
        "which",
        "delete a",
        "which",
    ),
    case(
        "count_children",
        "SUP-811",
        top("a", sub("s"), temporary("t")),
        "count",
        "terminate s",
        "count",
        "die t",
        "count",
    ),
    case(
        "count_restarting_children",
        "SUP-620",
        top(permanent("a", starts="sff"), "b", intensity=5),
        together("die a", "count", "which", "die b", "count"),
        "count",
    ),
]

RESTARTING: Final = [
    case("one_for_one", "SUP-602 SUP-504", top("a", "b", intensity=2), "die a", "die b", "die a"),
    case(
        "one_for_one_escalation",
        "SUP-602 SUP-615 SUP-509",
        top(permanent("a", starts="sffffff"), "b", intensity=4),
        "die a",
    ),
    case(
        "one_for_all",
        "SUP-603 SUP-605",
        top("a", "b", strategy="one_for_all", intensity=2),
        "die a",
        "die b",
        "die a",
    ),
    case(
        "one_for_all_escalation",
        "SUP-603 SUP-617 SUP-509",
        top("a", permanent("b", starts="sffffff"), strategy="one_for_all", intensity=4),
        "die a",
    ),
    case(
        "one_for_all_other_child_fails_restart",
        "SUP-617 SUP-618",
        top("a", permanent("b", starts="sf"), "c", strategy="one_for_all", intensity=4),
        "die a",
    ),
    case(
        "rest_for_one",
        "SUP-604 SUP-605",
        top("a", "b", "c", strategy="rest_for_one", intensity=2),
        "die b",
        "die c",
        "die a",
    ),
    case(
        "rest_for_one_escalation",
        "SUP-604 SUP-617",
        top("a", permanent("b", starts="sfffffff"), strategy="rest_for_one", intensity=4),
        "die a",
    ),
    case(
        "rest_for_one_other_child_fails_restart",
        "SUP-617 SUP-618",
        top("a", permanent("b", starts="sf"), "c", strategy="rest_for_one", intensity=4),
        "die a",
    ),
    *(
        case(f"{kind}_normal", "SUP-401 SUP-402 SUP-403", top(Worker("a", kind)), "die a normal")
        for kind in RESTARTS
    ),
    *(
        case(
            f"{kind}_shutdown",
            "SUP-401 SUP-402 SUP-403",
            top(Worker("a", kind), intensity=2),
            "die a shutdown",
            "restart a",
            start(Worker("a", kind)),
            "die a shutdown:x",
            "restart a",
        )
        for kind in RESTARTS
    ),
    *(
        case(f"{kind}_abnormal", "SUP-401 SUP-404 SUP-409", top(Worker("a", kind)), "die a boom")
        for kind in RESTARTS
    ),
    case(
        "tree",
        "SUP-507 SUP-510 SUP-607 SUP-603",
        top(
            sub("s1", "a", "b", intensity=4),
            sub("s2", "c", "d", strategy="one_for_all", intensity=4),
            sub("s3", restart="transient"),
            strategy="one_for_all",
            intensity=4,
        ),
        "terminate s3",
        start(permanent("e"), at="top/s1"),
        "die s1/a",
        "die s2/d",
        *["die s2/c"] * 4,
        "which",
        *["die s1/b"] * 5,
    ),
    case(
        "temporary_bystander",
        "SUP-606",
        top("a", temporary("b"), strategy="one_for_all"),
        "die a",
        "which",
    ),
    case(
        "temporary_bystander_rest_for_one",
        "SUP-606",
        top("a", temporary("b"), strategy="rest_for_one"),
        "die a",
        "which",
    ),
    *(
        case(
            f"do_not_save_child_specs_for_temporary_children_{strategy}",
            "SUP-403 SUP-806",
            top(strategy=strategy, intensity=8),
            *(
                step
                for kind in RESTARTS
                for end in ("kill a", "die a normal", "die a boom", "terminate a")
                for step in (
                    start(Worker("a", kind)),
                    end,
                    start(Worker("a", kind)),
                    "terminate a",
                    "delete a",
                )
            ),
        )
        for strategy in GROUPS
    ),
    case(
        "hanging_restart_loop",
        "SUP-612 SUP-613 SUP-621",
        top(permanent("a", starts="sfffff"), "b", intensity=8),
        together(
            "die a",
            start(permanent("a")),
            "restart a",
            "delete a",
            "which",
            "count",
            "terminate a",
            "which",
            "restart a",
        ),
        "which",
        "stop shutdown",
    ),
    case(
        "hanging_restart_loop_rest_for_one",
        "SUP-613 SUP-617 SUP-619 SUP-621",
        top(
            "a",
            permanent("b", starts="sfffff"),
            "c",
            strategy="rest_for_one",
            intensity=8,
        ),
        together("die b", "which", "restart b", "delete b", "restart c", "terminate b", "which"),
        "which",
    ),
    case(
        "order_of_children",
        "SUP-301 SUP-604 SUP-605 SUP-708",
        top("c", "a", "e", "b", "d", strategy="rest_for_one"),
        "die e",
        "stop shutdown",
    ),
]

SUITE: Final[list[Case]] = [
    *STARTING,
    *STOPPING,
    *ADMINISTRATION,
    *RESTARTING,
    *SIGNIFICANCE_SUITE,
]

"""Scenarios for single rules that no case of OTP's own suite shows."""

from __future__ import annotations

from itertools import product
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
from tests.conformance.meeting_cases import MEETINGS
from tests.conformance.retry_cases import RETRIES
from tests.conformance.scenario import Call, Die, Limit, Worker
from tests.conformance.significance_cases import SIGNIFICANCE_RULES

RESTARTS: Final = ("permanent", "transient", "temporary")
LIMITS: Final[tuple[Limit, ...]] = ("brutal_kill", 5000)
WHYS: Final = ("boom", "normal", "shutdown", "shutdown:x", "killed")
GROUPS: Final = ("one_for_one", "one_for_all", "rest_for_one")

STARTING: Final = [
    case("children_start_in_order", "SUP-301 REP-06", top("b", sub("s", "y", "x"), "a")),
    *(
        case(
            f"failed_init_rolls_back_{kind}_{how}",
            "SUP-305 SUP-306 SUP-307 SUP-309",
            top("a", temporary("b"), Worker("c", kind, starts=how), "d", intensity=5),
        )
        for kind, how in product(("permanent", "temporary"), "feh")
    ),
    case(
        "failed_init_nests",
        "SUP-308",
        top("a", sub("s", "x", sub("u", permanent("y", starts="f")))),
    ),
    case(
        "ignored_children_keep_their_place",
        "SUP-310",
        top(permanent("a", starts="i"), transient("b", starts="i"), temporary("c", starts="i")),
        "restart b",
        "restart a",
        "restart c",
    ),
    *(
        case(
            f"ignored_restart_{strategy}",
            "SUP-313",
            top("a", permanent("b", starts="si"), "c", strategy=strategy, intensity=2),
            "die b",
            "die a",
            "die c",
            "which",
        )
        for strategy in GROUPS
    ),
    *(
        case(
            f"dead_on_arrival_{strategy}",
            "SUP-314 SUP-315 SUP-622",
            top(permanent("a", starts="dd"), "b", strategy=strategy, intensity=3),
        )
        for strategy in GROUPS
    ),
    case("dead_on_arrival_too_often", "SUP-622 SUP-504", top(permanent("a", starts="ddd"), "b")),
    case(
        "exits_wait_while_a_child_starts",
        "SUP-302 SUP-512",
        top(permanent("a", start_takes=5), "b", "c", intensity=5),
        together("die a", "die b", "which", "die c", "count"),
    ),
]

EXITS: Final = [
    *(
        case(
            f"exit_{kind}_{reason.replace(':', '_')}",
            "SUP-401 SUP-402 SUP-403 SUP-404 SUP-405 SUP-409 SUP-601 REP-10",
            top("z", Worker("a", kind), "b", strategy="one_for_all", intensity=3),
            f"die a {reason}",
        )
        for kind, reason in product(
            RESTARTS, ("normal", "shutdown", "shutdown:x", "boom", "killed")
        )
    ),
    *(
        case(
            f"exit_request_{kind}_{reason}",
            "SUP-405 SIG-02",
            top(Worker("a", kind, ends="silent", shutdown="brutal_kill"), "b"),
            Die("top/a", reason, "others"),
        )
        for kind, reason in product(RESTARTS, ("normal", "shutdown", "boom"))
    ),
    case(
        "temporary_children_never_count",
        "SUP-404 SUP-502",
        top("a", *(temporary(name) for name in "bcd"), intensity=0),
        "die b",
        "kill c",
        "die d",
        "which",
    ),
    *(
        case(
            f"clean_ends_disturb_nobody_{strategy}",
            "SUP-408 SUP-609",
            top("a", transient("b"), temporary("c"), "d", strategy=strategy),
            "die b normal",
            "die c boom",
            "which",
        )
        for strategy in GROUPS
    ),
]

INTENSITY: Final = [
    *(
        case(
            f"intensity_{allowed}",
            "SUP-501 SUP-504 SUP-508 SUP-509",
            top("a", "b", intensity=allowed),
            *["die b"] * (allowed + 1),
        )
        for allowed in range(4)
    ),
    case(
        "what_is_not_counted",
        "SUP-502 SUP-610",
        top("a", transient("b"), strategy="one_for_all", intensity=1),
        "die b normal",
        "restart b",
        "terminate a",
        "restart a",
        start(permanent("c", starts="f")),
        "die a",
        "die a",
    ),
    case(
        "a_group_restart_counts_once",
        "SUP-502 SUP-603",
        top(*"abcdef", strategy="one_for_all", intensity=1),
        "die c",
    ),
    *(
        case(
            f"a_supervisor_that_gives_up_is_a_child_that_ends_{kind}",
            "SUP-507 SUP-510 SUP-509 SUP-514",
            top(sub("s", "a", intensity=1, restart=kind), "b", intensity=1),
            *["die s/a"] * 4,
        )
        for kind in RESTARTS
    ),
    case("exits_are_handled_one_by_one", "SUP-512", top(*"abc"), together("die a", "die b")),
]

STRATEGIES: Final = [
    *(
        case(
            f"group_restarts_bring_everybody_up_{strategy}",
            "SUP-607 SUP-809 SUP-611",
            top(
                "a",
                "b",
                transient("c"),
                permanent("d", starts="i"),
                strategy=strategy,
                intensity=5,
            ),
            "terminate b",
            "die c normal",
            "die a",
            "which",
        )
        for strategy in GROUPS
    ),
    *(
        case(
            f"simultaneous_exits_{strategy}_{ends}",
            "SUP-512 SUP-605 SUP-608 SUP-711",
            top(*(permanent(name, ends=ends) for name in "abcd"), strategy=strategy, intensity=2),
            together("die a", "kill c", "die b shutdown"),
        )
        for strategy, ends in product(GROUPS, ("shutdown", "silent"))
    ),
    case(
        "order_after_delete_and_start",
        "SUP-611",
        top("a", "b", strategy="one_for_all"),
        start(permanent("x")),
        "terminate a",
        "delete a",
        start(permanent("a")),
        "die b",
        "which",
    ),
    *(
        case(
            f"failed_restarts_{strategy}",
            "SUP-612 SUP-614 SUP-617 SUP-618 REP-10",
            top("a", "b", permanent("c", starts="sff"), "d", strategy=strategy, intensity=10),
            "die b",
            "die c",
        )
        for strategy in GROUPS
    ),
    *(
        case(
            f"retries_wait_behind_requests_{strategy}",
            "SUP-612 SUP-613 SUP-619 SUP-620",
            top("a", permanent("b", starts="sff"), "c", strategy=strategy, intensity=10),
            together("die b", "which", "die a", "restart c", "which", start(temporary("n"))),
            "which",
        )
        for strategy in GROUPS
    ),
    case(
        "retries_do_not_look_at_the_restart_type",
        "SUP-616 SUP-615",
        top(transient("a", starts="shhhhhh"), "b", intensity=3),
        "die a",
    ),
    *(
        case(
            f"terminate_cancels_the_retry_{strategy}",
            "SUP-621",
            top("a", permanent("b", starts="sf"), "c", strategy=strategy, intensity=5),
            together("die a", "die b", "terminate b"),
            "which",
        )
        for strategy in GROUPS
    ),
]

TERMINATION: Final = [
    *(
        case(
            f"shutdown_errors_{kind}_{ends.replace(':', '_')}",
            "SUP-704 SUP-705 SUP-706 SUP-806 REP-03",
            top(
                Worker("a", kind, ends=ends, shutdown=20 if ends == "refuses" else 5000),
                Worker("b", kind, shutdown="brutal_kill"),
                Worker("c", kind, ends="silent", shutdown=0),
            ),
            "terminate a",
            "terminate b",
            "terminate c",
            "terminate a",
        )
        for kind, ends in product(
            RESTARTS, ("shutdown", "normal", "shutdown:x", "boom", "silent", "refuses")
        )
    ),
    *(
        case(
            f"already_dead_when_terminated_{kind}_{limit}",
            "SUP-704 SUP-713 SUP-714",
            top(*(Worker(name, kind, shutdown=limit) for name in "abcdef"), intensity=9),
            together(
                *(f"terminate {name}" for name in "abcde"),
                *(f"die {name} {why}" for name, why in zip("abcde", WHYS, strict=True)),
                "die f",
                "terminate f",
            ),
            "which",
        )
        for kind, limit in product(RESTARTS, LIMITS)
    ),
    *(
        case(
            f"stopped_by_the_parent_{reason.replace(':', '_')}",
            "SUP-716 SUP-717",
            top("a", sub("s", "x")),
            f"stop {reason}",
        )
        for reason in ("normal", "shutdown", "shutdown:x", "boom")
    ),
    *(
        case(
            f"a_supervisor_that_is_stopped_{kind}",
            "SUP-720",
            top(sub("s", "x", restart=kind), "b"),
            Call("top/s", "stop", "normal"),
            "which",
        )
        for kind in RESTARTS
    ),
    case(
        "terminated_children_are_skipped",
        "SUP-707 SUP-722",
        top(*"abc", transient("d")),
        "terminate b",
        "die d normal",
        "stop shutdown",
    ),
    case(
        "an_empty_supervisor_lives_on",
        "SUP-716",
        top(temporary("a"), "b"),
        "die a",
        "terminate b",
        "delete b",
        "which",
    ),
    case(
        "a_killed_supervisor_is_restarted",
        "SUP-719 SUP-409",
        top(sub("s", permanent("x", ends="silent", shutdown="brutal_kill")), "b"),
        "kill s",
        "which",
    ),
]

RULE_CASES: Final[list[Case]] = [
    *STARTING,
    *EXITS,
    *INTENSITY,
    *STRATEGIES,
    *RETRIES,
    *TERMINATION,
    *SIGNIFICANCE_RULES,
    *MEETINGS,
]

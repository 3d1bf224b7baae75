"""Cases about significant children: those of OTP's own suite, and scenarios for single rules."""

from __future__ import annotations

from itertools import product
from typing import Final

from tests.conformance.case import (
    Case,
    case,
    start,
    sub,
    temporary,
    together,
    top,
    transient,
)
from tests.conformance.scenario import Worker

GROUPS: Final = ("one_for_one", "one_for_all", "rest_for_one")
MODES: Final = ("any_significant", "all_significant")

SIGNIFICANCE_SUITE: Final[list[Case]] = [
    *(
        case(
            f"nonsignificant_{kind}_{mode}",
            "SUP-901",
            top(*(Worker(name, kind) for name in "abcd"), auto_shutdown=mode),
            "kill a",
            "die b normal",
            "die c shutdown",
            "terminate d",
        )
        for kind, mode in product(("temporary", "transient"), ("never", *MODES))
    ),
    *(
        case(
            f"significant_temporary_{mode}_{reason.partition(':')[0]}",
            "SUP-901 SUP-902 SUP-903 SUP-904 SUP-906",
            top(*(temporary(name, significant=True) for name in "abc"), "n", auto_shutdown=mode),
            "terminate a",
            f"die b {reason}",
            f"die c {reason}",
        )
        for mode, reason in product(MODES, ("killed", "normal", "boom"))
    ),
    *(
        case(
            f"significant_transient_{mode}",
            "SUP-901 SUP-902 SUP-903 SUP-905 SUP-906",
            top(
                *(transient(name, significant=True) for name in "ab"),
                "n",
                auto_shutdown=mode,
                intensity=5,
            ),
            "die a boom",
            "kill b",
            "terminate a",
            "terminate b",
            "restart b",
            "die b shutdown",
        )
        for mode in MODES
    ),
    *(
        case(
            f"significant_bystander_{strategy}_{mode}",
            "SUP-907",
            top(
                transient("a", significant=True),
                "b",
                transient("c", significant=True),
                temporary("d", significant=True),
                strategy=strategy,
                auto_shutdown=mode,
            ),
            "kill b",
            "which",
        )
        for strategy, mode in product(GROUPS, MODES)
    ),
    *(
        case(
            f"significant_escalation_{significant}",
            "SUP-910",
            top(
                sub(
                    "s",
                    transient("a", significant=True),
                    auto_shutdown="any_significant",
                    restart="transient",
                    significant=significant == "significant",
                ),
                "b",
                auto_shutdown="any_significant",
            ),
            "die s/a normal",
        )
        for significant in ("significant", "nonsignificant")
    ),
]

SIGNIFICANCE_RULES: Final[list[Case]] = [
    *(
        case(
            f"ignored_significant_child_{mode}",
            "SUP-908",
            top("a", transient("b", significant=True, starts="i"), auto_shutdown=mode),
            "restart b",
            "die b normal",
        )
        for mode in ("any_significant", "all_significant")
    ),
    case(
        "a_restarting_significant_child_is_active",
        "SUP-903",
        top(
            transient("a", significant=True, starts="sf"),
            transient("b", significant=True),
            "n",
            auto_shutdown="all_significant",
            intensity=5,
        ),
        together("die a", "die b normal"),
        "die a normal",
    ),
    case(
        "the_limit_reached_by_a_significant_child",
        "SUP-909",
        top(
            transient("a", significant=True),
            "n",
            auto_shutdown="any_significant",
            intensity=0,
        ),
        "die a",
    ),
    case(
        "significant_children_added_later",
        "SUP-911",
        top("n", auto_shutdown="any_significant"),
        start(transient("a", significant=True)),
        "die a shutdown",
    ),
]

"""Scenarios for single rules about children that did not start again, and calls that find them."""

from __future__ import annotations

from itertools import product
from typing import Final

from tests.conformance.case import Case, case, permanent, start, sub, together, top, transient
from tests.conformance.scenario import Call, Node, Sup, Worker

GROUPS: Final = ("one_for_one", "one_for_all", "rest_for_one")
PLACES: Final = ("top", "top/s", "top/s/t")


def _at(place: str, *children: Node, strategy: str) -> Sup:
    """Return a tree in which the supervisor at `place` has these children."""
    below = place.split("/")[1:]
    if not below:
        return top(*children, strategy=strategy, intensity=10)
    held = sub(below[-1], *children, strategy=strategy, intensity=10)
    for name in reversed(below[:-1]):
        held = sub(name, "y", held, "z")
    return top("y", held, "z")


def _doomed(id: str, **script: str) -> Worker:
    return permanent(id, ends="silent", shutdown="brutal_kill", **script)


def _about(place: str, path: str) -> str:
    return f"{place}/{path}".removeprefix("top/")


RETRIES: Final[list[Case]] = [
    *(
        case(
            f"a_restarting_child_answers_{strategy}_{place.count('/') + 1}",
            "SUP-612 SUP-613 SUP-620 SUP-806",
            _at(
                place,
                permanent("a"),
                permanent("b", starts="sff"),
                permanent("c"),
                strategy=strategy,
            ),
            together(
                f"die {_about(place, 'b')}",
                *(Call(place, op) for op in ("which", "count")),
                *(Call(place, op, "b") for op in ("get", "restart", "delete")),
                start(permanent("b"), at=place),
                Call(place, "restart", "c"),
                Call(place, "terminate", "a"),
                Call(place, "which"),
                at=place,
            ),
            Call(place, "which"),
        )
        for strategy, place in product(GROUPS, PLACES)
    ),
    *(
        case(
            f"a_restarting_child_is_taken_over_by_hand_{strategy}_{place.count('/') + 1}",
            "SUP-614 SUP-620 SUP-621 SUP-802 SUP-805",
            _at(
                place,
                permanent("a"),
                transient("b", starts="sff"),
                permanent("c"),
                strategy=strategy,
            ),
            together(
                f"die {_about(place, 'b')}",
                Call(place, "terminate", "b"),
                Call(place, "restart", "b"),
                Call(place, "delete", "b"),
                start(permanent("b"), at=place),
                Call(place, "which"),
                at=place,
            ),
            Call(place, "count"),
        )
        for strategy, place in product(GROUPS, PLACES)
    ),
    *(
        case(
            f"a_restarting_supervisor_{how}_{place.count('/') + 1}",
            "SUP-308 SUP-612 SUP-620 SUP-621",
            _at(
                place,
                permanent("a"),
                sub("d", _doomed("x"), _doomed("y", starts="sff"), shutdown="brutal_kill"),
                strategy="rest_for_one",
            ),
            together(
                f"kill {_about(place, 'd')}",
                Call(place, "which"),
                Call(place, "count"),
                *(Call(place, op, "d") for op in ("restart", "delete", how)),
                Call(place, "restart", "d"),
                at=place,
            ),
            Call(place, "which"),
        )
        for how, place in product(("get", "terminate"), PLACES[:2])
    ),
    *(
        case(
            f"two_children_retry_{strategy}",
            "SUP-612 SUP-613 SUP-617",
            top(
                permanent("a", starts="sf"),
                permanent("b", starts="sff"),
                permanent("c"),
                strategy=strategy,
                intensity=10,
            ),
            together("die b", "which", "count", "terminate b", "die a", "which", "restart b"),
            "which",
        )
        for strategy in GROUPS
    ),
    case(
        "a_restarting_significant_child_still_counts",
        "SUP-903",
        top(
            transient("a", significant=True, starts="sf"),
            transient("b", significant=True),
            auto_shutdown="all_significant",
            intensity=5,
        ),
        together("die a", "die b normal", "which"),
        "die a normal",
    ),
]

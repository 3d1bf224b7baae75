"""The cases of Elixir's tests of `Supervisor` beyond Erlang's that have an equivalent."""

from __future__ import annotations

from typing import Final

from tests.conformance.elixir_case import Case, case, start, top
from tests.conformance.elixir_scenario import Child, Dynamic, Sup

SUPERVISOR: Final[list[Case]] = [
    case(
        "init/2",
        "ESU-02",
        top(Sup("sub", (Child("a", ends="silent"),))),
        *["die a"] * 4,
    ),
    case(
        "start_link/2",
        "ESU-02 SUP-402",
        top(Child("a"), strategy="one_for_one"),
        "die a normal",
        "which top",
        "stop top normal",
        "which top",
    ),
    case(
        "start_child/2 supports new child spec as tuple",
        "ESU-08",
        top(),
        *start("top", Child("a", restart="temporary")),
        "die a normal",
        "count top",
    ),
    case(
        "start_child/2 supports new child spec",
        "ESU-08",
        top(),
        *start("top", Child("a")),
        "count top",
        *start("top", Child("b", starts="i"), Child("c", starts="v"), Child("d", starts="f")),
        "which top",
    ),
    case(
        "start_child/2 with invalid child spec",
        "SUP-209 SUP-205",
        top(),
        *start("top", Child("a", shutdown=-1), Child("b", restart="sometimes")),
        "which top",
    ),
    case(
        "start_child/2 with valid child spec",
        "SUP-209",
        top(),
        *start("top", Child("a", shutdown=0, ends="silent"), Child("b", shutdown=1)),
        "terminate top a",
        "exit b shutdown",
        "stop top shutdown",
    ),
    case(
        "child life-cycle",
        "ESU-08",
        top(),
        "which top",
        "count top",
        *start("top", Child("a")),
        "which top",
        "count top",
        "delete top a",
        "terminate top a",
        "restart top a",
        "terminate top a",
        "delete top a",
        "stop top normal",
    ),
    case(
        "two children of one module clash",
        "ESU-05 SUP-801",
        top(),
        *start("top", Child("a", id="m"), Child("b", id="m")),
        "which top",
    ),
    case(
        "can be supervised directly",
        "ESU-06 DYN-03",
        top(Dynamic("dyn")),
        "which dyn",
        "count top",
    ),
]

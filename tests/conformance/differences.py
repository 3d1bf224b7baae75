"""All differences that a comparison of otpy with the installed Erlang must know.

There are three kinds, and nothing else is left out of a comparison:

- "transformed": the situation is generated and compared; before that, exactly the named part of
  the traces is rewritten.
- "excluded": the situation is never generated, because a trace would have to be invented. The
  named test pins otpy's behaviour.
- "version": the installed Erlang is older than the intended one, and differs from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from attrs import evolve, frozen

from tests.conformance.scenario import Call, Sup, Together, Worker
from tests.conformance.trace import Section

if TYPE_CHECKING:
    from tests.conformance.scenario import Scenario
    from tests.conformance.trace import Trace

Rewrite: TypeAlias = "Callable[[Any, Trace], Trace]"
"""Takes a scenario, of Erlang or of Elixir, and a trace of it."""


@final
@frozen(kw_only=True)
class Difference:
    """One deliberate difference.

    Attributes:
        name: Its name.
        kind: "transformed", "excluded" or "version".
        rules: The rules that it concerns.
        erlang: What Erlang does.
        otpy: What otpy does.
        why: Why.
        test: The test that pins otpy's behaviour.
        in_erlang: Rewrites Erlang's trace; None leaves it as it is.
        in_otpy: Rewrites otpy's.
    """

    name: str
    kind: str
    rules: tuple[str, ...]
    erlang: str
    otpy: str
    why: str
    test: str
    in_erlang: Rewrite | None = None
    in_otpy: Rewrite | None = None


def _no_reports_of_the_killed(scenario: Scenario, trace: Trace) -> Trace:
    """Drop `shutdown_error` about children of a supervisor that was killed in the same section."""
    del scenario
    return [_without_reports(section) for section in trace]


def _without_reports(section: Section) -> Section:
    killed = {line.removesuffix("=killed") for line in section.ended if line.endswith("=killed")}
    kept = [
        event
        for event in section.events
        if not (
            event.startswith("shutdown_error ")
            and event.endswith(" killed")
            and event.split()[1].rpartition("/")[0] in killed
        )
    ]
    return evolve(section, events=kept)


def _bad_specs_refused_by_the_caller(scenario: Scenario, trace: Trace) -> Trace:
    """Answer `invalid` to a `start` of a bad spec, even if its supervisor has ended."""
    auto = {path: node.auto_shutdown for path, node in scenario.nodes() if isinstance(node, Sup)}
    rewritten = trace[:1]
    for step, section in zip(scenario.steps, trace[1:], strict=False):  # the trace may be cut off
        items = step.items if isinstance(step, Together) else (step,)
        calls = [item for item in items if isinstance(item, Call)]
        results = [
            "invalid" if bad_in(call, auto[call.path]) and found == "not_running" else found
            for call, found in zip(calls, section.results, strict=False)
        ]
        results += section.results[len(calls) :]  # results of calls in earlier steps
        rewritten.append(evolve(section, results=results))
    return rewritten


def _refused_at_once(scenario: Scenario, trace: Trace) -> Trace:
    """Move the refusal of a waiting call to the step of the call."""
    results = [section.results[:] for section in trace]
    for found in results:
        for line in [line for line in found if line.startswith("late ")]:
            tag, _, answer = line.removeprefix("late ").partition(": ")
            if answer != "not_running":
                continue
            found.remove(line)
            number, _, index = tag.partition(".")
            step = scenario.steps[int(number) - 1]
            calls = step.items[: int(index)] if isinstance(step, Together) else ()
            results[int(number)][sum(isinstance(item, Call) for item in calls)] = answer
    return [evolve(section, results=found) for section, found in zip(trace, results, strict=True)]


def _pools_sorted(scenario: Scenario, trace: Trace) -> Trace:
    """Order the events of the children of a pool by their ids.

    The pool's own reports keep their order, and their place among the events of the children unless
    several things happened together.
    """
    pools = {path for path, node in scenario.nodes() if isinstance(node, Sup) and node.is_pool}
    together = [False, *(isinstance(step, Together) for step in scenario.steps)]
    rewritten: Trace = []
    for section, several in zip(trace, together, strict=False):  # the trace may be cut off
        events = section.events[:]
        above = [event.split()[1].rpartition("/") for event in events]
        places = [
            index
            for index, (pool, _, name) in enumerate(above)
            if pool in pools and (several or name != "?")
        ]
        found = sorted((events[place] for place in places), key=lambda event: event.split()[1])
        for place, event in zip(places, found, strict=True):
            events[place] = event
        rewritten.append(evolve(section, events=events))
    return rewritten


STALE: Final = "stale_retry "


def _up_to_a_stale_retry(scenario: Scenario, trace: Trace) -> Trace:
    """Cut off Erlang's trace at the step in which it mistook an old retry for a new one."""
    del scenario
    for index, section in enumerate(trace):
        if any(event.startswith(STALE) for event in section.events):
            return trace[:index]
    return trace


def bad_in(call: Call, auto: str) -> bool:
    """Whether `call` starts a child that this `auto_shutdown` does not allow (SUP-207)."""
    child = call.arg
    if not isinstance(child, Worker | Sup):
        return False
    return child.significant and (auto == "never" or child.restart == "permanent")


DIFFERENCES: Final = (
    Difference(
        name="reports_of_a_killed_supervisor",
        kind="transformed",
        rules=("SUP-719",),
        erlang="a killed supervisor is gone and reports nothing",
        otpy="it ends its children itself, and reports those that did not expect a kill",
        why="nothing that ends is silent, and a report more does no harm",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
        in_otpy=_no_reports_of_the_killed,
    ),
    Difference(
        name="bad_specs_are_refused_by_the_caller",
        kind="transformed",
        rules=("SUP-207", "SUP-214", "SUP-801"),
        erlang="a spec is checked by the supervisor, if it is still there",
        otpy="it is checked where it is written, or before the request is sent",
        why="a mistake is found at its line",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
        in_erlang=_bad_specs_refused_by_the_caller,
        in_otpy=_bad_specs_refused_by_the_caller,
    ),
    Difference(
        name="who_ends_refuses_at_once",
        kind="transformed",
        rules=("SUP-613", "SUP-717"),
        erlang="what is asked of a supervisor that is ending waits, and fails when it has ended",
        otpy="it is refused at once",
        why="nobody has to wait to hear that",
        test="test_differences.py::test_a_stop_overtakes_what_is_queued",
        in_erlang=_refused_at_once,
        in_otpy=_refused_at_once,
    ),
    Difference(
        name="order_in_a_pool",
        kind="transformed",
        rules=("SUP-709", "DYN-14"),
        erlang="the children of a pool are told to end in no order that is promised",
        otpy="in one that is not promised either",
        why="they do not know of each other. What happens to each is compared",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
        in_erlang=_pools_sorted,
        in_otpy=_pools_sorted,
    ),
    Difference(
        name="quirks_of_a_pool",
        kind="transformed",
        rules=("SUP-811", "DYN-09", "DYN-12", "DYN-15", "REP-08"),
        erlang="a `simple_one_for_one` counts one spec, lists children without ids, groups reports "
        "of a stop, tells of no starts, terminates the dead, and keeps who declined a restart",
        otpy="a dynamic supervisor counts and names its children, and reports each",
        why="as in Elixir. The runners leave that out",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
    ),
    Difference(
        name="dynamic_starts",
        kind="excluded",
        rules=("DYN-08", "SUP-302"),
        erlang="starts and restarts of a pool run one after the other",
        otpy="they run side by side",
        why="decision 5. Compared where one is over before the next, where children that died at "
        "once all start again, and where one start meets a stop",
        test="test_start_in_flight.py::test_a_restart_in_flight_is_finished_too",
    ),
    Difference(
        name="stale_retry",
        kind="transformed",
        rules=("SUP-612", "SUP-614"),
        erlang="a child that fails to start again while the retry of an earlier failure is still "
        "queued is retried in the place of the earlier one, before ends and calls that came "
        "between the two",
        otpy="a retry that was overtaken is dropped: the new one waits its turn at the end",
        why="Erlang's message names the child and not the attempt. The number of attempts is the "
        "same. Compared up to the step in which it happens",
        test="test_differences.py::test_an_overtaken_retry_is_dropped",
        in_erlang=_up_to_a_stale_retry,
    ),
    Difference(
        name="killed_supervisor",
        kind="excluded",
        rules=("SUP-715", "SUP-719", "AIO-20"),
        erlang="children of a killed supervisor that trap exits hear of it and end, or do not, in "
        "their own time, perhaps after their successors have started",
        otpy="they are asked, with the same reasons and in the same order, before their supervisor "
        "has ended; they have one second in all, and are killed then",
        why="nothing is orphaned. Compared where all children below are silent and BRUTAL_KILL, "
        "and no supervisor stands two levels below: Erlang's may end after its successor started",
        test="test_differences.py::test_a_killed_supervisor_takes_its_children_along",
    ),
    Difference(
        name="no_time_at_all",
        kind="excluded",
        rules=("SUP-702", "AIO-05"),
        erlang="with a shutdown limit of 0 a child that traps exits is killed before it can react",
        otpy="it is cancelled, and may end at once; its clean-up runs up to the first await",
        why="asyncio children always run their clean-up. Compared for silent children",
        test="test_differences.py::test_a_limit_of_zero_lets_a_child_end_at_once",
    ),
    Difference(
        name="stop_overtakes",
        kind="excluded",
        rules=("SUP-317", "SUP-613", "SUP-717", "AIO-10"),
        erlang="a stop waits its turn behind everything that is queued already, restarts included",
        otpy="it is obeyed at once: the start in progress is finished, nothing else is started, "
        "ends that were waiting are judged as if they had come after it, and calls that were "
        "waiting are refused",
        why="a program that is told to stop should not open ten more connections first. Compared "
        "where the stop comes first",
        test="test_differences.py::test_a_stop_overtakes_what_is_queued",
    ),
    Difference(
        name="refusal",
        kind="excluded",
        rules=("SUP-701", "SUP-702", "AIO-02", "AIO-04"),
        erlang="a kill always succeeds",
        otpy="a child that refuses two cancellations is given up, and its reason is `Abandoned`",
        why="asyncio cannot kill. Compared for children that give in to the second cancellation",
        test="test_differences.py::test_who_refuses_to_be_killed_is_abandoned",
    ),
    Difference(
        name="unlinked_children",
        kind="excluded",
        rules=("SUP-316", "SUP-407", "SUP-712", "AIO-18", "AIO-19"),
        erlang="a child can remove its link, after which its death goes unnoticed; exits can be "
        "forged",
        otpy="its end is always seen, and cannot be forged",
        why="what ties a child to its supervisor is no link",
        test="test_asyncio_limits.py::test_a_child_cannot_hide_its_end_from_its_supervisor",
    ),
    Difference(
        name="trapping",
        kind="transformed",
        rules=("SIG-06", "AIO-05"),
        erlang="a child that does not trap exits ends without running any code of its own",
        otpy="every child runs its clean-up; the scripted one just writes nothing down in it",
        why="a cancelled task runs its `finally` blocks",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
    ),
    Difference(
        name="failed_start_seen_by_the_parent",
        kind="version",
        rules=("SUP-120",),
        erlang="up to OTP 25 a parent that traps exits gets an exit notice besides the result of a "
        "failed start_link; the runner's does not look for it",
        otpy="the result only, as OTP 29",
        why="otpy follows OTP 29",
        test="test_recorded.py::test_otpy_does_what_erlang_did",
    ),
    Difference(
        name="already_started_pairing",
        kind="version",
        rules=("SUP-804",),
        erlang="up to OTP 25 a start result `{error, {already_started, P}}` is paired with the "
        "child record; never generated, as otpy has no registered names",
        otpy="the reason",
        why="otpy follows OTP 29",
        test="none: it cannot be expressed",
    ),
    Difference(
        name="progress_level",
        kind="version",
        rules=("REP-07",),
        erlang="progress of start_child and restart_child is logged as debug (25: info); the "
        "runner reads both levels",
        otpy="`ChildStarted`, always",
        why="levels are the log's business",
        test="test_against_erlang.py::test_otpy_does_what_erlang_does",
    ),
)


def alike(scenario: Scenario, erlang: Trace, otpy: Trace) -> tuple[Trace, Trace]:
    """Return both traces without all known differences; the rest must be equal."""
    whole = len(erlang)
    for difference in DIFFERENCES:
        if difference.in_erlang is not None:
            erlang = difference.in_erlang(scenario, erlang)
        if difference.in_otpy is not None:
            otpy = difference.in_otpy(scenario, otpy)
    if len(erlang) < whole:  # cut off: later events do not count
        otpy = otpy[: len(erlang)]
    return erlang, otpy

"""All differences that a comparison of otpy with the installed Elixir must know.

The kinds are those of `differences.py`. Here `erlang` says what Elixir does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve

from tests.conformance.differences import Difference
from tests.conformance.elixir_scenario import Do, Job, Meanwhile, Names
from tests.conformance.trace import Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.elixir_scenario import Scenario, Step
    from tests.conformance.trace import Trace


def _without_unused_tasks(scenario: Scenario, trace: Trace) -> Trace:
    """Leave out the start and the end of tasks that a stream stopped because it ended early."""
    rewritten = trace[:1]
    for step, section in zip(scenario.steps, trace[1:], strict=True):
        halted = _halted(step, section)
        unused = [job for job in halted if not _finished(job.name, section.events)]
        starts = tuple(f"{job.name}: start " for job in unused)
        ends = tuple(f"tasks: child_terminated {job.name} " for job in unused)
        kept = [event for event in section.events if not event.startswith((*starts, *ends))]
        rewritten.append(evolve(section, events=kept))
    return rewritten


def _halted(step: Step, section: Section) -> Iterator[Job]:
    """Yield the jobs of each stream that did not return a result for each of them."""
    items = step.items if isinstance(step, Meanwhile) else (step,)
    calls = [item for item in items if isinstance(item, Do)]
    for call, result in zip(calls, section.results, strict=False):
        if call.op in {"stream", "stream!"}:
            jobs = next(arg for arg in call.args if isinstance(arg, tuple))
            if len(result.split(", ")) < len(jobs) or not result.startswith(("ok", "exit")):
                yield from jobs


def _finished(name: str, events: list[str]) -> bool:
    return any(event.startswith((f"{name}: return", f"{name}: die ")) for event in events)


def _without_ends_of_registries(scenario: Scenario, trace: Trace) -> Trace:
    """Leave out the report of a killed registry, or of a killed partition of one."""
    names = [node.name for node in scenario.tree.children if isinstance(node, Names)]
    reports = tuple(
        report
        for name in names
        for report in (
            f"{name}: child_terminated Elixir.{name}.",
            f"{scenario.tree.name}: child_terminated {name} ",
        )
    )
    return [
        evolve(section, events=[e for e in section.events if not e.startswith(reports)])
        for section in trace
    ]


ELIXIR_DIFFERENCES: Final = (
    Difference(
        name="unused_tasks",
        kind="transformed",
        rules=("TSK-11", "AIO-05", "AIO-06"),
        erlang="a stream that ends early kills its tasks, or they die of its reader's death, and "
        "each is reported as `child_terminated`",
        otpy="it asks them to end with `Shutdown`, and nothing is reported; one that has not taken "
        "its first step never runs",
        why="a clean-up is given its time. That none of them is left is compared",
        test="test_task_stream.py::test_nothing_is_left_whenever_a_stream_is_cut_off",
        in_erlang=_without_unused_tasks,
        in_otpy=_without_unused_tasks,
    ),
    Difference(
        name="registry_is_a_worker",
        kind="transformed",
        rules=("REG-01", "REG-14", "ESU-06"),
        erlang="a registry is a supervisor, whose partition can be killed; it reports that, and "
        "starts another",
        otpy="it is one process; when it is killed, its supervisor reports that and starts another",
        why="one event loop has no use for partitions. What becomes of those who are registered is "
        "compared; in the counts Elixir's registries pass for workers",
        test="test_against_elixir.py::test_otpy_does_what_elixir_does",
        in_erlang=_without_ends_of_registries,
        in_otpy=_without_ends_of_registries,
    ),
    Difference(
        name="restarting_child_by_its_id",
        kind="transformed",
        rules=("DYN-13",),
        erlang="a child that waits for its restart is terminated by the pid it had",
        otpy="by its id; the process of a life that is over names nobody",
        why="ids are names. otpy's side of a scenario uses the id there",
        test="test_elixir_differences.py::test_a_child_that_waits_for_its_restart_goes_by_its_id",
    ),
    Difference(
        name="tasks_end_with_their_reader",
        kind="excluded",
        rules=("TSK-11",),
        erlang="the tasks of `async_stream_nolink` go on when its reader dies",
        otpy="they end with it, as linked ones do",
        why="nobody can ask for their results any more. Compared for linked streams",
        test="test_elixir_differences.py::test_tasks_of_an_unlinked_stream_end_with_its_reader",
    ),
    Difference(
        name="await_hands_on_the_bare_reason",
        kind="excluded",
        rules=("TSK-07",),
        erlang="the exit of a caller whose `await` fails wraps the task's reason; it is abnormal, "
        "but for `shutdown`, even if the task's was clean",
        otpy="it is the task's reason, so clean if that was clean",
        why="to wrap reasons is a habit of exits that reports do without here. Compared for `boom` "
        "and `shutdown`",
        test="test_elixir_differences.py::test_who_awaits_in_vain_ends_with_the_bare_reason",
    ),
    Difference(
        name="results_are_kept",
        kind="excluded",
        rules=("TSK-06",),
        erlang="a result is a message: the first `await` or `yield` consumes it, and who never "
        "awaits finds it in his mailbox, with a `DOWN`",
        otpy="it can be asked for again, and is no message",
        why="there are no mailboxes. No scenario asks twice",
        test="test_elixir_differences.py::test_a_result_can_be_asked_for_again",
    ),
    Difference(
        name="killed_partition",
        kind="excluded",
        rules=("AIO-20",),
        erlang="children of a killed supervisor end in their own time",
        otpy="they are killed before it has ended",
        why="as `killed_supervisor`. Compared where they are silent and BRUTAL_KILL",
        test="test_differences.py::test_a_killed_supervisor_takes_its_children_along",
    ),
    Difference(
        name="dead_partition",
        kind="excluded",
        rules=("PAR-04",),
        erlang="between two lives of a partition its keys lead to the dead process",
        otpy="`NotRunning` is raised",
        why="a dead process is of no use",
        test="test_partition.py::test_a_partition_that_is_not_ready_gets_no_keys",
    ),
    Difference(
        name="hash_of_keys",
        kind="excluded",
        rules=("PAR-03",),
        erlang="keys other than integers are hashed by Erlang",
        otpy="by CRC-32, and only if they have the same hash everywhere",
        why="the hash is Erlang's own. Compared for integers",
        test="test_partition.py::test_the_hash_is_the_same_everywhere",
    ),
    Difference(
        name="unregistering_nothing",
        kind="excluded",
        rules=("REG-12",),
        erlang="listeners are told of every `unregister`, even if nothing was held",
        otpy="only if something was",
        why="nothing has happened",
        test="test_elixir_differences.py::test_unregistering_nothing_is_no_news",
    ),
    Difference(
        name="shutdown_of_zero",
        kind="version",
        rules=("DYN-05",),
        erlang="up to 1.14 at least a `DynamicSupervisor` refuses a child with `shutdown: 0`",
        otpy="it may be 0, as for a `Supervisor`, and as in newer ones",
        why="otpy follows 1.20",
        test="test_spec.py::test_any_other_shutdown_is_fine",
    ),
    Difference(
        name="significant_children",
        kind="version",
        rules=("DYN-05",),
        erlang="up to 1.14 at least a `DynamicSupervisor` accepts `significant: true` and ignores "
        "it",
        otpy="refused, as in 1.20",
        why="otpy follows 1.20",
        test="test_elixir_differences.py::test_a_dynamic_child_cannot_be_significant",
    ),
    Difference(
        name="resize",
        kind="version",
        rules=("PAR-06",),
        erlang="`PartitionSupervisor.resize!` is there since 1.18; never generated",
        otpy="`resize`",
        why="otpy follows 1.20",
        test="test_partition.py::test_resizing_through_all_sizes",
    ),
    Difference(
        name="lock",
        kind="version",
        rules=("REG-15",),
        erlang="`Registry.lock` is newer than 1.14; never generated",
        otpy="`lock`",
        why="otpy follows 1.20",
        test="test_registry.py::test_a_lock_lets_one_in_at_a_time",
    ),
)


def alike(scenario: Scenario, elixir: Trace, otpy: Trace) -> tuple[Trace, Trace]:
    """Return both traces without all known differences; the rest must be equal."""
    if len(elixir) != len(otpy):
        return elixir, otpy  # one of them was cut off
    for difference in ELIXIR_DIFFERENCES:
        if difference.in_erlang is not None:
            elixir = difference.in_erlang(scenario, elixir)
        if difference.in_otpy is not None:
            otpy = difference.in_otpy(scenario, otpy)
    return elixir, otpy

"""The numbered rules: all, those that otpy departs from, and those without a meaning in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

TITLES: Final = {
    "SUP-1": "supervisor flags",
    "SUP-2": "child specs",
    "SUP-3": "starting",
    "SUP-4": "exits",
    "SUP-5": "restart intensity",
    "SUP-6": "strategies and the restart loop",
    "SUP-7": "termination",
    "SUP-8": "operations",
    "SUP-9": "significant children",
    "REP": "reports",
    "SIG": "signals and links",
    "GEN": "gen_server",
    "APP": "applications",
    "ESU": "Elixir's Supervisor",
    "DYN": "Elixir's DynamicSupervisor",
    "TSK": "Elixir's Task.Supervisor",
    "PAR": "Elixir's PartitionSupervisor",
    "REG": "Elixir's Registry",
    "AIO": "what asyncio cannot do",
}
_COUNTS: Final = dict(
    zip(
        TITLES,
        (22, 17, 19, 9, 14, 26, 22, 16, 11, 12, 7, 24, 7, 9, 17, 12, 7, 16, 28),
        strict=True,
    )
)

NOT_APPLICABLE: Final = {
    "SUP-101": "flags are arguments of `SupervisorSpec`; there is no legacy form",
    "SUP-108": "`hibernate_after` only tunes Erlang's memory",
    "SUP-109": "there is no `simple_one_for_one`",
    "SUP-110": "flags are arguments of a class",
    "SUP-117": "there is no `simple_one_for_one`",
    "SUP-119": "supervisors have paths, not names",
    "SUP-210": "modules have no use",
    "SUP-513": "bookkeeping only",
    "SUP-623": "there is no `simple_one_for_one`; see DYN",
    "SUP-625": "there is no `simple_one_for_one`; see DYN",
    "SUP-626": "there is no `simple_one_for_one`; see DYN",
    "SUP-710": "there is no `simple_one_for_one`; see DYN",
    "SUP-812": "there is no `simple_one_for_one`; see DYN",
    "SUP-813": "there is no `simple_one_for_one`; see DYN",
    "SUP-815": "there is no `simple_one_for_one`; see DYN",
    "SUP-816": "there are no unknown calls",
    "AIO-25": "there is no hibernation",
}

DIFFERENT: Final = {
    "SUP-102": "three restarts in 5 s, as in Elixir (ESU-02)",
    "SUP-103": "unknown arguments are a `TypeError`",
    "SUP-202": "a missing argument is a `TypeError`",
    "SUP-203": "ids are text without a slash",
    "SUP-208": "the class of a spec is its type",
    "SUP-211": "unknown arguments are a `TypeError`",
    "SUP-215": "a spec is checked where it is made",
    "SUP-216": "a spec is checked where it is made",
    "SUP-217": "arguments are kept",
    "SUP-304": "a start is good when the child says that it is ready",
    "SUP-318": "neither deadlocks: both are `CallingSelf`",
    "SUP-319": "names are held in a `Registry`",
    "SUP-718": "any holder of a supervisor can stop it",
    "SUP-721": "there is no deadlock: the caller is ended in its turn",
    "REP-01": "reports are values",
    "REP-02": "reports carry the supervisor's path",
    "REP-04": "reports carry path, incarnation and restarts",
    "REP-05": "there are no pids",
    "REP-08": "every start is reported",
    "REP-11": "the event name is the label",
    "REP-12": "a crash is reported once",
    "SIG-01": "who does not trap exits is asked to end, and has time to clean up",
    "SIG-03": "there is no reason `kill` beside `Killed`",
    "SIG-04": "the dead give their real reason",
    "SIG-05": "notices of different processes have an order, too",
    "SIG-07": "unlinking takes back what lies unread",
    "APP-01": "a tree is not an application: it has no name, and may be started many times",
    "APP-02": "code around `otpy.start` gets `SupervisorFailed`, and may go on without the tree",
    "APP-03": "there is no type: what a tree's end means is for the code that started it to say",
    "APP-04": "under `otpy.run` the program ends with the root, with status 1 if it gave up",
    "APP-05": "leaving the block of `otpy.start`, and `stop`, raise nothing",
    "APP-06": "what is to be done before and after is written around the block of `otpy.start`",
    "APP-07": "there is no type; `otpy.run` is what a release does",
    "ESU-01": "the strategy has a default, `ONE_FOR_ONE`",
    "ESU-03": "`ChildSpec(id, start)` is the one form; anything else is `InvalidSpec`",
    "ESU-07": "every spec is given its id",
    "ESU-09": "there are no names; an id that is not text, or has a slash, is `InvalidSpec`",
    "DYN-06": "arguments are added by the function that makes the spec",
    "TSK-05": "the work is handed over with the start, so that there is no idle task",
    "REG-14": "one table, and no process but the registry's own",
    "AIO-01": "with `max_step` the step ends by an exception; else the blocked loop is reported",
    "AIO-03": "nothing is closed by force",
    "AIO-06": "a start that never ran has failed, if it owed readiness",
    "AIO-07": "a process remembers the reason requested",
    "AIO-08": "a stranger's cancellation is `Killed`",
    "AIO-09": "a supervisor has no task; cancelling the host stops the tree",
    "AIO-11": "children share the heap; each life begins with a new call",
    "AIO-12": "`SystemExit` is a crash of the child, `KeyboardInterrupt` is a signal",
    "AIO-13": "a thread that does not end is abandoned",
    "AIO-14": "an end is known a turn of the loop later",
    "AIO-15": "one event at a time, without a task",
    "AIO-16": "the end of a child that is being stopped is consumed by its stop",
    "AIO-17": "found by a context variable",
    "AIO-21": "whole seconds of the loop's clock",
    "AIO-22": "a request of a cancelled caller is executed",
    "AIO-23": "a late reply is dropped",
    "AIO-24": "the process ends with status 1",
    "AIO-26": "`reconfigure` replaces the spec of a running supervisor",
    "AIO-27": "no scan to find a child",
    "AIO-28": "workers of `otpy_agents` are processes of the operating system",
}
"""Rules that otpy departs from, besides those that a comparison must know of."""

SUITE_NOT_APPLICABLE: Final = {
    "sup_start_ignore_init, sup_start_error_return, sup_start_fail": "there is no init callback",
    "sup_start_*_simple, sup_stop_*_dynamic, child_adm_simple, simple_one_for_one*, "
    "hanging_restart_loop_simple, which_children_simple_one_for_one, significant_simple, "
    "count_children_supervisor": "`DynamicSupervisor` follows Elixir's",
    "sup_start_map_faulty_specs, child_specs, child_specs_map, sup_flags": "`InvalidSpec`, in "
    "`tests/core/test_spec.py`",
    "sup_stop_manual_timeout": "`asyncio.timeout` around `stop`",
    "extra_return": "`process.value`",
    "multiple_restarts": "real seconds; `tests/core/test_window.py`",
    "auto_hibernate, scale_*, do_not_save_start_parameters_for_temporary_children": "memory",
    "external_start_no_progress_log, format_log_1, format_log_2": "the text of a log",
    "faulty_application_shutdown": "there are no applications",
    "child_unlink": "no child can remove what ties it to its supervisor",
    "significant_upgrade_*, code_change*": "`reconfigure`, in `tests/core/test_reconfigure.py`",
    "get_callback_module": "there is no init callback",
    "simple_global_supervisor, already_started_outside_supervisor": "there are no global names",
}

ELIXIR_NOT_APPLICABLE: Final = {
    "supervisor: generates child_spec/1, child_spec/2, init/2 with old and new child specs, "
    "start_link/2 with old and new specs, start_child/2 supports old child spec": "a spec is a "
    "value; there are no modules that make one",
    "supervisor: start_link/2 with via, start_link/3 with global, start_link/3 with local": "there "
    "are no names",
    "supervisor: start_link/3": "there is no init callback",
    "dynamic_supervisor: use/2 generates child_spec/1, start_link/3 with registered process, "
    "start_link/3 with spawn_opt, sets initial call": "there is no init callback, no name and no "
    "heap to tune",
    "dynamic_supervisor: start_link/3 with non-ok init": "`InvalidSpec`, in "
    "`tests/core/test_spec.py`",
    "dynamic_supervisor: code_change/3": "there is no code change",
    "dynamic_supervisor: start_child/2 supports old child spec": "there is one form of spec",
    "dynamic_supervisor: start_child/2 supports extra arguments, restarting a child with "
    "extra_arguments": "absent; write a function that makes the spec",
    "task/supervisor: start with spawn_opt": "there is no heap to tune",
    "task/supervisor: async/3, async_nolink/3, start_child/3, streams an enumerable with mfa": "a "
    "coroutine function and its arguments are the only form",
    "task/supervisor: await/1 exits on task throw": "there is no throw",
    "task/supervisor: shuts down unused tasks without leaking messages": "there are no mailboxes; "
    "that no task is left is compared",
    "task/supervisor: with timeout and :zip_input_on_exit, with outer halt on failure": "absent; "
    "let the function return its input",
    "task/supervisor: does not allow streaming with invalid :shutdown": "`InvalidSpec`, in "
    "`tests/behaviours/test_task_stream.py`",
    "partition_supervisor: child_spec uses the name as id": "the id is an argument",
    "partition_supervisor: start_link/1 with via name, stop/1 with via, partitions/1, "
    "count_children/1 of unknown and via names": "there are no names; a handle of a supervisor "
    "that has ended raises `NotRunning`, which is compared",
    "partition_supervisor: raises without name, without child_spec, with auto_shutdown": "they are "
    "required arguments, or not there",
    "partition_supervisor: raises on bad with_arguments": "`InvalidSpec`, in "
    "`tests/behaviours/test_partition.py`",
    "partition_supervisor: resize!/2": "newer than 1.14; `tests/behaviours/test_partition.py`",
    "registry: starts configured number of partitions, child_spec/1 uses :name as :id": "there are "
    "no partitions, and the id is an argument",
    "registry: has unique registrations even if partition is delayed": "what a process holds is "
    "gone in the moment of its end; that its key is free at once is compared",
    "registry: supports reserved keys, unregister_match supports tricky keys, select supports full "
    "match specs, select allows multiple specs, raises on incorrect shape of match spec": "filters "
    "are functions",
    "registry: count_match, count_select": "`len`; compared with Elixir's own `match` and `select`",
    "registry: dispatches to multiple keys in parallel, or with 8 partitions": "there are no "
    "partitions",
    "registry: uses value provided in via, empty list for empty registry": "a child registers "
    "itself, with any value",
    "registry: lock": "newer than 1.14; `tests/behaviours/test_registry.py`",
    "registry: does not grow tables on already_registered": "memory",
}


def all_rules() -> Iterator[str]:
    """Yield every rule."""
    for section, count in _COUNTS.items():
        for number in range(1, count + 1):
            separator = "" if section.startswith("SUP") else "-"
            yield f"{section}{separator}{number:02}"


def section_of(rule: str) -> str:
    """Return the section of a rule."""
    return rule[:5] if rule.startswith("SUP") else rule[:3]

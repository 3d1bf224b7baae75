"""The cases of Elixir's tests of `Task.Supervisor` that have an equivalent, with their names."""

from __future__ import annotations

from typing import Final

from tests.conformance.elixir_case import Case, ask, case, meanwhile, person, start, top, waits
from tests.conformance.elixir_scenario import Arg, Do, Job, Tasks

TREE: Final = top(Tasks("tasks"), person("ann"), person("bob"))
TRAPS: Final = top(Tasks("tasks"), person("ann", ends="shutdown"))
ONE: Final = top(Tasks("tasks", max_children=1), person("ann"))
SPAWNS: Final = ("async", "async_nolink")
FAST, LIMIT, SLOW = 20, 200, 1000  # milliseconds


def stream(*jobs: Job, op: str = "stream", **options: Arg) -> Do:
    """Return a stream that ann reads, with Elixir's defaults; an error of `stream!` ends ann."""
    chosen: dict[str, Arg] = {
        "link": "link",
        "jobs": jobs,
        "concurrency": 4,
        "ordered": "ordered",
        "timeout": 5000,
        "on_timeout": "exit",
        "take": -1,
    }
    assert options.keys() <= chosen.keys()
    return ask("ann", op, "tasks", *(chosen | options).values())


def job(name: str, does: str = "return", after: int = 0) -> Job:
    """Return a job that acts after some time."""
    return Job(name, does, after)


SUPERVISED: Final = [
    case("counts and returns children", "TSK-01 TSK-10", TREE, "children tasks", "count tasks"),
    case(
        "multiple task supervisors can be supervised and identified with simple child spec",
        "ESU-07 TSK-01",
        top(Tasks("one"), Tasks("two")),
        *start("top", Tasks("three"), Tasks("three")),
        "children three",
    ),
]

SPAWNING: Final = [
    found
    for op, rule in zip(SPAWNS, ("TSK-03", "TSK-04"), strict=True)
    for found in (
        case(
            f"{op}/1 spawns tasks under the supervisor",
            f"{rule} TSK-06 TSK-10",
            TREE,
            ask("ann", op, "tasks", Job("t")),
            "children tasks",
            meanwhile("ann: await t 5000", "die t return"),
            "children tasks",
        ),
        case(
            f"{op}/1 with custom shutdown",
            rule,
            top(Tasks("tasks"), person("ann", ends="shutdown")),
            ask("ann", op, "tasks", Job("t", shutdown="brutal_kill")),
            "terminate top tasks",
        ),
        case(
            f"{op}/1 raises when :max_children is reached",
            f"{rule} TSK-08",
            ONE,
            ask("ann", op, "tasks", Job("t")),
            ask("ann", op, "tasks", Job("u")),
            "children tasks",
        ),
        case(
            f"{op}/1 with $callers",
            f"{rule} TSK-12",
            TREE,
            ask("ann", op, "tasks", Job("t", "return", inner=(job("u"),))),
        ),
        case(
            f"{op}/1 of a task that crashes",
            f"{rule} TSK-09",
            TREE,
            ask("ann", op, "tasks", Job("t")),
            "die t boom",
            "which top",
        ),
        case(
            f"{op}/1 of a task that exits",
            f"{rule} TSK-09",
            TREE,
            *(ask("ann", op, "tasks", Job(name)) for name in "tuv"),
            "die t normal",
            "die u shutdown:x",
            "die v shutdown",
            "children tasks",
        ),
        case(
            f"{op}/1 of a caller that crashes",
            rule,
            TREE,
            ask("ann", op, "tasks", Job("t")),
            "die ann boom",
            "children tasks",
        ),
        case(
            f"{op}/1 of a caller that ends normally",
            rule,
            TREE,
            ask("ann", op, "tasks", Job("t")),
            "die ann normal",
            "children tasks",
        ),
        case(
            f"{op}/1 of a caller that traps exits",
            f"{rule} SIG-01",
            TRAPS,
            *(ask("ann", op, "tasks", Job(name)) for name in "tuv"),
            "die t boom",
            "die u shutdown:x",
            "die v normal",
        ),
        case(
            f"{op}/1 of a task that is killed",
            rule,
            TRAPS,
            ask("ann", op, "tasks", Job("t")),
            "kill t",
        ),
    )
]

CHILDREN: Final = [
    case(
        "start_child/1",
        "TSK-02 TSK-12",
        TREE,
        ask("ann", "start_child", "tasks", Job("t")),
        "children tasks",
        "die t return",
        "children tasks",
    ),
    case(
        "start_child/1 is linked to nobody",
        "TSK-02 TSK-09",
        TREE,
        ask("ann", "start_child", "tasks", Job("t")),
        ask("ann", "start_child", "tasks", Job("u")),
        "die t boom",
        "die ann boom",
        "children tasks",
    ),
    case(
        "start_child/1 with custom shutdown",
        "TSK-02",
        TRAPS,
        ask("ann", "start_child", "tasks", Job("t", shutdown="brutal_kill", ends="shutdown")),
        "terminate top tasks",
    ),
    case(
        "start_child/1 with custom restart",
        "TSK-02",
        top(Tasks("tasks", max_restarts=2), person("ann")),
        ask("ann", "start_child", "tasks", Job("t", restart="permanent")),
        "exit t shutdown",
        "die t return",
        "die t boom",
        "children tasks",
    ),
    case(
        "start_child/1 of a transient task",
        "TSK-02",
        TREE,
        ask("ann", "start_child", "tasks", Job("t", restart="transient")),
        "die t boom",
        "die t return",
    ),
    case(
        "start_child/1 with $callers",
        "TSK-12",
        TREE,
        ask("ann", "start_child", "tasks", Job("t", "return", inner=(job("u"),))),
    ),
    case(
        "start_child/1 when :max_children is reached",
        "TSK-08",
        ONE,
        ask("ann", "start_child", "tasks", Job("t")),
        ask("ann", "start_child", "tasks", Job("u")),
    ),
    case(
        "terminate_child/2",
        "TSK-10 DYN-13",
        TREE,
        ask("ann", "start_child", "tasks", Job("t")),
        "children tasks",
        "terminate tasks t",
        "children tasks",
        "terminate tasks t",
    ),
]

AWAITING: Final = [
    case(
        "await/1 demonitors and unalias on timeout",
        "TSK-07",
        TREE,
        ask("ann", "async", "tasks", Job("t")),
        f"ann: await t {FAST}",
        "children tasks",
        "die t return",
        "which top",
    ),
    case(
        "await/1 of a caller that does not catch the timeout",
        "TSK-07",
        TREE,
        ask("ann", "async_nolink", "tasks", Job("t")),
        f"ann: await! t {FAST}",
        "children tasks",
    ),
    case(
        "await/1 exits on task error",
        "TSK-07 TSK-09",
        TRAPS,
        ask("ann", "async_nolink", "tasks", job("t", "boom", FAST)),
        "ann: await t 5000",
    ),
    case(
        "await/1 exits on task exit",
        "TSK-07 TSK-09",
        TRAPS,
        ask("ann", "async_nolink", "tasks", job("t", "shutdown:x", FAST)),
        "ann: await t 5000",
        ask("ann", "async_nolink", "tasks", job("u", "normal", FAST)),
        "ann: await u 5000",
    ),
    *(
        case(
            f"await/1 hands on the reason {reason}",
            "TSK-07",
            TREE,
            ask("ann", "async_nolink", "tasks", Job("t")),
            meanwhile("ann: await! t 5000", f"die t {reason}"),
        )
        for reason in ("boom", "shutdown")  # "await_hands_on_the_bare_reason"
    ),
    case(
        "only the owner may await",
        "TSK-07",
        TREE,
        ask("ann", "async_nolink", "tasks", Job("t")),
        f"bob: await t {FAST}",
        f"bob: yield t {FAST}",
        f"bob: shutdown t {FAST}",
        meanwhile("ann: await t 5000", "die t return"),
    ),
    case(
        "yield/2 may be tried again",
        "TSK-07",
        TREE,
        ask("ann", "async_nolink", "tasks", Job("t")),
        f"ann: yield t {FAST}",
        "ann: yield t 0",
        "die t return",
        f"ann: yield t {FAST}",
    ),
    *(
        case(
            f"yield/2 of a task that ends with {reason}",
            "TSK-07",
            TREE,
            ask("ann", "async_nolink", "tasks", Job("t")),
            meanwhile("ann: yield t 5000", f"die t {reason}"),
        )
        for reason in ("boom", "shutdown:x", "normal", "killed")
    ),
    *(
        case(
            f"shutdown/2 of a task that {what}",
            "TSK-07",
            TREE,
            ask("ann", spawn, "tasks", Job("t", ends=ends)),
            f"ann: shutdown t {limit}",
            "children tasks",
            "which top",
        )
        for spawn, what, ends, limit in (
            ("async", "does not trap exits", "silent", "5000"),
            ("async", "ends as it is told", "shutdown", "5000"),
            ("async", "ends otherwise", "shutdown:x", "5000"),
            ("async", "refuses", "refuses", str(FAST)),
            ("async", "is killed at once", "shutdown", "brutal_kill"),
            ("async_nolink", "is not linked", "silent", "5000"),
            ("async_nolink", "is not linked and refuses", "refuses", str(FAST)),
        )
    ),
    case(
        "shutdown/2 of a task that has ended",
        "TSK-07",
        TREE,
        ask("ann", "async_nolink", "tasks", Job("t")),
        "die t return",
        "ann: shutdown t 5000",
        ask("ann", "async_nolink", "tasks", Job("u")),
        "die u boom",
        "ann: shutdown u 5000",
    ),
]

FOUR: Final = tuple(job(f"t{number}", after=number) for number in (1, 2, 3, 4))
LINKS: Final = (("async_stream", "link"), ("async_stream_nolink", "nolink"))
STREAMS: Final = [
    found
    for name, link in LINKS
    for found in (
        case(f"{name} streams an enumerable with fun", "TSK-11", TREE, stream(*FOUR, link=link)),
        case(
            f"{name} streams an enumerable without leaking tasks",
            "TSK-11",
            TREE,
            stream(*FOUR, link=link, concurrency=2),
            "children tasks",
            "count tasks",
        ),
        case(
            f"{name} streams an enumerable with slowest first",
            "TSK-11",
            TRAPS,
            stream(
                *(job(f"t{number}", after=FAST * (4 - number)) for number in range(4)), link=link
            ),
            stream(
                *(job(f"u{number}", after=FAST * (4 - number)) for number in range(4)),
                link=link,
                ordered="unordered",
            ),
        ),
        case(
            f"{name} streams an enumerable with exits",
            "TSK-11 TSK-09",
            TRAPS,
            stream(
                job("t", "boom", FAST),
                job("u", "shutdown:x", FAST),
                job("v", "return", FAST),
                job("w", "normal", FAST),
                link=link,
            ),
        ),
        case(
            f"{name} shuts down unused tasks",
            "TSK-11",
            TREE,
            stream(job("t"), *waits("u", "v", "w"), link=link, take=1),
            "children tasks",
            "which top",
        ),
        case(
            f"{name} raises an error if :max_children is reached with clean stream shutdown",
            "TSK-11 TSK-08",
            ONE,
            stream(*waits("u", "v", "w"), link=link, concurrency=2),
            "children tasks",
            "which top",
        ),
        case(
            f"{name} with timeout",
            "TSK-11",
            TREE,
            stream(
                job("t"),
                job("u", after=SLOW),
                # Only linked: "tasks_end_with_their_reader".
                Job("v") if link == "link" else job("v"),
                op="stream!",
                link=link,
                timeout=LIMIT,
            ),
            "children tasks",
            "which top",
        ),
        case(
            f"{name} with timeout and kill_task",
            "TSK-11",
            TREE,
            stream(
                job("t"),
                job("u", after=SLOW),
                job("v"),
                link=link,
                timeout=LIMIT,
                on_timeout="kill_task",
            ),
            "children tasks",
        ),
        case(
            f"{name} of a crash in a reader that does not trap exits",
            "TSK-11",
            TREE,
            meanwhile(stream(*waits("t", "u"), link=link), "die u boom", "die t return"),
            "children tasks",
        ),
    )
]

MORE_STREAMS: Final = [
    case(  # only linked: "tasks_end_with_their_reader"
        "async_stream with its reader killed",
        "TSK-11",
        TREE,
        meanwhile(stream(*waits("t", "u")), "kill ann"),
        "children tasks",
    ),
    case(
        "async_stream with $callers",
        "TSK-12",
        TREE,
        stream(Job("t", "return", inner=(job("u"),))),
    ),
    case(
        "async_stream unordered with limited concurrency",
        "TSK-11",
        TREE,
        stream(
            job("t", after=FAST * 15),
            job("u", after=FAST),
            job("v", after=FAST),
            concurrency=2,
            ordered="unordered",
        ),
    ),
    *(
        case(
            f"async_stream {ordered} runs so many tasks and no more, {first} first",
            "TSK-11",
            TREE,
            meanwhile(
                stream(*waits("t", "u", "v", "w"), concurrency=2, ordered=ordered),
                "children tasks",
                *(step for name in order for step in (f"die {name} return", "children tasks")),
            ),
        )
        for ordered in ("ordered", "unordered")
        for first, order in (("oldest", "tuvw"), ("newest", "uvwt"))
    ),
    case("async_stream of nothing", "TSK-11", TREE, stream()),
    case(
        "async_stream_nolink consuming from another process",
        "TSK-12",
        TREE,
        ask("bob", "stream", "tasks", "nolink", (job("t"),), 1, "ordered", 5000, "exit", -1),
    ),
]

TASKS: Final[list[Case]] = [
    *SUPERVISED,
    *SPAWNING,
    *CHILDREN,
    *AWAITING,
    *STREAMS,
    *MORE_STREAMS,
]

"""Hypothesis strategies for scenarios: any tree up to depth 5, with any steps.

Some scenarios are never generated, because they could not be compared:

- Children that refuse to end under a limit of `infinity`, or of seconds: both sides would wait.
- Children that are dead on arrival below the root: two supervisors would be at work at once, and
  Erlang promises no order of the events of different processes (SIG-05).
- Supervisors that are killed together with something else, unless that comes later: otpy has no
  moment in which a supervisor has ended and the one above does not know it yet.

Scenarios that are never generated because otpy differs on purpose are named in `differences.py`.
"""

from __future__ import annotations

from typing import Any, Final, final

from attrs import evolve
from hypothesis import strategies as st

from tests.conformance.actor import KINDS
from tests.conformance.manners import HEARINGS, LONG, Manner
from tests.conformance.scenario import (
    HELD,
    POOL,
    Call,
    Die,
    Limit,
    Node,
    Release,
    Scenario,
    Step,
    Stop,
    Sup,
    Together,
    Worker,
)

RESTARTS: Final = ("permanent", "transient", "temporary")
STRATEGIES: Final = ("one_for_one", "one_for_all", "rest_for_one")
AUTO_SHUTDOWNS: Final = ("never", "any_significant", "all_significant")
REASONS: Final = ("boom", "normal", "shutdown", "shutdown:x", "killed")
STOP_REASONS: Final = ("shutdown", "normal", "shutdown:x", "boom")
ENDS: Final = ("shutdown", "silent", "normal", "shutdown:x", "boom", "refuses")
INTENSITIES: Final = (3, 20, 20, 1, 0, 8, 2)
OPERATIONS: Final = (
    *("terminate", "restart", "start", "delete") * 2,
    *("which", "count", "get"),
)
DEEPEST: Final = 5  # levels of a tree, without those that are added
NAP: Final = 3  # milliseconds
SHORT: Final = 15  # milliseconds granted to a child that refuses


@st.composite
def workers(
    draw: st.DrawFn, id: str, auto: str, *, at_root: bool = False, doomed: bool = False
) -> Worker:
    """Return a child of a supervisor with this `auto_shutdown`; see `supervisors`."""
    if doomed:
        restart, significant = draw(_role(auto))
        starts = draw(_starts(at_root=False))
        return Worker(id, restart, "brutal_kill", significant, starts, "silent")
    ends = draw(st.sampled_from(ENDS)) if draw(_one_in(3)) else "shutdown"
    limits: tuple[Limit, ...] = (LONG, "infinity", "brutal_kill")
    if ends == "refuses":
        limits = (SHORT, "brutal_kill")
    elif ends == "silent":
        limits = (LONG, "infinity", "brutal_kill", 0)
    restart, significant = draw(_role(auto))
    return Worker(
        id,
        restart=restart,
        shutdown=draw(st.sampled_from(limits)),
        significant=significant,
        starts=draw(_starts(at_root=at_root)),
        ends=ends,
        takes=NAP if draw(_one_in(10)) else 0,
        start_takes=NAP if draw(_one_in(15)) else 0,
        style=draw(st.sampled_from(["cancelled", "asked"])),
    )


@st.composite
def _starts(draw: st.DrawFn, *, at_root: bool) -> str:
    kind = draw(st.sampled_from(("", "retries", "any")))
    if not kind:
        return ""
    if kind == "retries":  # the child fails when restarted, perhaps several times
        return "s" + draw(st.text(st.sampled_from("feh"), min_size=1, max_size=4))
    letters = "fsfehid" if at_root else "fsfehi"
    first = "" if draw(_one_in(15)) else "s"
    return first + draw(st.text(st.sampled_from(letters), min_size=1, max_size=5))


@st.composite
def _role(draw: st.DrawFn, auto: str) -> tuple[str, bool]:
    restart = draw(st.sampled_from(RESTARTS))
    allowed = auto != "never" and restart != "permanent"
    return restart, allowed and draw(st.booleans())


@st.composite
def supervisors(draw: st.DrawFn, id: str, above: str, depth: int, *, doomed: bool = False) -> Sup:
    """Return a supervisor with up to four children, or a root with up to twelve.

    Args:
        draw: Hypothesis's.
        id: Its id.
        above: The `auto_shutdown` of its own supervisor.
        depth: Its level in the tree; the root's is 1.
        doomed: Whether one above it may be killed; see `killed_supervisor`. It then has no
            supervisors: Erlang's would end in their own time, with `shutdown`.
    """
    deepest = depth if doomed else DEEPEST
    doomed = doomed or (depth > 1 and draw(_one_in(6)))
    auto = draw(st.sampled_from(AUTO_SHUTDOWNS)) if draw(_one_in(2)) else "never"
    restart, significant = draw(_role(above))
    limits: tuple[Limit, ...] = ("infinity", LONG, "brutal_kill")
    most = 3 if depth > 1 else 12 if draw(_one_in(4)) else 4
    names = "abcdefghijkl"[: draw(st.integers(0 if draw(_one_in(10)) else 1, most))]
    return Sup(
        id,
        tuple(draw(_nodes(name, auto, depth, deepest, doomed=doomed)) for name in names),
        strategy=draw(st.sampled_from(STRATEGIES)),
        intensity=draw(st.sampled_from(INTENSITIES)),
        auto_shutdown=auto,
        restart=restart,
        shutdown=draw(st.sampled_from(limits if doomed else limits[:2])),
        significant=significant,
    )


@st.composite
def _nodes(
    draw: st.DrawFn, name: str, auto: str, depth: int, deepest: int, *, doomed: bool
) -> Node:
    if depth < deepest and draw(_one_in(2 if depth % 2 else 3)):
        return draw(supervisors(name, auto, depth + 1, doomed=doomed))
    return draw(workers(name, auto, at_root=depth == 1, doomed=doomed))


@st.composite
def pools(draw: st.DrawFn) -> Scenario:
    """Return a tree with a pool, up to three levels below the root, and steps for it.

    Its starts and restarts run side by side (`dynamic_starts`). So one step is over before
    the next, or many children die at once and all start again, or one start is in progress while
    something happens above the pool.
    """
    auto = draw(st.sampled_from(AUTO_SHUTDOWNS)) if draw(_one_in(2)) else "never"
    pattern = draw(workers("pattern", auto))
    way = draw(st.sampled_from(("one by one", "at once", "held up")))
    if way != "one by one" and pattern.shutdown not in {LONG, "infinity"}:
        # A stop leaves no time for another child's start in progress.
        pattern = evolve(pattern, shutdown=LONG, ends="shutdown", takes=0)
    intensity = draw(st.sampled_from(INTENSITIES))
    node = Sup("p", (pattern,), POOL, intensity, auto, restart=draw(st.sampled_from(RESTARTS)))
    strategies = st.sampled_from(STRATEGIES)
    above = ["m"] * draw(st.sampled_from((0, 0, 1, 3)))
    for name in above:
        node = Sup(name, (Worker("a"), node, Worker("b")), draw(strategies), 20)
    tree = Sup("top", (Worker("a"), node, Worker("b")), draw(strategies), 20)
    script = _PoolScript(draw, pattern, "/".join(["top", *above, "p"]))
    steps = {
        "one by one": script.one_by_one,
        "at once": script.at_once,
        "held up": script.held_up,
    }[way]()
    end = [Stop()] if draw(_one_in(3)) else []
    return Scenario(tree, (*steps, *end))


@final
class _PoolScript:
    """Makes the steps of a scenario about a pool."""

    def __init__(self, draw: st.DrawFn, pattern: Worker, path: str) -> None:
        self._draw = draw
        self._pattern = pattern
        self._path = path
        self._above = path.rpartition("/")[0]
        self._started = 0

    def one_by_one(self) -> list[Step]:
        """Let each step be over before the next."""
        return [self._step() for _ in range(self._draw(st.integers(2, 10)))]

    def at_once(self) -> list[Step]:
        """Let many children die at the same moment, some of them more than once."""
        draw, steps = self._draw, list[Step]()
        for _ in range(draw(st.integers(1, 3))):
            steps += [self._start("") for _ in range(draw(st.integers(1, 9)))]
            dying = draw(st.permutations(range(1, self._started + 1)))
            items: list[Die | Call] = [self._die(number) for number in dying]
            if draw(_one_in(3)):
                items.insert(draw(st.integers(0, len(items))), self._start(""))
            steps += [Together(self._path, tuple(items)), *map(self._call, ("which", "count"))]
        return steps

    def held_up(self) -> list[Step]:
        """Let something happen above while the start of the only child is held up."""
        draw = self._draw
        how = draw(st.sampled_from(("w", "W")))
        if draw(st.booleans()):
            steps: list[Step] = [self._start(how)]
        else:
            steps = [self._start(f"s{how}"), self._die(1)]
        above = Call(self._above, draw(st.sampled_from(("which", "terminate"))), "p")
        what: list[Step] = [above, self._call("stop"), Die("top/a"), Stop()]
        steps.append(draw(st.sampled_from(what)))
        return [*steps, *[Release()] * 3, self._step()]

    def _step(self) -> Step:
        draw = self._draw
        kind = draw(st.sampled_from(_POOL_STEPS))
        number = draw(st.integers(1, max(1, self._started)))
        match kind:
            case "start":
                return self._start(self._starts())
            case "die":
                return self._die(number)
            case "terminate":
                return Call(self._path, "terminate", f"c{number}")
            case "sibling":
                return Die("top/a")
            case "close" | "open":
                return Call(self._above, {"close": "terminate", "open": "restart"}[kind], "p")
            case _:
                return self._call(kind)

    def _call(self, op: str) -> Call:
        return Call(self._path, op, "shutdown" if op == "stop" else "")

    def _die(self, number: int) -> Die:
        return Die(f"{self._path}/c{number}", self._draw(st.sampled_from(REASONS)))

    def _starts(self) -> str:
        starts = self._draw(workers("c", "never")).starts
        return starts[:1] + starts[1:].replace("i", "s")

    def _start(self, starts: str) -> Call:
        self._started += 1
        child = evolve(
            self._pattern,
            id=f"c{self._started}",
            starts=starts,
            start_takes=0,
            style=self._draw(st.sampled_from(["cancelled", "asked"])),
        )
        return Call(self._path, "start", child)


_POOL_STEPS: Final = (
    *("start", "start", "start", "die", "die", "terminate"),
    *("which", "count", "stop", "sibling", "close", "open"),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Return a tree and up to eight steps."""
    if draw(_one_in(3)):
        return draw(pools())
    root = draw(supervisors("top", "never", 1))
    tree = Sup("top", root.children, root.strategy, root.intensity, root.auto_shutdown)
    places = _Places(Scenario(tree))
    steps: list[Step] = draw(_some(_steps(places), 1, 8))
    if places.failing and not draw(_one_in(4)):  # before another step has used up the failures
        steps.insert(0, draw(_retries(places)))
    if draw(st.booleans()):
        return draw(_holding(Scenario(tree, tuple(steps))))
    end = [Stop(draw(st.sampled_from(STOP_REASONS)))] if draw(_one_in(3)) else []
    return Scenario(tree, (*steps, *end))


@st.composite
def _holding(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Return `scenario` with held-up children, so that steps meet an operation in progress.

    It leaves out what would overtake such children (`stop_overtakes`): stops, and held-up children
    below a supervisor that its own may stop. It also leaves out bad specs, which are refused at
    once (`bad_specs_are_refused_by_the_caller`). The first start does not fail: no step could
    release the children whose end is held up, and each would take its limit, of real seconds in
    Erlang.
    """

    def held(node: Any) -> Any:
        if isinstance(node, Sup) or _is_doomed(node) or draw(_one_in(3)):
            return node
        starts = "s" + draw(st.text(st.sampled_from("wWsf"), min_size=1, max_size=4))
        if node.ends in {"silent", "refuses"} or not draw(_one_in(2)):
            return evolve(node, starts=starts)
        limit = "brutal_kill" if node.shutdown == "brutal_kill" else LONG
        return evolve(node, starts=starts, takes=HELD, shutdown=limit)

    def step(found: Step) -> Any:
        if isinstance(found, Together):
            items = [step(item) for item in found.items if not _is_stop(item)]
            return evolve(found, items=tuple(items))
        if isinstance(found, Call) and isinstance(found.arg, Worker | Sup):
            child = held(found.arg) if found.path == "top" else found.arg
            return evolve(found, arg=evolve(child, significant=False))
        return found

    steps: list[Step] = []
    for found in scenario.steps:
        if not _is_stop(found):
            steps += [step(found), *[Release()] * draw(st.sampled_from((0, 0, 1, 2)))]
    tree = evolve(scenario.tree, children=tuple(map(held, scenario.tree.children)))
    tree = _starting(tree)
    return Scenario(tree, (*steps, *[Release()] * 5))


def _starting(node: Any) -> Any:
    """Return `node` with first starts that all succeed."""
    if isinstance(node, Sup):
        return evolve(node, children=tuple(map(_starting, node.children)))
    return evolve(node, starts=f"s{node.starts[1:]}" if node.starts else "")


def _is_stop(step: Step) -> bool:
    return isinstance(step, Stop) or (isinstance(step, Call) and step.op == "stop")


MANNERS: Final = st.builds(Manner, st.sampled_from(KINDS), st.sampled_from(HEARINGS), st.booleans())


class _Places:
    """The targets of steps: paths of workers, supervisors, and the ids of their children."""

    def __init__(self, scenario: Scenario) -> None:
        nodes = dict(scenario.nodes())
        self.workers = [path for path, node in nodes.items() if isinstance(node, Worker)]
        self.sups = [path for path, node in nodes.items() if isinstance(node, Sup)]
        self.silent = {p for p, n in nodes.items() if isinstance(n, Worker) and n.ends == "silent"}
        self.doomed = [
            path
            for path, node in nodes.items()
            if isinstance(node, Sup) and path != "top" and _is_doomed(node) and _levels(node) < 3
        ]
        self.auto = {p: node.auto_shutdown for p, node in nodes.items() if isinstance(node, Sup)}
        self.below = {
            sup: [path for path in self.workers if path.rpartition("/")[0] == sup]
            for sup in self.sups
        }
        self.failing = [p for p in (*self.workers, *self.doomed) if _fails(nodes[p])]
        self.ids = {
            path: [child.id for child in node.children]
            for path, node in nodes.items()
            if isinstance(node, Sup)
        }

    def may_be_killed(self, path: str) -> bool:
        """Whether a supervisor at `path`, or above it, may be killed."""
        return any(f"{path}/".startswith(f"{doomed}/") for doomed in self.doomed)


@st.composite
def _steps(draw: st.DrawFn, places: _Places) -> Step:
    kinds = ["die", "die", "call", "call", "together", "together", "stop", "massacre"]
    kind = draw(st.sampled_from([*kinds, "retries", "retries"] if places.failing else kinds))
    if kind == "retries":
        return draw(_retries(places))
    if kind == "stop" and (len(places.sups) > 1 or draw(_one_in(10))):
        sup = draw(st.sampled_from(places.sups[1:] or places.sups))
        return Call(sup, "stop", draw(st.sampled_from(STOP_REASONS)))
    if kind == "die" and places.doomed and draw(_one_in(6)):
        return Die(draw(st.sampled_from(places.doomed)), "killed")
    if kind == "die" and places.workers:
        return _die(draw, places, places.workers)
    if kind == "massacre" and places.workers:
        return draw(_massacre(places))
    sup = draw(st.sampled_from(places.sups))
    ids: list[str] = [*places.ids[sup] * 3, "new", "other"]
    if kind == "call":
        return draw(_calls(places, sup, ids))
    stop = [Stop(draw(st.sampled_from(STOP_REASONS)))] if sup == "top" and draw(_one_in(15)) else []
    if draw(_one_in(2)):  # mostly about one child
        ids = [draw(st.sampled_from(ids))]
    items: list[Die | Call] = draw(_some(_items(places, sup, ids), 2, 6))
    return Together(sup, (*stop, *items))


@st.composite
def _massacre(draw: st.DrawFn, places: _Places) -> Together:
    """Return a step in which all workers of one supervisor, mostly the largest, die at once."""
    most = max(places.sups, key=lambda path: len(places.below[path]))
    others = [path for path in places.sups if places.below[path]]
    sup = draw(st.sampled_from(others)) if draw(_one_in(3)) else most
    order = draw(st.permutations(places.below[sup]))
    calls: list[Die | Call] = draw(_some(_calls(places, sup, [*places.ids[sup], "new"]), 0, 2))
    return Together(sup, (*calls, *(_die(draw, places, [path]) for path in order)))


@st.composite
def _retries(draw: st.DrawFn, places: _Places) -> Together:
    """Return a step in which calls find a child that did not start again (SUP-620)."""
    depths = sorted({path.count("/") for path in places.failing}, reverse=True)
    depth = draw(st.sampled_from(depths))
    path = draw(st.sampled_from([p for p in places.failing if p.count("/") == depth]))
    sup, _, name = path.rpartition("/")
    ids = [*[name] * 6, *places.ids[sup], "new", "other"]
    begin: list[Die | Call]
    if path in places.doomed:  # it must come first: see above
        begin = [Die(path, "killed")]
    else:
        begin = [draw(_items(places, sup, ids))] if draw(_one_in(6)) else []
        # In a group, the child that ends may differ from the one that then fails to start.
        other = draw(_one_in(6))
        why = draw(st.sampled_from(("boom", "killed")))
        begin.append(_die(draw, places, places.below[sup]) if other else Die(path, why))
    calls: list[Die | Call] = draw(_some(_calls(places, sup, ids), 2, 6))
    last: list[Die | Call] = [draw(_items(places, sup, ids))] if draw(_one_in(4)) else []
    return Together(sup, (*begin, *calls, *last))


@st.composite
def _items(draw: st.DrawFn, places: _Places, sup: str, ids: list[str]) -> Die | Call:
    children = [path for path in places.below[sup] if path.rpartition("/")[2] in ids]
    if children and draw(_one_in(2)):
        return _die(draw, places, children)
    return draw(_calls(places, sup, ids))


def _die(draw: st.DrawFn, places: _Places, paths: list[str]) -> Die:
    path, reason = draw(st.sampled_from(paths)), draw(st.sampled_from(REASONS))
    by_others = path in places.silent and draw(_one_in(3))
    return Die(path, reason, "others" if by_others else "itself")


def _fails(node: Node) -> bool:
    """Whether the second start of `node` fails, and is then retried."""
    if node.restart == "temporary":
        return False
    if isinstance(node, Sup):
        return any(map(_fails, node.children))
    return node.starts[:1] == "s" and node.starts[1:2] in {"f", "e", "h"}


def _levels(node: Node) -> int:
    """Return the number of nested supervisors, `node` included."""
    return 1 + max(map(_levels, node.children), default=0) if isinstance(node, Sup) else 0


def _is_doomed(node: Node) -> bool:
    if isinstance(node, Worker):
        return node.ends == "silent" and node.shutdown == "brutal_kill"
    return all(map(_is_doomed, node.children))


@st.composite
def _calls(draw: st.DrawFn, places: _Places, sup: str, ids: list[str]) -> Call:
    op = draw(st.sampled_from(OPERATIONS))
    if op in {"which", "count"}:
        return Call(sup, op)
    name = draw(st.sampled_from(ids))
    if op != "start":
        return Call(sup, op, name)
    name = draw(st.sampled_from((name, name, "new")))
    auto = draw(st.sampled_from(AUTO_SHUTDOWNS)) if draw(_one_in(3)) else places.auto[sup]
    doomed = places.may_be_killed(f"{sup}/{name}")
    too_deep = doomed and sup.count("/") > 1
    if draw(_one_in(6)) and not too_deep:  # its own id, so that no step takes it for a worker
        return Call(sup, op, draw(supervisors("sup", auto, 3, doomed=doomed)))
    child = draw(workers(name, auto, at_root=sup == "top", doomed=doomed))
    if f"{sup}/{name}" in places.silent:  # its successor is silent too: in OTP, one that traps
        child = evolve(child, ends="silent")  # exits would survive the others' request
    return Call(sup, op, child)


def _some(what: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[list[Any]]:
    """Return a strategy for lists of any length between `least` and `most`, equally likely."""
    return st.integers(least, most).flatmap(
        lambda size: st.lists(what, min_size=max(least, size - 1), max_size=size)
    )


def _one_in(n: int) -> Any:
    """Return a strategy that is true once in `n` times, and shrinks to false."""
    return st.integers(0, n - 1).map(lambda drawn: drawn == n - 1)

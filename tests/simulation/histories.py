"""The promises about a tree's history: every start, every report, every moment of rest."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from math import floor
from typing import Any, cast

from otpy import (
    Abandoned,
    AutoShutdown,
    ChildSpec,
    ExitReason,
    Ignore,
    Normal,
    OtpyError,
    Process,
    Registry,
    Restart,
    Shutdown,
    Strategy,
    SupervisorSpec,
)
from otpy._core.child import Status
from otpy._core.phase import Operation, Phase
from otpy._core.spec import ESCALATE
from otpy._runtime.handles import SupervisorHandle
from otpy._runtime.links import traps
from otpy._runtime.process import live_of
from otpy._runtime.shell import Shell
from otpy._runtime.shells import shell_of
from otpy.errors import StartTimeout
from otpy.reports import (
    ChildAbandoned,
    ChildExited,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    HookFailed,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)
from otpy.snapshot import ChildInfo, Counts
from otpy.specs import DynamicSpec
from tests.simulation.ledger import RUNNING, Ledger, Office, supervisors


def restarts(restart: Restart, reason: ExitReason) -> bool:
    """Whether a child that ended by itself restarts; this is OTP's table, written again."""
    if restart is Restart.TRANSIENT:
        return not isinstance(reason, Normal | Shutdown)
    return restart is Restart.PERMANENT


def _is_stopped_too(machine: Any, key: str) -> bool:
    """Whether an ending machine has decided to end this child as well.

    It may handle a request to start a child and an exit above the limit in one step, and the start
    is performed when both have been decided.
    """
    child = machine.children[key]
    return child.status is Status.STOPPING or child in getattr(machine, "_stops", ())


class Histories:
    """Compares what the supervisors of a tree do with what they may do."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.expect = ledger.expect
        self._due: ChildExited | None = None

    # --- starts ----------------------------------------------------------------------------------

    def begins(self, process: Process) -> None:
        """Check a worker that is being started."""
        ledger, parent, key = self.ledger, process.parent, process.id
        machine: Any = shell_of(parent)._machine
        before = ledger.last.get((parent, key))
        ledger.enter(process)
        office = ledger.offices[parent]
        in_time = machine.phase is Phase.STARTING or machine.phase is Phase.RUNNING
        self.expect(
            in_time or _is_stopped_too(machine, key), "{} was started by {}", process, parent
        )
        if key in office.order and process.incarnation == 1:
            office.order.remove(key)  # it was forgotten, and a new child has its id
        if key not in office.order:
            office.order.append(key)
        if before is not None and process.incarnation > 1:
            self._check_successor(process, *before)
        self._check_time(office, process)
        office.regroups = False
        self._try_again(machine, office, process)
        if isinstance(machine.spec, DynamicSpec):
            limit, number = machine.spec.max_children, len(machine.children)
            room = not isinstance(limit, int) or number <= limit
            self.expect(room, "{} is one too many", process)
            self._check_retry(machine, office, process)
        else:
            self._check_turn(machine, office, process)

    def _check_successor(self, process: Process, number: int, old: Process) -> None:
        self.expect(process.incarnation == number + 1, "{} came after {}", process, number)
        self.expect(not old.alive, "{} began before the end of {}", process, old)
        if not isinstance(old.exit_reason, Normal):  # a child that declined has no reason
            known = process.last_exit == old.exit_reason
            self.expect(known, "{} knows {}, not {}", process, process.last_exit, old)

    def _check_time(self, office: Office, process: Process) -> None:
        due, path = office.due.pop(process.id, (0.0, process.path))
        own_time = office.hurried or office.changed
        if not (own_time or {process.path, path} & self.ledger.touched):
            late = self.ledger.loop.time() - due  # sums of the same numbers may differ a little
            self.expect(late > -1e-9, "{} was due at {}", process, due)

    def _check_turn(self, machine: Any, office: Office, process: Process) -> None:
        siblings = [p for p in self._children_of(shell_of(process.parent)) if p is not process]
        unready = [p for p in siblings if not p.ready]
        self.expect(not unready, "{} was started, and {} were not ready", process, unready)
        strategy = machine.spec.strategy
        if office.changed or self._by_hand(shell_of(process.parent)):
            return
        if strategy is Strategy.ONE_FOR_ONE:
            self._check_retry(machine, office, process)
            return
        late = self._after(office, process.id, siblings)
        self.expect(not late, "{} was started before {} had ended", process, late)
        if strategy is Strategy.ONE_FOR_ALL:
            # Not the machine's state: an exit that it handled in the same step comes later.
            waits = [*shell_of(process.parent)._timers]
            self.expect(not waits, "{} was started, and {} wait", process, waits)

    def _try_again(self, machine: Any, office: Office, process: Process) -> None:
        """Count a failed restart when it is tried again, by the first child that starts."""
        alone = isinstance(machine.spec, DynamicSpec)
        alone = alone or machine.spec.strategy is Strategy.ONE_FOR_ONE
        for key in [process.id] if alone else [*office.failures]:
            if key in office.failures:
                office.failed[key][-1] = floor(self.ledger.loop.time())
        if not alone:
            office.failures.clear()

    def _check_retry(self, machine: Any, office: Office, process: Process) -> None:
        """Check that a start after a failed restart counts like the first."""
        failed = office.failures.pop(process.id, None)
        own = isinstance(process.spec, ChildSpec) and process.spec.intensity is not None
        touched = process.path in self.ledger.touched
        if failed == process.incarnation - 1 and not own and not touched:
            office.retried.append(floor(self.ledger.loop.time()))
            self._check_count(machine, office, process)

    def _check_count(self, machine: Any, office: Office, what: object) -> None:
        second, limit = floor(self.ledger.loop.time()), machine.spec.intensity
        times = [*office.restarts, *office.retried]
        recent = [time for time in times if time >= second - machine.spec.period]
        self.expect(len(recent) <= limit, "{} was one too many: {}, {}", what, recent, limit)

    def _children_of(self, parent: SupervisorHandle) -> list[Process]:
        return [p for p in self.ledger.alive.values() if p.parent is parent]

    def _by_hand(self, shell: SupervisorHandle) -> bool:
        # This holds even where the touched child was deleted: others may have waited for it.
        return any(path.rpartition("/")[0] == shell.path for path in self.ledger.touched)

    @staticmethod
    def _after(office: Office, key: str, siblings: list[Process]) -> list[Process]:
        later = office.order[office.order.index(key) + 1 :] if key in office.order else []
        return [p for p in siblings if p.id in later]

    # --- reports ---------------------------------------------------------------------------------

    def hear(self, report: Report) -> None:
        """Handle a report."""
        self.ledger.reports.append(report)
        self.ledger.loop.schedule.record.append(report)
        if isinstance(report, HookFailed):
            self._hear_failure(report)
            return
        due, self._due = self._due, None
        if due is not None:
            follows = isinstance(report, ChildRestarting | ChildGaveUp) and report.path == due.path
            given_up = isinstance(report, SupervisorGaveUp) and report.child == due.path
            self.expect(follows or given_up, "{} came after {}", report, due)
        match report:
            case ChildStarted():
                self._hear_start(report)
            case ChildExited() | ChildStopped() | ChildStartFailed():
                self._hear_end(report)
            case ChildRestarting():
                self._hear_restart(report, due)
            case SupervisorGaveUp():
                whole = report.child != report.path
                self.expect(whole, "a decision of {} broke off: {}", report.path, report.reason)
                self._check_limit(report)
            case ChildAbandoned():
                left = report.what == "subtask" and report.path in self.ledger.stubborn
                self.expect(left or report.path in self.ledger.ignoring, "{} for nothing", report)
            case _:
                pass

    def _hear_failure(self, report: HookFailed) -> None:
        """Handle the report of a failed hook or callback, which must come once."""
        number = self.ledger.raised.get(report.error)
        self.expect(number == 0, "{} came {} times before", type(report.error), number)
        self.ledger.raised[report.error] = 1

    def _office(self, path: str) -> tuple[SupervisorHandle, Office] | None:
        """Return the latest life of the supervisor at `path`, if it has started a worker."""
        for shell in reversed(self.ledger.offices):
            if shell.path == path:
                return shell, self.ledger.offices[shell]
        return None

    def _hear_start(self, report: ChildStarted) -> None:
        process, root = self.ledger.alive.get(report.path), self.ledger.tree.root
        if process is None:  # a supervisor without workers, which may have ended since
            with suppress(OtpyError):
                if root is not None:
                    self.ledger.enter(root.whereis(report.path))
            return
        self.expect(process.incarnation == report.incarnation, "{} came for {}", report, process)
        self.expect(process.ready, "{} came before it was ready", report)

    def _hear_end(self, report: ChildExited | ChildStopped | ChildStartFailed) -> None:
        there = self.ledger.alive.get(report.path)
        self.expect(there is None, "{} came while {} lived", report, there)
        self._check_registries(report)
        found = self._office(report.supervisor)
        if found is None:
            return
        shell, office = found
        number, process = self.ledger.last.get((shell, report.id), (0, None))
        if process is None or number != report.incarnation:  # the life was too short to be seen
            if isinstance(report, ChildStartFailed) and report.context is not None:
                office.failed.setdefault(report.id, []).append(floor(report.time))
            return
        if process.ready and not isinstance(report, ChildStartFailed):
            same = report.reason == process.exit_reason
            self.expect(same, "{} ended, it is said, with {}", process, report.reason)
        if isinstance(report, ChildExited):
            if restarts(process.spec.restart, report.reason):
                self._due = report
            self._check_cause(process, report)
        elif isinstance(report, ChildStartFailed) and report.context is not None:
            office.failed.setdefault(report.id, []).append(floor(report.time))
            office.failures[report.id] = number
        elif isinstance(report, ChildStopped):
            self._check_stop(shell, office, process, report)

    def _check_cause(self, process: Process, report: ChildExited) -> None:
        """Check that a child which was told to end had a cause."""
        task = getattr(getattr(process.spec, "start", None), "__name__", "")
        known = process in self.ledger.blamed or process in self.ledger.killed
        slow = isinstance(getattr(live_of(process).ending, "error", None), StartTimeout)
        excused = known or slow or task in ("work", "_work", "streaming")
        if process.supervisor is None and not excused:
            self.expect(live_of(process).ending is None, "{}: nobody wanted it to end", report)

    def _check_registries(self, report: Report) -> None:
        for registry in self.ledger.registries:
            dead = [p for p in registry._owned if not p.alive]
            self.expect(not dead, "{} keeps {} after {}", registry, dead, report)
            self.expect(registry._forget.keys() == registry._owned.keys(), "{} forgets", registry)
            held = sorted(n for numbers in registry._owned.values() for n in numbers)
            kept = sorted(n for numbers in registry._entries.values() for n in numbers)
            self.expect(held == kept, "{} keeps entries of nobody", registry)
        orphans, self.ledger.orphans = self.ledger.orphans, []
        for process in orphans:
            ends = (
                not live_of(process).runs
                or live_of(process).ending is not None
                or traps(live_of(process))
            )
            self.expect(ends, "{} lives on without its registry", process)

    def _check_stop(
        self, shell: SupervisorHandle, office: Office, process: Process, report: ChildStopped
    ) -> None:
        machine: Any = cast("Shell", shell)._machine
        by_hand = office.changed or self._by_hand(shell)
        if isinstance(machine.spec, DynamicSpec) or by_hand:
            return
        if machine.phase is Phase.STOPPING:
            above = shell.process
            # A stop of the group may be reported after later decisions of the supervisor.
            wanted = office.told or office.regroups or None in self.ledger.killed
            wanted = wanted or (above is not None and live_of(above).ending is not None)
            unwanted = machine._ending.failure is None and not wanted
            if unwanted and machine.spec.auto_shutdown is not AutoShutdown.ANY_SIGNIFICANT:
                auto = machine.spec.auto_shutdown is AutoShutdown.ALL_SIGNIFICANT
                early = not auto or process.spec.significant
                self.expect(not early, "{} came, and nobody wanted {} to end", report, shell)
        if machine._operation not in (Operation.AT_ONCE, Operation.KILL):
            late = self._after(office, report.id, self._children_of(shell))
            self.expect(not late, "{} came before the end of {}", report, late)

    def _hear_restart(self, report: ChildRestarting, due: ChildExited | None) -> None:
        found = self._office(report.supervisor)
        if found is None:
            return
        shell, office = found
        number, process = self.ledger.last.get((shell, report.id), (0, None))
        seen = process is not None and number == report.incarnation
        self.expect(not seen or due is not None, "{} came without an end", report)
        self._take_over(shell, office, report)
        office.regroups = not isinstance(cast("Shell", shell)._machine.spec, DynamicSpec)
        spec = getattr(process, "spec", None)
        if not office.changed and not (isinstance(spec, ChildSpec) and spec.intensity is not None):
            office.restarts.append(floor(report.time))
            self._check_count(cast("Shell", shell)._machine, office, report)

    def _take_over(self, shell: SupervisorHandle, office: Office, report: ChildRestarting) -> None:
        """Let a child that restarts with its group take over the delays of the others.

        If a user terminates it, the delays of the others end too: they have none of their own.
        """
        machine: Any = cast("Shell", shell)._machine
        at = report.time + report.delay
        keys = [*machine.children]
        alone = isinstance(machine.spec, DynamicSpec)
        alone = alone or machine.spec.strategy is Strategy.ONE_FOR_ONE
        if not alone and report.id in keys:
            first = keys.index(report.id) if machine.spec.strategy is Strategy.REST_FOR_ONE else 0
            for key in {*keys[first:]} & office.due.keys():
                due, path = office.due.pop(key)
                if path not in self.ledger.touched:
                    office.due[key] = max(at, due), report.path
        office.due[report.id] = at, report.path

    def _check_limit(self, report: SupervisorGaveUp) -> None:
        """Check that a supervisor gives up only after enough restarts."""
        found = self._office(report.path)
        if found is None:
            return
        shell, office = found
        machine: Any = cast("Shell", shell)._machine
        _, last = self.ledger.last.get((shell, report.child.rpartition("/")[2]), (0, None))
        if office.changed or last is None:
            return
        if isinstance(last.spec, ChildSpec) and last.spec.intensity is not None:
            self.expect(last.spec.intensity.then is ESCALATE, "{} instead of the child", report)
            return
        since, limit = floor(report.time) - machine.spec.period, machine.spec.intensity
        times = chain(office.restarts, *office.failed.values())
        recent = [time for time in times if time >= since]
        self.expect(len(recent) >= limit, "{} came too early: {}, {}", report, recent, limit)

    # --- at rest ---------------------------------------------------------------------------------

    async def check_tables(self) -> None:
        """Check, when only time can bring events, that supervisors know their living children."""
        ledger, root = self.ledger, self.ledger.tree.root
        now = (len(ledger.lives), len(ledger.alive), ledger.bound)
        for shell in [*supervisors(root)] if root is not None else ():
            if not (shell.running and shell.settled):
                continue
            with suppress(OtpyError):
                known, counts = await shell.which_children(), await shell.count_children()
                if now != (len(ledger.lives), len(ledger.alive), ledger.bound):
                    return  # the tree ended in between
                self._check_answers(shell, known, counts)

    def _check_answers(
        self, shell: SupervisorHandle, known: list[ChildInfo], counts: Counts
    ) -> None:
        running = {info.id: info.process for info in known if isinstance(info.process, Process)}
        alive = {p.id: p for p in self.ledger.alive.values() if p.parent is shell}
        more = {
            key: p for key, p in running.items() if key not in alive
        }  # supervisors without workers
        true = {**alive, **more} == running and all(p.supervisor for p in more.values())
        self.expect(true, "{} knows {}, not {}", shell, running, alive)
        right = (counts.specs, counts.active) == (len(known), len(running))
        self.expect(right, "{} counts {}, and knows {}", shell, counts, known)

    def check_rest(self) -> None:
        """Check the promises that hold when only time can bring more events."""
        for process in [p for p in self.ledger.alive.values() if p.supervisor is None]:
            task = live_of(process).task
            self.expect(task is None or not task.done(), "{} has ended, nobody knows", process)
            cold = live_of(process)._cold
            self._check_waiters(process, cold.waiters if cold else ())
            self.ledger.signals.check_rest(process)
        self.ledger.desk.check_rest()
        self.ledger.check_strays(self.ledger.loop.time())
        for handle, office in self.ledger.offices.items():
            shell = cast("Shell", handle)
            machine: Any = shell._machine
            above = shell.process
            if machine.phase is Phase.RUNNING and (above is None or above.alive):
                self._check_waiters(shell, [*chain(*shell._waiters.values()), *shell._end_waiters])
                if machine.settled:
                    self._check_table(shell, machine, office)
                else:
                    self._check_busy(shell, machine)

    def _check_waiters(self, who: object, waiters: Any) -> None:
        done = [waiter for waiter in waiters if waiter.done()]
        self.expect(not done, "{} keeps those that wait no longer: {}", who, done)

    def _check_table(self, shell: SupervisorHandle, machine: Any, office: Office) -> None:
        spec, touched = machine.spec, self.ledger.touched
        static = isinstance(spec, SupervisorSpec)
        bound = static and spec.strategy is not Strategy.ONE_FOR_ONE
        excused = office.changed or any(child.waits for child in machine.children.values())
        excused = excused or (bound and self._by_hand(shell))
        auto = static and spec.auto_shutdown is AutoShutdown.ANY_SIGNIFICANT
        for key, child in machine.children.items():
            path, status = f"{shell.path}/{key}", child.status.value
            there = self.ledger.alive.get(path)
            self.expect((status == "running") is (there is not None), "{}: {}", child, there)
            if child.waits:
                self.expect(
                    key in cast("Shell", shell)._timers, "{} of {} waits for ever", child, shell
                )
            temporary = child.spec.restart is Restart.TEMPORARY
            wanted = child.spec.restart is Restart.PERMANENT or (auto and child.spec.significant)
            down = status == "undefined" and not excused and path not in touched
            declined = self._declined(shell, key) or getattr(child.spec, "children_by", None)
            if down and not declined:
                self.expect(not wanted and not temporary, "{} of {} is down", child, shell)

    def _declined(self, shell: SupervisorHandle, key: str) -> bool:
        _, process = self.ledger.last.get((shell, key), (0, None))
        life = self.ledger.lives.get(process) if process is not None else None
        return life is not None and isinstance(life.body, Ignore)

    def _check_busy(self, shell: SupervisorHandle, machine: Any) -> None:
        """Check that a busy supervisor waits for a child that starts or stops."""
        children = machine.children.values()
        busy = [c for c in children if c.status.value in ("starting", "stopping")]
        self.expect(bool(busy), "{} waits for nobody", shell)
        for child in busy:
            there = self.ledger.alive.get(f"{shell.path}/{child.key}")
            below = isinstance(child.spec, ChildSpec)  # others may have no workers yet
            self.expect(
                there is not None or not below, "{} waits for {}, which is dead", shell, child
            )

    def check_end(self) -> None:
        """Check the promises that hold after the end of the tree."""
        alive = [*self.ledger.alive.values()]
        self.expect(not alive, "{} live", alive)
        heard = self.hear in self.ledger.tree.hooks
        self.expect(heard, "nobody listens any more")
        self.expect(self._due is None, "nothing came after {}", self._due)
        for life in self.ledger.lives.values():
            process = life.process
            given_up = isinstance(process.exit_reason, Abandoned)
            self.expect(life.body != RUNNING or given_up, "the code of {} runs on", process)
            cold = live_of(process)._cold
            self.expect(not (cold and cold.waiters), "{} is waited for", process)
            self.ledger.signals.check_gone(process)
            if isinstance(process.value, Registry):
                registry = Registry.of(process)
                self.expect(not registry._queues, "{} keeps locks", registry)
        untold = [error for error, number in self.ledger.raised.items() if not number]
        self.expect(not untold, "nobody was told of {}", [*map(type, untold)])
        for shell in cast("dict[Shell, Office]", self.ledger.offices):
            kept = [child for child in shell._machine.children.values() if child.process]
            timers = shell._timers
            self.expect(not kept and not timers, "{} keeps something", shell)
            self.expect(not shell._waiters and not shell._end_waiters, "{} is waited for", shell)
        root = [r for r in self.ledger.reports if isinstance(r, SupervisorStopped)]
        ends = sum("/" not in report.path for report in root)
        self.expect(ends == 1, "the root ended {} times", ends)

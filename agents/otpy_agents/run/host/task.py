"""`RunTask`: the server that drives the machine of one run.

The machine's decisions are stored first and performed afterwards. All state that must outlive one
life of the task is in the `LiveRun` and in the store. So after a crash or a kill at any point, the
next task reads the store, takes up the current attempt, and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final, TypeAlias, cast, final

from attrs import evolve, frozen

from otpy import DynamicSupervisor, ExitReason, GenServer, Normal, Supervisor, current
from otpy.server import Init, NoReply, Reply, Result, Stop
from otpy_agents.errors import LedgerUnwritable, RunHeld, RunLost, RunStateError, UnknownRun
from otpy_agents.run.decide.machine import RunMachine
from otpy_agents.run.decide.protocol import (
    AnswerControl,
    AttemptStarted,
    BeginRun,
    Charged,
    ClockMoved,
    ControlAsked,
    CooldownsSeen,
    Effect,
    Event,
    OutputHeard,
    ProgressHeard,
    Resumed,
    RunControl,
    RunDue,
    SessionKnown,
    StopAttempt,
    Unheard,
)
from otpy_agents.run.decide.state import RunPhase, RunState, WaitReason
from otpy_agents.run.host.adoption import end_attempts, take_up
from otpy_agents.run.host.effects import known_cooldowns, perform, tell_changes
from otpy_agents.run.host.facts import LogLine, RunBegan
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.lost_attempt import end_of_lost, tell_again
from otpy_agents.run.host.store_outage import StoreOutage
from otpy_agents.run.host.stored_form import (
    StoredForm,
    cleaned_order,
    identity_to_json,
    rows_between,
    same_but_for_signs,
)

__all__ = ["ATTEMPTS", "LOOK", "TaskLife", "Look", "RunTask"]

ATTEMPTS: Final = "attempts"
"""Id of the supervisor of the attempts, which stands before the task."""

_GLANCE: Final = 5.0  # seconds between two looks at an account that the run waits for
_NAP: Final = 60.0  # seconds after which the clock is looked at in any case: it may have been set
_ON_TIME: Final = 0.05  # seconds after which a wake-up is late
_LATE: Final = 1.0  # seconds after which it is worth a word
_DRAIN: Final = 0.25  # seconds in which the readers take in what was written meanwhile
_ENDS: Final = frozenset({RunControl.CANCEL, RunControl.KILL, RunControl.STOP})
# The first three bring no launch about, the others bring the cooldowns with them.
_NEED_NO_LOOK: Final = (AttemptStarted, SessionKnown, Charged, BeginRun, Resumed)
_LOST: Final = (RunLost, RunHeld, UnknownRun, RunStateError)


class Look(Enum):
    """The type of `LOOK`."""

    LOOK = "look"


LOOK: Final = Look.LOOK
"""Cast to the task: there may be news, of the attempt, of the clock, or of the gate."""


@final
class TaskLife:
    """One life of a task.

    Attributes:
        run: Its run.
        machine: Decides; made from what is stored when this life begins.
        taken: Whether the run is this life's, in the store too.
        begun: Whether the machine has been told to begin.
        news: Set as soon as there may be some.
        read: The clocks when they were last compared, or a jump was last told.
        looked: When it last looked, in seconds of the loop.
        late: How late the timer was since then, in seconds.
        judges_at: When it may judge a silence, in seconds of the loop; after a late wake-up what
            lies in the pipes is read before.
        in_line: Whether its account is free, and it waits for its turn.
        unwritten: Since when the store takes no writes; None while it does.
        owed: Commands and news meanwhile, to be decided and stored when it does again.
        steps: The last decision; performed only if it could be stored.
    """

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self.machine = RunMachine(run.state)
        self.taken = self.begun = self.in_line = False
        self.news = asyncio.Event()
        self.read = run.site.clock.read()
        self.looked = self.read.steady
        self.late = self.judges_at = 0.0
        self.unwritten: StoreOutage | None = None
        self.owed: list[RunControl] = []
        self.steps: tuple[_Decided, ...] = ()
        self._me = current()

    def wake(self) -> None:
        """Let the task look, once for all news that come before it does."""
        if not self.news.is_set():
            self.news.set()
            RunTask.at(self._me).cast(LOOK)

    @property
    def waits_for_account(self) -> bool:
        """Whether it may be let go on by what another process writes into the store."""
        wait = self.machine.state.wait
        return wait is not None and wait.reason is WaitReason.COOLDOWN

    def has_turn(self) -> bool:
        """Whether it may go on, its wait being over; if not, it is woken when it may."""
        turn = self.run.site.turn
        mine = not self.waits_for_account or turn is None or turn(self.run.order.label, self.wake)
        self.in_line = not mine
        return mine

    def set_timer(self) -> None:
        """Be woken when the machine wants to see the clock."""
        run, due, loop = self.run, self.machine.due, asyncio.get_running_loop()
        run.stop_timer()
        if run.over:
            return
        if self.unwritten is not None:
            run.timer = loop.call_at(self.unwritten.again, self.wake)
        elif self.begun and due is not None:
            now, nap = loop.time(), _GLANCE if self.waits_for_account else _NAP
            delay = min(nap, max(0.0, due - run.site.clock(), self.judges_at - now))
            if self.in_line:  # its gatekeeper may have been replaced: it asks again
                delay = nap
            run.timer = loop.call_later(delay, self._timed, now + delay)

    def _timed(self, due: float) -> None:
        self.late = max(self.late, asyncio.get_running_loop().time() - due)
        self.wake()

    def clock_moved(self) -> tuple[ClockMoved, ...]:
        """Return the events that the machine must have first, once; empty for none."""
        read = self.run.site.clock.read()
        moved = read.since(self.read)
        if not moved:
            return ()
        self.read = read
        return (ClockMoved(moved.by, moved.slept),)


_Deed: TypeAlias = Callable[[TaskLife], Awaitable[object]]
_Handled: TypeAlias = Result[TaskLife]


@final
class RunTask(GenServer[RunControl | Look, AnswerControl, TaskLife]):
    """Drives one run: `call` it with a `RunControl`; it casts `LOOK` to itself."""

    def init(self, run: LiveRun) -> Init[TaskLife]:
        """Begin a life; the store is asked when this child counts as started."""
        run.begin_life(current())
        return Init(TaskLife(run), continue_with=LOOK)

    async def handle_continue(self, value: object, state: TaskLife) -> _Handled:  # noqa: ARG002 - an interface
        """Take the run up."""
        return await _guarded(state, _look)

    async def handle_cast(self, request: RunControl | Look, state: TaskLife) -> _Handled:  # noqa: ARG002 - an interface
        """Handle news."""
        return await _guarded(state, _look)

    async def handle_call(
        self,
        request: RunControl | Look,
        caller: object,  # noqa: ARG002 - an interface
        state: TaskLife,
    ) -> Reply[AnswerControl, TaskLife] | Stop[AnswerControl, TaskLife]:
        """Ask the machine, store its decision, perform it, and then answer."""
        answered = AnswerControl(False, "the run is over")
        try:
            await _look(state)
            if not state.run.over:
                answered = await _ask(state, cast("RunControl", request))
        except _LOST as error:
            await _leave(state, error)
            answered = AnswerControl(False, str(error))
        if state.run.over:
            return Stop(Normal(), state, reply=answered)
        return Reply(answered, state)

    async def terminate(self, reason: ExitReason, state: TaskLife) -> None:  # noqa: ARG002 - an interface
        """Stop the run in order, if it is its supervisor that ends and not just this life."""
        run = state.run
        run.stop_timer()
        if run.over or _supervisor().running:
            return
        if not state.begun and run.state.attempt is not None:
            return  # its remains were not looked for: the next host does that
        try:
            await _ask(state, RunControl.STOP)
            while not run.over:
                await state.news.wait()
                await _look(state)
        except _LOST as error:
            await _leave(state, error)


async def _guarded(life: TaskLife, do: _Deed) -> _Handled:
    try:
        await do(life)
    except _LOST as error:
        await _leave(life, error)
    return Stop(Normal(), life) if life.run.over else NoReply(life)


async def _leave(life: TaskLife, error: Exception) -> None:
    """Another has the run: end what runs of it here, at once, and tell."""
    if life.run.flight is not None:
        life.run.flight.stop(kill=True)
    await end_attempts(_attempts())
    life.run.leave(error)


def _supervisor() -> Supervisor:
    return cast("Supervisor", current().parent)


def _attempts() -> DynamicSupervisor:
    return cast("DynamicSupervisor", _supervisor().child(ATTEMPTS).supervisor)


# --- beginning ------------------------------------------------------------------------------------


async def _take_up(life: TaskLife) -> None:
    """Continue from the stored state; the first life has just stored it."""
    run = life.run
    if not run.fresh and not life.taken:
        stored = await run.site.store.take_over(run.id)
        run.lease = stored.lease
        # The chain never changes; that in the store lacks the secrets among its flags.
        read = StoredForm.from_json(stored.state).state
        run.state = evolve(read, chain=run.state.chain)
        life.machine = RunMachine(run.state)
    run.fresh, life.taken = False, True
    begun = run.state.phase is not RunPhase.INITIALIZE
    inside = run.site.gate.enter(run.id, life.wake, anyway=begun)
    if not run.known:
        run.known = True
        agents = tuple(agent.agent_id for agent in run.state.chain.agents)
        order = cleaned_order(run.order, run.clean)
        run.tell(RunBegan, order=order, agents=agents, resumed=begun, waiting=not inside)
    if inside:
        await _begin(life)


async def _begin(life: TaskLife) -> None:
    run = life.run
    life.read = run.site.clock.read()  # the machine has heard of no moment before
    if run.state.phase is RunPhase.INITIALIZE:
        await _step(life, BeginRun(await known_cooldowns(run)))
        life.begun = True
        life.set_timer()
        return
    if run.flight is None:  # another host was at work before
        tell_again(run)
    adopted = await take_up(run, _attempts(), life.wake)
    lost = None if adopted else await end_of_lost(run)
    await _step(life, Resumed(await known_cooldowns(run), adopted, lost))
    life.begun = True
    await _look_on(life)


# --- looking --------------------------------------------------------------------------------------


async def _look(life: TaskLife) -> None:
    """Handle news, unless the store refuses writes and the next try is not due yet."""
    run, unwritten = life.run, life.unwritten
    life.news.clear()
    if run.over:
        return
    if unwritten is not None and not unwritten.is_due(_now(), flying=_is_flying(run)):
        life.set_timer()
        return
    try:
        await (_look_on(life) if life.taken else _take_up(life))
    except LedgerUnwritable as error:
        await _hold(life, error)
    else:
        _written(life)


async def _look_on(life: TaskLife) -> None:
    """Tell the machine the attempt's news, and the time."""
    run = life.run
    if run.over:
        return
    if not life.begun:
        if run.site.gate.enter(run.id, life.wake):
            await _begin(life)
        return
    life.in_line = False
    await _compare_clocks(life)
    flight, attempt = run.flight, life.machine.state.attempt
    if flight is not None and attempt is not None and flight.number == attempt.number:
        await _hear(life, flight)
    if not run.over and life.waits_for_account:
        await _step(life)
    due, now = life.machine.due, asyncio.get_running_loop().time()
    is_due = due is not None and now >= life.judges_at and run.site.clock() >= due
    if not run.over and is_due and life.has_turn():
        await _step(life, RunDue())
    life.set_timer()


async def _hear(life: TaskLife, flight: Flight) -> None:
    """Take in the attempt's news since the last look."""
    run, number, machine = life.run, flight.number, life.machine
    if flight.running is not None and flight.identity is not None and not flight.identified:
        await run.site.store.identify(run.lease, number, identity_to_json(flight.identity))
        flight.identified = True
    events: list[Event] = []
    attempt, session = machine.state.attempt, flight.transcript.session
    if flight.ran and attempt is not None and attempt.started is None:
        events.append(AttemptStarted(number))
    if session is not None and attempt is not None and session != attempt.session:
        events.append(SessionKnown(number, session))
    charged = None if machine.state.budget_usd is None else flight.charged()
    if charged is not None:
        events.append(charged)
    if flight.outcome is not None:
        events.append(flight.outcome)
    if events:
        await _step(life, *events)
    attempt = machine.state.attempt
    if attempt is not None and flight.outcome is None:
        # Signs of life cause nothing but a later look at the clock; they need not be stored.
        clock = run.site.clock
        said, wrote = flight.progress, flight.output
        if said is not None and said != flight.told:
            flight.told = said
            if clock.at(said) > attempt.progress:
                machine.handle(ProgressHeard(number), clock.at(said))
        if wrote is not None and clock.at(wrote) > attempt.output:
            machine.handle(OutputHeard(number), clock.at(wrote))


async def _compare_clocks(life: TaskLife) -> None:
    """Tell the machine that the wall clock was moved, and that this look comes late."""
    now, late, read = asyncio.get_running_loop().time(), life.late, life.read
    life.late = 0.0
    events: list[Event] = [*life.clock_moved()]
    if late > _ON_TIME and life.machine.state.attempt is not None:
        life.judges_at = now + _DRAIN
        if late > _LATE:
            events.append(Unheard(life.run.site.clock.at(life.looked), late))
    try:
        if events:
            await _step(life, *events)
    except LedgerUnwritable:
        life.read, life.late = read, late
        raise
    life.looked = now


# --- deciding -------------------------------------------------------------------------------------


@frozen
class _Decided:
    before: RunState
    effects: tuple[Effect, ...]
    after: RunState


def _decide(machine: RunMachine, event: Event, now: float) -> _Decided:
    before = machine.state
    effects = machine.handle(event, now)
    return _Decided(before, effects, machine.state)


async def _step(life: TaskLife, *events: Event) -> list[Effect]:
    """Let the machine decide, store that, and do it; without an event it looks at cooldowns.

    Raises:
        LedgerUnwritable: It could not be stored, so nothing is decided, and nothing was done.
    """
    run, machine, clock = life.run, life.machine, life.run.site.clock
    heard: list[Event] = [*map(ControlAsked, life.owed), *events]
    needs_look = not heard or not all(isinstance(event, _NEED_NO_LOOK) for event in heard)
    known = await known_cooldowns(run) if needs_look else None
    read, spare = life.read, machine.copy()
    heard[:0] = life.clock_moved()
    if known is not None:
        # What follows may be a launch: the cooldowns of all runs have to be known.
        # They are of before the clock moved, and are moved with it.
        heard.insert(0, CooldownsSeen(known))
    life.steps = steps = tuple(_decide(machine, event, clock()) for event in heard)
    effects = [effect for step in steps for effect in step.effects]
    before, after = steps[0].before, machine.state
    if effects or not same_but_for_signs(run.state, after):
        try:
            await _store(run, before, after)
        except LedgerUnwritable:
            life.machine, life.read = spare, read
            raise
    life.owed.clear()
    await _perform(life)
    return effects


async def _store(run: LiveRun, before: RunState, after: RunState) -> None:
    form = StoredForm(order=run.order, state=after)
    await run.site.store.save(
        run.lease,
        form.to_json(run.clean, run.order_json),
        version=form.version,
        status=after.status,
        agent=after.agent.agent_id,
        attempts=rows_between(before, after, run.flight, run.clean),
        exit_code=after.result().exit_code if after.ending is not None else None,
    )
    run.state = after


async def _perform(life: TaskLife) -> None:
    """Perform the last decision."""
    run = life.run
    for step in life.steps:
        tell_changes(run, step.before, step.after, step.effects)
        await perform(run, step.effects, _attempts(), life.wake)
    life.set_timer()


# --- while nothing can be stored ------------------------------------------------------------------


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_flying(run: LiveRun) -> bool:
    return run.flight is not None and run.flight.outcome is None


async def _hold(life: TaskLife, error: LedgerUnwritable) -> None:
    """Let the attempt go on, and try again later; or end, where one would have to begin.

    A run that was told to end does not wait for the disk.
    """
    run, before = life.run, life.unwritten
    life.unwritten = now = StoreOutage.found(_now(), flying=_is_flying(run), before=before)
    if before is None:
        what = "the agent goes on, nothing new is started until it can be written"
        run.tell(LogLine, text=f"[supervisor] state file {error.path}: {error.detail}; {what}")
    if now.alone is None or not (life.owed or now.is_hopeless(_now())):
        life.set_timer()
        return
    after = life.steps[-1].after if life.steps else run.state
    if after.ending is None:
        await _leave(life, error)
        return
    run.tell(LogLine, text=f"[supervisor] the end of the run could not be stored: {error}")
    run.state = after
    await _perform(life)


def _written(life: TaskLife) -> None:
    """Go on as before, if the store takes writes again."""
    run, unwritten = life.run, life.unwritten
    if unwritten is None:
        return
    life.unwritten = None
    seconds = _now() - unwritten.since
    run.tell(LogLine, text=f"[supervisor] state file: written again after {seconds:.0f} s")
    life.set_timer()


async def _ask(life: TaskLife, control: RunControl) -> AnswerControl:
    """Let the machine decide about a control; an end is brought about even if it is not stored."""
    try:
        effects = await _step(life, ControlAsked(control))
    except LedgerUnwritable as error:
        effects = [effect for step in life.steps for effect in step.effects]
        answered = _answer_in(effects)
        if control not in _ENDS:
            return AnswerControl(False, str(error))
        if answered.accepted:
            life.owed.append(control)
            for effect in effects:
                if isinstance(effect, StopAttempt) and life.run.flight is not None:
                    life.run.flight.stop(kill=effect.kill)
            await _hold(life, error)
        return answered
    return _answer_in(effects)


def _answer_in(effects: Iterable[Effect]) -> AnswerControl:
    return [effect for effect in effects if isinstance(effect, AnswerControl)][-1]

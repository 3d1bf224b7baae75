"""The mortal pool: it spawns all mortals, and knows the outcome of each.

The pool's children stand under a `DynamicSupervisor`, which restarts them; what is decided here is
what their ends mean. What follows from findings of monitors is in `consequences.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, final

from otpy import Crashed, DynamicSupervisor, Normal, OtpyError, Shutdown, Supervisor
from otpy.errors import MaxChildren, NotFound, NotRunning
from otpy.reports import ChildExited, ChildGaveUp, ChildStarted, ChildStartFailed, Report
from otpy.specs import DynamicSpec
from otpy_agents.agent.course import Course, Reaped, Waits
from otpy_agents.agent.freeze import freeze_agent, thaw_agent
from otpy_agents.agent.mortal import mortal_spec
from otpy_agents.agent.pause import OPERATOR, AgentPause, Cure
from otpy_agents.agent.persistence import word_for
from otpy_agents.agent.state import AgentState, Happening
from otpy_agents.completion import wait_beside
from otpy_agents.errors import (
    AgentNotFound,
    AgentRefused,
    AgentsError,
    LedgerError,
    NameAlreadyExists,
    PreflightFailed,
)
from otpy_agents.process.process import WorkerProcess
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.store.records import Outcome, State
from otpy_agents.worklist.assignment import Assignment

if TYPE_CHECKING:
    from otpy import Process
    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.post import Post

POOL: Final = "MortalPool"

_LOOKS: Final = 50
_NAP: Final = 0.2
"""How often, and after how many seconds, a host of runs is asked again that is not there."""


def pool_spec() -> DynamicSpec:
    """Return the spec of the pool. How many work at once is counted in its places (TREE-19)."""
    return DynamicSupervisor.spec(POOL)


@final
class Mortal:
    """The handle to a mortal, or drone; it outlives all of its lives. Made by the pool.

    Every method is one of `MortalPool`, about this mortal.
    """

    def __init__(self, pool: MortalPool, name: str) -> None:
        self._pool = pool
        self._name = name

    @property
    def name(self) -> str:
        """Its name, unique in its project."""
        return self._name

    @property
    def assignment(self) -> Assignment:
        """Its work."""
        return self._pool.posts[self._name].assignment

    @property
    def state(self) -> AgentState:
        """Where it stands."""
        return self._pool.posts[self._name].agent.state

    @property
    def restarts(self) -> int:
        """How often it was restarted under this host (TREE-50)."""
        return self._pool.posts[self._name].restarts

    @property
    def paused(self) -> AgentPause | None:
        """Why it rests, or will at the next boundary of a turn; None if it does not."""
        return self._pool.posts[self._name].pause

    @property
    def outcome(self) -> Outcome | None:
        """How it came out; None as long as it has not."""
        return self._pool.courses.outcome(self._name)

    async def wait(self) -> Outcome:
        """Wait until it has come out one way or the other; cancelling disturbs nothing.

        Raises:
            NotRunning: The tree has ended before.
        """
        return await self._pool.wait(self._name)

    def reap(self, why: str) -> None:
        """End it for good."""
        self._pool.reap(self._name, why)

    def pause(self, why: str) -> None:
        """Let it rest from the next boundary of a turn on (G-10)."""
        self._pool.pause(self._name, why)

    def resume(self) -> AgentPause | None:
        """Let it go on, unless it needs a grant or an answer; return why it rests all the same."""
        return self._pool.resume(self._name)

    def answer(self, text: str) -> AgentPause | None:
        """Answer its question, and let it go on; return why it rests all the same."""
        return self._pool.answer(self._name, text)

    def warn(self, message: str) -> None:
        """Send it a message (TREE-47)."""
        self._pool.warn(self._name, message)


@final
class MortalPool:
    """Spawns mortals and keeps what became of them. It outlives Jake and the monitors.

    Everything but `spawn` and `wait` is done at once and may be called from anywhere in the loop.

    Args:
        desk: What they work with.
        on_failure: Called with the name of a mortal that has failed, and its error if it has one.

    Attributes:
        posts: What outlives the lives of each mortal, by its name.
        places: Those of `parallel`, and who waits for one. Who rests has none (TREE-19).
        courses: What becomes of each assignment.
    """

    def __init__(
        self, desk: Desk, on_failure: Callable[[str, BaseException | None], object]
    ) -> None:
        self.posts = desk.posts.all
        self.places = desk.places
        self.courses = desk.memory.courses
        self._desk = desk
        self._on_failure = on_failure
        self._supervisor: DynamicSupervisor | None = None
        self._root: Supervisor | DynamicSupervisor | None = None
        self._starting: set[str] = set()
        self._strays: list[Assignment] = []

    @property
    def path(self) -> str:
        """Path of the supervisor of its mortals; empty before the first was served."""
        return "" if self._supervisor is None else self._supervisor.path

    def serve(self, supervisor: DynamicSupervisor) -> None:
        """Take the supervisor whose children the pool decides about; a new one after a restart.

        From the first one of a tree on it hears the reports of the tree.
        """
        if supervisor is not self._supervisor:  # those of the one before have ended with it
            self.places.clear()
        process = supervisor.process
        root = supervisor if process is None else process.root
        if root is not self._root:
            self._root = root
            root.subscribe(self.hear)
        self._supervisor = supervisor
        self.courses.news()

    @property
    def running(self) -> bool:
        """Whether the supervisor of its mortals runs."""
        return self._supervisor is not None and self._supervisor.running

    # --- spawning --------------------------------------------------------------------------------

    async def spawn(self, assignment: Assignment, by: str = "") -> Mortal:
        """Start a mortal, or drone, for an assignment; an unlisted assignment is added to the list.

        Args:
            assignment: What it is for.
            by: Name of the mortal whose child it is, for rules on children; empty for none.

        Returns:
            Its handle, when it is ready: nothing speaks against it, and it begins to work as soon
            as its turn has come.

        Raises:
            AgentNotFound: No agent is called `by`; nothing was started.
            NameAlreadyExists: There is, or was, one of that name, also under an earlier host;
                nothing was started.
            PreflightFailed: It cannot be started as things stand, with the whole list; nothing was
                started, and nothing is counted (TREE-40, TREE-41).
            StartFailed: It crashed before it was ready; it is not listed.
            MaxChildren: As many work as may at the same time, or one that has rested is next.
            NotRunning: The pool is not running just now, or everything is done and the tree ends.
            LedgerError: It could not be written down.
            InvalidSpec: A setting of it can never work.

        Cancellation:
            It is started or not; if it is, it is found by its name.
        """
        name, supervisor = assignment.id, self._supervisor
        if by:
            self._known(by)
        if supervisor is None or self._desk.workplace.efforts.at_rest:
            raise NotRunning(POOL)
        if self.has(name) or self.courses.outcome(name) is not None:
            raise NameAlreadyExists(name)
        if self._desk.hindrance(assignment) is Waits.PLACE:  # budgets are for its preflight
            raise MaxChildren(POOL, f"{self.places.capacity} work")
        spec, memory, added = mortal_spec(self._desk, assignment), self._desk.memory, False
        stood = self.courses[name].stood
        self._starting.add(name)
        self.courses.news(name)  # Jake must not end the tree meanwhile
        self.places.enter(name)
        try:
            added = await memory.list_too(assignment)
            with self._desk.children.asked(name, by):
                await supervisor.start_child(spec)
        except OtpyError as error:
            if added:
                await memory.unlist(name)
                self.forget(name)
                self.courses.change(name, partial(Course.close_post, stood=stood))
            if isinstance(error.__cause__, PreflightFailed):
                raise error.__cause__ from None
            raise
        finally:
            self._starting.discard(name)
            if self.process(name) is None:
                self.places.leave(name)
        return Mortal(self, name)

    def has(self, name: str) -> bool:
        """Whether there is a mortal of that name: at work, or about to be started, again too."""
        if name in self._starting:
            return True
        try:
            return self._supervisor is not None and bool(self._supervisor.child(name))
        except NotFound:
            return False
        except NotRunning:  # it waits for its restart, or the pool does
            return self.running

    def may_start_again(self, name: str) -> bool:
        """Count a start that was killed; return whether the next may come out otherwise."""
        self.courses.change(name, partial(Course.start, killed=True))
        return self.courses[name].may_start_again

    def mortal(self, name: str) -> Mortal:
        """Return the handle of the mortal of that name, also of one that has come out.

        Raises:
            AgentNotFound: There is none.
        """
        self._known(name)
        return Mortal(self, name)

    def mortals(self) -> tuple[Mortal, ...]:
        """Return the handles of all mortals of this host, in the order of their first start."""
        return tuple(Mortal(self, name) for name in self.posts)

    async def wait(self, name: str) -> Outcome:
        """Wait until a mortal has come out one way or the other.

        Raises:
            AgentNotFound: There is none.
            NotRunning: The tree has ended before.
        """
        self._known(name)
        root = self._root
        assert root is not None  # noqa: S101 - else nobody has a post
        await wait_beside(root, self._until_over(name))
        outcome = self.courses.outcome(name)
        if outcome is None:
            raise NotRunning(POOL)
        return outcome

    async def _until_over(self, name: str) -> None:
        while self.courses.outcome(name) is None:
            await self.courses.until_news(self.courses.version)

    def _known(self, name: str) -> Post:
        try:
            return self.posts[name]
        except KeyError:
            raise AgentNotFound(name, self.posts) from None

    # --- what may be asked of one -----------------------------------------------------------------

    def pause(self, name: str, why: str, by: str = OPERATOR) -> None:
        """Let a mortal rest: an agent from the next boundary of a turn on, a program at once.

        Raises:
            AgentNotFound: There is none.
            AgentRefused: It has come out, or rests for that already.
        """
        self._at_work(name)
        if not self.pause_for(name, AgentPause(by=by, why=why)):
            raise AgentRefused(name, "it is paused already")

    def pause_for(self, name: str, pause: AgentPause) -> bool:
        """Let a mortal rest, whatever the cause; return False if it does for that already.

        A program that is between two lives rests before its next one, and says so then.
        """
        post, worker = self.posts[name], self.worker(name)
        if not post.pause_for(pause):
            return False
        if isinstance(worker, WorkerProcess):
            worker.pause()
            post.rests(pause)
            self.places.leave(name)
            resume = f"kill -CONT -- -{worker.pgid}" if worker.pid else ""
            self._desk.tell("mortal.paused", name, by=pause.by, detail=pause.why, resume=resume)
        return True

    def resume(self, name: str) -> AgentPause | None:
        """Let a mortal go on, unless it has spent its budget, or asked a question.

        Returns:
            Why it rests all the same; None if it goes on.

        Raises:
            AgentNotFound: There is none.
            AgentRefused: It has come out, or does not rest, or needs more than that.
        """
        post, worker = self._at_work(name), self.worker(name)
        frozen = post.frozen
        if not post.go_on() and not frozen:
            needs = "it is not paused" if post.pause is None else post.pause.needs(name)
            raise AgentRefused(name, needs)
        goes_on = frozen or (post.pause is None and isinstance(worker, WorkerProcess))
        if goes_on and self.places.ask(name, partial(self._wake, name)):
            self._wake(name)
        return post.pause

    def _wake(self, name: str) -> None:
        """Let the processes of a mortal go on that were stopped; it has a place."""
        post, worker = self.posts[name], self.worker(name)
        if post.frozen:
            thaw_agent(self._desk, post)
        if post.pause is None and isinstance(worker, WorkerProcess):
            worker.resume()
        post.wakes()
        self._desk.tell("mortal.resumed", name)

    async def freeze(self, name: str, why: str) -> bool:
        """Stop all processes of a mortal where they are; pause it if there are none to be stopped.

        Returns:
            Whether something was stopped. Processes in a container cannot be.

        Raises:
            AgentNotFound: There is none.
            AgentRefused: It has come out, or rests already.

        Cancellation:
            Its processes may have been stopped; `resume` lets them go on.
        """
        post, worker = self._at_work(name), self.worker(name)
        if post.frozen:
            raise AgentRefused(name, "it is frozen already")
        if await freeze_agent(self._desk, post, why):
            self.places.leave(name)
            return True
        self.pause(name, why)
        return isinstance(worker, WorkerProcess)

    def answer(self, name: str, text: str) -> AgentPause | None:
        """Answer an agent's question, and let it go on.

        Returns:
            Why it rests all the same; None if it goes on.

        Raises:
            AgentNotFound: There is none.
            AgentRefused: It has not asked anything.
        """
        post = self._at_work(name)
        if not post.go_on(Cure.ANSWER):
            raise AgentRefused(name, "it has not asked anything")
        post.reply = text
        return post.pause

    def warn(self, name: str, message: str) -> None:
        """Send a message into a mortal: into its notes, and its next prompt (TREE-47).

        Raises:
            AgentNotFound: There is none.
            AgentRefused: It has come out.
            OSError: Its notes cannot be written; if it is an agent, its next prompt says it.
        """
        self._at_work(name)
        self._desk.warn(name, message)
        self._desk.tell("mortal.warned", name, detail=message)

    def _at_work(self, name: str) -> Post:
        post = self._known(name)
        if self.courses.outcome(name) is not None or post.agent.state.final:
            raise AgentRefused(name, f"it is {post.agent.state} already")
        return post

    # --- what the supervisor reports -------------------------------------------------------------

    def hear(self, report: Report) -> None:
        """Take a report of the tree."""
        if self.path and report.path == self.path:
            self.courses.news()  # the pool itself: its next life begins all of them again
        if not self.path or report.supervisor != self.path:
            return
        match report:
            case ChildExited():
                self._exited(report)
            case ChildGaveUp(reason=Crashed(error=LedgerError() as error)):  # not its own fault
                self.come_out(report.id, Outcome(State.FAILED, str(error)))
            case ChildGaveUp():
                why = f"restarts used up ({report.restarts}): {report.reason}"
                self._desk.tell("agent.escalated", report.id, reason=why)
                self.come_out(report.id, Outcome(State.REAPED, why))
            case ChildStartFailed(reason=Crashed(error=PreflightFailed() as error)):
                # To start it once more would count a restart for what is none (TREE-41).
                if report.context is not None:  # else the caller of the start is told
                    failed = Outcome(State.FAILED, str(error))
                    self.courses.change(report.id, partial(Course.give_up, outcome=failed))
                self.courses.news(report.id)
            case ChildStarted():
                self._started(report.id)
            case _:
                self.courses.news(report.id)

    def _started(self, name: str) -> None:
        self.courses.change(name, partial(Course.start, killed=False))
        post = self.posts.get(name)
        if post is not None and post.move(Happening.RESTARTED):
            post.restarts += 1
        if post is not None and post.pause is not None and post.assignment.agent is None:
            pause = post.pause  # of a program, from between two lives
            if post.rests(pause):
                self._desk.tell("mortal.paused", name, by=pause.by, detail=pause.why)
        if name in self.courses.ending:
            self.reap(name, self.courses.ending[name].reason)
        self.courses.news(name)

    def _exited(self, report: ChildExited) -> None:
        """Take the end of one life, with where that leaves the agent."""
        name, post = report.id, self.posts.get(report.id)
        match report.reason:
            case Normal():
                self.mark_done(name)
            case Shutdown(detail=Reaped() as reaped):
                self.come_out(name, Outcome(State.REAPED, str(reaped)))
                if reaped.failed:
                    self._on_failure(name, None)
            case reason:
                if post is not None and post.move(Happening.FAILED, str(reason)):
                    error = reason.error if isinstance(reason, Crashed) else None
                    post.fell = word_for(error)
                    self._on_failure(name, error)
                self.courses.news(name)

    def mark_done(self, name: str) -> None:
        """Take the news that an assignment is done, and that this is written down."""
        post = self.posts.get(name)
        if post is not None:
            # Its life may have been killed on the way, and then it has failed as far as we know.
            post.move(Happening.RESTARTED)
            post.move(Happening.CLAIMED)
            post.move(Happening.ACCEPTED)
        self.come_out(name, Outcome(State.DONE))

    def come_out(self, assignment: str, ending: Outcome) -> None:
        """Take the news of how an assignment came out; later news change nothing."""
        if not self.courses.change(assignment, partial(Course.come_out, outcome=ending)):
            return
        ending = self.courses.outcome(assignment) or ending
        post = self.posts.get(assignment)
        if post is not None:
            if ending.state is State.REAPED:
                post.move(Happening.REAPED, ending.reason)
            elif ending.state is State.FAILED:
                post.move(Happening.FAILED, ending.reason)
            post.run = None
            if ending.state is not State.DONE and post.assignment.agent is not None:
                self._strays.append(
                    post.assignment
                )  # its run, if it has left one, will not be resumed
        self.places.leave(assignment)
        self._desk.children.tell_gone(assignment, str(ending.state))
        self._desk.tell(f"mortal.{ending.state}", assignment, reason=ending.reason)
        self.courses.news(assignment)

    # --- giving up --------------------------------------------------------------------------------

    def forget(self, name: str) -> None:
        """Know nothing any more of a mortal: if it is listed, Jake begins it again."""
        self.courses.change(name, Course.retry)
        self.posts.pop(name, None)
        self.courses.news(name)

    def reap(self, assignment: str, why: str, state: State = State.REAPED) -> None:
        """End a mortal for good, with the reason (TREE-49), or as `FAILED` until the next run.

        One that waits for its restart has no process to end. Cancelling the restart takes an
        await, which monitors must not do for us: Jake does it (`end_given_up`).
        """
        self.courses.change(assignment, partial(Course.give_up, outcome=Outcome(state, why)))
        process = self.process(assignment)
        if process is not None:
            process.exit(Shutdown(Reaped(why)))
        self.courses.news(assignment)

    async def end_given_up(self) -> None:
        """End assignments that were given up, and the runs left of assignments that are over."""
        for assignment, ending in list(self.courses.ending.items()):
            process = self.process(assignment)
            if process is not None:
                process.exit(Shutdown(Reaped(ending.reason)))  # without effect if it ends already
            elif self._supervisor is not None:
                with contextlib.suppress(NotFound):  # it was never begun, or has just ended
                    await self._supervisor.terminate_child(assignment)
                self.come_out(assignment, ending)
        for stray in list(self._strays):
            if await self._end_run(stray):
                self._strays.remove(stray)

    async def take_strays(self) -> None:
        """Note the assignments that are over, but whose run an earlier host left unfinished.

        That host was killed before it had ended the run; `end_given_up` ends it.

        Raises:
            LedgerError: Which runs are not over cannot be read.
        """
        store = self._desk.workplace.store
        if store is None:
            return
        left = {run.label for run in await store.runs(unfinished=True)}
        self._strays += [
            one
            for one in self._desk.memory.listed.values()
            if self.courses.outcome(one.id) is not None and self._desk.memory.label(one) in left
        ]

    async def _end_run(self, assignment: Assignment) -> bool:
        """End the run that a killed life, or a killed host of runs, has left unfinished.

        Returns:
            Whether none is left; if one is, this is tried again, and at last by the next host.
        """
        runs = self._desk.workplace.runs
        if runs is None:
            return True
        for _ in range(_LOOKS):
            try:
                run = await runs.find(self._desk.memory.label(assignment))
            except NotRunning:  # it restarts
                await asyncio.sleep(_NAP)
            except AgentsError:  # it cannot be gone on with now, not even in order to end it
                return False
            else:
                if run is None:
                    return True
                # Its task may be killed before it has ended: then it is unfinished as before.
                with contextlib.suppress(AgentsError):
                    await run.ask(RunControl.STOP)
                    await run.wait()
        return False

    def worker(self, name: str) -> object:
        """Return the equipment of the mortal of that name: a `WorkerProcess`, or a post.

        None if none runs.
        """
        process = self.process(name)
        return None if process is None else process.value

    def process(self, name: str) -> Process | None:
        """Return the process of the mortal of that name; None if none runs."""
        try:
            return None if self._supervisor is None else self._supervisor.child(name)
        except OtpyError:
            return None

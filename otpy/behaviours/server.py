"""One life of one server: serves its mailbox, one message at a time (GEN-08).

It begins in callbacks of the loop, which cost no task. Only what awaits needs one: the first
awaitable that a callback returns is awaited in a task, and there the server lives from then on.
Both have one loop, `Server.serve`: it pauses where something is to be awaited.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.checks import check_timeout
from otpy._core.reason import Abandoned, Crashed, Exit, Normal
from otpy._core.text import shown
from otpy._runtime.child_task import run
from otpy._runtime.crash import call_failed, reason_for
from otpy._runtime.current import CURRENT
from otpy._runtime.waiters import check_loop
from otpy.behaviours.callbacks import (
    CRASHES,
    MORE,
    RESULTS,
    TURN,
    fits,
    is_init,
    is_stop,
    is_time,
    kind_of,
)
from otpy.behaviours.mailbox import (
    Call,
    Continue,
    Control,
    Full,
    Info,
    Mailbox,
    Question,
    StopAsked,
    Unanswered,
)
from otpy.behaviours.results import NO_ANSWER, TIMEOUT, NoReply, Reply, Stop
from otpy.behaviours.server_task import ServerTask
from otpy.behaviours.server_timer import ServerTimer
from otpy.errors import BadReturn, CallingSelf, CallTimeout, MailboxFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Context

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.callbacks import Callbacks, Served
    from otpy.behaviours.mailbox import Message
    from otpy.behaviours.results import CallResult
    from otpy.errors import ChildError

_REPLY: Final[Any] = Reply  # for `type(…) is`, which leaves the parameters of the type unknown
_NO_REPLY: Final[Any] = NoReply


@final
class Server:
    """Serves the mailbox of one process with the callbacks of a `GenServer`.

    Attributes:
        process: The process it lives in.
        mailbox: Its messages.
        make: Returns its callbacks; called once, in its own context.
        callbacks: The object that has its callbacks; none yet at first, and none when it has ended.
        ending: Why it has ended or is about to; None while it takes requests.
        halted: Whether it has ended or was cancelled: no code of it is to run any more.
        in_hand: The message whose result is awaited, or was a `Stop`; else None.
        open: Whether a question needs no more thought: it takes requests, and has no task that
            could be the one that asks.
        owed: Who was not answered when the question had been dealt with; None before the first.
        state: The state that the next callback gets; meaningless before `init` has returned and
            after the end.
    """

    __slots__ = (
        "_context",
        "_continue",
        "_done",
        "_timeout",
        "_timer",
        "_timers",
        "callbacks",
        "ending",
        "halted",
        "in_hand",
        "mailbox",
        "make",
        "open",
        "owed",
        "process",
        "state",
    )

    def __init__(self, process: LiveProcess, make: Callable[[], Callbacks]) -> None:
        """Prepare the life of `process`."""
        self.process = process
        self.mailbox = Mailbox(self, process.parent.tree)
        self.ending: ExitReason | None = None
        self.open = False
        self.owed: dict[Question, None] | None = None
        self.state: Any = None
        self.make = make
        self.callbacks: Any  # a `GenServer`
        self.in_hand: Served | None = None
        self._continue: Continue | None = None
        self._timeout: float | None = None
        self._timer: asyncio.TimerHandle | None = None  # of the idle timeout, while it is idle
        self._timers: set[ServerTimer] | None = None  # those that its callbacks started
        self._context: Context | None = None  # of its callbacks; None if nothing is in it
        self.halted = False
        self._done = False

    # --- told by the runtime ---------------------------------------------------------------------

    def stop(self, reason: ExitReason) -> None:
        """Be asked to end, when everything that came before has been served (GEN-20)."""
        self.mailbox.put(StopAsked(reason))
        self.open = False
        if self.ending is None:
            self.ending = reason

    def ended(self, reason: ExitReason) -> None:
        """Tell callers that still wait for an answer that the process ended (GEN-11, GEN-15)."""
        self.ending = reason
        self.open = False
        self.halted = True
        self.awake()
        reader = self.mailbox.reader
        waiting = [*(self.owed or ()), *self.mailbox.close()]
        for timer in tuple(self._timers or ()):
            timer.cancel()
        self._timers = None
        if isinstance(reader, ServerTask):
            reader.ended()
        self.owed = None
        # Nothing is left for the collector to find:
        self.process.behaviour = self._context = None
        if not isinstance(reason, Abandoned):  # else some callback is still at work
            # A context that is left must not keep them:
            self.state = self.callbacks = self.in_hand = None
        for question in waiting:
            if isinstance(question, Question):
                question.fail(reason)

    # --- asked by its callbacks ------------------------------------------------------------------

    def start_timer(self, seconds: float, message: Message, *, again: bool = False) -> ServerTimer:
        """Put `message` into the mailbox in `seconds`, unless this life is over before."""
        if self._timers is None:
            self._timers = set()
        return ServerTimer(self._timers, self.mailbox, message, seconds, again=again)

    # --- asked from outside ----------------------------------------------------------------------

    async def suspend(self, timeout: float | None) -> None:
        """See `ServerRef.suspend`."""
        await self.control(self.mailbox.suspend, timeout)

    async def resume(self, timeout: float | None) -> None:
        """See `ServerRef.resume`."""
        await self.control(self.mailbox.resume, timeout)

    async def get_state(self, timeout: float | None) -> Any:
        """See `ServerRef.get_state`."""
        return await self.control(lambda: self.state, timeout)

    async def control(self, action: Callable[[], object], timeout: float | None) -> Any:
        """Perform `action` between two messages, and return its result."""
        loop = self._loop
        check_loop(loop, self.process)
        self.admit()
        check_timeout(self.process.path, timeout)
        question = Control(loop, action)
        line = (
            None if timeout is None else self.process.parent.tree.deadlines.set(timeout, question)
        )
        self.mailbox.put(question)
        try:
            answer = await question.future
        finally:
            self.forget(question)
            if line is not None:
                line.meet(question)
        if isinstance(answer, Unanswered):
            raise self.error(answer, timeout)
        return answer

    def admit(self) -> None:
        """Refuse a question that would get no answer."""
        self.refuse_self()
        ending = self.ending or self.process.ending  # a kill is not told, only performed
        if ending is not None:
            raise call_failed(self.process.path, ending)

    def _owe(self, message: object) -> None:
        """Remember a missing answer for a waiting caller, which must `forget` it."""
        if isinstance(message, Question) and not message.future.done():
            if self.owed is None:
                self.owed = {}
            self.owed[message] = None

    def forget(self, question: Question) -> None:
        """Nobody waits for the answer any more."""
        if self.owed is not None:
            self.owed.pop(question, None)

    def error(self, unanswered: Unanswered, timeout: float | None) -> ChildError:
        """Return what to raise in place of an answer."""
        if isinstance(unanswered, Full):
            return MailboxFull(self.process.path, f"most={unanswered.most}")
        reason, unanswered.reason = unanswered.reason, None  # the frames of a crash may lead to it
        if reason is not None:
            return call_failed(self.process.path, reason)
        return CallTimeout(self.process.path, f"timeout={timeout:g} s")

    def refuse_self(self) -> None:
        """Refuse a question of the task that would have to answer it (GEN-15)."""
        task = self.process.task
        if task is not self and task is not None and task is asyncio.current_task():
            raise CallingSelf(self.process.path, "a server cannot wait for itself; cast()")

    # --- the life, as long as no callback has returned an awaitable ------------------------------

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Live in callbacks of the loop; in a task from the first awaitable on.

        That task is kept: what was entered in it, such as a task group, must be left in it.
        """
        self._context = self.process.parent.tree.context.copy()
        self.open = True
        self.process.task = self
        self._soon(self._start, args, kwargs)

    def done(self) -> bool:
        """Whether it is over, even if its end was not told yet."""
        return self._done

    def cancel(self) -> None:
        """End it without `terminate`, as the cancellation of a task would."""
        self._loop.call_soon(self._give_way, context=self.process.parent.tree.context)
        self.expect_stop(kill=True)

    def expect_stop(self, *, kill: bool) -> None:
        """Take no more requests; serve none either if it is killed, or about to be."""
        self.open = False
        if kill:
            self.halted = True

    def get_coro(self) -> None:
        """Return None: nothing is ever suspended."""

    def wake(self) -> None:
        """Serve the coming message; for the mailbox."""
        tree, context = self.process.parent.tree, self._context
        if context is None:
            context = tree.context.copy()
            context.run(CURRENT.set, self)
            self._context = context
        tree.loop.call_soon(self._serve, context=context)
        if self._timer is not None:
            self.awake()
        self.mailbox.asleep = False

    def _soon(self, do: Callable[..., None], *args: Any) -> None:
        loop = self.process.parent.tree.loop
        loop.call_soon(self._step, do, *args, context=self._context)

    def _step(self, do: Callable[..., None], *args: Any) -> None:
        if self.halted:
            return
        try:
            do(*args)
        except asyncio.CancelledError:
            self._over(None, cancelled=True)
        except KeyboardInterrupt as error:  # is for the loop, as when it comes out of a task
            self._over(error)
            raise
        except BaseException as error:  # noqa: BLE001 - it ends the server and nothing else
            self._over(error)
        finally:
            del self, do, args  # the frames of a crash lead here, and its process keeps the crash

    def _start(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        CURRENT.set(self)
        self.callbacks = self.make()
        result: Any = self.callbacks.init(*args, **kwargs)
        if inspect.isawaitable(result):
            task = ServerTask(self, result)
            self._go_on_in_task(task, task.live)
            return
        if self.begun(result):
            self._soon(self._serve)  # the starter hears of the start first (GEN-07)
            return
        if self.mailbox.queue:
            self._serve()
        else:
            self._doze()
        if self.mailbox.asleep and self._context is not None and len(self._context) == 1:
            self._context = None  # it holds only `current()`; the first message makes a new one

    def _serve(self) -> None:
        """Serve for a turn; in a callback of the loop."""
        came: Any = None
        try:
            came = self.serve(iter(TURN))
        except BaseException as error:  # noqa: BLE001 - it ends the server and nothing else
            self._step(self._fail, error)
        else:
            if came is MORE:
                self._soon(self._serve)
            elif is_stop(came):
                self._step(self._end, came)
            elif came is not None:
                task = ServerTask(self, came)
                self._go_on_in_task(task, task.live)
        finally:  # the frames of a crash lead here, and its process keeps the crash
            del self, came

    def _fail(self, error: BaseException) -> None:
        """End because of a callback's exception, or of its bad result."""
        if not isinstance(error, CRASHES):
            raise error
        self._end(Stop(reason_for(error), self.state), error)

    def _end(self, stop: Stop[Any, Any], error: BaseException | None = None) -> None:
        """Be over because of `stop`, or of `error` if there is one."""
        result = self.terminate(stop)
        if result is not None:
            task = ServerTask(self, result)
            self._go_on_in_task(task, task.finish, stop, error)
            return
        if error is None and not isinstance(stop.reason, Normal):
            error = Exit(stop.reason)
        self._over(error)

    def _over(self, error: BaseException | None, *, cancelled: bool = False) -> None:
        if self._done:
            return  # Ctrl-C has passed here twice
        self.open = False
        self.halted = self._done = True
        tell = partial(self.process.record_end, error, cancelled=cancelled)
        self._loop.call_soon(tell, context=self.process.parent.tree.context)

    def _give_way(self) -> None:
        task = self.process.task
        if task is not self and task is not None:
            task.cancel()  # the callback in which it was cancelled has returned an awaitable
        else:
            self._over(None, cancelled=True)

    def _go_on_in_task(self, task: ServerTask, live: Callable[..., Any], *args: Any) -> None:
        assert self._context is not None  # noqa: S101 - it has begun
        self.open = False
        self.mailbox.reader = task
        run(self.process, partial(live, *args), self._context)

    async def live(self, *args: Any, **kwargs: Any) -> None:
        """Live in a task from the start; for code that drives its life by hand."""
        self.callbacks = self.make()
        self.mailbox.reader = task = ServerTask(self)
        result: Any = self.callbacks.init(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        await task.live(result)

    # --- between two messages --------------------------------------------------------------------

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self.process.parent.tree.loop

    def begun(self, result: object) -> bool:
        """Take what `init` gave, and be ready; return whether to go on before any message."""
        if isinstance(result, RESULTS):
            raise BadReturn(self.process.path, f"{shown(result)} from init")
        if is_init(result):
            if not is_time(result.timeout):
                raise BadReturn(self.process.path, f"{shown(result)} from init")
            self.state = result.state
            if result.continue_with is not None:
                self._continue = Continue(result.continue_with)
            self._timeout = result.timeout
        else:
            self.state = result
        self.process.report_ready()
        return self._continue is not None

    def serve(self, turn: Iterator[int]) -> Any:
        """Serve one message after the other: the only loop, in a callback of the loop or a task.

        Args:
            turn: As long as it lasts, messages are served without the rest of the loop.

        Returns:
            Why it paused: the awaitable that the callback for the message `in_hand` gave, or a
            `Stop`, or `MORE` if the turn is over, or None if there is nothing to do.
        """
        mailbox, callbacks = self.mailbox, self.callbacks
        message: Message | Continue | None = None
        result: Any = None
        try:
            for _ in turn:
                if self.halted:
                    return None
                queue = mailbox.queue
                if self._continue is not None:
                    message, self._continue = self._continue, None
                elif queue and mailbox.held is None:
                    message = queue.popleft()
                else:
                    message = mailbox.next()
                if type(message) is tuple:
                    result = callbacks.handle_cast(message[0], self.state)
                    if type(result) is _NO_REPLY and result.next_ is result.timeout_ is None:
                        self.state, self._timeout = result.state_, None
                        continue
                elif type(message) is Call:
                    result = callbacks.handle_call(message.request, message, self.state)
                    if type(result) is _REPLY and result.next_ is result.timeout_ is None:
                        self.state, self._timeout = result.state_, None
                        message.answer(result.value_)
                        continue
                elif message is None:
                    self._doze()
                    return None
                result = self._serve_other(message, result)
                if result is not None:
                    return result
        except BaseException:
            self._owe(message)
            raise
        else:
            return MORE  # messages to oneself would else keep the loop for ever
        finally:  # the frames of a crash lead here, and its process keeps the crash
            del self, callbacks, message, result

    def _serve_other(self, message: Message | Continue, result: Any) -> Any:
        """Serve `message`, or take the unusual `result` of a served one; see `serve`."""
        if isinstance(message, Control):
            self._perform(message)
            return None
        if isinstance(message, StopAsked):
            asked: Stop[Any, Any] = Stop(message.reason, self.state)
            return asked
        if isinstance(message, Info):
            result = self.callbacks.handle_info(message.message, self.state)
        elif isinstance(message, Continue):
            result = self.callbacks.handle_continue(message.value, self.state)
        self.in_hand = message
        if isinstance(result, RESULTS) or not inspect.isawaitable(result):
            return self.take(result)
        self._owe(message)
        return result

    def terminate(self, stop: Stop[Any, Any]) -> Any:
        """Call `terminate`; return its awaitable, if any, to await before `reply_at_last`."""
        self.open, self.ending = False, stop.reason
        try:
            result: Any = self.callbacks.terminate(stop.reason, self.state)
        except CRASHES:
            self.reply_at_last(stop)
            raise  # that is the reason (GEN-21)
        if inspect.isawaitable(result):
            return result
        self.reply_at_last(stop)
        return None

    def reply_at_last(self, stop: Stop[Any, Any]) -> None:
        """Reply as `stop` says, when `terminate` is over, whether or not that failed (GEN-10)."""
        if stop.reply is not NO_ANSWER and isinstance(self.in_hand, Call):
            self.in_hand.reply(stop.reply)

    def _doze(self) -> None:
        """Do nothing until a message comes; it may be that none comes for too long (GEN-18)."""
        self.mailbox.asleep = not self.halted
        if self.mailbox.queue:  # another thread has put it there just now
            self.mailbox.look()
            return
        if self._timeout is not None and not self.mailbox.suspended:
            tree = self.process.parent.tree
            self._timer = tree.call_later(self._timeout, self.mailbox.put, Info(TIMEOUT))

    def awake(self) -> None:
        """Count no idle time any more, and need not be woken."""
        self.mailbox.asleep = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self, result: Any) -> Stop[Any, Any] | None:
        """Apply the result for the current message; until then the state is the old one.

        Returns:
            Its `Stop`, with the message still in hand; None if the server goes on.
        """
        message: Any = self.in_hand
        if not isinstance(result, RESULTS) or not fits(result, message):
            raise BadReturn(self.process.path, f"{shown(result)} for a {kind_of(message)}")
        good: CallResult[Any, Any] = result
        self.state = good.state
        if isinstance(good, Reply):
            message.answer(good.value)
        else:
            self._owe(message)
        if isinstance(good, Stop):
            return good
        self.in_hand = None
        if good.continue_with is not None:
            self._continue = Continue(good.continue_with)
        self._timeout = good.timeout
        return None

    def _perform(self, message: Control) -> None:
        """Perform a request to the server itself."""
        try:
            message.answer(message.action())
        except Exception as error:  # noqa: BLE001 - who asked for it gets it; the server lives on
            message.fail(Crashed(error))

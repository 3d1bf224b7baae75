"""One life of one server: the task that serves its mailbox, one message at a time (GEN-08)."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final, TypeGuard, final

from otpy._core.checks import is_number
from otpy._core.reason import Crashed, Exit, ExitReason, Normal
from otpy._runtime.crash import reason_for
from otpy.behaviours.mailbox import Caller, Cast, Continue, Control, Info, Mailbox, StopAsked
from otpy.behaviours.results import NO_ANSWER, Init, NoReply, Reply, Stop
from otpy.errors import BadReturn, CallFailed, CallingSelf, CallTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._runtime.process import Process
    from otpy.behaviours.gen_server import GenServer
    from otpy.behaviours.results import CallResult

_BATCH: Final = 64  # callbacks in a row before the rest of the loop has its turn


@final
class Server:
    """Serves the mailbox of one process with the callbacks of a `GenServer`.

    Attributes:
        process: The process it lives in.
        mailbox: Its messages.
        make: Returns its callbacks; called once, in its task.
        ending: Why it has ended or is about to; None while it takes requests.
        state: The state that the next callback gets; meaningless before `init` has returned.
    """

    __slots__ = ("_callbacks", "_continue", "_pending", "_timeout", "ending", "mailbox", "make",
                 "process", "state")  # fmt: skip

    def __init__(self, process: Process, make: Callable[[], GenServer[Any, Any, Any]]) -> None:
        """Prepare the life of `process`."""
        self.process = process
        self.mailbox = Mailbox(process.parent.tree.loop)
        self.ending: ExitReason | None = None
        self.state: Any = None
        self.make = make
        self._callbacks: GenServer[Any, Any, Any]
        self._continue: Continue | None = None
        self._timeout: float | None = None
        self._pending: dict[Caller[Any] | Control, None] | None = None

    # --- told by the runtime ---------------------------------------------------------------------

    def stop(self, reason: ExitReason) -> None:
        """Be asked to end, when everything that came before has been served (GEN-20)."""
        if self.ending is None:
            self.ending = reason
        self.mailbox.put(StopAsked(reason))

    def ended(self, reason: ExitReason) -> None:
        """The process has ended: tell whoever still waits for an answer (GEN-11, GEN-15)."""
        self.ending = reason
        for question in list(self._pending or ()):
            question.fail(self.failure(reason))

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
        """Perform `action` between two messages, and return what it returned."""
        return await self.ask(Control(asyncio.get_running_loop(), action), timeout)

    async def ask(self, question: Caller[Any] | Control, timeout: float | None) -> Any:
        """Put `question` into the mailbox and wait for the answer, for `timeout` seconds."""
        self.refuse_self()
        ending = self.ending or self.process.ending  # a kill is not told, only performed
        if ending is not None:
            raise self.failure(ending)
        if self._pending is None:
            self._pending = {}
        self._pending[question] = None
        timer = None
        if timeout is not None:
            error = CallTimeout(self.process.path, f"timeout={timeout:g} s")
            timer = self.process.parent.tree.call_later(timeout, question.fail, error)
        self.mailbox.put(question)
        try:
            answer = await question.future
        finally:
            del self._pending[question]
            if timer is not None:
                timer.cancel()
        if question.error is not None:
            raise question.error
        return answer

    def refuse_self(self) -> None:
        """Refuse a question of the task that would have to answer it (GEN-15)."""
        if self.process.task is asyncio.current_task():
            raise CallingSelf(self.process.path, "a server cannot wait for itself; cast()")

    def failure(self, reason: ExitReason) -> CallFailed:
        """Return the error of a call that gets no reply because the server ended."""
        error = CallFailed(self.process.path, reason)
        error.__cause__ = reason.error if isinstance(reason, Crashed) else None
        return error

    # --- the life --------------------------------------------------------------------------------

    async def live(self, *args: Any, **kwargs: Any) -> None:
        """Be the body of the process' task: init, serve, terminate."""
        self._callbacks = self.make()
        result: Any = self._callbacks.init(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        self._initialised(result)
        self.process.announce()
        if self._continue is not None:
            await asyncio.sleep(0)  # the starter hears of the start first (GEN-07)
        try:
            stop, caller = await self._serve()
        except (Exception, SystemExit) as error:
            self.ending = reason_for(error)
            await self._terminate(self.ending)  # if it raises, that is the reason (GEN-21)
            raise
        await self._finish(stop, caller)

    def _initialised(self, result: object) -> None:
        if _is_result(result):
            raise BadReturn(self.process.path, f"{result!r} from init")
        if _is_init(result):
            if not _is_time(result.timeout):
                raise BadReturn(self.process.path, f"{result!r} from init")
            self.state = result.state
            self._go_on(result)
        else:
            self.state = result

    async def _serve(self) -> tuple[Stop[Any, Any], Caller[Any] | None]:
        """Serve until something says stop; return that, and who is to be told."""
        served = 0
        while True:
            served += 1
            if served % _BATCH == 0:  # messages to oneself would else keep the loop for ever
                await asyncio.sleep(0)
            if not self.process.alive:  # given up in a callback, which has ended after all
                raise asyncio.CancelledError
            first, self._continue = self._continue, None
            message = first or await self.mailbox.take(self._timeout)
            if isinstance(message, Control):
                self._control(message)
            elif isinstance(message, StopAsked):
                return Stop(message.reason, self.state), None
            else:
                stop = await self._handle(message)
                if stop is not None:
                    self.ending = stop.reason
                    return stop, message if isinstance(message, Caller) else None

    async def _handle(self, message: Caller[Any] | Cast | Info | Continue) -> Stop[Any, Any] | None:
        """Call the callback and do what it returned; until then the state is the old one."""
        result: object
        match message:
            case Caller():
                result = self._callbacks.handle_call(message.request, message, self.state)
            case Cast():
                result = self._callbacks.handle_cast(message.request, self.state)
            case Info():
                result = self._callbacks.handle_info(message.message, self.state)
            case Continue():
                result = self._callbacks.handle_continue(message.value, self.state)
        if not _is_result(result) and inspect.isawaitable(result):
            result = await result
        if not _is_result(result) or not _fits(result, message):
            raise BadReturn(self.process.path, f"{result!r} for a {type(message).__name__}")
        self.state = result.state
        if isinstance(result, Stop):
            return result
        if isinstance(result, Reply) and isinstance(message, Caller):
            message.reply(result.value)
        self._go_on(result)
        return None

    def _go_on(self, result: Init[Any] | Reply[Any, Any] | NoReply[Any]) -> None:
        self._continue = None if result.continue_ is None else Continue(result.continue_)
        self._timeout = result.timeout

    def _control(self, message: Control) -> None:
        try:
            message.answer(message.action())
        except Exception as error:  # noqa: BLE001 - who asked for it gets it; the server lives on
            message.fail(self.failure(Crashed(error)))

    async def _finish(self, stop: Stop[Any, Any], caller: Caller[Any] | None) -> None:
        """Terminate first, reply then, whether or not that failed (GEN-10)."""
        try:
            await self._terminate(stop.reason)
        except (Exception, SystemExit):
            self._last_reply(stop, caller)
            raise
        self._last_reply(stop, caller)
        if not isinstance(stop.reason, Normal):
            raise Exit(stop.reason)

    @staticmethod
    def _last_reply(stop: Stop[Any, Any], caller: Caller[Any] | None) -> None:
        if caller is not None and stop.reply is not NO_ANSWER:
            caller.reply(stop.reply)

    async def _terminate(self, reason: ExitReason) -> None:
        result: Any = self._callbacks.terminate(reason, self.state)
        if inspect.isawaitable(result):
            await result


def _is_result(result: object) -> TypeGuard[CallResult[Any, Any]]:
    return isinstance(result, Reply | NoReply | Stop)


def _is_init(result: object) -> TypeGuard[Init[Any]]:
    return isinstance(result, Init)


def _fits(result: CallResult[Any, Any], message: object) -> bool:
    """Whether `result` may be returned for `message`: only a call can be replied to."""
    if isinstance(result, Stop):
        answers = isinstance(message, Caller) or result.reply is NO_ANSWER
        return answers and isinstance(result.reason, ExitReason)  # pyright: ignore[reportUnnecessaryIsInstance]
    return _is_time(result.timeout) and (isinstance(message, Caller) or isinstance(result, NoReply))


def _is_time(timeout: object) -> bool:
    return timeout is None or (is_number(timeout) and timeout >= 0)

"""`GenStateMachine`: a server whose answer to an event depends on the state it is in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from otpy._core.checks import check_kind, check_word, member
from otpy._core.statem import CallbackMode
from otpy._core.text import shown
from otpy.behaviours.served import Served
from otpy.behaviours.statem_callbacks import StatemCallbacks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._core.reason import ExitReason
    from otpy._core.statem import MachineEvent, Next, StateResult
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.callbacks import Callbacks

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
StateT = TypeVar("StateT")
DataT = TypeVar("DataT")


class GenStateMachine(Served[RequestT, ReplyT, tuple[StateT, DataT]]):
    """A state machine: subclass it, and list the subclass in a spec: `ChildSpec("door", Door)`.

    `class Door(GenStateMachine[Push, str, str, int])` takes requests `Push`, replies `str`, is in
    states `str` and has data `int`. Each message is a `MachineEvent`, for one callback:
    `handle_event`, or, with `CallbackMode.STATE_FUNCTIONS`, the method that has the name of the
    state, `def locked(self, event, data)`. What it returns says which state comes next, and what
    else is to be done (`otpy.statem`). Callbacks are plain or `async`, and run one at a time.

    Talk to it by `Door.at(process_or_path)`, as to a `GenServer`; it starts, ends, crashes and is
    suspended as one, and `get_state` returns `(state, data)`. A callback that raises an exception
    leaves the state and the data as they were before the event: `terminate` gets those.

    Attributes:
        callback_mode: How events are handled.
        state_enter: Whether each state is entered by a callback, the first one too: it gets an
            `EventType.ENTER` with the state before, and cannot change the state, postpone, or have
            a `NextEvent`.
        mailbox: How many messages may wait, and what follows when more come; None is no limit.

    Source:
        OTP `gen_statem`. Differs: `docs/explanation/otp-differences.md`.
    """

    callback_mode: ClassVar[CallbackMode] = CallbackMode.HANDLE_EVENT_FUNCTION
    state_enter: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a class that can never work.

        Raises:
            InvalidSpec: If `callback_mode` is no `CallbackMode`, nor the word for one, or
                `state_enter` is not a bool; in OTP they are functions.
        """
        super().__init_subclass__(**options)
        mode: Any = member(cls.callback_mode, CallbackMode)
        check_word(cls.__qualname__, "callback_mode", mode, CallbackMode)
        check_kind(cls.__qualname__, "state_enter", cls.state_enter, bool, "True or False")
        cls.callback_mode = mode

    def init(
        self, *args: Any, **kwargs: Any
    ) -> Next[StateT, DataT] | Awaitable[Next[StateT, DataT]]:
        """Return the first state and data as `Next`; the machine is ready when this has returned.

        It gets the `args` and `kwargs` of the spec. `raise Ignore` declines to run, `raise
        Exit(reason)` and any other exception fail the start; `terminate` is then not called. The
        first enter call comes after the starter was told.
        """
        raise NotImplementedError(f"{type(self).__name__}.init")

    def handle_event(
        self, event: MachineEvent, state: StateT, data: DataT
    ) -> StateResult[StateT, DataT] | Awaitable[StateResult[StateT, DataT]]:
        """Handle `event`: return `Next`, `Keep`, `Repeat` or `End`.

        Not overridden, any event crashes a machine without state functions.
        """
        raise NotImplementedError(f"{type(self).__name__}.handle_event: {shown(event)}")

    def terminate(self, reason: ExitReason, state: StateT, data: DataT) -> object:  # noqa: ARG002 - an interface
        """Clean up before it ends with `reason`; called when that of a `GenServer` would be."""
        return None

    @classmethod
    def __otpy_callbacks__(cls, process: LiveProcess) -> Callable[[], Callbacks]:
        """Return what makes the callbacks of one life; for the runtime."""
        return partial(StatemCallbacks, process, cls)

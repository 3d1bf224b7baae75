"""Messages to a server, and their queue."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, final

from otpy._runtime.current import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._core.spec import Count
    from otpy._runtime.handles import Notice, Process
    from otpy._runtime.tree import Tree

ReplyT_contra = TypeVar("ReplyT_contra", contravariant=True)


class Unanswered:
    """In place of an answer: why the server has ended; None if it took too long."""

    __slots__ = ("reason",)

    def __init__(self, reason: ExitReason | None) -> None:
        """Say why there is none."""
        self.reason = reason


@final
class Full(Unanswered):
    """In place of an answer: the question was not taken, because too many messages wait."""

    __slots__ = ("most",)

    def __init__(self, most: Count) -> None:
        """Say how many may wait."""
        super().__init__(None)
        self.most = most


class Question:
    """Somebody waits for an answer; it comes once, and later ones are dropped (GEN-14)."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait in `loop`."""
        self.future: asyncio.Future[Any] = loop.create_future()

    def answer(self, value: object) -> None:
        """Answer, unless there was an answer before or the caller no longer waits."""
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, reason: ExitReason) -> None:
        """Answer that there will be no answer, because the server has ended."""
        # Not as the future's exception: that complains if nobody looks.
        self.answer(Unanswered(reason))

    def overdue(self) -> None:
        """Answer that it took too long."""
        self.answer(Unanswered(None))


class Caller(Protocol[ReplyT_contra]):
    """The caller of a server, to reply later than the callback returns (GEN-17)."""

    @property
    def process(self) -> Process | None:
        """The process whose code called; None if it was called from outside of any tree."""
        ...

    @property
    def request(self) -> object:
        """The request."""
        ...

    def reply(self, value: ReplyT_contra) -> None:
        """Give the caller its reply, before or after `handle_call` has returned.

        From any task and any thread. The first reply counts; one to a caller that timed out or was
        cancelled is dropped.
        """
        ...


@final
class Call(Question):
    """A call in the mailbox, which the server gets as its `Caller`."""

    __slots__ = ("_replied", "process", "request")

    def __init__(self, loop: asyncio.AbstractEventLoop, request: object) -> None:
        """Wait in `loop` for the reply to `request`; for `ServerRef.call`."""
        self.future = loop.create_future()  # not by `super`, for speed
        self._replied = False
        life = CURRENT.get(None)
        self.process: Process | None = None if life is None else life.process
        self.request = request

    def __repr__(self) -> str:
        """Return the path of the caller, and whether it has its answer."""
        who = "outside" if self.process is None else repr(self.process.path)
        return f"<Caller {who}{' answered' if self.future.done() else ''}>"

    def reply(self, value: object) -> None:
        """Answer through the loop; callable from any thread, see `Caller.reply`."""
        if self._replied:
            return
        loop = self.future.get_loop()
        here = asyncio._get_running_loop() is loop  # without an error in a thread
        # By the loop: a future that is resolved on a stack that ends in the middle of that would be
        # done and its caller asleep for ever.
        (loop.call_soon if here else loop.call_soon_threadsafe)(self._deliver, value)
        self._replied = True

    def _deliver(self, value: object) -> None:
        super().answer(value)

    def answer(self, value: object) -> None:
        """Answer, unless a reply is on its way."""
        if not self._replied and not self.future.done():  # not by `super`, for speed
            self.future.set_result(value)


@final
class Control(Question):
    """A system message: something to do with the server itself, also while it is suspended."""

    __slots__ = ("action",)

    def __init__(self, loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
        """Wait in `loop` until the server has performed `action` between two messages."""
        super().__init__(loop)
        self.action = action


@final
class Continue:
    """The continuation of a callback; it never waits in the mailbox, and comes before all of it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        """Carry `value`."""
        self.value = value


@final
class Info:
    """Any other message."""

    __slots__ = ("message",)

    def __init__(self, message: object) -> None:
        """Carry `message`."""
        self.message = message


@final
class StopAsked:
    """The server is to end with `reason`."""

    __slots__ = ("reason",)

    def __init__(self, reason: ExitReason) -> None:
        """Carry `reason`."""
        self.reason = reason


Cast: TypeAlias = tuple[Any]
"""A request without a reply, and nothing else: an object takes six times as long to make."""

Message: TypeAlias = Call | Control | Cast | Info | StopAsked

_MAKING: Final = Lock()
_NOWHERE: Final[deque[Message]] = deque(maxlen=0)  # drops what is put into it


class Reader(Protocol):
    """Serves what lies in a mailbox."""

    def wake(self) -> None:
        """Let the loop serve the coming message, and mark itself awake, as the last step."""
        ...


class Mailbox:
    """The messages of one server, in order of arrival (GEN-08). One reader.

    What others send is an `offer`, and what the server has asked for is `put`; they differ where
    the number of messages is limited (`LimitedMailbox`).

    The queue is made for the first message: a server that nobody talks to has none.

    Other threads may `put` too. They run in parallel to the loop's thread, so each side acts first
    and looks second: a reader falls asleep, then looks for a message; a thread adds its message,
    then looks whether the reader is asleep. At least one of the two sees the other.

    Attributes:
        tree: The tree of the server.
        reader: The server, or its task, that reads it; absent when it is closed.
        asleep: Whether the reader is to be woken by the next message; set by the reader.
        queue: The messages to hand out; None before the first message.
        held: What came while it was suspended; None if it is not.
    """

    __slots__ = ("asleep", "held", "queue", "reader", "tree")

    def __init__(self, reader: Reader, tree: Tree) -> None:
        """Hold nothing yet; `reader` is awake."""
        self.reader = reader
        self.tree = tree
        self.queue: deque[Message] | None = None
        self.held: deque[Message] | None = None
        self.asleep = False

    @property
    def suspended(self) -> bool:
        """Whether only system messages and the request to stop are handed out."""
        return self.held is not None

    def put(self, message: Message) -> None:
        """Wake the reader, and add `message` last: what raises here has sent nothing.

        A reader that is woken for nothing goes to sleep again.
        """
        queue = self.queue
        if queue is None:
            queue = self._made_queue()
        if self.asleep:
            self._rouse()
        queue.append(message)
        if self.asleep:  # in another thread; here it would be awake
            self._rouse()

    offer = put

    def _made_queue(self) -> deque[Message]:
        with _MAKING:  # or one of two threads would put its first message into a queue that is lost
            if self.queue is None:
                self.queue = deque()
            return self.queue

    def _rouse(self) -> None:
        tree = self.tree
        if get_ident() == tree.thread:
            self.reader.wake()
        else:
            tree.loop.call_soon_threadsafe(self.look, context=tree.context)

    def look(self) -> None:
        """Wake the reader if it is asleep and there is a message; in the loop's thread."""
        if self.asleep and self.queue:
            self.reader.wake()

    def next(self) -> Message | None:
        """Return the next message, None if there is none; while suspended, others are kept."""
        queue = self.queue
        while queue:
            message = queue.popleft()
            if self.held is None or isinstance(message, (Control, StopAsked)):
                return message
            self.held.append(message)
        return None

    def suspend(self) -> None:
        """Hold back everything but system messages and the request to stop."""
        if self.held is None:
            self.held = deque()

    def resume(self) -> None:
        """Hand out the held-back messages before later ones."""
        held, self.held = self.held, None
        if held:
            assert self.queue is not None  # noqa: S101 - what is held came through it
            self.queue.extendleft(reversed(held))

    def close(self) -> list[Message]:
        """Return all that was not handed out, and drop whatever comes from now on."""
        rest = [*(self.held or ()), *(self.queue or ())]
        self.queue, self.held, self.asleep = _NOWHERE, None, False
        del self.reader  # it leads back here
        return rest

    def deliver(self, notice: Notice) -> None:
        """Take a notice of the runtime, for `handle_info`."""
        self.put(Info(notice))

    def discard(self, unwanted: Callable[[object], bool]) -> None:
        """Take back the notices that lie unread and are `unwanted` (SIG-07)."""
        for queue in (self.queue, self.held):
            if queue:
                unread = list(queue)
                kept = [m for m in unread if not (isinstance(m, Info) and unwanted(m.message))]
                for _ in unread:  # and not those that another thread adds just now
                    queue.popleft()
                queue.extendleft(reversed(kept))

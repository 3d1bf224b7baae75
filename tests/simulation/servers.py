"""A server that accounts for every message, and the customers that check the account."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, cast

from attrs import define, field, frozen

import otpy
from otpy import Crashed, ExitReason, GenServer, Killed, Process, Shutdown
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours.served import Served
from otpy.behaviours.server import Server
from otpy.errors import CallFailed, CallTimeout
from otpy.server import TIMEOUT, Caller, Init, NoReply, Reply, ServerRef, Stop
from otpy.signals import Down, ExitSignal
from tests.simulation.errors import NUMBERS, error


@frozen
class Order:
    """A message with a number of its own.

    Attributes:
        number: The number; later orders of one customer have higher numbers.
        customer: The customer that sent it.
        what: The kind of work.
    """

    number: int
    customer: int
    what: str


@define(eq=False)
class Book:
    """The state of one server: its work so far.

    Attributes:
        served: The numbers of the orders, in order.
        watched: The monitored processes whose ends it has not been told of.
        last: The latest order of each customer.
        must: Whether it must continue before it serves anything.
    """

    served: list[int] = field(factory=list[int])
    watched: list[Process] = field(factory=list[Process])
    last: dict[int, int] = field(factory=dict[int, int])
    must: bool = False


class Desk:
    """The known facts of all servers of one run and of their customers.

    Attributes:
        served: The numbers of all orders that were served.
        suspended: The servers that must not serve now.
        busy: Servers that a customer is suspending or resuming.
        held: Servers that were suspended at some time, or that have postponed something.
        ended: The servers whose `terminate` was called, and for which reason.
        working: Servers that are serving an order.
        shut: The times until which machines postpone orders (seconds).
        worked: The times at which servers finished a slow order (seconds).
        sent: The orders that servers must serve, if they live on.
        waits: The number of customers that wait for each server.
    """

    def __init__(self, expect: Callable[..., None], faulty: set[str], blamed: set[Process]) -> None:
        self.expect, self.faulty, self.blamed = expect, faulty, blamed
        self.numbers = self.customers = 0
        self.served: set[int] = set()
        self.suspended: set[Process] = set()
        self.busy: set[Process] = set()
        self.held: set[Process] = set()
        self.ended: dict[Process, ExitReason] = {}
        self.working: set[Process] = set()
        self.shut: dict[Process, float] = {}
        self.worked: dict[Process, float] = {}
        self.sent: dict[Process, list[int]] = {}
        self.waits: Counter[Process] = Counter()

    @staticmethod
    def current() -> Desk:
        """Return the desk of the tree that the running server belongs to."""
        ledger: Any = shell_of(otpy.current().parent).tree.interposer
        return cast("Desk", ledger.desk)

    def order(self, customer: int, what: str) -> Order:
        """Write an order."""
        self.numbers += 1
        return Order(self.numbers, customer, what)

    def take(self, order: Order, book: Book) -> None:
        """Record that the running server begins with `order`."""
        me = otpy.current()
        self.expect(order.number not in self.served, "{} served {} again", me.path, order)
        self.expect(me not in self.suspended, "{} served {} while suspended", me.path, order)
        self.expect(me not in self.ended, "{} served {} after its terminate", me.path, order)
        self.expect(not book.must, "{} served {} before it went on", me.path, order)
        last = book.last.get(order.customer, 0)
        self.expect(last < order.number, "{} served {} after number {}", me.path, order, last)
        book.last[order.customer] = order.number
        self.served.add(order.number)
        book.served.append(order.number)

    async def work(self, seconds: float) -> None:
        """Keep the running server busy."""
        me = otpy.current()
        self.working.add(me)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.working.discard(me)
            self.worked[me] = asyncio.get_running_loop().time()

    def leave(self, process: Process) -> None:
        """Send messages to a process that may be a server."""
        self.customers += 1
        server: ServerRef[Order, int] = Till.at(process)
        self._cast(server, process, "note")
        self._cast(server, process, "info")

    def _cast(self, server: ServerRef[Order, int], process: Process, what: str) -> None:
        order = self.order(self.customers, what)
        serves = isinstance(live_of(process).behaviour, Server)
        if what == "info":
            server.send(order)
        else:
            server.cast(order)
        if serves:  # an order whose sender got an error, deep in a recursion, may not have come
            self.sent.setdefault(process, []).append(order.number)

    async def visit(self, process: Process, rng: random.Random) -> None:
        """Be a customer of one server for a while."""
        self.customers += 1
        server: ServerRef[Order, int] = Till.at(process)
        for what in rng.choices(WHAT, k=rng.randint(1, 3)):
            if what in ("busy", "note", "watch", "info"):
                self._cast(server, process, what)
            elif what == "suspend":
                await self._suspend(server, process, rng)
            elif what == "close":
                await self._close(server, process, rng)
            elif what == "state":
                await self._look(server, process)
            else:
                order = self.order(self.customers, what)
                await self._call(server, process, order, rng.choice([None, 0.1, 1, 5]))

    async def _call(
        self, server: ServerRef[Order, int], process: Process, order: Order, limit: float | None
    ) -> None:
        loop = asyncio.get_running_loop()
        began, took = loop.time(), f"{order} with timeout={limit}"
        ending = process.exit_reason or _ending(process)
        self.waits[process] += 1
        try:
            answer = await server.call(order, limit)
        except CallTimeout:
            self.expect(limit is not None and loop.time() == began + limit, "{} timed out", took)
            self.expect(process.alive or loop.time() > began, "{} timed out, dead", took)
        except CallFailed as error:
            self.expect(not process.alive or _ending(process) is not None, "{}: {}", took, error)
            self.expect(error.path == process.path, "{}: {}", took, error)
        else:
            self.expect(ending is None, "{} was answered though it ends with {}", took, ending)
            self.expect(answer == order.number, "{} was answered by {}", took, answer)
            self.expect(order.number in self.served, "{} was answered, and not served", took)
        finally:
            self.waits[process] -= 1
        self.expect(ending is None or loop.time() == began, "{} waited for the dying", took)
        self.expect(limit is None or loop.time() <= began + limit, "{} took too long", took)

    async def _look(self, server: ServerRef[Order, int], process: Process) -> None:
        try:
            kept: object = await server.get_state(1)
        except (CallFailed, CallTimeout):
            return
        if isinstance(kept, tuple):  # of a state machine
            kept = cast("tuple[str, Book]", kept)[1]
        self.expect(isinstance(kept, Book), "{} keeps {!r}", process.path, kept)

    async def _suspend(
        self, server: ServerRef[Order, int], process: Process, rng: random.Random
    ) -> None:
        """Suspend the server, send orders, and check that it keeps them, in order."""
        if process in self.busy:
            return
        self.busy.add(process)
        self.held.add(process)
        with suppress(CallFailed, CallTimeout):
            try:
                await server.suspend()
                self.suspended.add(process)
                self._cast(server, process, "note")
                self._cast(server, process, "info")
                await asyncio.sleep(rng.choice([0, 0.05, 0.5]))
            finally:  # no customer may wait for it for ever
                self.suspended.discard(process)
                if isinstance(live_of(process).behaviour, Server) and process.alive:
                    resuming = asyncio.ensure_future(server.resume(None))
                    resuming.add_done_callback(lambda f: f.cancelled() or f.exception())
            await asyncio.sleep(0)
            self._cast(server, process, "note")
        self.busy.discard(process)

    async def _close(
        self, server: ServerRef[Order, int], process: Process, rng: random.Random
    ) -> None:
        """Stop the server, and check that it serves earlier orders first."""
        if process.path in self.faulty or _ending(process) is not None:
            return
        orders = [self.order(self.customers, "note") for _ in range(2)]
        for order in orders:
            server.cast(order)
        reason = Shutdown(self.customers)
        self.blamed.add(process)
        with suppress(CallFailed, CallTimeout):
            await server.stop(reason, rng.choice([None, 1]))
            left = [order for order in orders if order.number not in self.served]
            # A server that was suspended meanwhile stops without serving held orders.
            self.expect(not left or process in self.held, "{} was stopped before {}", process, left)

    def fits(self, process: Process, reason: ExitReason) -> bool:
        """Whether a server without a task may have ended with `reason`."""
        told = live_of(process).ending
        if isinstance(reason, Crashed) or not process.ready:
            return True  # no code has seen the errors of its callbacks
        return reason in (self.ended.get(process), told, Killed())

    def check_rest(self) -> None:
        """Check that no call waits for a dead server, and that servers serve their orders."""
        for process, count in self.waits.items():
            self.expect(process.alive or not count, "{} wait for {}", count, process)
            pending: Any = getattr(live_of(process).behaviour, "owed", None)
            done = [question for question in pending or () if question.future.done()]
            self.expect(not done, "{} keeps {}", process, done)
        for process, numbers in [*self.sent.items()]:
            server = live_of(process).behaviour
            if not isinstance(server, Server) or _ending(process) is not None:
                del self.sent[process]
            elif process.ready and process not in self.working and not server.mailbox.suspended:
                if process in self.shut:
                    late = asyncio.get_running_loop().time() > self.shut[process]
                    self.expect(not late, "{} is still shut", process)
                    continue
                del self.sent[process]
                left = [number for number in numbers if number not in self.served]
                self.expect(not left, "{} is deaf to {}", process, left)


def _ending(process: Process) -> ExitReason | None:
    behaviour = live_of(process).behaviour
    return live_of(process).ending or (behaviour.ending if isinstance(behaviour, Server) else None)


WHAT = [
    *("add", "add", "add", "slow", "later", "stop", "crash", "note", "note", "busy", "info"),
    *("watch", "watch", "suspend", "suspend", "state", "continue", "idle", "close"),
]

Result: TypeAlias = "NoReply[Book] | Stop[Any, Book]"


class Till(GenServer[Order, int, Book]):
    """A server of orders."""

    async def init(self, seed: int) -> Book | Init[Book]:
        """Begin with an empty book; some are slow, trap exits or have more to do."""
        if seed % 3 == 0:
            await asyncio.sleep(0.2)
        return _opened(self, seed)

    async def handle_call(self, request: Order, caller: Caller[int], state: Book) -> Any:
        """Serve the order."""
        Desk.current().take(request, state)
        if request.what == "slow":
            await Desk.current().work(0.3)
        return _answer(request, caller, state)

    async def handle_cast(self, request: Order, state: Book) -> Result:
        """Serve the order."""
        Desk.current().take(request, state)
        if request.what == "busy":
            await Desk.current().work(0.2)
        watch(self, request, state)
        return NoReply(state)

    def handle_info(self, message: object, state: Book) -> Result:
        """Handle an end, which comes once for each monitor, or any other message."""
        desk = Desk.current()
        match message:
            case Order():
                desk.take(message, state)
            case Down():
                heard(message, state)
            case ExitSignal():
                return Stop(Shutdown("signal"), state)
            case _:
                desk.expect(message is TIMEOUT, "{} came from nowhere", message)
        return NoReply(state)

    def handle_continue(self, value: Any, state: Book) -> Result:
        """Continue, before any other message."""
        Desk.current().expect(state.must and value in ("begin", "more"), "went on with {}", value)
        state.must = False
        return NoReply(state)

    def terminate(self, reason: ExitReason, state: Book) -> None:
        """Record the end."""
        desk, me = Desk.current(), otpy.current()
        desk.expect(me not in desk.ended, "{} was terminated twice ({})", me.path, reason)
        desk.ended[me] = reason


class Kiosk(Till):
    """A server of orders with plain callbacks, and so without a task."""

    def init(self, seed: int) -> Book | Init[Book]:  # type: ignore[override] # plain, for once
        """Begin with an empty book; some trap exits or have more to do."""
        return _opened(self, seed)

    def handle_call(self, request: Order, caller: Caller[int], state: Book) -> Any:
        """Serve the order at once."""
        Desk.current().take(request, state)
        return _answer(request, caller, state)

    def handle_cast(self, request: Order, state: Book) -> Result:  # type: ignore[override] # plain
        """Serve the order at once."""
        Desk.current().take(request, state)
        watch(self, request, state)
        return NoReply(state)


class Stall(Kiosk):
    """A server with plain callbacks, except the last."""

    async def terminate(self, reason: ExitReason, state: Book) -> None:  # type: ignore[override] # slow
        """Close slowly."""
        await asyncio.sleep(0.1)
        super().terminate(reason, state)


SERVERS = (Till, Kiosk, Stall)


def _opened(server: GenServer[Order, int, Book], seed: int) -> Book | Init[Book]:
    if seed % 2 == 0:
        server.trap_exit()
    book = Book(must=seed % 5 == 0)
    return Init(book, continue_with="begin") if book.must else book


def _answer(request: Order, caller: Caller[int], state: Book) -> Any:
    match request.what:
        case "later":
            loop, number = asyncio.get_running_loop(), request.number
            loop.call_later(0.2, lambda: caller.reply(number))
            return NoReply(state)
        case "stop":
            return Stop(Shutdown("sold out"), state, request.number)
        case "crash":
            raise crashed(request)
        case "continue":
            state.must = True
            return Reply(request.number, state, continue_with="more")
        case "idle":
            return Reply(request.number, state, timeout=0.4)
        case _:
            return Reply(request.number, state)


def crashed(request: Order) -> BaseException:
    """Return the error of serving `request`."""
    Desk.current().worked[otpy.current()] = math.inf  # it may cancel the server itself
    return error(request.number % len(NUMBERS))


def heard(down: Down, state: Book) -> None:
    """Handle an end, which comes once for each monitor."""
    desk, known = Desk.current(), down.process in state.watched
    desk.expect(known, "{} heard of {} without a monitor", otpy.current().path, down)
    desk.expect(not down.process.alive, "{} is about the living", down)
    if known:
        state.watched.remove(down.process)


def watch(server: Served[Any, Any, Any], request: Order, state: Book) -> None:
    """Monitor a process, if `request` says so."""
    if request.what == "watch":
        ledger: Any = shell_of(otpy.current().parent).tree.interposer
        process = ledger.anybody(otpy.current())
        if process is not None:
            state.watched.append(process)
            _ = server.monitor(process)

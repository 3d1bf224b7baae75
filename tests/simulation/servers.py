"""A server whose every message is accounted for, and the customers who keep the account."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, cast

from attrs import define, field, frozen

import otpy
from otpy import (
    TIMEOUT,
    Caller,
    Down,
    ExitReason,
    ExitSignal,
    GenServer,
    Init,
    NoReply,
    Process,
    Reply,
    ServerRef,
    Shutdown,
    Stop,
)
from otpy.behaviours.server import Server
from otpy.errors import CallFailed, CallTimeout


@frozen
class Order:
    """A message with a number of its own.

    Attributes:
        number: It; of one customer's orders, later ones have higher numbers.
        customer: Who sent it.
        what: What is to be done.
    """

    number: int
    customer: int
    what: str


@define(eq=False)
class Book:
    """The state of one server: what it has done.

    Attributes:
        served: The numbers of the orders, in order.
        watched: Whom it monitors and has not heard of.
        last: The latest order of each customer.
        must: Whether it must go on with something before it serves anything.
    """

    served: list[int] = field(factory=list[int])
    watched: list[Process] = field(factory=list[Process])
    last: dict[int, int] = field(factory=dict[int, int])
    must: bool = False


class Desk:
    """What is known of all servers of one run and of those who use them.

    Attributes:
        served: The numbers of all orders that were served.
        suspended: The servers that must not serve now.
        busy: Servers that somebody is suspending or resuming.
        held: Servers that somebody has suspended at some time.
        ended: The servers whose `terminate` was called.
        waits: How many customers wait for each server.
    """

    def __init__(
        self, expect: Callable[[bool, str], None], faulty: set[str], blamed: set[Process]
    ) -> None:
        self.expect, self.faulty, self.blamed = expect, faulty, blamed
        self.numbers = self.customers = 0
        self.served: set[int] = set()
        self.suspended: set[Process] = set()
        self.busy: set[Process] = set()
        self.held: set[Process] = set()
        self.ended: set[Process] = set()
        self.waits: Counter[Process] = Counter()

    @staticmethod
    def current() -> Desk:
        """Return the desk of the tree that the running server belongs to."""
        ledger: Any = otpy.current().parent.tree.interposer
        return cast("Desk", ledger.desk)

    def order(self, customer: int, what: str) -> Order:
        """Write an order."""
        self.numbers += 1
        return Order(self.numbers, customer, what)

    def take(self, order: Order, book: Book) -> None:
        """Note that the running server begins with `order`."""
        me = otpy.current()
        self.expect(order.number not in self.served, f"{me.path} served {order} again")
        self.expect(me not in self.suspended, f"{me.path} served {order} while suspended")
        self.expect(me not in self.ended, f"{me.path} served {order} after its terminate")
        self.expect(not book.must, f"{me.path} served {order} before it went on")
        last = book.last.get(order.customer, 0)
        self.expect(last < order.number, f"{me.path} served {order} after number {last}")
        book.last[order.customer] = order.number
        self.served.add(order.number)
        book.served.append(order.number)

    async def visit(self, process: Process, rng: random.Random) -> None:
        """Be a customer of one server for a while."""
        self.customers += 1
        server: ServerRef[Order, int] = Till.at(process)
        for what in rng.choices(WHAT, k=rng.randint(1, 3)):
            order = self.order(self.customers, what)
            if what in ("busy", "note", "watch"):
                server.cast(order)
            elif what == "info":
                server.send(order)
            elif what == "suspend":
                await self._suspend(server, process, rng)
            elif what == "close":
                await self._close(server, process, rng)
            elif what == "state":
                await self._look(server, process)
            else:
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
            self.expect(limit is not None and loop.time() == began + limit, f"{took} timed out")
            self.expect(process.alive or loop.time() > began, f"{took} timed out, dead")
        except CallFailed as error:
            self.expect(not process.alive or _ending(process) is not None, f"{took}: {error}")
            self.expect(error.path == process.path, f"{took}: {error}")
        else:
            self.expect(ending is None, f"{took} was answered though it ends with {ending}")
            self.expect(answer == order.number, f"{took} was answered by {answer}")
            self.expect(order.number in self.served, f"{took} was answered, and not served")
        finally:
            self.waits[process] -= 1
        self.expect(ending is None or loop.time() == began, f"{took} waited for the dying")
        self.expect(limit is None or loop.time() <= began + limit, f"{took} took too long")

    async def _look(self, server: ServerRef[Order, int], process: Process) -> None:
        try:
            book = await server.get_state(1)
        except (CallFailed, CallTimeout):
            return
        self.expect(isinstance(book, Book), f"{process.path} keeps {book!r}")

    async def _suspend(
        self, server: ServerRef[Order, int], process: Process, rng: random.Random
    ) -> None:
        """Suspend it, send orders, and see that they are kept, in their order."""
        if process in self.busy:
            return
        self.busy.add(process)
        self.held.add(process)
        with suppress(CallFailed, CallTimeout):
            try:
                await server.suspend()
                self.suspended.add(process)
                server.cast(self.order(self.customers, "note"))
                server.send(self.order(self.customers, "info"))
                await asyncio.sleep(rng.choice([0, 0.05, 0.5]))
            finally:  # nobody shall wait for it for ever
                self.suspended.discard(process)
                if isinstance(process.behaviour, Server) and process.alive:
                    resuming = asyncio.ensure_future(server.resume(None))
                    resuming.add_done_callback(lambda f: f.cancelled() or f.exception())
            await asyncio.sleep(0)
            server.cast(self.order(self.customers, "note"))
        self.busy.discard(process)

    async def _close(
        self, server: ServerRef[Order, int], process: Process, rng: random.Random
    ) -> None:
        """Stop it: it serves what came before."""
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
            # One that was suspended meanwhile stops without serving what it holds.
            self.expect(not left or process in self.held, f"{process} was stopped before {left}")

    def check_rest(self) -> None:
        """Check that nobody waits for the dead, and no answer is waited for that has come."""
        for process, count in self.waits.items():
            self.expect(process.alive or not count, f"{count} wait for {process}")
            pending: Any = getattr(process.behaviour, "owed", None)
            done = [question for question in pending or () if question.future.done()]
            self.expect(not done, f"{process} keeps {done}")


def _ending(process: Process) -> ExitReason | None:
    behaviour = process.behaviour
    return process.ending or (behaviour.ending if isinstance(behaviour, Server) else None)


WHAT = [
    *("add", "add", "add", "slow", "later", "stop", "crash", "note", "note", "busy", "info"),
    *("watch", "watch", "suspend", "suspend", "state", "continue", "idle", "close"),
]

Result: TypeAlias = "NoReply[Book] | Stop[Any, Book]"


class Till(GenServer[Order, int, Book]):
    """Serves orders."""

    async def init(self, seed: int) -> Book | Init[Book]:
        """Begin with an empty book; some take their time, trap exits or have more to do."""
        if seed % 3 == 0:
            await asyncio.sleep(0.2)
        if seed % 2 == 0:
            self.trap_exit()
        book = Book(must=seed % 5 == 0)
        return Init(book, continue_="begin") if book.must else book

    async def handle_call(self, request: Order, caller: Caller[int], state: Book) -> Any:
        """Do as the order says."""
        Desk.current().take(request, state)
        match request.what:
            case "slow":
                await asyncio.sleep(0.3)
            case "later":
                loop, number = asyncio.get_running_loop(), request.number
                loop.call_later(0.2, lambda: caller.reply(number))
                return NoReply(state)
            case "stop":
                return Stop(Shutdown("sold out"), state, request.number)
            case "crash":
                raise LookupError(f"order {request.number}")
            case "continue":
                state.must = True
                return Reply(request.number, state, continue_="more")
            case "idle":
                return Reply(request.number, state, timeout=0.4)
            case _:
                pass
        return Reply(request.number, state)

    async def handle_cast(self, request: Order, state: Book) -> Result:
        """Do as the order says."""
        Desk.current().take(request, state)
        if request.what == "busy":
            await asyncio.sleep(0.2)
        if request.what == "watch":
            ledger: Any = otpy.current().parent.tree.interposer
            process = ledger.anybody(otpy.current())
            if process is not None:
                state.watched.append(process)
                _ = self.monitor(process)
        return NoReply(state)

    def handle_info(self, message: object, state: Book) -> Result:
        """Hear of an end, once for each monitor; take what else comes."""
        desk = Desk.current()
        match message:
            case Order():
                desk.take(message, state)
            case Down():
                known = message.process in state.watched
                desk.expect(known, f"{otpy.current().path} heard of {message} without a monitor")
                desk.expect(not message.process.alive, f"{message} is about the living")
                if known:
                    state.watched.remove(message.process)
            case ExitSignal():
                return Stop(Shutdown("signal"), state)
            case _:
                desk.expect(message is TIMEOUT, f"{message} came from nowhere")
        return NoReply(state)

    def handle_continue(self, value: Any, state: Book) -> Result:
        """Go on, before any other message."""
        Desk.current().expect(state.must and value in ("begin", "more"), f"went on with {value}")
        state.must = False
        return NoReply(state)

    def terminate(self, reason: ExitReason, state: Book) -> None:
        """Close."""
        desk, me = Desk.current(), otpy.current()
        desk.expect(me not in desk.ended, f"{me.path} was terminated twice ({reason})")
        desk.ended.add(me)

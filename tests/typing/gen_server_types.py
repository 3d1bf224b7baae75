"""Never run: mypy and pyright check that the types of a server reach its callers."""

from __future__ import annotations

from typing import assert_type

from otpy import ChildSpec, GenServer, Normal, Portal, Process
from otpy.server import Caller, CallResult, Init, NoReply, Reply, Request, Result, ServerRef, Stop


class Put:
    """Keep a text."""

    text = ""


class Look:
    """Ask for the text."""


class Texts(GenServer[Put | Look, str, list[str]]):
    """Sync and async callbacks, and every result."""

    async def init(self, first: str, *, more: int = 0) -> list[str] | Init[list[str]]:
        return Init([first], continue_with="more", timeout=5) if more else [first]

    def handle_call(
        self, request: Put | Look, caller: Caller[str], state: list[str]
    ) -> CallResult[str, list[str]]:
        if isinstance(request, Look):
            caller.reply(state[0])
            caller.reply(1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
            return NoReply(state, timeout=1.0)
        if not request.text:
            return Stop(Normal(), state, "gone")
        return Reply(request.text, [*state, request.text])

    async def handle_cast(self, request: Put | Look, state: list[str]) -> Result[list[str]]:
        return NoReply(state) if isinstance(request, Put) else Stop(Normal(), state)

    def handle_info(self, message: object, state: list[str]) -> NoReply[list[str]]:
        return NoReply(state)

    async def handle_continue(self, value: str, state: list[str]) -> Result[list[str]]:
        return NoReply([*state, value])

    async def terminate(self, reason: object, state: list[str]) -> None:
        state.clear()


class Wrong(GenServer[int, str, int]):
    """Results of the wrong type are refused."""

    def handle_call(self, request: int, caller: Caller[str], state: int) -> CallResult[str, int]:
        if request:
            return Reply(1, 1)  # type: ignore[arg-type] # pyright: ignore[reportReturnType]
        return NoReply("x")  # type: ignore[arg-type] # pyright: ignore[reportReturnType]

    def handle_cast(self, request: int, state: int) -> Result[int]:
        return Stop(Normal(), state, "x")  # type: ignore[arg-type] # pyright: ignore[reportReturnType]


SPEC = ChildSpec("texts", Texts, ("first",), {"more": 1})


async def talk(process: Process) -> None:
    """Requests and replies have the types of the server."""
    ref = Texts.at(process)
    assert_type(ref, ServerRef[Put | Look, str, list[str]])
    assert_type(await ref.call(Look()), str)
    ref.cast(Put())
    ref.send(object())
    await ref.call(1)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
    assert_type(await ref.get_state(), list[str])
    assert_type(await ref.replace_state(lambda texts: texts[1:]), list[str])
    await ref.replace_state(len)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    narrower: ServerRef[Look, object] = ref
    await narrower.call(Look())


class Fetch(Request[bytes | None]):
    """Ask for bytes."""


class Count(Request[int]):
    """Ask for a number."""


class Cache(GenServer[Fetch | Count | Put, bytes | int | None, dict[str, bytes]]):
    """Requests of both kinds."""

    def init(self) -> dict[str, bytes]:
        return {}

    def handle_call(
        self, request: Fetch | Count | Put, caller: object, state: dict[str, bytes]
    ) -> CallResult[bytes | int | None, dict[str, bytes]]:
        return Reply(len(state) if isinstance(request, Count) else None, state)


async def ask(process: Process, portal: Portal) -> None:
    """A reply has the type of its request, or else that of the server."""
    ref = Cache.at(process)
    assert_type(await ref.call(Fetch()), bytes | None)
    assert_type(await ref.call(Count(), timeout=None), int)
    assert_type(await ref.call(Put()), bytes | int | None)
    assert_type(portal.call(ref, Count()), int)
    assert_type(portal.call(ref, Put(), timeout=1.0), bytes | int | None)
    number: str = await ref.call(Count())  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]
    ref.cast(Look())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    any_state: ServerRef[Fetch, object] = ref
    await any_state.call(Fetch())
    del number

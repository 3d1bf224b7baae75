from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import otpy
from otpy_agents.errors import CommandRefused, HostGone, NoAnswer, SocketUnusable
from otpy_agents.operator import CommandRefusal, actor, ask, client, server
from otpy_agents.operator.message import OperatorRequest
from otpy_agents.operator.place import bound
from tests.agents.operator.operated_host import Host, answer_in

pytestmark = pytest.mark.real_time

GOOD = {"version": 1, "command": "cancel", "arguments": {"run": "r"}}
KEYS = ["version", "command", "arguments"]
VALUES: list[Any] = [None, True, 0, 1, 2, 1.5, "", "a\nb", [], {}, {"run": []}, {"": "x"}]


def line(**changes: object) -> bytes:
    """Return a request, somewhat spoilt."""
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def spoilt(entries: list[tuple[str, Any]]) -> bytes:
    """Return an object that is not a request, with any entries."""
    return json.dumps({**dict(entries), "more": 1}).encode()


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\n", 'got "", wanted a line with one JSON object'),
        (b"cancel r\n", 'got "cancel r", wanted a line with one JSON object'),
        (b"\xff\xfe\n", "wanted a line with one JSON object"),
        (b"[1]\n", "got [1], wanted a line with one JSON object"),
        (b"[" * 9999 + b"\n", "…, wanted a line with one JSON object"),
        (b"{}\n", "version: got nothing, wanted the number 1"),
        (line(version="1"), 'version: got "1", wanted the number 1'),
        (line(version=2, more=1), "version: got 2, wanted 1; use one otpy-tree on both ends"),
        (line(command=""), 'command: got "", wanted the name of a command'),
        (line(command=7), "command: got 7, wanted the name of a command"),
        (line(command="x" * 101), "…, wanted the name of a command"),
        (line(more=1), "more: got an unknown key, wanted one of version, command, arguments"),
        (line(arguments=[1]), "arguments: got [1], wanted an object of texts, numbers, true"),
        (line(arguments={"run": {}}), "arguments: got {}, wanted an object of texts, numbers"),
        (line(arguments={"run": float("nan")}), "wanted an object of texts, numbers"),
        (b"x" * 70_000, "got a line of more than 65536 bytes, wanted a shorter one"),
    ],
)
async def test_what_is_no_request_gets_a_clear_answer(
    host: Host, sent: bytes, message: str
) -> None:
    """One line names what was got and what was wanted; nothing is recorded or carried out."""
    answer = await host.told_raw(sent)
    assert (answer["ok"], answer["reason"]) == (False, CommandRefusal.MALFORMED)
    assert message in answer["message"]
    assert len(answer["message"]) < 200
    assert (host.notebook.begun, host.incarnation) == ([], 1)


@given(
    st.binary(max_size=80)
    | st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES))).map(spoilt)
)
def test_no_line_is_too_strange_to_be_refused(sent: bytes) -> None:
    """Any line is refused, with an error of one line; nothing else is raised."""
    with pytest.raises(CommandRefused) as refusal:
        OperatorRequest.read(sent + b"\n")
    assert refusal.value.reason == CommandRefusal.MALFORMED
    assert len(str(refusal.value).splitlines()) == 1


async def test_a_line_without_its_end_is_not_carried_out(host: Host) -> None:
    """Half a command could be another one."""
    async with host.raw() as (reader, writer):
        writer.write(line()[:-1])
        writer.write_eof()
        assert "got no whole line" in answer_in(await reader.read())["message"]
    assert host.notebook.begun == []


async def test_only_the_first_line_counts(host: Host) -> None:
    """One connection is one command."""
    async with host.raw() as (reader, writer):
        writer.write(line() * 3)
        assert (await reader.read()).count(b"\n") == 1
    assert len(host.notebook.begun) == 1


async def test_a_client_that_says_nothing_is_dropped(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one that sends a byte now and then: the limit is for the whole line."""
    monkeypatch.setattr(server, "PATIENCE", 0.03)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as slow:
        slow.setblocking(False)
        slow.connect(str(host.path))

        async def drip() -> None:
            with contextlib.suppress(BrokenPipeError):
                while slow.send(b" "):  # noqa: ASYNC110 - it is no waiting
                    await asyncio.sleep(0.005)

        dripping = asyncio.create_task(drip())
        async with host.raw() as (silent, _):
            for answer in (await silent.read(), await loop.sock_recv(slow, 1000)):
                assert "got no whole line in 0.03 s" in answer_in(answer)["message"]
        await dripping


async def test_a_client_that_does_not_read_is_dropped(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer goes nowhere; the next client is served."""
    monkeypatch.setattr(server, "PATIENCE", 0.03)

    async def much(_: object) -> str:
        return "x" * 3_000_000

    host.commands["much"] = much
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.setblocking(False)
        deaf.connect(str(host.path))
        await loop.sock_sendall(deaf, line(command="much"))
        await host.until(lambda: host.notebook.ended)
        await asyncio.sleep(0.05)
        assert await ask(host.path, "cancel", run="r") == {"cancelled": "r"}
        got = 0
        while data := await loop.sock_recv(deaf, 100_000):
            got += len(data)
    assert (got < 3_000_000, host.incarnation) == (True, 1)


async def test_a_client_that_hangs_up_does_not_end_its_command(host: Host) -> None:
    """A command that was begun is completed, and its answer is recorded."""
    async with host.raw() as (_, writer):
        writer.write(line(command="wait"))
        await host.until(host.waiting)
    host.commands.gate.set()
    await host.until(lambda: host.notebook.ended)
    assert host.notebook.ended[1]["answer"] == "waited"


async def test_many_are_served_at_once_and_too_many_are_told_so(host: Host) -> None:
    """The served clients do not suffer, and another client may come once one has gone."""
    waiting = [asyncio.create_task(ask(host.path, "wait")) for _ in range(server.CLIENTS)]
    await host.until(lambda: host.waiting() == server.CLIENTS)
    with pytest.raises(CommandRefused, match="32 others are being served") as refusal:
        await ask(host.path, "cancel", run="r")
    assert refusal.value.reason == CommandRefusal.BUSY
    host.commands.gate.set()
    assert await asyncio.gather(*waiting) == ["waited"] * server.CLIENTS
    assert await ask(host.path, "cancel", run="r") == {"cancelled": "r"}


async def test_a_flood_keeps_nothing_from_its_turn(host: Host) -> None:
    """The loop goes on under hundreds of clients, and each of them gets an answer."""
    rounds = 0

    async def tick() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    ticking = asyncio.create_task(tick())
    asking = [ask(host.path, "cancel", run=str(number)) for number in range(300)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    ticking.cancel()
    turned_away = [one.reason for one in answers if isinstance(one, CommandRefused)]
    assert set(turned_away) <= {CommandRefusal.BUSY}
    assert len(host.notebook.begun) == 300 - len(turned_away) >= server.CLIENTS
    # At most 16 are let in at a time, hence at least so many rounds in between.
    assert rounds >= 300 / 16
    assert host.incarnation == 1


# --- actors ---------------------------------------------------------------------------------------


async def test_another_user_is_not_heard(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of the file does not matter."""

    def stranger(connection: socket.socket) -> actor.Actor:
        return evolve(actor.peer_of(connection), user="eve", uid=os.geteuid() + 1)

    with monkeypatch.context() as patch:
        patch.setattr(server, "peer_of", stranger)
        with pytest.raises(CommandRefused, match=r"got a client of eve \(uid") as refusal:
            await ask(host.path, "cancel", run="r")
    assert refusal.value.reason == CommandRefusal.FOREIGN
    with monkeypatch.context() as patch:
        patch.setattr(client, "peer_of", stranger)
        with pytest.raises(SocketUnusable, match=r"got one of eve .*, wanted a"):
            await ask(host.path, "cancel", run="r")
    assert host.notebook.begun == []


def test_an_actor_is_named_as_far_as_it_is_known() -> None:
    """The name has the user, the number, the process and the terminal."""
    known = actor.Actor(user="ada", uid=1000, pid=42, tty="/dev/pts/3")
    assert str(known) == "ada (uid 1000, pid 42, /dev/pts/3)"
    assert str(evolve(known, pid=None, tty=None)) == "ada (uid 1000)"


def test_the_terminal_of_an_operator_is_seen() -> None:
    """One stream that leads to it is enough; the kernel tells the process."""
    ours, theirs = socket.socketpair()
    leader, terminal = os.openpty()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        os.dup2(terminal, 2)
        os.read(leader, 1)
        os._exit(0)
    try:
        name = os.ttyname(terminal)
        assert actor.peer_of(ours).uid == os.geteuid()
        while actor._terminal_of(pid) is None:
            pass
        assert actor._terminal_of(pid) == name
    finally:
        os.write(terminal, b"\n")
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        for descriptor in (leader, terminal):
            os.close(descriptor)
        ours.close()
        theirs.close()
    assert actor._terminal_of(pid) is None


# --- where it lies --------------------------------------------------------------------------------


async def test_a_path_longer_than_the_kernel_takes_is_no_trouble(
    tmp_path: Path, host: Host
) -> None:
    """Both the host and the client can use it."""
    folder = tmp_path / ("long" * 20) / ("longer" * 20)
    folder.mkdir(parents=True)
    far = Host(folder / "1.sock", host.commands, host.notebook)
    async with otpy.start(far.spec(), hooks=[]):
        assert await ask(far.path, "cancel", run="r") == {"cancelled": "r"}
        assert far.path.is_socket()
    assert not far.path.exists()
    with pytest.raises(HostGone):
        await ask(far.path, "cancel", run="r")


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A name too long for any folder, no folder, and a file that is no socket and stays."""
    (tmp_path / "file").touch()
    for name in ("x" * 200, "none/1.sock", "file", "file/1.sock"):
        with pytest.raises(SocketUnusable, match="wanted a place for an operator socket"):
            with bound(tmp_path / name):
                pytest.fail("bound")
    assert (tmp_path / "file").is_file()


def test_a_socket_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    """A host that leaves removes only its own file."""
    path = tmp_path / "1.sock"
    with bound(path):
        with bound(path):
            pass
        assert not path.exists()
        path.touch()
    assert path.is_file()


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"hello\n", "got b'hello"),
        (b'{"version": 2, "ok": true}\n', "got an answer of version 2 and not 1"),
        (b'{"version": 1, "ok"', "got the end of the connection"),
    ],
)
async def test_an_answer_that_is_none_is_refused(tmp_path: Path, answer: bytes, match: str) -> None:
    """It is not taken for success."""

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    path = tmp_path / "1.sock"
    async with await asyncio.start_unix_server(serve, str(path)):
        with pytest.raises(NoAnswer, match=match):
            await ask(path, "cancel")


async def test_who_is_turned_away_before_it_spoke_learns_why() -> None:
    """The client reads the answer of a host that has already closed its end."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        with theirs:
            theirs.sendall(b"busy\n")
        assert await client._exchanged(ours, b"too late\n") == b"busy\n"


async def test_a_request_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    """The client refuses it before it connects."""
    with pytest.raises(CommandRefused, match="got a line of more than 65536 bytes"):
        await ask(tmp_path / "1.sock", "cancel", run="x" * 70_000)

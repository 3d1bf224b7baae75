"""A peer in a process of its own; the clock sees only its sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_TCP = "listener = socket.create_server(('127.0.0.1', 0))"
_UNIX = "listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()"
_UDP = "peer = socket.socket(type=socket.SOCK_DGRAM); peer.bind(('127.0.0.1', 0)); listener = peer"
_BEGIN = "import socket, sys, time\n{listen}\nprint(listener.getsockname(), flush=True)\n"
_ACCEPT = "peer, _ = listener.accept()\n"
_END = "\nsys.stdin.read()"

GREETS = "time.sleep({pause}); peer.sendall(b'hello\\n')"
ANSWERS = "while data := peer.recv(99):\n time.sleep({pause}); peer.sendall(data)"
ANSWERS_IN_PARTS = (
    "while data := peer.recv(99):\n"
    " for part in data.splitlines(True): time.sleep({pause}); peer.sendall(part)"
)
ANSWERS_DATAGRAMS = (
    "while True:\n data, back = peer.recvfrom(99); time.sleep({pause}); peer.sendto(data, back)"
)
ENCRYPTS = (
    "import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "context.load_cert_chain({certificate!r})\n"
    "peer = context.wrap_socket(peer, server_side=True)\n"
)
SWALLOWS = "while peer.recv(99): pass"


@contextmanager
def _serving(source: str, *arguments: str) -> Generator[str]:
    command = [sys.executable, "-Sc", source + _END, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode()
        finally:
            process.kill()


@contextmanager
def tcp_peer(talk: str, pause: float = 0.0) -> Generator[tuple[str, int]]:
    """Serve one connection by the script `talk`, with pauses of this many real seconds."""
    source = _BEGIN.format(listen=_TCP) + _ACCEPT + talk.format(pause=pause)
    with _serving(source) as address:
        yield "127.0.0.1", int(address.strip(")\n").split(", ")[1])


@contextmanager
def udp_peer(pause: float = 0.0) -> Generator[tuple[str, int]]:
    """Send back each datagram after this many real seconds."""
    source = _BEGIN.format(listen=_UDP) + ANSWERS_DATAGRAMS.format(pause=pause)
    with _serving(source) as address:
        yield "127.0.0.1", int(address.strip(")\n").split(", ")[1])


@contextmanager
def unix_peer(folder: Path, talk: str, pause: float = 0.0) -> Generator[str]:
    """Serve one connection over a Unix socket in a folder, as `tcp_peer` does."""
    path = str(folder / "peer")
    source = _BEGIN.format(listen=_UNIX) + _ACCEPT + talk.format(pause=pause)
    with _serving(source, path):
        yield path

"""Inside a sandbox: hand 127.0.0.1:PORT on to the socket beside this file, once that is proved.

It runs on whatever Python 3.8 or newer an image has, so it uses nothing of ours and little else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading

_LOOPBACK = "127.0.0.1"
_PATIENCE = 20.0  # seconds


def main(port: int, allowed: int, refused: int) -> None:
    """Listen, prove that `allowed` answers through the proxy and `refused` does not, and go on."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # while the agent is being ended it may still talk
    listener = socket.create_server((_LOOPBACK, port), backlog=64)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    prove(port, allowed, refused)
    os.write(1, b"go\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the shell waits for the end of it
    threading.Event().wait()


def accept(listener: socket.socket) -> None:
    """Give each client a connection to the proxy, and a thread for each direction."""
    while True:
        client, _ = listener.accept()
        proxy = socket.socket(socket.AF_UNIX)
        try:
            proxy.connect("proxy.sock")
        except OSError:  # the host is gone; the next one listens there again
            client.close()
            continue
        for one, other in ((client, proxy), (proxy, client)):
            threading.Thread(target=carry, args=(one, other), daemon=True).start()


def carry(one: socket.socket, other: socket.socket) -> None:
    """Pass on the data, and its end."""
    try:
        while True:
            data = one.recv(65536)
            if not data:
                break
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def prove(port: int, allowed: int, refused: int) -> None:
    """Exit unless the proxy passes allowed targets, no others, and is the only way out."""
    status, _ = ask(port, refused)
    if status != b"403":
        sys.exit(f"otpy: a port that is not allowed answered {status.decode(errors='replace')}")
    try:
        socket.create_connection((_LOOPBACK, allowed), _PATIENCE)
    except OSError:
        pass
    else:
        sys.exit("otpy: the host was reached without the proxy")
    status, connection = ask(port, allowed)
    if status != b"200":
        sys.exit(f"otpy: a port that is allowed answered {status.decode(errors='replace')}")
    connection.sendall(b"proved\n")
    if connection.recv(3) != b"go\n":
        sys.exit("otpy: the host does not want to go on")


def ask(port: int, target: int) -> tuple[bytes, socket.socket]:
    """Return the proxy's reply to a request for a port of the host, and the connection."""
    connection = socket.create_connection((_LOOPBACK, port), _PATIENCE)
    connection.sendall(f"CONNECT {_LOOPBACK}:{target} HTTP/1.1\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            sys.exit("otpy: the proxy does not answer")
        head += byte
    return head.split()[1], connection


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

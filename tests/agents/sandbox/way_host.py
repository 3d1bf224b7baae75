"""A host behind the allowlist, and the program with which an agent inside asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final

from otpy_agents.sandbox import Egress

__all__ = ["ASK", "WayHost", "way_host"]

# Prints the status that the proxy gives for each HOST:PORT, and what the host then says.
ASK = """
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
for target in sys.argv[1:]:
    with socket.create_connection((proxy.hostname, proxy.port), 30) as way:
        way.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
        answer = b""
        while part := way.recv(9999):
            answer += part
    print(answer.split()[1].decode(), answer.split()[-1].decode(), flush=True)
"""


@final
class WayHost:
    """A port of this machine that says `hello`, and the egress that leads to it alone."""

    def __init__(self, port: int, folder: Path) -> None:
        self.refused: list[str] = []
        self.target = f"127.0.0.1:{port}"
        self.egress = Egress(hosts=(self.target,), folder=folder, on_refused=self.refused.append)


@asynccontextmanager
async def way_host(folder: Path) -> AsyncGenerator[WayHost]:
    """Serve such a port for as long as the block lasts."""

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hello, "127.0.0.1", 0)
    try:
        yield WayHost(server.sockets[0].getsockname()[1], folder)
    finally:
        server.close()

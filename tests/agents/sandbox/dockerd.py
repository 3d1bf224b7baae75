"""A Docker engine of our own, without systemd, bridge, firewall rules or registry."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from otpy_agents.process.orphans import find

__all__ = ["IMAGE", "NoEngine", "engine"]

IMAGE = "otpy-test:latest"

_PROGRAMS = (
    "sh",
    "cat",
    "dd",
    "echo",
    "head",
    "ls",
    "mkdir",
    "setsid",
    "sleep",
    "touch",
    "true",
    "yes",
)
_BUSYBOX = Path("/bin/busybox")
_PATIENCE = 30.0


class NoEngine(Exception):
    """No engine can be started here; the message says why."""


@contextmanager
def engine(folder: Path) -> Generator[Path]:
    """Start an engine with one image, `IMAGE`, and yield its socket; the block's end stops it."""
    for program in ("dockerd", "runc"):
        if shutil.which(program) is None:
            raise NoEngine(f"{program} was not found; install docker.io")
    if not _BUSYBOX.exists():
        raise NoEngine("/bin/busybox was not found; install busybox-static")
    if os.geteuid() != 0:
        raise NoEngine("starting dockerd needs root")
    marker = {"OTPY_TEST_ENGINE": uuid.uuid4().hex}
    listening, log = folder / "d.sock", folder / "log"
    argv = [
        *("dockerd", "--host", f"unix://{listening}", "--pidfile", str(folder / "pid")),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--storage-driver=vfs", "--iptables=false", "--ip6tables=false", "--bridge=none"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **marker},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(listening)), base_url="http://engine", timeout=10
        ) as client:
            _wait_for(listening, client, process, log)
            _import_image(client)
        yield listening
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        process.kill()
        process.wait()
        # Containers' minders and containerd inherit the environment.
        for orphan in find(marker):
            with suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)


def _wait_for(
    listening: Path, client: httpx.Client, process: subprocess.Popen[bytes], log: Path
) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        # httpcore leaves the socket open when it cannot connect, so it is not asked before.
        with suppress(httpx.TransportError):
            if _listens(listening) and client.get("/_ping").is_success:
                return
        time.sleep(0.05)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise NoEngine(f"dockerd does not start here: {' '.join(last)}")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def _import_image(client: httpx.Client) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        folder = tarfile.TarInfo("bin")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        archive.add(_BUSYBOX, "bin/busybox")
        for program in _PROGRAMS:
            link = tarfile.TarInfo(f"bin/{program}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    name, _, tag = IMAGE.partition(":")
    answer = client.post(
        "/images/create",
        params={"fromSrc": "-", "repo": name, "tag": tag},
        content=packed.getvalue(),
        headers={"Content-Type": "application/x-tar"},
    )
    answer.raise_for_status()

"""The way out of a sandbox without a network, in bubblewrap; in containers it is the same."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from otpy_agents.errors import InvalidJob, SandboxUnavailable
from otpy_agents.sandbox import BubblewrapSandbox, Egress, ProcessSandbox, SandboxLimits
from otpy_agents.sandbox.allowlist import Allowlist
from otpy_agents.sandbox.egress import way_out
from otpy_agents.store.redaction import Redaction
from tests.agents.sandbox.scene import PYTHON, SLEEP, UP, Scene
from tests.agents.sandbox.way_host import ASK, WayHost, way_host

pytestmark = pytest.mark.real_time

RELAYS = ("python3", "perl", "node")


@pytest.fixture
async def scene(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> Scene:
    """Runs the jobs of one test in bubblewrap."""
    return Scene(bubblewrap, tmp_path)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncGenerator[WayHost]:
    """The only host that can be reached."""
    async with way_host(tmp_path / "1.egress") as host:
        yield host


def path_with(folder: Path, *programs: str) -> str:
    """Return a PATH with only these programs."""
    folder.mkdir()
    for name in ("bwrap", *programs):
        found = shutil.which(name, path=f"/usr/bin:{os.environ['PATH']}")
        if found is None:
            pytest.skip(f"there is no {name}")
        (folder / name).symlink_to(Path(found).resolve())
    return str(folder)


def has_routes() -> bool:
    """Tell whether this machine has a network."""
    return len(Path("/proc/net/route").read_text(encoding="utf-8").splitlines()) > 1


@pytest.mark.parametrize("relay", RELAYS)
async def test_only_the_hosts_of_the_list_are_reached(
    scene: Scene, host: WayHost, relay: str
) -> None:
    """ENG-12: this holds for each relay that an image can run, and refusals are told."""
    path = {"PATH": path_with(scene.cwd / "bin", relay)}
    asked = (host.target, "127.0.0.1:1", "example.com:443", "169.254.169.254:80")
    job = scene.job(
        *(PYTHON, "-c", ASK, *asked), environment=path, egress=host.egress, network=True
    )
    async with scene.start(job) as running:
        ended = await running.wait()
    assert ended.stderr == ""
    assert scene.stdout == ["200 hello", *["403 allowed"] * 3]
    assert host.refused == [f"asked for {one}, which is not allowed" for one in asked[1:]]


async def test_there_is_no_other_way(scene: Scene, host: WayHost) -> None:
    """A program that ignores the proxy reaches neither a network nor the ports of the host."""
    target, _, port = host.target.partition(":")
    code = f"""
import socket
for address in [("{target}", {port}), ("192.0.2.1", 443), ("8.8.8.8", 53)]:
    try:
        socket.create_connection(address, 5)
    except OSError as error:
        print(type(error).__name__)
"""
    async with scene.python(code, egress=host.egress, network=True) as running:
        await running.wait()
    assert scene.stdout == ["ConnectionRefusedError", "OSError", "OSError"]


async def test_the_relay_and_the_list_cannot_be_changed_from_inside(
    scene: Scene, host: WayHost
) -> None:
    """Its folder is read-only there, and the list is not in it."""
    code = f"cd {host.egress.folder}; ls; touch x; rm proxy.sock; echo >relay.py"
    async with scene.shell(code, egress=host.egress) as running:
        await running.wait()
    assert scene.stdout == ["proxy.sock", "relay.js", "relay.pl", "relay.py", "start.sh"]
    assert len([line for line in scene.stderr if "Read-only" in line]) == 3


async def test_afterwards_nothing_of_it_is_there(scene: Scene, host: WayHost) -> None:
    """No process and no folder is left."""
    async with scene.shell("echo up", egress=host.egress) as running:
        await running.wait()
        assert host.egress.folder.is_dir()
    assert not host.egress.folder.exists()
    assert scene.alive() == []


async def test_who_is_asked_to_end_still_reaches_its_host(scene: Scene, host: WayHost) -> None:
    """The relay outlasts the request, so an agent can say goodbye to its vendor."""
    code = f"""
import signal, sys
def bye(*_):
    sys.argv = ["", "{host.target}"]
    exec({ASK!r})
    sys.exit(7)
signal.signal(signal.SIGTERM, bye)
{UP}{SLEEP}
"""
    async with scene.python(code, egress=host.egress, limits=SandboxLimits(grace=60.0)) as running:
        await scene.up.wait()
        await running.stop()
        ended = await running.wait()
    assert (ended.exit_code, ended.stdout) == (7, "up\n200 hello\n")


async def test_a_refusal_is_told_without_secrets(scene: Scene, host: WayHost) -> None:
    """The name of a host could carry a secret out."""
    secret = {"MY_TOKEN": "open-sesame"}
    target = "open-sesame.example.com:443"
    job = scene.job(PYTHON, "-c", ASK, target, egress=host.egress, secrets=Redaction(secret))
    async with scene.start(job) as running:
        await running.wait()
    assert host.refused == ["asked for [MY_TOKEN].example.com:443, which is not allowed"]


async def test_without_a_relay_nothing_is_begun(scene: Scene, host: WayHost) -> None:
    """An image that can run none is refused with one line (ENG-13)."""
    path = {"PATH": path_with(scene.cwd / "bin", "touch")}
    with pytest.raises(SandboxUnavailable) as caught:
        async with scene.run("touch", "begun", environment=path, egress=host.egress):
            pytest.fail("begun")
    assert str(caught.value) == (
        "sandbox 'bubblewrap': the walls around its network could not be proved: "
        "wanted one of python3, perl and node for the relay, got none"
    )
    assert not (scene.cwd / "begun").exists()
    assert not host.egress.folder.exists()


@pytest.mark.parametrize("relay", RELAYS)
async def test_a_proxy_that_lets_everything_through_is_found_out(
    scene: Scene, host: WayHost, monkeypatch: pytest.MonkeyPatch, relay: str
) -> None:
    """A port that is not allowed answers all the same, so nothing is begun."""

    def anything(*_: object) -> bool:
        return True

    monkeypatch.setattr(Allowlist, "names", anything)
    monkeypatch.setattr(Allowlist, "reaches", anything)
    path = {"PATH": path_with(scene.cwd / "bin", relay, "touch")}
    with pytest.raises(SandboxUnavailable, match="a port that is not allowed answered 200"):
        async with scene.run("touch", "begun", environment=path, egress=host.egress):
            pytest.fail("begun")
    assert not (scene.cwd / "begun").exists()


@pytest.mark.parametrize("relay", RELAYS)
async def test_a_sandbox_that_has_the_network_of_the_host_is_found_out(
    scene: Scene, host: WayHost, relay: str
) -> None:
    """The network that is there counts, not the declared one."""
    scene.sandbox = ProcessSandbox()
    said = "got a network behind" if has_routes() else "without the proxy"
    path = {"PATH": path_with(scene.cwd / "bin", relay, "touch")}
    job = scene.job("touch", egress=host.egress)
    async with way_out("process", job) as way:
        assert way is not None
        argv = await way.around(("touch", "begun"))
        async with scene.run(*argv, environment=path) as running:
            with pytest.raises(SandboxUnavailable, match=said):
                await way.prove(running)
    assert not (scene.cwd / "begun").exists()


@pytest.mark.parametrize("relay", ["python3 relay.py", "perl relay.pl", "node relay.js"])
async def test_a_host_that_is_reached_without_the_proxy_is_found_out(
    scene: Scene, host: WayHost, relay: str
) -> None:
    """Such a sandbox has the network of a host without a route."""
    if shutil.which(relay.split(maxsplit=1)[0]) is None:
        pytest.skip(f"there is no {relay.split(maxsplit=1)[0]}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with way_out("process", scene.job("true", egress=host.egress)) as way:
        assert way is not None
        argv = await way.around(())
        started = await asyncio.create_subprocess_exec(
            *relay.split(),
            *(str(port), *argv[-2:]),
            cwd=host.egress.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, said = await started.communicate()
    assert (out, started.returncode != 0) == (b"", True)
    assert said.decode().startswith("otpy: the host was reached without the proxy")


async def test_after_the_proof_its_port_is_not_allowed_any_more(
    scene: Scene, host: WayHost
) -> None:
    """Another program may get the same port; the command begins only after the refusal."""
    async with way_out("bubblewrap", scene.job("true", egress=host.egress)) as way:
        assert way is not None
        *_, allowed, refused = await way.around(())

        async def ask(port: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_unix_connection(
                str(host.egress.folder / "proxy.sock")
            )
            writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            return head.split()[1], reader, writer

        async with asyncio.timeout(30):
            status, reader, writer = await ask(allowed)
            assert status == b"200"
            writer.write(b"proved\n")
            assert await reader.read() == b"go\n"
            statuses = [await ask(port) for port in (allowed, refused)]
        assert [one[0] for one in statuses] == [b"403", b"403"]
        for _, _, opened in (*statuses, (status, reader, writer)):
            opened.close()


async def test_a_proof_that_never_comes_is_not_waited_for_without_end(
    scene: Scene, host: WayHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused when the time is over."""
    monkeypatch.setattr("otpy_agents.sandbox.egress._PROOF_TIME", 0.05)
    scene.sandbox = ProcessSandbox()
    async with way_out("process", scene.job("true", egress=host.egress)) as way:
        assert way is not None
        async with scene.run("sleep", "99") as running:
            with pytest.raises(SandboxUnavailable, match=r"not within 0\.05 s"):
                await way.prove(running)


async def test_without_a_list_there_is_no_relay(scene: Scene) -> None:
    """A command without a network has none of this: no variable, no process."""
    code = "env | grep -i -c proxy; ls -d /proc/[0-9]* | wc -l"
    async with scene.shell(code, network=False, environment={"PROXY": ""}) as running:
        await running.wait()
    assert scene.stdout[0] == "1"
    assert int(scene.stdout[1]) < 6


async def test_an_empty_list_lets_nothing_through(scene: Scene, tmp_path: Path) -> None:
    """It is a list like any other."""
    egress = Egress(hosts=(), folder=tmp_path / "e")
    job = scene.job(PYTHON, "-c", ASK, "example.com:443", egress=egress)
    async with scene.start(job) as running:
        await running.wait()
    assert scene.stdout == ["403 allowed"]


async def test_what_lies_in_its_folder_already_is_not_written_through(
    scene: Scene, host: WayHost, tmp_path: Path
) -> None:
    """A link that was put there must not change a file of the host."""
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    host.egress.folder.mkdir()
    (host.egress.folder / "relay.py").symlink_to(mine)
    async with scene.run("true", egress=host.egress) as running:
        assert (await running.wait()).exit_code == 0
    assert mine.read_text(encoding="utf-8") == "mine"


async def test_where_the_proxy_cannot_listen_nothing_is_begun(scene: Scene, tmp_path: Path) -> None:
    """One line says why."""
    (tmp_path / "file").touch()
    egress = Egress(hosts=(), folder=tmp_path / "file" / "e")
    with pytest.raises(SandboxUnavailable, match="cannot listen") as caught:
        async with scene.run("true", egress=egress):
            pytest.fail("begun")
    assert "\n" not in str(caught.value)


async def test_where_nothing_holds_the_rest_off_a_list_is_refused(tmp_path: Path) -> None:
    """The sandbox `process` has the network of the host."""
    scene = Scene(ProcessSandbox(), tmp_path)
    egress = Egress(hosts=("a.example.com",), folder=tmp_path / "e")
    with pytest.raises(InvalidJob, match=r"job\.egress: got hosts in the sandbox 'process'"):
        scene.run("true", egress=egress)


def test_what_is_no_host_is_no_egress(tmp_path: Path) -> None:
    """The error names the first one."""
    with pytest.raises(InvalidJob, match=r"job\.egress\.hosts: got 'https://a', wanted a name"):
        Egress(hosts=("a.example.com", "https://a"), folder=tmp_path)


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
async def test_cancelled_at_any_moment_nothing_is_left(
    scene: Scene, host: WayHost, after: float
) -> None:
    """The cancellation may come before, during or after the proof."""

    async def attempt() -> None:
        async with scene.run(
            "sleep", "99", egress=host.egress, limits=SandboxLimits(grace=0)
        ) as running:
            await running.wait()

    task = asyncio.create_task(attempt())
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.alive() == []
    assert not host.egress.folder.exists()

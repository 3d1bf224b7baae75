"""The sandbox `docker` with a real engine, which the tests start; all in this one module."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from otpy_agents.classify.classification import classify
from otpy_agents.errors import CannotAdopt, SandboxUnavailable, SpawnFailed
from otpy_agents.process.orphans import Recorded
from otpy_agents.sandbox import ContainerIdentity, Egress, Mount, SandboxLimits
from otpy_agents.sandbox.docker import DockerSandbox
from otpy_agents.store.redaction import Redaction
from tests.agents.sandbox.dockerd import IMAGE
from tests.agents.sandbox.scene import PYTHON, Scene
from tests.agents.sandbox.way_host import ASK, way_host

pytestmark = pytest.mark.real_time

NO_IMAGE = "registry.invalid/otpy-no-such-image"

# The image lacks the Python of the host, and the folders that this needs.
PROGRAMS = tuple(
    Mount(Path(folder))
    for folder in ("/usr", "/lib", "/lib64", sys.base_prefix)
    if Path(folder).exists()
)
PATH = {"PATH": f"/bin:{sys.base_prefix}/bin"}

HOST = """
import asyncio, sys
from pathlib import Path
from otpy_agents.adapters.adapter import Launch
from otpy_agents.sandbox import Job
from otpy_agents.sandbox.docker import DockerSandbox

async def main():
    socket, image, folder, run_id = sys.argv[1:]
    script = "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 5"
    job = Job(run_id=run_id, attempt=1, cwd=Path(folder), environment={}, network=False,
        launch=Launch(argv=("sh", "-c", script)), marker={"OTPY_RUN": run_id, "OTPY_ATTEMPT": "1"})
    async with DockerSandbox(image, Path(socket)).run(
        job, on_stdout=lambda line: print(line, flush=True), on_stderr=print
    ) as running:
        await running.wait()

asyncio.run(main())
"""

EGRESS_HOST = """
import asyncio, sys
from pathlib import Path
from otpy_agents.adapters.adapter import Launch
from otpy_agents.sandbox import Egress, Job, Mount
from otpy_agents.sandbox.docker import DockerSandbox

async def main():
    socket, image, folder, run_id, path, script, target, ask, egress, *mounts = sys.argv[1:]
    job = Job(run_id=run_id, attempt=1, cwd=Path(folder), environment={"PATH": path},
        launch=Launch(argv=("sh", "-c", script, "sh", ask, target)),
        egress=Egress(hosts=(target,), folder=Path(egress)),
        mounts=tuple(Mount(Path(one)) for one in mounts),
        marker={"OTPY_RUN": run_id, "OTPY_ATTEMPT": "1"})
    async with DockerSandbox(image, Path(socket)).run(
        job, on_stdout=lambda line: print(line, flush=True), on_stderr=print
    ) as running:
        await running.wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def docker(docker_socket: Path) -> DockerSandbox:
    """The sandbox `docker` on an engine of our own."""
    return DockerSandbox(IMAGE, docker_socket)


@pytest.fixture
async def scene(docker: DockerSandbox, tmp_path: Path) -> Scene:
    """Runs the jobs of one test in containers."""
    return Scene(docker, tmp_path)


async def gone(scene: Scene) -> bool:
    """Return whether nothing of the scene is left."""
    return await scene.sandbox.find(scene.marker) == () and scene.alive() == []


def crash(engine: Path, scene: Scene, program: str = HOST, *more: str) -> None:
    """Start a host with an attempt in a container, and kill the host at the first output."""
    host = subprocess.Popen(
        [sys.executable, "-c", program, str(engine), IMAGE, str(scene.cwd), scene.run_id, *more],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    assert host.stdout is not None
    with host.stdout:
        assert host.stdout.readline() == b"before\n"
        host.send_signal(signal.SIGKILL)
        host.wait()


async def test_an_attempt_in_a_container_is_like_any_other(scene: Scene, tmp_path: Path) -> None:
    """Streams apart, exit code, artifacts although it failed, files and mounts (RUN-05, RUN-10)."""
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "file").write_text("hello\n", encoding="utf-8")
    file = tmp_path / "attempt" / "settings.json"
    script = (
        f"cat; cat {file} /extra/file; echo two >&2; echo $OTPY_ATTEMPT; pwd >here;"
        'echo x >"$OTPY_ARTIFACTS/result"; touch /extra/no; exit 3'
    )
    async with scene.shell(
        script,
        files={file: "{}\n"},
        mounts=(Mount(tmp_path / "extra", Path("/extra")),),
        artifacts=tmp_path / "artifacts",
    ) as running:
        ended = await running.wait()
    assert ended.exit_code == 3
    assert ended.container_state is not None
    assert ended.container_state["OOMKilled"] is False
    assert scene.stdout == ["{}", "hello", "1"]
    assert scene.stderr[0] == "two"
    assert "Read-only" in scene.stderr[1]
    assert ended.artifacts == ("result",)
    assert (scene.cwd / "here").read_text(encoding="utf-8") == f"{scene.cwd}\n"
    assert await gone(scene)


async def test_too_much_memory_is_told_from_a_kill(scene: Scene) -> None:
    """`OOMKilled` and exit 137, and the classifier knows what that means."""
    limits = SandboxLimits(memory=32 << 20)
    async with scene.run("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", limits=limits) as running:
        ended = await running.wait()
    assert (ended.exit_code, (ended.container_state or {})["OOMKilled"]) == (137, True)
    verdict = classify(
        "command",
        exit_code=ended.exit_code,
        stdout=ended.stdout,
        stderr=ended.stderr,
        container_state=ended.container_state,
    )
    assert verdict.error_type == "container_crash"


async def test_limits_are_those_of_the_container(scene: Scene) -> None:
    """A fork bomb stops at its limit, and open files are counted."""
    script = "ulimit -n; for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done"
    async with scene.shell(
        script, limits=SandboxLimits(pids=6, cpus=0.5, open_files=77)
    ) as running:
        ended = await running.wait()
    assert scene.stdout == ["77"]
    assert "fork" in ended.stderr
    assert await gone(scene)


async def test_there_is_no_network_unless_asked(scene: Scene) -> None:
    """There is only the loopback device."""
    async with scene.run("ls", "/sys/class/net") as running:
        await running.wait()
    assert scene.stdout == ["lo"]


async def test_only_the_hosts_of_a_list_are_reached(scene: Scene, tmp_path: Path) -> None:
    """ENG-12: no network, and a relay to a proxy beside us; what is refused is told."""
    async with way_host(tmp_path / "1.egress") as host:
        asked = (host.target, "example.com:443", "169.254.169.254:80")
        script = f'cat /proc/net/route | head -n 3; {PYTHON} -c "$0" "$@"'
        job = scene.job(
            *("sh", "-c", script, ASK, *asked),
            environment=PATH,
            mounts=PROGRAMS,
            egress=host.egress,
            network=True,
        )
        async with scene.start(job) as running:
            ended = await running.wait()
        assert ended.stderr == ""
        assert scene.stdout[1:] == ["200 hello", "403 allowed", "403 allowed"]
        assert host.refused == [f"asked for {one}, which is not allowed" for one in asked[1:]]
        assert not host.egress.folder.exists()
    assert await gone(scene)


@pytest.mark.parametrize(
    ("network", "listed", "mode"),
    [(True, True, "none"), (False, True, "none"), (False, False, "none"), (True, False, "default")],
)
async def test_a_list_takes_the_network_away(
    scene: Scene, tmp_path: Path, network: bool, listed: bool, mode: str
) -> None:
    """The list counts before `network`; the engine of these tests has no network to show that."""
    egress = Egress(hosts=(), folder=tmp_path / "e") if listed else None
    job = scene.job("true", network=network, egress=egress)
    body = DockerSandbox(IMAGE)._body(job, ("true",))
    assert body["HostConfig"]["NetworkMode"] == mode


async def test_another_user_inside_finds_the_way(
    scene: Scene, docker: DockerSandbox, tmp_path: Path
) -> None:
    """The user of an image is unknown to this host."""
    scene.sandbox = DockerSandbox(IMAGE, docker.socket, user="1234:1234")
    async with way_host(tmp_path / "1.egress") as host:
        job = scene.job(
            *("python3", "-c", ASK, host.target),
            environment=PATH,
            mounts=PROGRAMS,
            egress=host.egress,
        )
        async with scene.start(job) as running:
            await running.wait()
    assert (scene.stdout, scene.stderr) == (["200 hello"], [])


async def test_an_image_that_can_run_no_relay_is_refused(scene: Scene, tmp_path: Path) -> None:
    """The command does not begin, and the container is removed."""
    async with way_host(tmp_path / "1.egress") as host:
        with pytest.raises(SandboxUnavailable, match="wanted one of python3, perl and node"):
            async with scene.run("touch", "begun", egress=host.egress):
                pytest.fail("begun")
    assert not (scene.cwd / "begun").exists()
    assert await gone(scene)


async def test_without_a_list_there_is_no_relay(scene: Scene) -> None:
    """A gate's container has no network, no proxy, and starts nothing but its command."""
    code = 'echo "$HTTPS_PROXY$http_proxy."; ls -d /proc/[0-9]*'
    async with scene.shell(code, network=False) as running:
        await running.wait()
    first, *processes = scene.stdout
    assert first == "."
    assert len(processes) <= 3  # the engine's own first one, the shell, and ls


async def test_an_adopted_container_finds_its_way_again(
    scene: Scene, docker: DockerSandbox, tmp_path: Path
) -> None:
    """The next host listens where the last one did, with a list of its own (G-03)."""
    script = 'echo before; while [ ! -e go ]; do sleep 0.05; done; python3 -c "$@"; python3 -c "$@"'
    async with way_host(tmp_path / "1.egress") as host:
        mounts = [str(mount.source) for mount in PROGRAMS]
        more = (PATH["PATH"], script, host.target, ASK, str(host.egress.folder), *mounts)
        await asyncio.to_thread(crash, docker.socket, scene, EGRESS_HOST, *more)
        assert host.egress.folder.is_dir()
        (identity,) = await docker.find(scene.marker)
        job = scene.job("true", egress=host.egress)
        async with docker.adopt(
            identity, job, on_stdout=scene.hear, on_stderr=scene.stderr.append
        ) as running:
            (scene.cwd / "go").touch()
            ended = await running.wait()
        assert (ended.exit_code, ended.stdout) == (0, "before\n200 hello\n200 hello\n")
        assert not host.egress.folder.exists()
    assert await gone(scene)


async def test_a_stop_asks_and_a_kill_does_not(scene: Scene) -> None:
    """RUN-12: the first process hands SIGTERM on; SIGKILL needs no help."""
    script = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    async with scene.shell(script, limits=SandboxLimits(grace=20)) as running:
        await scene.up.wait()
        await running.stop()
        ended = await running.wait()
    assert (ended.exit_code, ended.stdout) == (4, "up\nbye\n")
    scene.up.clear()
    async with scene.shell("trap '' TERM; echo up; sleep 99") as running:
        await scene.up.wait()
        await running.kill()
        assert (await running.wait()).exit_code == 137
    assert await gone(scene)


async def test_what_it_leaves_running_dies_with_it(scene: Scene) -> None:
    """So does a process in another session."""
    async with scene.shell("setsid sleep 98 & sleep 97 & echo done") as running:
        assert (await running.wait()).stdout == "done\n"
        assert scene.alive() == []
    assert await gone(scene)


async def test_a_flood_is_cut_and_secrets_are_gone(scene: Scene) -> None:
    """The log is read to its end, even if only a part is kept."""
    script = 'echo "it is $MY_TOKEN"; yes 0123456789 | head -c 330000; echo end'
    secret = {"MY_TOKEN": "open-sesame"}
    async with scene.shell(
        script, environment=secret, secrets=Redaction(secret), output_limit=10_000
    ) as running:
        ended = await running.wait()
    assert ended.stdout.startswith("it is [MY_TOKEN]\n0123456789\n")
    assert ended.stdout.endswith("0123456789\nend\n")
    assert ended.cut > 300_000
    assert running.output_bytes == len("it is open-sesame\nend\n") + 330_000


@pytest.mark.parametrize("after", [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4])
async def test_cancelled_at_any_moment_nothing_is_left(scene: Scene, after: float) -> None:
    """While it is created, started or running: the container is removed."""

    async def attempt() -> None:
        async with scene.shell("sleep 99", limits=SandboxLimits(grace=0)) as running:
            await running.wait()

    task = asyncio.create_task(attempt())
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(scene)


async def test_a_crash_of_the_host_is_survived(scene: Scene, docker: DockerSandbox) -> None:
    """The container is found by its labels, heard from its beginning, and goes on (G-03)."""
    await asyncio.to_thread(crash, docker.socket, scene)
    (identity,) = await docker.find(scene.marker)
    async with docker.adopt(
        identity, scene.job("true"), on_stdout=scene.hear, on_stderr=scene.stderr.append
    ) as running:
        assert running.identity == identity
        (scene.cwd / "go").touch()
        ended = await running.wait()
    assert (ended.exit_code, ended.stdout) == (5, "before\nafter\n")
    assert await gone(scene)
    with pytest.raises(CannotAdopt, match="it is gone"):
        async with docker.adopt(identity, scene.job("x"), on_stdout=print, on_stderr=print):
            pytest.fail("adopted")


async def test_what_nobody_adopts_is_cleared(scene: Scene, docker: DockerSandbox) -> None:
    """Its labels find it, running or not; a container of another attempt is left alone."""
    other = Scene(docker, scene.cwd)
    async with scene.shell("sleep 99") as first, other.shell("sleep 99") as second:
        found = await docker.clear(scene.marker, [first.identity, Recorded(1, 1.0)], grace=0.0)
        assert [one.identity for one in found] == [first.identity]
        assert found[0].name.startswith(f"otpy-{scene.run_id}-1-")
        assert (await first.wait()).exit_code in {None, 137, 143}
        assert await docker.clear({}) == await docker.clear(scene.marker) == ()
        assert await docker.find(other.marker) == (second.identity,)
        assert await docker.clear({}, [ContainerIdentity("0" * 64)]) == ()


async def test_a_container_may_be_kept_to_be_looked_at(scene: Scene, docker: DockerSandbox) -> None:
    """RUN-11: it does not run any more, and the next clearing removes it."""
    keeping = DockerSandbox(IMAGE, docker.socket, auto_remove=False, init=False, user="7:7")
    scene.sandbox = keeping
    async with scene.shell("sleep 99", limits=SandboxLimits(grace=0)) as running:
        assert await docker.find(scene.marker) == (running.identity,)
    assert scene.alive() == []
    assert await docker.find(scene.marker) == (running.identity,)
    assert len(await docker.clear(scene.marker)) == 1
    assert await gone(scene)


async def test_a_command_that_cannot_be_started_is_a_typed_error(
    scene: Scene, docker: DockerSandbox
) -> None:
    """The engine's own reason is told, and the container removed."""
    scene.sandbox = DockerSandbox(IMAGE, docker.socket, init=False)
    with pytest.raises(SpawnFailed, match="no-such-program"):
        async with scene.run("no-such-program"):
            pytest.fail("started")
    with pytest.raises(SpawnFailed, match="does not exist"):
        async with scene.run("true", mounts=(Mount(Path("/no/such/folder")),)):
            pytest.fail("started")
    assert await gone(scene)


async def test_an_image_that_cannot_be_had_starts_nothing(
    scene: Scene, docker: DockerSandbox
) -> None:
    """RUN-04: it is looked for, then fetched, and one line says what went wrong."""
    scene.sandbox = DockerSandbox(NO_IMAGE, docker.socket)
    with pytest.raises(SandboxUnavailable, match="not there and cannot be fetched") as caught:
        async with scene.run("true"):
            pytest.fail("started")
    assert "\n" not in str(caught.value)
    assert await gone(scene)


async def test_where_an_engine_answers_the_check_says_nothing(docker: DockerSandbox) -> None:
    """The check raises no error."""
    await docker.check()


async def test_where_no_engine_answers_one_line_says_so(tmp_path: Path) -> None:
    """There is no socket, or no process listens on it (RUN-01)."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    for name in ("none", "dead"):
        with pytest.raises(SandboxUnavailable) as caught:
            await DockerSandbox(IMAGE, tmp_path / name).check()
        assert str(caught.value).startswith(
            f"sandbox 'docker': no container engine answers at {tmp_path / name}: "
        )
        assert "\n" not in str(caught.value)

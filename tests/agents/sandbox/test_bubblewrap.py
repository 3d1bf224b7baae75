from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from otpy_agents.errors import SandboxUnavailable
from otpy_agents.process.orphans import find
from otpy_agents.sandbox import BubblewrapSandbox, Mount, SandboxLimits
from tests.agents.sandbox.scene import PYTHON, SLEEP, STUBBORN, UP, Scene, sleepers

pytestmark = pytest.mark.real_time

NETWORK = str(Path("/proc/self/ns/net").readlink())

HOST = """
import asyncio, os, sys
from pathlib import Path
from otpy_agents.adapters.adapter import Launch
from otpy_agents.sandbox import BubblewrapSandbox, Job

async def main():
    python, folder, run_id = sys.argv[1:]
    up = asyncio.Event()
    job = Job(run_id=run_id, attempt=1, cwd=Path(folder), environment=os.environ,
        launch=Launch(argv=(python, "-c", "import os,time;print('up',flush=True);time.sleep(99)")),
        marker={"OTPY_RUN": run_id})
    heard = lambda line: up.set()
    async with BubblewrapSandbox().run(job, on_stdout=heard, on_stderr=print) as running:
        await up.wait()
        print(flush=True)
        await running.wait()

asyncio.run(main())
"""


@pytest.fixture
async def scene(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> Scene:
    """Runs the jobs of one test in bubblewrap."""
    return Scene(bubblewrap, tmp_path)


async def test_only_what_is_declared_can_be_written(scene: Scene, tmp_path: Path) -> None:
    """The work directory and writable mounts; everything else of the host is read-only."""
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "file").write_text("hello", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    mounts = (
        Mount(tmp_path / "seen", Path("/tmp/elsewhere")),
        Mount(tmp_path / "mine", writable=True),
    )
    script = f"""
        touch /etc/otpy-was-here && echo wrong; touch /tmp/elsewhere/x && echo wrong
        touch here {tmp_path}/mine/there /tmp/own && cat /tmp/elsewhere/file
    """
    async with scene.shell(script, mounts=mounts) as running:
        assert (await running.wait()).exit_code == 0
    assert scene.stdout == ["hello"]
    assert len([line for line in scene.stderr if "Read-only" in line]) == 2
    assert (scene.cwd / "here").exists()
    assert (tmp_path / "mine" / "there").exists()


async def test_its_tmp_is_its_own_and_empty(scene: Scene, tmp_path: Path) -> None:
    """The /tmp of the host is hidden, except for the folders that are mounted."""
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    async with scene.shell(f"ls {tmp_path}; ls /tmp | wc -l") as running:
        await running.wait()
    assert scene.stdout == ["work", "1"]


async def test_temporary_files_go_where_it_can_write(scene: Scene) -> None:
    """The folder that the host uses for them is read-only inside."""
    async with scene.shell("mktemp", environment={"TMPDIR": "/var/tmp"}) as running:
        assert (await running.wait()).exit_code == 0
    assert scene.stdout[0].startswith("/tmp/")


@pytest.mark.parametrize("network", [True, False])
async def test_there_is_no_network_unless_asked(scene: Scene, network: bool) -> None:
    """Its network namespace is that of the host, or its own."""
    async with scene.shell("readlink /proc/self/ns/net", network=network) as running:
        await running.wait()
    assert (scene.stdout == [NETWORK]) is network


async def test_it_sees_its_own_processes_only(scene: Scene) -> None:
    """It can signal no other process, not even as root."""
    async with scene.shell("ls -d /proc/[0-9]* | wc -l", network=True) as running:
        await running.wait()
    assert int(scene.stdout[0]) < 8


async def test_what_no_sweep_can_find_dies_with_it(scene: Scene) -> None:
    """A stray without marker, in a session of its own: the process namespace ends it (G-02)."""
    script = "env -i setsid sleep 98.7654 & sleep 0.1; echo done"
    async with scene.shell(script) as running:
        ended = await running.wait()
    assert (ended.stdout, ended.left_over) == ("done\n", ())
    assert sleepers("98.7654") == []


async def test_a_kill_takes_everything_with_it(scene: Scene) -> None:
    """This includes a process that ignores SIGTERM and cannot be found."""
    code = f"import subprocess;subprocess.Popen(['sleep','97.6543'],env={{}});{STUBBORN}{UP}{SLEEP}"
    async with scene.python(code, limits=SandboxLimits(grace=60)) as running:
        await scene.up.wait()
        await running.kill()
        assert (await running.wait()).exit_code == -signal.SIGKILL
    assert sleepers("97.6543") == []


async def test_where_there_is_no_bwrap_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The line says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="install the package bubblewrap") as caught:
        await BubblewrapSandbox().check()
    assert "\n" not in str(caught.value)


async def test_where_bwrap_is_forbidden_its_own_words_say_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For example, a system may allow no namespaces."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable) as caught:
        await BubblewrapSandbox().check()
    assert str(caught.value) == (
        "sandbox 'bubblewrap': bwrap cannot work here: bwrap: No permissions"
    )


async def test_where_it_works_the_check_says_nothing(scene: Scene) -> None:
    """The check raises no error."""
    await scene.sandbox.check()


def test_it_dies_with_its_host(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """After `kill -9` of the host no process is left to be ended (G-03)."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", HOST, PYTHON, str(tmp_path), tmp_path.name]
    host = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
    assert host.stdout is not None
    with host.stdout:
        host.stdout.readline()
        marker = {"OTPY_RUN": tmp_path.name}
        inside = [os.pidfd_open(orphan.pid) for orphan in find(marker)]
        assert len(inside) >= 2
        host.kill()
        host.wait()
    for process in inside:
        ended, _, _ = select.select([process], [], [], 10)
        os.close(process)
        assert ended
    assert find(marker) == []

"""The promises of the sandboxes `process` and `bubblewrap`, with real processes."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.errors import CannotAdopt, SpawnFailed
from otpy_agents.process.orphans import Recorded
from otpy_agents.sandbox import Running, Sandbox, SandboxLimits
from otpy_agents.store.redaction import Redaction
from tests.agents.sandbox.scene import SLEEP, STUBBORN, UP, Scene

pytestmark = pytest.mark.real_time

# Ways to get away from a parent that ends; each is alive when the parent has gone.
STRAYS = {
    "new session": "Popen(['sleep', '99'], start_new_session=True)",
    "double fork": "os.fork() or (os.setsid(), os.fork() or time.sleep(99), os._exit(0))",
    "deaf to SIGTERM": (
        "r, w = os.pipe()\n"
        "os.fork() or (os.setsid(), signal.signal(15, signal.SIG_IGN), os.write(w, b'.'),"
        " time.sleep(99))\nos.read(r, 1)"
    ),
    "stopped": "p = Popen(['sleep', '99'], start_new_session=True); p.send_signal(signal.SIGSTOP)",
    "holds the pipes": "Popen(['sleep', '99'])",
}


async def test_streams_are_apart_and_the_end_is_told(scene: Scene) -> None:
    """Exit code, both outputs, artifacts although it failed (RUN-10), and nothing left."""
    out = scene.cwd.parent / "artifacts"
    script = (
        'echo one; echo two >&2; mkdir "$OTPY_ARTIFACTS/b"; cd "$OTPY_ARTIFACTS"; >z; >b/a; exit 3'
    )
    async with scene.shell(script, artifacts=out) as running:
        ended = await running.wait()
        assert await running.wait() is ended
    assert (ended.exit_code, ended.signal, ended.container_state) == (3, None, None)
    assert (scene.stdout, scene.stderr) == (["one"], ["two"])
    assert (ended.stdout, ended.stderr, ended.cut) == ("one\n", "two\n", 0)
    assert ended.artifacts == ("b/a", "z")
    assert ended.left_over == running.survivors == ()
    assert running.output_bytes == 8


async def test_files_are_written_first_and_input_is_closed(scene: Scene) -> None:
    """The files of an adapter are there; a program that reads its input is at the end at once."""
    file = scene.cwd.parent / "attempt" / "settings.json"
    script = f"cat; cat {file}; echo $OTPY_ATTEMPT; pwd"
    async with scene.shell(script, files={file: "{}\n"}) as running:
        assert (await running.wait()).exit_code == 0
    assert scene.stdout == ["{}", "1", str(scene.cwd)]


async def test_a_file_of_any_length_can_be_its_input(scene: Scene) -> None:
    """It reads all of it, and then the end."""
    file = scene.cwd.parent / "attempt" / "prompt"
    async with scene.shell("wc -c", files={file: "p" * 1_000_000}, stdin=file) as running:
        assert (await running.wait()).exit_code == 0
    assert [line.strip() for line in scene.stdout] == ["1000000"]


async def test_a_file_that_cannot_be_written_starts_nothing(scene: Scene) -> None:
    """The error names the program that was not started."""
    (scene.cwd / "file").touch()
    with pytest.raises(SpawnFailed, match="'sh'"):
        async with scene.shell("echo no", files={scene.cwd / "file" / "x": ""}):
            pytest.fail("started")


@pytest.mark.parametrize(
    "limits", [SandboxLimits(), SandboxLimits(open_files=64)], ids=["bare", "limited"]
)
async def test_a_program_that_is_not_there_is_a_typed_error(
    scene: Scene, limits: SandboxLimits
) -> None:
    """The error is the same by name, by path, and relative to the work directory."""
    for program in ("no-such-program", "/no/such/program", "./program"):
        with pytest.raises(SpawnFailed) as caught:
            async with scene.run(program, limits=limits):
                pytest.fail("started")
        assert caught.value.program == program


@pytest.mark.parametrize(
    "limits", [SandboxLimits(), SandboxLimits(open_files=64)], ids=["bare", "limited"]
)
async def test_a_program_that_may_not_be_executed_is_not_called_missing(
    scene: Scene, limits: SandboxLimits
) -> None:
    """The error says what the system says."""
    (scene.cwd / "text").write_text("hello", encoding="utf-8")
    with pytest.raises(SpawnFailed, match=r"cannot start './text': .*Permission denied"):
        async with scene.run("./text", limits=limits):
            pytest.fail("started")


@pytest.mark.parametrize("how", STRAYS)
async def test_no_stray_outlives_its_attempt(scene: Scene, how: str) -> None:
    """This holds for one that left the session, ignores SIGTERM, is stopped or keeps the pipes."""
    code = f"import os,signal,time\nfrom subprocess import Popen\n{STRAYS[how]}\nprint('done')"
    async with scene.python(code, limits=SandboxLimits(grace=0.1)) as running:
        ended = await running.wait()
        assert scene.alive() == []
    assert (ended.exit_code, ended.stdout) == (0, "done\n")
    assert running.survivors == ()
    assert scene.alive() == []


async def test_a_stop_leaves_time_to_obey(scene: Scene) -> None:
    """SIGTERM reaches the program, and its last words are heard (RUN-63)."""
    code = (
        "import signal,sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(4)))\n"
        f"{UP}{SLEEP}"
    )
    async with scene.python(code, limits=SandboxLimits(grace=30)) as running:
        await scene.up.wait()
        await running.stop()
        ended = await running.wait()
    assert (ended.exit_code, ended.stdout) == (4, "up\nbye\n")


async def test_who_does_not_obey_is_killed_after_the_grace(scene: Scene) -> None:
    """It is killed no sooner, and not much later."""
    loop = asyncio.get_running_loop()
    async with scene.python(STUBBORN + UP + SLEEP, limits=SandboxLimits(grace=0.2)) as running:
        await scene.up.wait()
        asked = loop.time()
        await running.stop()
        assert 0.2 <= loop.time() - asked < 2
        assert (await running.wait()).exit_code in {-9, 137}


async def test_a_kill_waits_for_nothing(scene: Scene) -> None:
    """It also cuts the grace of a stop that goes on."""
    loop = asyncio.get_running_loop()
    async with scene.python(STUBBORN + UP + SLEEP, limits=SandboxLimits(grace=60)) as running:
        await scene.up.wait()
        asked = loop.time()
        stopping = asyncio.create_task(running.stop())
        await asyncio.sleep(0)
        await running.kill()
        await stopping
        assert loop.time() - asked < 5
        assert scene.alive() == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
async def test_cancelled_at_any_moment_nothing_is_left(scene: Scene, turns: int) -> None:
    """The block may be about to start, starting or running; everything in it ends."""
    entered: list[Running] = []

    async def attempt() -> None:
        code = f"import os;os.fork() or os.setsid();{STUBBORN}{UP}{SLEEP}"
        file = {scene.cwd / "settings": "x"}
        async with scene.python(code, files=file, limits=SandboxLimits(grace=0)) as running:
            entered.append(running)
            await running.wait()

    task = asyncio.create_task(attempt())
    for _ in range(turns):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.alive() == []
    assert all(running.survivors == () for running in entered)


async def test_an_error_inside_the_block_ends_the_attempt(scene: Scene) -> None:
    """The caller gets the error."""
    with pytest.raises(ZeroDivisionError):
        async with scene.python(UP + SLEEP, limits=SandboxLimits(grace=0)) as running:
            await scene.up.wait()
            assert running.quiet < 5
            raise ZeroDivisionError
    assert scene.alive() == []


async def test_limits_hold_for_each_process(scene: Scene) -> None:
    """The program finds them set; a limit is never above what this process has itself."""
    limits = SandboxLimits(memory=512 << 20, cpu_seconds=7, open_files=64)
    code = (
        "import resource as r\n"
        "print(r.getrlimit(r.RLIMIT_DATA), r.getrlimit(r.RLIMIT_CPU), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    async with scene.python(code, limits=limits) as running:
        assert (await running.wait()).exit_code == 0
    assert scene.stdout == [f"{(512 << 20, 512 << 20)} (7, 12) (64, 64)"]


async def test_who_takes_too_much_memory_gets_no_more(scene: Scene) -> None:
    """The allocation fails, as the language of the program reports it."""
    code = "b=[bytearray(1<<20) for _ in range(400)]"
    async with scene.python(code, limits=SandboxLimits(memory=100 << 20)) as running:
        ended = await running.wait()
    assert ended.exit_code == 1
    assert "MemoryError" in ended.stderr


async def test_a_flood_is_cut_and_blocks_nobody(scene: Scene) -> None:
    """More than pipes hold goes through; head and end are kept, and the rest is counted."""
    code = "import os\nfor n in range(3000): os.write(1, b'%04d' % n + b'x' * 995 + b'\\n')"
    async with scene.python(code, output_limit=100_000) as running:
        ended = await running.wait()
    assert ended.exit_code == 0
    assert len(scene.stdout) == 3000
    assert ended.cut == 2_900_000
    assert ended.stdout.startswith("0000x")
    assert ended.stdout.splitlines()[-1].startswith("2999x")


async def test_secrets_are_gone_before_anybody_hears(scene: Scene) -> None:
    """They are found by name and by value, on both streams (G-04)."""
    secret = {"MY_TOKEN": "open-sesame"}
    script = 'echo "it is $MY_TOKEN"; echo "$MY_TOKEN" >&2'
    async with scene.shell(script, environment=secret, secrets=Redaction(secret)) as running:
        ended = await running.wait()
    assert (scene.stdout, scene.stderr) == (["it is [MY_TOKEN]"], ["[MY_TOKEN]"])
    assert "sesame" not in ended.stdout + ended.stderr


async def test_an_earlier_host_s_processes_are_found_and_ended(
    scene: Scene, sandbox: Sandbox
) -> None:
    """The marker alone finds them; they cannot be adopted, as their output is lost (G-03)."""
    async with scene.python(STUBBORN + UP + SLEEP, limits=SandboxLimits(grace=0)) as running:
        await scene.up.wait()
        assert running.identity in await sandbox.find(scene.marker)
        assert await sandbox.find({}) == ()
        job = scene.job("true")
        with pytest.raises(CannotAdopt, match="cannot outlive"):
            async with sandbox.adopt(running.identity, job, on_stdout=print, on_stderr=print):
                pytest.fail("adopted")
        found = await sandbox.clear(scene.marker, [running.identity], grace=0.0)
        assert running.identity in [one.identity for one in found]
        assert await sandbox.clear(scene.marker, grace=0.0) == ()
        assert (await running.wait()).exit_code in {-9, 137}


async def test_its_identity_is_pid_and_start(scene: Scene) -> None:
    """A bare pid is never trusted (G-03)."""
    async with scene.python(UP + SLEEP, limits=SandboxLimits(grace=0)) as running:
        assert isinstance(running.identity, Recorded)
        assert running.identity.create_time > 0

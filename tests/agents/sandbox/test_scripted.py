"""A scripted sandbox shows the same of a program as a real sandbox does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from otpy_agents.errors import SpawnFailed
from otpy_agents.sandbox import ProcessSandbox, Running, SandboxLimits
from otpy_agents.testing import ExitWith, Hang, Script, ScriptedSandbox, Write
from tests.agents.sandbox.scene import SLEEP, STUBBORN, UP, Scene

Play: TypeAlias = Callable[..., AbstractAsyncContextManager[Running]]
"""Runs a program that is written down twice: as a script, and for Python."""


@pytest.fixture(params=["scripted", pytest.param("process", marks=pytest.mark.real_time)])
def kind(request: pytest.FixtureRequest) -> str:
    """The fake, and the real one that it stands for."""
    name: str = request.param
    return name


@pytest.fixture
async def scene(kind: str, tmp_path: Path) -> Scene:
    """Runs the jobs of one test."""
    return Scene(ScriptedSandbox() if kind == "scripted" else ProcessSandbox(), tmp_path)


@pytest.fixture
def play(scene: Scene) -> Play:
    """Return a function that plays the script in the fake, and the program in the real one."""

    def played(
        script: Script, program: str, **more: object
    ) -> AbstractAsyncContextManager[Running]:
        if isinstance(scene.sandbox, ScriptedSandbox):
            scene.sandbox.scripts = {"": [script]}
        return scene.python(program, **more)

    return played


UP_AND_ON = Script(Write(text="up"), Hang(), session=False)
DEAF = Script(Write(text="up"), Hang(), session=False, deaf=True)


async def test_streams_are_apart_and_the_end_is_told(scene: Scene, play: Play) -> None:
    """Exit code, both outputs and artifacts, also of a program that fails."""
    out = scene.cwd.parent / "artifacts"
    lines = (Write(text="one"), Write(text="two", stderr=True))
    script = Script(*lines, ExitWith(code=3, artifacts=("b/a", "z")), session=False)
    program = (
        "import os, sys\n"
        "print('one'); print('two', file=sys.stderr); os.chdir(os.environ['OTPY_ARTIFACTS'])\n"
        "os.mkdir('b'); open('z', 'w'); open('b/a', 'w'); sys.exit(3)"
    )
    async with play(script, program, artifacts=out) as running:
        ended = await running.wait()
        assert await running.wait() is ended
        assert running.output_bytes == 8
    assert (ended.exit_code, ended.signal) == (3, None)
    assert (scene.stdout, scene.stderr) == (["one"], ["two"])
    assert (ended.stdout, ended.stderr, ended.cut) == ("one\n", "two\n", 0)
    assert ended.artifacts == ("b/a", "z")
    assert ended.left_over == running.survivors == ()


async def test_who_is_asked_to_end_ends(scene: Scene, play: Play) -> None:
    """It ends at once, by the signal that asked it."""
    loop = asyncio.get_running_loop()
    async with play(UP_AND_ON, UP + SLEEP, limits=SandboxLimits(grace=60)) as running:
        await scene.up.wait()
        asked = loop.time()
        await running.stop()
        assert loop.time() - asked < 5
        assert (await running.wait()).exit_code in {-15, 143}


async def test_who_does_not_obey_is_killed_after_the_grace(scene: Scene, play: Play) -> None:
    """It is killed no sooner, and not much later."""
    loop = asyncio.get_running_loop()
    grace = SandboxLimits(grace=0.25)
    async with play(DEAF, STUBBORN + UP + SLEEP, limits=grace) as running:
        await scene.up.wait()
        asked = loop.time()
        await running.stop()
        assert 0.25 <= loop.time() - asked < 2
        assert (await running.wait()).exit_code in {-9, 137}


async def test_a_kill_cuts_the_grace_of_a_stop(scene: Scene, play: Play) -> None:
    """The caller that waits for the stop returns, too."""
    loop = asyncio.get_running_loop()
    grace = SandboxLimits(grace=60)
    async with play(DEAF, STUBBORN + UP + SLEEP, limits=grace) as running:
        await scene.up.wait()
        asked = loop.time()
        stopping = asyncio.create_task(running.stop())
        await asyncio.sleep(0)
        await running.kill()
        await stopping
        assert loop.time() - asked < 5
        assert (await running.wait()).exit_code in {-9, 137}


async def test_it_is_found_by_its_marker_as_long_as_it_runs(scene: Scene, play: Play) -> None:
    """The end of the block ends it."""
    async with play(UP_AND_ON, UP + SLEEP) as running:
        await scene.up.wait()
        assert await scene.sandbox.find(scene.marker) == (running.identity,)
        assert await scene.sandbox.find({"OTPY_RUN": "another"}) == ()
    assert await scene.sandbox.find(scene.marker) == ()


async def test_what_cannot_be_started_is_a_typed_error(scene: Scene) -> None:
    """A function of scripts raises it where a real program is not there."""

    def missing(_: int) -> Script:
        raise SpawnFailed("no-such-program", "no such file")

    if isinstance(scene.sandbox, ScriptedSandbox):
        scene.sandbox.scripts = {"": missing}
    with pytest.raises(SpawnFailed, match="'no-such-program'"):
        async with scene.run("no-such-program"):
            pytest.fail("started")
    assert await scene.sandbox.find(scene.marker) == ()

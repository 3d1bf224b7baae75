"""The line at the end of a block that names the children that keep the program alive."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import otpy
from otpy import ChildSpec, SupervisorFailed, SupervisorSpec
from tests.runtime.children import crash, forever, stubborn, turns, unready

ROOT = Path(__file__).parents[2]
ONE = "otpy: app/a refuses to end: asyncio.run() will wait for it, otpy.run() would not\n"


def refusing(release: asyncio.Event, *names: str) -> SupervisorSpec:
    """Return a tree of children that end only when they are released."""
    return SupervisorSpec(
        "app", [ChildSpec(name, stubborn, (release,), shutdown=0.1) for name in names]
    )


async def test_who_refuses_to_end_is_named(
    clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user learns why the program does not end, even without a hook."""
    release = asyncio.Event()
    async with otpy.start(refusing(release, "a"), hooks=()):
        await turns(2)
    assert capsys.readouterr().err == ONE
    release.set()
    await turns(2)


async def test_it_is_one_line_for_all(clock: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the first five."""
    release = asyncio.Event()
    async with otpy.start(refusing(release, *"abcdefgh"), hooks=()):
        await turns(2)
    said = "app/h, app/g, app/f, app/e, app/d and 3 more refuse to end: asyncio.run() will wait for"
    assert capsys.readouterr().err == f"otpy: {said} them, otpy.run() would not\n"
    release.set()
    await turns(2)


async def test_who_has_ended_meanwhile_is_not_named(
    clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The child was abandoned, but no longer keeps the program alive."""
    release = asyncio.Event()
    async with otpy.start(refusing(release, "a"), hooks=()) as root:
        await turns(2)
        await root.terminate_child("a")
        assert len(root.abandoned) == 1
        release.set()
        await turns(2)
    assert capsys.readouterr().err == ""


async def test_a_block_that_fails_names_it_too(
    clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds when a later child does not start, and when the tree gives up."""
    release = asyncio.Event()
    tree = refusing(release, "a")
    bad = ChildSpec("bad", unready)
    with pytest.raises(SupervisorFailed):
        async with otpy.start(SupervisorSpec("app", [*tree.children, bad]), hooks=()):
            pytest.fail("it was entered")
    assert capsys.readouterr().err == ONE
    with pytest.raises(SupervisorFailed):
        spec = SupervisorSpec("app", [*tree.children, ChildSpec("bad", crash)], intensity=0)
        async with otpy.start(spec, hooks=()):
            await forever()
    assert capsys.readouterr().err == ONE
    release.set()
    await turns(2)


@pytest.mark.real_time
async def test_a_thread_is_named_as_long_as_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """`asyncio.run` waits for threads too."""
    entered, free = threading.Event(), threading.Event()

    def hold_on() -> None:
        entered.set()
        free.wait(5)

    async def child() -> None:
        await asyncio.to_thread(hold_on)

    for release_first in (True, False):
        free.clear()
        tree = SupervisorSpec("app", [ChildSpec("a", child, shutdown=0.01)])
        async with otpy.start(tree, hooks=()) as root:
            while not entered.is_set():  # noqa: ASYNC110 - a thread cannot set an asyncio event
                await asyncio.sleep(0.001)
            entered.clear()
            await root.terminate_child("a")
            assert len(root.abandoned) == 1
            if release_first:
                free.set()
                await asyncio.sleep(0.05)
        assert capsys.readouterr().err == ("" if release_first else ONE)
    free.set()


PROGRAM = """
import asyncio, otpy
from contextlib import asynccontextmanager
from otpy import ChildSpec, SupervisorSpec
from otpy._runtime import run, stop

stop.KILL_GRACE = run.KILL_GRACE = 0.05

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def ends():
    await asyncio.sleep(0)

TREE = SupervisorSpec(
    "app",
    [ChildSpec("a", stubborn, shutdown=0.05),
     ChildSpec("b", ends, restart=otpy.Restart.TRANSIENT, significant=True)],
    auto_shutdown=otpy.AutoShutdown.ANY_SIGNIFICANT,
)

@asynccontextmanager
async def program():
    async with otpy.start(TREE) as root:
        yield root

async def main():
    async with program() as root:
        await root.wait()

"""


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize(
    ("call", "said"),
    [("asyncio.run(main())", True), ("otpy.run(TREE)", False), ("otpy.run(program)", False)],
)
def test_a_program_that_will_not_end_says_so(call: str, said: bool) -> None:
    """The default log says so; under `otpy.run` the program ends, and needs no such line."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + call],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert program.stderr is not None
    try:
        if said:
            lines = iter(program.stderr.readline, "")
            assert any(line == ONE for line in lines)
            assert program.poll() is None
        else:
            err = program.communicate(timeout=10)[1]
            assert ONE not in err
            assert "refuses to end" in err
    finally:
        program.kill()
        program.communicate()

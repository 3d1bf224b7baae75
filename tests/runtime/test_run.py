"""`otpy.run`: a tree as a whole program, run as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime import program

pytestmark = pytest.mark.real_time
ROOT = Path(program.__file__).parents[2]


class Program:
    """A tree that runs as a process of its own."""

    def __init__(self, name: str, loop: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, program.__file__, name, loop],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )

    def line(self) -> str:
        """Return the next line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def error_line(self) -> str:
        """Return the next line of its last words."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, list[str], str]:
        """Wait for its end and return status, the rest of its output, and its last words."""
        out, err = self.process.communicate(timeout=10)
        return self.process.returncode, out.splitlines(), err


@pytest.fixture(params=["asyncio", "uvloop"])
def launch(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Program]]:
    """Start programs, on each kind of loop; none outlives the test."""
    programs: list[Program] = []

    def start(name: str) -> Program:
        programs.append(Program(name, request.param))
        return programs[-1]

    yield start
    for started in programs:
        started.process.kill()
        started.process.communicate()


def test_a_tree_that_ends_by_itself_just_returns(launch: Callable[[str], Program]) -> None:
    """Status 0, why it ended on stderr, and the program goes on after `run`."""
    assert launch("work").end() == (0, ["+work", "returned"], "otpy: app ended: shutdown\n")


def test_a_root_that_gives_up_is_status_1(launch: Callable[[str], Program]) -> None:
    """AIO-24: with the path, the history and the traceback of the child's own crash."""
    status, out, err = launch("crash").end()
    assert (status, out) == (1, ["+a", "-a"])
    assert "ValueError: out of paper" in err
    assert "in crash" in err
    assert "SupervisorFailed: app/bad: app gave up: more than 3 restarts in 5 s" in err
    assert "app/bad incarnation 4 ended" in err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_stops_in_reverse_order(
    launch: Callable[[str], Program], number: signal.Signals, status: int
) -> None:
    """Ordered stop, and the status that shells expect."""
    running = launch("services")
    assert [running.line(), running.line()] == ["+a", "+b"]
    running.send(number)
    got, out, err = running.end()
    assert (got, out) == (status, ["-b", "-a"])
    assert f"otpy: {number.name}: stopping app; send it again to kill" in err
    assert f"app ended: shutdown: {number.name}" in err


def test_the_second_signal_kills(launch: Callable[[str], Program]) -> None:
    """A clean-up that takes a minute is cut short; the status is the first signal's."""
    running = launch("slow")
    assert running.line() == "+slow"
    running.send(signal.SIGTERM)
    assert "stopping" in running.error_line()
    assert running.line() == "-slow"
    running.send(signal.SIGINT)
    status, _, err = running.end()
    assert status == 143
    assert "SIGINT: killing app" in err


def test_the_third_signal_leaves_at_once(launch: Callable[[str], Program]) -> None:
    """AIO-01: even if a child never lets the loop run: its stack is printed."""
    running = launch("spin")
    assert running.line() == "+spin"
    for _ in range(200):
        running.send(signal.SIGINT)
        try:
            running.process.wait(0.02)
            break
        except subprocess.TimeoutExpired:
            continue
    status, out, err = running.end()
    assert (status, out) == (130, [])
    assert "SIGINT for the third time: leaving at once, from" in err
    assert "in spin" in err


@pytest.mark.parametrize(
    ("name", "line", "names"),
    [("stubborn", "+stubborn", "stubborn"), ("thread", "+thread", "hold_on")],
)
def test_a_child_that_refuses_to_end_does_not_keep_the_process(
    launch: Callable[[str], Program], name: str, line: str, names: str
) -> None:
    """In its task or in a thread: it is named with its stack, and the process ends in time."""
    running = launch(name)
    assert running.line() == line
    running.send(signal.SIGTERM)
    begun = time.monotonic()
    status, _, err = running.end()
    assert status == 143
    assert time.monotonic() - begun < 3
    assert names in err
    assert "end" in err


def test_keyboard_interrupt_in_a_child_stops_the_tree(launch: Callable[[str], Program]) -> None:
    """AIO-12: it is meant for the runner: ordered stop, status 130."""
    status, out, _ = launch("interrupt").end()
    assert (status, out) == (130, ["+a", "-a"])


def test_a_generator_that_refuses_to_close_does_not_keep_the_process(
    launch: Callable[[str], Program],
) -> None:
    """An async generator that a child left open is closed in bounded time, or not at all."""
    running = launch("generator")
    assert running.line() == "+generator"
    try:
        running.process.wait(3)
    except subprocess.TimeoutExpired:
        pytest.fail("the process does not end")


def test_a_program_whose_last_words_nobody_reads_can_be_stopped(
    launch: Callable[[str], Program],
) -> None:
    """A closed stderr is no reason not to stop, nor for another exit status."""
    running = launch("services")
    assert [running.line(), running.line()] == ["+a", "+b"]
    assert running.process.stderr is not None
    running.process.stderr.close()
    running.process.stderr = None
    running.send(signal.SIGTERM)
    assert running.process.wait(timeout=10) == 143

"""`otpy.run`: a tree as a whole program, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from tests.runtime import program

pytestmark = pytest.mark.real_time
ROOT = Path(program.__file__).parents[2]


class Program:
    """A tree that runs in a process of its own."""

    def __init__(
        self, name: str, loop: str, ignored: Sequence[str], redirection: str | None
    ) -> None:
        command = [sys.executable, program.__file__, name, loop, *ignored]
        self.process = subprocess.Popen(
            command
            if redirection is None
            else ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )

    def line(self) -> str:
        """Return the next line of stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def error_line(self) -> str:
        """Return the next line of stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, list[str], str]:
        """Wait for the end; return the status, the rest of stdout, and the rest of stderr."""
        out, err = self.process.communicate(timeout=10)
        return self.process.returncode, out.splitlines(), err


class Launch(Protocol):
    """A function that starts a program, with ignored signals and redirections."""

    def __call__(
        self, name: str, *, ignored: Sequence[str] = (), redirection: str | None = None
    ) -> Program: ...


@pytest.fixture(params=["asyncio", "uvloop"])
def launch(request: pytest.FixtureRequest) -> Iterator[Launch]:
    """Start programs, on each kind of loop; none outlives the test."""
    programs: list[Program] = []

    def start(name: str, *, ignored: Sequence[str] = (), redirection: str | None = None) -> Program:
        programs.append(Program(name, request.param, ignored, redirection))
        return programs[-1]

    yield start
    for started in programs:
        started.process.kill()
        started.process.communicate()


def test_a_tree_that_ends_by_itself_just_returns(launch: Launch) -> None:
    """The status is 0, stderr has the reason, and the program goes on after `run`."""
    assert launch("work").end() == (0, ["+work", "returned"], "otpy: app ended: shutdown\n")


def test_a_root_that_gives_up_is_status_1(launch: Launch) -> None:
    """AIO-24: stderr has the path, the history and the traceback of the child's crash."""
    status, out, err = launch("crash").end()
    assert (status, out) == (1, ["+a", "-a"])
    assert "ValueError: out of paper" in err
    assert "in crash" in err
    assert "SupervisorFailed: app/bad: app gave up: more than 3 restarts in 5 s" in err
    assert "app/bad incarnation 4 ended" in err


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["HUP", "INT", "TERM"],
)
def test_the_first_signal_stops_in_reverse_order(
    launch: Launch, number: signal.Signals, status: int
) -> None:
    """The stop is ordered, and the status is the one that shells expect."""
    running = launch("services")
    assert [running.line(), running.line()] == ["+a", "+b"]
    running.send(number)
    got, out, err = running.end()
    assert (got, out) == (status, ["-b", "-a"])
    assert f"otpy: {number.name}: stopping app; send it again to kill" in err
    assert f"app ended: shutdown: {number.name}" in err


def test_the_second_signal_kills(launch: Launch) -> None:
    """A clean-up of a minute is cut short; the status is the first signal's."""
    running = launch("slow")
    assert running.line() == "+slow"
    running.send(signal.SIGTERM)
    assert "stopping" in running.error_line()
    assert running.line() == "-slow"
    running.send(signal.SIGINT)
    status, _, err = running.end()
    assert status == 143
    assert "SIGINT: killing app" in err


def test_the_third_signal_leaves_at_once(launch: Launch) -> None:
    """AIO-01: this works even if a child blocks the loop, and prints its stack."""
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
    [
        ("stubborn", "+stubborn", "stubborn"),
        ("subtask", "+stubborn", "task poller"),
        ("thread", "+thread", "hold_on"),
    ],
)
def test_a_child_that_refuses_to_end_does_not_keep_the_process(
    launch: Launch, name: str, line: str, names: str
) -> None:
    """Its task, a task that it created, a thread: each is named with its stack."""
    running = launch(name)
    assert running.line() == line
    running.send(signal.SIGTERM)
    begun = time.monotonic()
    status, _, err = running.end()
    assert status == 143
    assert time.monotonic() - begun < 3
    assert names in err
    assert "end" in err


def test_keyboard_interrupt_in_a_child_stops_the_tree(launch: Launch) -> None:
    """AIO-12: it is meant for the runner: ordered stop, status 130."""
    status, out, _ = launch("interrupt").end()
    assert (status, out) == (130, ["+a", "-a"])


def test_a_generator_that_refuses_to_close_does_not_keep_the_process(
    launch: Launch,
) -> None:
    """An async generator that a child left open is closed in bounded time, or not at all."""
    running = launch("generator")
    assert running.line() == "+generator"
    try:
        running.process.wait(3)
    except subprocess.TimeoutExpired:
        pytest.fail("the process does not end")


def test_a_program_whose_last_words_nobody_reads_can_be_stopped(
    launch: Launch,
) -> None:
    """A closed stderr prevents no stop, and does not change the exit status."""
    running = launch("services")
    assert [running.line(), running.line()] == ["+a", "+b"]
    assert running.process.stderr is not None
    running.process.stderr.close()
    running.process.stderr = None
    running.send(signal.SIGTERM)
    assert running.process.wait(timeout=10) == 143


def test_a_terminal_that_hangs_up_twice_is_no_haste(launch: Launch) -> None:
    """The shell passes SIGHUP on, and then the kernel sends it too: the clean-up goes on."""
    running = launch("slow")
    assert running.line() == "+slow"
    running.send(signal.SIGHUP)
    assert "SIGHUP: stopping app" in running.error_line()
    assert running.line() == "-slow"
    running.send(signal.SIGHUP)
    running.send(signal.SIGTERM)
    status, _, err = running.end()
    assert status == 129
    assert err.startswith("otpy: SIGTERM: killing app")


@pytest.mark.parametrize("ignored", ["SIGHUP", "SIGINT"])
def test_a_signal_that_was_ignored_stays_so(launch: Launch, ignored: str) -> None:
    """A program under nohup, or in the background of a script, is not stopped."""
    running = launch("services", ignored=[ignored])
    assert [running.line(), running.line()] == ["+a", "+b"]
    running.send(signal.Signals[ignored])
    running.send(signal.SIGTERM)
    assert running.end()[0] == 143


def test_forked_children_end_at_a_sigterm(launch: Launch) -> None:
    """The handler works in the program only, not after `os.fork` or in `multiprocessing`."""
    assert launch("forks").end()[:2] == (0, ["fork 15", "worker -15", "returned"])


def test_a_forked_child_interrupts_no_steps(launch: Launch) -> None:
    """It has neither the thread that watches steps nor the signal's handler."""
    assert launch("fork of max_step").end()[:2] == (0, ["fork 0", "returned"])


def test_a_program_without_stderr_can_be_stopped(launch: Launch) -> None:
    """A daemon has no stderr: nothing is printed, and everything is done."""
    running = launch("services", redirection="2>&-")
    assert [running.line(), running.line()] == ["+a", "+b"]
    running.send(signal.SIGTERM)
    assert running.end() == (143, ["-b", "-a"], "")


def test_a_program_without_stderr_tells_a_failure_by_its_status(launch: Launch) -> None:
    """The output of the default log is dropped, and reaches no file of the program."""
    assert launch("crash", redirection="2>&-").end() == (1, ["+a", "-a"], "")


def test_a_stderr_that_nobody_reads_keeps_no_program_from_its_end() -> None:
    """The pipe is full from the start; the tree stops in order, and the program ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    running = subprocess.Popen(
        [sys.executable, program.__file__, "services", "asyncio"],
        stdout=subprocess.PIPE,
        stderr=writer,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    os.close(writer)
    try:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in "ab"] == ["+a\n", "+b\n"]
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=10)[0] == "-b\n-a\n"
        assert running.returncode == 143
    finally:
        running.kill()
        running.communicate()
        os.close(reader)


def test_a_handler_that_a_child_replaces_is_named_at_once(launch: Launch) -> None:
    """The signal no longer stops the tree; stderr names the child and the signal."""
    running = launch("taken")
    assert running.line() == "+taken"
    assert running.error_line() == (
        "otpy: SIGTERM: app/web has replaced the handler, so this signal stops no tree"
    )
    running.send(signal.SIGTERM)
    assert running.line() == "theirs"
    running.send(signal.SIGINT)
    status, _, err = running.end()
    assert status == 130
    assert "SIGTERM:" not in err


def test_a_handler_that_a_child_keeps_for_later_is_named_at_the_next_signal(
    launch: Launch,
) -> None:
    """Until then the child may restore it, as many servers do."""
    running = launch("borrowed")
    assert running.line() == "+taken"
    running.send(signal.SIGINT)
    status, out, err = running.end()
    assert (status, out) == (130, [])
    assert err.splitlines() == [
        "otpy: SIGTERM: the program has replaced the handler, so this signal stops no tree",
        "otpy: SIGINT: stopping app; send it again to kill",
        "otpy: app ended: shutdown: SIGINT",
    ]

"""`otpy-agents up`: signals, `kill -9`, and the start of the next host."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import time
from collections import Counter

import pytest

from tests.agents.host import PATIENCE, Site, python, shell, survivors

pytestmark = pytest.mark.real_time

POLITE = "trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
LEAVES_ITS_SESSION = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
    " start_new_session=True)\n"
    "print('up')\n"
    "time.sleep(99)"
)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["TERM", "INT", "HUP"],
)
def test_a_signal_stops_everything_in_order(
    site: Site, number: signal.Signals, status: int
) -> None:
    """All are stopped at once: in less time than the sum of their graces, with no survivor."""
    site.write(
        shell("polite", POLITE, grace=2),
        shell("stubborn", STUBBORN, grace=2),
        shell("hard", STUBBORN, grace=2),
        python("leaves", LEAVES_ITS_SESSION, grace=2),
    )
    host = site.up()
    for name in ("polite", "stubborn", "hard", "leaves"):
        while host.output(name) != ["up"]:
            next(iter(host))
    assert len(survivors(site.file)) >= 5
    began = time.monotonic()
    host.signal(number)
    assert host.end() == status
    assert time.monotonic() - began < 4 * 2
    assert "bye" in host.output("polite")
    assert survivors(site.file) == []
    assert f"{number.name}: stopping AppSupervisor" in host.stderr
    assert set(host.summary().values()) == {"pending"}


def test_a_second_signal_kills(site: Site) -> None:
    """The kill cuts a long grace short, and no process survives it either."""
    site.write(shell("a", STUBBORN, grace=60))
    host = site.up()
    host.until("mortal.output", "a", line="up")
    host.signal(signal.SIGTERM)
    host.said("stopping")
    host.signal(signal.SIGTERM)
    assert host.end() == 143
    assert survivors(site.file) == []


def test_after_a_signal_the_next_host_goes_on(site: Site) -> None:
    """A stopped assignment starts again and is told so; a done one does not start."""
    go = "echo ${OTPY_LAST_EXIT-first}; [ -e {here}/go ] || sleep 99"
    site.write(shell("a", "echo a >> $DID"), shell("b", go, grace=0.5), parallel=1)
    host = site.up()
    host.until("mortal.output", "b", line="first")
    host.signal(signal.SIGTERM)
    assert host.end() == 143
    (site.folder / "go").touch()
    status, again = site.run()
    assert status == 0
    assert again.output("b") == ["you were restarted because interrupted: the run was stopped"]
    assert site.did_what() == ["a"]


def test_orphans_are_ended_before_anything_is_started(site: Site) -> None:
    """`kill -9` of host and guardians: the workers live on until the next host (G-03)."""
    looks = (
        "import os, pathlib, subprocess, sys, time\n"
        "pids = pathlib.Path(os.environ['OTPY_WORK'], 'pids')\n"
        "for pid in pids.read_text().split() if pids.exists() else ():\n"
        "    stat = pathlib.Path('/proc', pid, 'stat')\n"
        "    state = stat.read_text().rpartition(')')[2].split()[0] if stat.exists() else ''\n"
        "    print('gone' if state in ('', 'Z') else 'alive')\n"
        "print(os.environ.get('OTPY_LAST_EXIT', 'first'))\n"
        "if pids.exists(): sys.exit()\n"
        "own = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
        " start_new_session=True)\n"
        "pids.write_text(f'{os.getpid()} {own.pid}')\n"
        "print('up')\n"
        "time.sleep(99)"
    )
    site.write(shell("before", "echo before >> $DID"), python("a", looks, grace=0.5), parallel=1)
    host = site.up()
    host.until("mortal.output", "a", line="up")
    host.kill_with_guardians()
    assert len(survivors(site.file)) == 2
    status, again = site.run()
    assert status == 0
    note = "you were restarted because interrupted: its host ended"
    assert again.output("a") == ["gone", "gone", note]
    assert again.told("orphan.ended") == ["a", "a"]
    order = [one["event"] for one in again.events]
    assert order.index("mortal.started") > max(
        number for number, name in enumerate(order) if name == "orphan.ended"
    )
    assert site.did_what() == ["before"]
    assert survivors(site.file) == []


@pytest.mark.parametrize(("code", "times"), [(0, 1), (3, 2)])
def test_a_program_that_ends_while_no_host_lives(site: Site, code: int, times: int) -> None:
    """A successful one is told as done and not repeated; a failed one is done again."""
    until = "while [ ! -e {here}/go ]; do sleep 0.02; done"
    ends = f"[ -e $OTPY_WORK/once ] && exit 0; touch $OTPY_WORK/once; exit {code}"
    site.write(shell("a", f"echo up; {until}; echo a >> $DID; {ends}"))
    host = site.up()
    host.until("mortal.output", "a", line="up")
    host.signal(signal.SIGSTOP)
    (site.folder / "go").touch()
    deadline = time.monotonic() + PATIENCE
    while survivors(site.file) and time.monotonic() < deadline:
        time.sleep(0.02)
    host.kill()
    status, again = site.run()
    assert status == 0
    assert again.told("mortal.done", earlier=code == 0) == ["a"]
    assert again.told("mortal.started") == ["a"] * (times - 1)
    assert again.told("orphan.ended") == []
    assert site.did_what() == ["a"] * times
    assert not site.file.with_suffix(".exits").exists() or not list(
        site.file.with_suffix(".exits").iterdir()
    )


def test_an_end_that_nobody_has_told_is_told_by_the_next_host_once(site: Site) -> None:
    """Its host was killed after it stored the end, and before it told it."""
    site.write(shell("a", "echo a >> $DID"), shell("b", "exit 1", restarts=0))
    assert site.run()[0] == 1
    with contextlib.closing(sqlite3.connect(site.folder / "w.sqlite")) as database, database:
        assert database.execute("SELECT min(told) FROM assignment").fetchone() == (1,)
        database.execute("UPDATE assignment SET told = 0")
    _, again = site.run()
    assert again.told("mortal.done", earlier=True) == ["a"]
    assert again.told("mortal.reaped", earlier=True) == ["b"]
    _, third = site.run()
    assert third.told("mortal.done") == third.told("mortal.reaped") == []
    assert site.did_what() == ["a"]


def test_a_killed_host_leaves_nobody_at_work(site: Site) -> None:
    """The guardians end the workers, without a next host."""
    site.write(shell("a", STUBBORN, grace=60), python("b", LEAVES_ITS_SESSION))
    host = site.up()
    for name in ("a", "b"):
        while host.output(name) != ["up"]:
            next(iter(host))
    host.kill()
    began = time.monotonic()
    while survivors(site.file):
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.05)
    assert time.monotonic() - began < 5.5


def test_killed_again_and_again_it_gets_everything_done(site: Site) -> None:
    """An assignment that one host finished stays finished, and in the end all are done."""
    names = [f"n{number}" for number in range(8)]
    work = "sleep 0.05; echo $OTPY_ASSIGNMENT >> $DID; echo said; sleep 0.05"
    site.write(*(shell(name, work, grace=0.2) for name in names), parallel=2)
    chance = random.Random(20240229)
    finished: Counter[str] = Counter()
    earlier: set[str] = set()
    done_by_then: Counter[str] = Counter()
    for _ in range(5):
        host = site.up()
        lines = iter(host)
        for _ in range(chance.randrange(1, 9)):
            next(lines, None)
        host.kill()
        finished.update(host.told("mortal.done"))
        earlier |= set(host.told("mortal.done", earlier=True))
        done_by_then = Counter(site.did_what())
        assert all(done_by_then[name] for name in finished)
    counts = {name: done_by_then[name] for name in finished}
    status, last = site.run()
    assert status == 0
    assert last.summary() == dict.fromkeys(names, "done")
    assert finished
    # A host killed between telling and storing an end makes the next host tell it again.
    assert {name for name, times in finished.items() if times > 1} <= earlier
    assert not set(finished) & set(last.told("mortal.started"))
    did = Counter(site.did_what())
    assert {name: did[name] for name in finished} == counts
    assert set(did) == set(names)
    assert survivors(site.file) == []

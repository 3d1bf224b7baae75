from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otpy_agents.worklist.assignment import Assignment, Expectation, Role
from otpy_agents.worklist.reader import read
from otpy_monitors import CommandBlocked, read_rules

CHECKOUT = Path(__file__).parents[2]
WORKSHOP = read(CHECKOUT / "examples" / "workshop.toml")
USEFUL = [
    assignment
    for assignment in WORKSHOP.assignments
    if assignment.expect is Expectation.DONE and assignment.id != "leave-behind"
]


def test_the_workshop_has_every_way_to_end() -> None:
    """At least ten assignments, a drone, a stall, a budget, a rule and some to be reaped."""
    work = WORKSHOP.assignments
    assert len(work) >= 10
    assert any(one.role is Role.DRONE for one in work)
    assert any(one.stall for one in work)
    assert any(one.output_bytes for one in work)
    assert sum(one.expect is Expectation.REAPED for one in work) >= 2
    assert WORKSHOP.rule_file is not None
    checks = [rule.check for rule in read_rules(WORKSHOP.rule_file).rules]
    patterns = [
        found for one in checks if isinstance(one, CommandBlocked) for found in one.patterns
    ]
    assert any(pattern.search(" ".join(one.argv)) for pattern in patterns for one in work)


def test_nothing_in_the_workshop_is_quiet_for_a_second() -> None:
    """A watcher sees an event each second: even a worker that hangs is ended before."""
    quiet = [one.stall for one in WORKSHOP.assignments if one.stall is not None]
    delays = [delay for one in WORKSHOP.assignments for delay in one.backoff or ()]
    assert max(*quiet, *delays) <= 0.7  # and a look of the monitor


def test_chaos_cannot_use_up_the_restarts_of_useful_work() -> None:
    """Mortals that are to be done have ten restarts or more, at short delays."""
    for one in USEFUL:
        if one.role is Role.MORTAL:
            assert one.restarts >= 10
            assert one.backoff is not None
            assert max(one.backoff) < 1


@pytest.mark.parametrize("one", USEFUL, ids=lambda one: one.id)
def test_useful_work_succeeds(one: Assignment, tmp_path: Path) -> None:
    """Each script does its work in its own directory and says what it did."""
    environment = {**os.environ, "OTPY_INCARNATION": "3", "OTPY_LAST_EXIT": "you were restarted"}
    done = subprocess.run(
        one.argv, cwd=one.cwd or tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_the_one_that_crashes_twice_tells_why_it_was_restarted(tmp_path: Path) -> None:
    """Incarnations 1 and 2 fail; each restarted one prints the note."""
    (one,) = (one for one in WORKSHOP.assignments if one.id == "crash-twice")
    codes: list[int] = []
    for incarnation in ("1", "2", "3"):
        environment = {"OTPY_INCARNATION": incarnation, "OTPY_LAST_EXIT": "because"}
        done = subprocess.run(
            one.argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
        assert done.stdout.startswith("because\n")
    assert codes == [1, 1, 0]
    assert one.argv[0] == sys.executable

"""The specs match the design card: shapes, policies, numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy import INFINITY, Backoff, ChildSpec, Intensity, Restart, Strategy, SupervisorSpec
from otpy.specs import GIVE_UP, DynamicSpec
from otpy_agents.agent.mortal import mortal_spec
from otpy_agents.store.ledger import Ledger
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from tests.agents.world import assignment, work


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    """A project that is never begun."""
    drone = assignment("drone", role="drone")
    text = work(assignment("a", grace=7), drone, assignment("b", backoff=[1, 3]), parallel=2)
    ledger = Ledger(tmp_path / "w.sqlite")
    return Project(parse(text, tmp_path / "w.toml"), ledger, (), lambda _name, _id, _detail: None)


def delays(backoff: Backoff | None, count: int) -> list[float]:
    """Return the first delays, without jitter."""
    assert backoff is not None
    return [backoff.delay(n, lambda: 0.5) for n in range(count)]


def child(project: Project, number: int) -> ChildSpec:
    return mortal_spec(project.desk, project.work.assignments[number])


async def test_the_application_has_its_three_branches_in_order(project: Project) -> None:
    """Jake, the pool, the monitors, one for one, each permanent (TREE-14)."""
    app = app_supervisor(project)
    assert (app.id, app.strategy) == ("AppSupervisor", Strategy.ONE_FOR_ONE)
    assert [one.id for one in app.children] == ["JakeSupervisor", "MortalPool", "MonitorSupervisor"]
    assert {one.restart for one in app.children} == {Restart.PERMANENT}
    assert {one.shutdown for one in app.children} == {INFINITY}


async def test_each_daemon_is_a_child_of_the_branch_of_monitors(project: Project) -> None:
    """It is the branch of any user of the monitors, with all that a workplace has (C-17)."""
    project.workplace.watch_loop = True
    branch = app_supervisor(project).children[2]
    assert isinstance(branch, SupervisorSpec)
    assert [one.id for one in branch.children] == [
        *("HealthMonitor", "BudgetMonitor", "LedgerKeeper", "HygieneSupervisor"),
        *("ViolationMonitor", "LoopMonitor"),
    ]
    assert {one.restart for one in branch.children} == {Restart.PERMANENT}


async def test_the_operator_is_there_first_and_goes_last(project: Project) -> None:
    """Another terminal can thus watch the tree stop."""
    operator = SupervisorSpec("operator", [])
    app = app_supervisor(project, operator=operator, chaos=1.0)
    assert app.children[0] is operator


async def test_jake_has_his_policy(project: Project) -> None:
    """Permanent, 10 restarts in 3600 s, delays from 5 s, doubled, up to 300 s (TREE-16, C-13)."""
    branch = app_supervisor(project).children[0]
    assert isinstance(branch, SupervisorSpec)
    assert (branch.strategy, branch.intensity, branch.period) == (Strategy.ONE_FOR_ONE, 10, 3600)
    (jake,) = branch.children
    assert isinstance(jake, ChildSpec)
    assert (jake.id, jake.restart) == ("Jake", Restart.PERMANENT)
    assert delays(jake.backoff, 8) == [5, 10, 20, 40, 80, 160, 300, 300]


async def test_the_pool_is_dynamic_and_its_places_are_bounded(project: Project) -> None:
    """As many mortals work as the list allows; those that rest need no place (TREE-19)."""
    pool = app_supervisor(project).children[1]
    assert isinstance(pool, DynamicSpec)
    assert pool.max_children == INFINITY
    assert project.pool.places.capacity == 2


async def test_a_mortal_has_its_policy(project: Project) -> None:
    """Transient, 3 restarts in 300 s, delays from 2 s, doubled, up to 60 s (TREE-17)."""
    mortal = child(project, 0)
    assert mortal.restart is Restart.TRANSIENT
    assert mortal.intensity == Intensity(3, 300, then=GIVE_UP)
    assert delays(mortal.backoff, 7) == [2, 4, 8, 16, 32, 60, 60]


async def test_a_drone_has_its_policy(project: Project) -> None:
    """Transient, 1 restart in 60 s, without delay (TREE-18)."""
    drone = child(project, 1)
    assert drone.restart is Restart.TRANSIENT
    assert drone.intensity == Intensity(1, 60, then=GIVE_UP)
    assert delays(drone.backoff, 2) == [0, 0]


async def test_a_list_may_set_its_own_delays(project: Project) -> None:
    """They are used as written, the last one again and again, without jitter."""
    own = child(project, 2).backoff
    assert own is not None
    assert [own.delay(n, lambda: 0.9) for n in range(3)] == [1, 3, 3]


async def test_a_mortal_has_more_time_to_stop_than_its_worker(project: Project) -> None:
    """A worker gets the grace that it declares, and the rest of the clean-up is not cut off."""
    limit = child(project, 0).shutdown
    assert isinstance(limit, float)
    assert 7 < limit <= 15


async def test_chaos_is_there_only_if_asked_for(project: Project) -> None:
    """It comes last, so that it stops first."""
    assert [one.id for one in app_supervisor(project, chaos=1.0).children][3:] == ["Chaos"]

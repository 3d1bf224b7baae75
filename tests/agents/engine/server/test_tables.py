"""All state of the engine is folded from its events, now and at any earlier position."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from attrs import evolve
from click.testing import Result

import otpy
from otpy import SupervisorSpec
from otpy_agents.cli import main
from otpy_agents.engine.events import FailureCause, StepCompleted
from otpy_agents.engine.plan import Component, Feature, PlanPhase
from otpy_agents.engine.projections import PROJECTIONS
from otpy_agents.engine.server import open_engine
from otpy_agents.log import log_beside
from tests.agents.click_runner import click_runner
from tests.agents.engine.server.engine_site import Agents, EngineSite, role, writing

pytestmark = pytest.mark.real_time


@pytest.fixture
async def worked(site: EngineSite) -> EngineSite:
    """Return a repository in which one step was applied, and the next failed."""
    site.make({"roles/implementer.yaml": role(gates="good", more="config: {max_retries: 0}\n")})
    assert (await site.run(writing())).cause is None
    failed = await site.run(writing("BAD\n", "bad.txt"))
    assert failed.cause is FailureCause.GATE
    return site


@pytest.fixture
def typed(worked: EngineSite) -> Callable[..., Result]:
    """Type a command in that repository."""

    def typing(*words: str) -> Result:
        environment = {"OTPY_STATE": str(worked.state), "TZ": "UTC"}
        return click_runner().invoke(main, words, env=environment)

    return typing


def sql(site: EngineSite, *commands: str) -> None:
    with closing(sqlite3.connect(log_beside(site.state))) as database, database:
        for command in commands:
            database.execute(command)


async def tables(site: EngineSite) -> dict[str, object]:
    async with site.log() as log:
        return {one.name: await log.rows(one.name) for one in PROJECTIONS}


async def test_tables_that_were_deleted_come_back_as_they_were(worked: EngineSite) -> None:
    """ENG-07: dropped tables, emptied tables and those of another version are rebuilt."""
    before = await tables(worked)
    assert before["workflows"]
    assert before["metrics"]
    sql(
        worked,
        "DROP TABLE steps",
        "DROP TABLE metrics",
        "DELETE FROM projections WHERE name = 'metrics'",
        "UPDATE projections SET version = 0 WHERE name = 'workflows'",
        "DELETE FROM workflows",
    )
    assert await tables(worked) == before
    async with worked.log() as log:
        assert await log.compare() == []


async def test_state_at_a_position_is_that_of_the_events_up_to_it(worked: EngineSite) -> None:
    """`status --at` shows this state."""
    async with worked.log() as log:
        applied = [one async for one in log.read() if isinstance(one.event, StepCompleted)]
        now = await log.state("steps", until=await log.end())
        before = await log.state("steps", until=applied[0].position - 1)
        assert now == await log.rows("steps")
    assert [row["status"] for row in before.values()] == ["applying"]
    assert sorted(row["status"] for row in now.values()) == ["completed", "failed"]


async def test_events_rebuild_and_verify_know_the_tables_of_the_engine(
    worked: EngineSite, typed: Callable[..., Result]
) -> None:
    """`verify` finds the differences and changes nothing; `rebuild` repairs them."""
    whole = await asyncio.to_thread(typed, "events", "verify")
    assert (whole.exit_code, whole.stderr) == (0, "")
    sql(worked, "UPDATE steps SET role = 'nobody'", "UPDATE circuits SET reason = 'x'")
    spoilt = await asyncio.to_thread(typed, "events", "verify")
    assert spoilt.exit_code == 1
    assert "steps wf-" in spoilt.stdout
    assert "`otpy-agents events rebuild`" in spoilt.stderr
    again = await asyncio.to_thread(typed, "events", "verify")
    assert again.stdout == spoilt.stdout  # `verify` only reads
    rebuilt = await asyncio.to_thread(typed, "events", "rebuild")
    assert "rebuilt; 2 rows differed" in rebuilt.stdout
    assert (await asyncio.to_thread(typed, "events", "verify")).exit_code == 0


async def test_a_plan_of_one_repository_says_nothing_of_another(site: EngineSite) -> None:
    """Both have the same plan, with the same ids of components, and share a log."""
    one = Component(id="a", title="A")
    feature = Feature(
        id="feat-1", title="F", phases=(PlanPhase(id="p", title="P", components=(one,)),)
    )
    other = EngineSite(site.folder / "other", site.told, site.notes)
    for place in (site, other):
        place.make({"roles/implementer.yaml": role()})

    async def work(place: EngineSite) -> None:
        settings = evolve(place.settings, state=site.state)
        async with (
            open_engine(settings, agents=Agents(writing())) as engine,
            otpy.start(SupervisorSpec("App", [engine.spec()])),
        ):
            name = await engine.begin_feature(feature, parallel=1, actor="ann")
            assert (await engine.wait(name)).cause is None

    await work(site)
    await work(other)
    assert other.subjects == ["A", "Begin"]
    async with site.orders() as orders:
        assert await orders.completed("feat-1") == {"a"}

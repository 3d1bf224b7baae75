"""Projects for virtual hours, with failures, halts, resumes and kills.

`.ci/run --long` runs twenty of them for four hours.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from otpy_agents.control import orders
from otpy_agents.control.audit import AuditTrail
from otpy_agents.control.loop.protocol import ControlEffect
from otpy_agents.control.server.performer import Performer
from otpy_agents.control.state import ProjectStatus
from otpy_agents.errors import OrderRefused
from otpy_agents.run.host.order import RunOrder
from tests.agents.control.server.site import Agents, Killed, Site, task

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROJECTS = int(os.environ.get("OTPY_TEST_PROJECTS", "5"))
HOURS = float(os.environ.get("OTPY_TEST_HOURS", "1"))
SEED = int(os.environ.get("OTPY_TEST_SEED", "20"))
TASKS = 8
DAMAGE = ("BLOCKED: no network", "Should I use tabs or spaces?")


def agents(chance: random.Random) -> Agents:
    """Return agents that fail, ask, block, and take up to twenty minutes."""

    def work(order: RunOrder) -> str:
        if chance.random() < 0.6:
            (order.cwd / f"{order.label.split('/')[3]}.py").touch()
        return chance.choice(DAMAGE) if chance.random() < 0.1 else "Done."

    return Agents(work, seconds=lambda: chance.uniform(30, 1200))


async def operate(site: Site, chance: random.Random, until: float) -> None:
    """Halt at times, and resume after each halt."""
    loop = asyncio.get_running_loop()
    async with site.store() as store:
        while loop.time() < until:
            await asyncio.sleep(chance.uniform(60, 1800))
            if chance.random() < 0.3:
                await orders.halt(store, "a look", actor="ann")
            with suppress(OrderRefused):
                await orders.resume(store, actor="ann")


async def host(site: Site, chance: random.Random, until: float) -> None:
    """Start the loop repeatedly, as a service manager and an operator do."""
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        with suppress(Killed):
            await site.start()
        await asyncio.sleep(chance.uniform(1, 60))


@pytest.mark.long
async def test_projects_lose_nothing_whatever_happens_for_hours(
    tmp_path: Path, mock_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is completed or blocked once, and the audit agrees with the log."""
    chance = random.Random(SEED)
    whole = Performer.perform

    async def perilous(self: Performer, effect: ControlEffect) -> object:
        if chance.random() < 0.01:
            raise Killed
        event = await whole(self, effect)
        if chance.random() < 0.01:
            raise Killed
        return event

    monkeypatch.setattr(Performer, "perform", perilous)
    # The loop checks for a halt each minute instead of four times a second.
    monkeypatch.setattr("otpy_agents.log.event_log._LOOK", 60.0)
    sites = [
        Site(tmp_path, agents(chance), f"p{number}", audits=not number)  # files are slowest
        for number in range(PROJECTS)
    ]
    for site in sites:
        await site.begin(*(task(f"t{number}", 2) for number in range(TASKS)))
    until = asyncio.get_running_loop().time() + 3600 * HOURS
    async with asyncio.TaskGroup() as group:
        for site in sites:
            group.create_task(operate(site, chance, until))
            group.create_task(host(site, chance, until))
    monkeypatch.setattr(Performer, "perform", whole)
    wanted = [f"t{number}" for number in range(TASKS)]
    for site in sites:
        site.agents.agent = lambda order: "Done."
        for _ in range(99):
            if (await site.start()).ended is not None and (
                await site.state()
            ).status is ProjectStatus.COMPLETED:
                break
            async with site.store() as store:
                with suppress(OrderRefused):
                    await orders.resume(store, actor="ann")
        state = await site.state()
        done = [one.task_id for one in state.completed_tasks]
        done += [one.task_id for one in state.blocked_tasks]
        assert sorted(done) == wanted, site.name
    async with sites[0].store() as store:
        assert await store.log.verify() > PROJECTS * TASKS * 5
        lines = await AuditTrail().take_all(store.log.read(stream=store.stream))
    for name, due in lines.items():
        written = await asyncio.to_thread((sites[0].settings.folder("demo") / name).read_text)
        assert written.splitlines() == due

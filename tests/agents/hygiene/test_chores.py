"""The chores of the hygiene daemon after the mortals of one project (TREE-45, TREE-46)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from otpy_agents.agent.workplace import Workplace
from otpy_agents.errors import SandboxUnavailable
from otpy_agents.hygiene.chores import LOG_BYTES, chores_of_runs
from otpy_agents.run import AgentInstance
from otpy_agents.run.decide.chain import build_chain
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.stored_form import StoredForm
from otpy_agents.sandbox.marker import attempt_marker, run_marker
from otpy_agents.store import Lease, RunStore
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State
from otpy_agents.tree.monitors import labels_of, project_chores
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from otpy_monitors import Chore
from tests.agents.host import PATIENCE
from tests.agents.store.run_world import begun, let_die, save

pytestmark = pytest.mark.real_time

Sleeper: TypeAlias = "subprocess.Popen[bytes]"

DAY = 86400.0
LIST = '[[assignment]]\nid = "a"\nargv = ["true"]\n'


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[Project]:
    """A project whose assignment `a` was begun and runs."""
    work = parse(LIST, tmp_path / "w.toml")
    async with Ledger(work.state) as ledger:
        await ledger.declare({"a": "1"})
        await ledger.begin_attempt("a", 1)
        yield Project(work, ledger, await ledger.summary(), lambda _name, _id, _detail: None)


async def sweep(chore: Chore) -> list[str]:
    """Do a chore to its end, and return what it deleted."""
    swept: list[str] = []
    async for deletion in chore():
        await deletion.perform()
        swept.append(deletion.what)
    return swept


def sleeper(project: Project, incarnation: int) -> contextlib.AbstractContextManager[Sleeper]:
    """Run a process that carries the marker of an attempt at an assignment."""
    return marked(attempt_marker(project.desk.memory.ledger.list_id, "a", incarnation))


@contextlib.contextmanager
def marked(marker: Mapping[str, str]) -> Generator[Sleeper]:
    """Run a process that carries a marker."""
    code = "import time; print(flush=True); time.sleep(99)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **marker}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs, with its own environment
        try:
            yield process
        finally:
            process.kill()


async def test_left_over_processes_of_dead_mortals_are_ended(project: Project) -> None:
    """Processes of a running attempt are spared; a second round finds nothing."""
    chore = project_chores(project)["left-over processes"]
    with sleeper(project, 1) as alive, sleeper(project, 7) as left_over:
        (named,) = await sweep(chore)
        assert f"(pid {left_over.pid})" in named
        assert left_over.wait(PATIENCE) < 0
        assert alive.poll() is None
        assert await sweep(chore) == []


async def test_cut_in_the_middle_and_run_again_nothing_is_left(project: Project) -> None:
    """A round that is cancelled at any of its first awaits does no harm."""
    chore = project_chores(project)["left-over processes"]
    with sleeper(project, 1) as alive, sleeper(project, 7) as left_over:
        for turns in range(4):
            task = asyncio.ensure_future(sweep(chore))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
        await sweep(chore)
        assert left_over.wait(PATIENCE) < 0
        assert alive.poll() is None


def age(path: Path, days: float) -> None:
    """Make everything in a folder, and it, look old."""
    then = time.time() - days * DAY
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then), follow_symlinks=False)


async def test_stale_work_directories_are_removed(project: Project) -> None:
    """Only the old folders of unlisted assignments are removed."""
    chore = project_chores(project)["stale work directories"]
    assert await sweep(chore) == []
    for name in ("a", "gone", "young"):
        (project.desk.folders.work(name) / "deep").mkdir()
        age(project.desk.folders.root / name, 8)
    age(project.desk.folders.root / "young" / "deep", 6)
    assert await sweep(chore) == ["gone"]
    assert sorted(path.name for path in project.desk.folders.root.iterdir()) == ["a", "young"]
    assert await sweep(chore) == []


async def test_a_dangling_link_is_no_obstacle(project: Project) -> None:
    """Agents leave all sorts of things behind."""
    directory = project.desk.folders.work("gone")
    (directory / "link").symlink_to("nowhere")
    age(directory, 9)
    assert await sweep(project_chores(project)["stale work directories"]) == ["gone"]


async def test_old_rows_are_deleted(project: Project) -> None:
    """Attempts that ended over a month ago go; what is known of listed assignments stays."""
    chore = project_chores(project)["old rows"]
    await project.desk.memory.ledger.finish("a", State.DONE)
    assert await sweep(chore) == []
    with contextlib.closing(sqlite3.connect(project.work.state)) as database, database:
        database.execute("UPDATE attempt SET ended = 1577836800.0")
    assert await sweep(chore) == ["1 rows"]
    assert await sweep(chore) == []
    assert [record.state for record in await project.desk.memory.ledger.summary()] == [State.DONE]


async def test_logs_are_rotated_where_the_list_says(tmp_path: Path) -> None:
    """A log beyond 10 MB is rotated; a smaller one stays, and a missing one is no error (G-13)."""
    work = parse(f'[list]\nlogs = "logs"\n{LIST}', tmp_path / "w.toml")
    async with Ledger(work.state) as ledger:
        project = Project(work, ledger, (), lambda _name, _id, _detail: None)
        chore = project_chores(project)["logs"]
        assert await sweep(chore) == []
        log = tmp_path / "logs" / "w.log"
        log.parent.mkdir()
        log.touch()
        os.truncate(log, LOG_BYTES)
        assert await sweep(chore) == []
        os.truncate(log, LOG_BYTES + 1)
        assert len(await sweep(chore)) == 1
        assert [path.name for path in log.parent.iterdir()] == ["w.log.1"]


async def test_runs_of_open_assignments_stay_and_old_ones_of_done_ones_go(
    project: Project, tmp_path: Path
) -> None:
    """The host that continues an assignment may still read its earlier runs."""
    async with RunStore(tmp_path / "runs" / "runs.sqlite3") as store:
        label = project.desk.memory.label(project.assignments[0])
        lease = await stored_run(store, "tried", label)
        await save(store, lease, (await store.run("tried")).state, exit_code=1)
        with contextlib.closing(sqlite3.connect(store.path)) as database, database:
            database.execute("UPDATE run SET finished = 0")
        chore = chores_of_runs(store, partial(labels_of, [project.desk]))["old runs"]
        assert await sweep(chore) == []
        await project.desk.memory.ledger.finish("a", State.DONE)
        assert await sweep(chore) == ["tried, which ended over 30 days ago"]


async def stored_run(store: RunStore, run: str, label: str, sandbox: str = "process") -> Lease:
    """Store a run with one attempt that was begun; of its order only the sandbox matters."""
    order = RunOrder(
        prompt="work",
        cwd=Path("/"),
        use="command",
        argv=("agent",),
        sandbox=SandboxChoice(name=sandbox),
        label=label,
    )
    chain, _ = build_chain(order.selection, AgentInstance(agent_id="a", agent_cli="command"), 0)
    state = StoredForm(order=order, state=order.first_state(chain)).to_json(lambda text: text)
    lease = await store.create(
        run, state, version=1, status="new", agent="a", prompt="work", cwd="/", label=label
    )
    await save(store, lease, state, begun(1))
    return lease


def chore_of(project: Project, store: RunStore, **settings: Any) -> Chore:
    """Return the chore of a project whose host keeps its runs in `store`."""
    project.desk.workplace = Workplace(store, **settings)
    return project_chores(project)["left-over attempts"]


async def test_the_attempt_of_a_dead_host_is_ended_and_that_of_a_living_one_spared(
    project: Project, tmp_path: Path
) -> None:
    """An attempt of another list is spared, too; a second round finds nothing (G-03, TREE-45)."""
    path = tmp_path / "runs" / "runs.sqlite3"
    label = f"{project.desk.memory.ledger.list_id}/a/1"
    async with RunStore(path) as dead:
        await stored_run(dead, "dead", label)
        await stored_run(dead, "foreign", "other-list/a/1")
        let_die(path, dead.host)
    async with RunStore(path) as store:
        await stored_run(store, "living", label)
        chore = chore_of(project, store)
        with (
            marked(run_marker("dead", 1)) as left_over,
            marked(run_marker("dead", 2)) as taken_up,
            marked(run_marker("foreign", 1)) as foreign,
            marked(run_marker("living", 1)) as living,
        ):
            (named,) = await sweep(chore)
            assert named.startswith("attempt 1 of run dead: ")
            assert left_over.wait(PATIENCE) < 0
            assert [one.poll() for one in (taken_up, foreign, living)] == [None] * 3
            assert await sweep(chore) == []


async def test_what_a_finished_run_has_left_is_ended(project: Project, tmp_path: Path) -> None:
    """It is ended at once, even if the host that made it still lives."""
    async with RunStore(tmp_path / "runs" / "runs.sqlite3") as store:
        lease = await stored_run(store, "done", f"{project.desk.memory.ledger.list_id}/a/1")
        chore = chore_of(project, store)
        with marked(run_marker("done", 1)) as left_over:
            assert await sweep(chore) == []
            await save(store, lease, (await store.run("done")).state, exit_code=0)
            assert len(await sweep(chore)) == 1
            assert left_over.wait(PATIENCE) < 0


class Containers:
    """A sandbox of containers, whose engine answers only while `answers` is set."""

    name, inherits = "docker", False

    def __init__(self) -> None:
        self.answers = False
        self.asked: list[str] = []

    async def find(self, marker: Mapping[str, str]) -> tuple[str, ...]:
        if not self.answers:
            raise SandboxUnavailable(self.name, "no engine answers")
        self.asked.append(marker["OTPY_RUN"])
        return ()


async def test_containers_are_looked_for_where_an_engine_answers(
    project: Project, tmp_path: Path
) -> None:
    """Only those of finished runs: the next host adopts the container of a dead host's run."""
    path = tmp_path / "runs" / "runs.sqlite3"
    label = f"{project.desk.memory.ledger.list_id}/a/1"
    containers: Any = Containers()
    async with RunStore(path) as dead:
        await stored_run(dead, "dead", label, "docker")
        await save(dead, await stored_run(dead, "broken", label), "{}", exit_code=0)
        lease = await stored_run(dead, "gone", label, "elsewhere")
        await save(dead, lease, (await dead.run("gone")).state, exit_code=0)
        let_die(path, dead.host)
    async with RunStore(path) as store:
        lease = await stored_run(store, "done", label, "docker")
        await save(store, lease, (await store.run("done")).state, exit_code=0)
        chore = chore_of(project, store, sandboxes={"docker": containers})
        assert await sweep(chore) == []
        assert containers.asked == []
        containers.answers = True
        assert await sweep(chore) == []
        assert containers.asked == ["done"]

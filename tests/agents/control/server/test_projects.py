"""A project with real stores and files; its agents are functions that write files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import re
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from otpy_agents.adapters.adapter import Access
from otpy_agents.control import orders
from otpy_agents.control.audit import AUDIT, AuditFile, AuditTrail, files
from otpy_agents.control.loop.protocol import ControlEffect, ProjectOutcome, SettleTask
from otpy_agents.control.server.neighbours import held
from otpy_agents.control.server.performer import Performer
from otpy_agents.log import Append, EventLog, Stored
from otpy_agents.run.decide.result import StopCause
from otpy_agents.run.host.order import RunOrder
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.sandbox.commands import programs_below
from tests.agents.control.server.site import Agents, DoneRun, Killed, Site, result, task, writing
from tests.examples import some

pytestmark = pytest.mark.real_time


MEMORY = Path("/dev/shm")  # thousands of writes, and no test here depends on the disk


@pytest.fixture
def memory() -> Generator[Path]:
    """A folder in memory, on systems that have one."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A folder with agents that write files."""
    return Site(tmp_path, Agents(writing))


async def test_a_dispatch_is_one_attempt_in_the_folder_of_the_project(site: Site) -> None:
    """CTL-32, CTL-33, CTL-02: 30 minutes, no retry of the run, and the model named by the mode.

    CTL-13, CTL-34.
    """
    await site.begin(task("a", agent_mode="opus"))
    await site.start()
    (order,) = site.agents.orders
    assert order.cwd == site.settings.folder("demo")
    assert str(order.liveness) == "deadline:1800"
    assert (order.policy.max_retries, order.policy.enable_fallback) == (0, False)
    assert order.selection.agents[0].model == "opus"
    assert re.fullmatch(r"control/x/key/a/\d{4}-.*Z/1", order.label)
    assert "Write a.py" in order.prompt


async def test_a_dispatch_that_a_killed_host_has_left_done_is_not_paid_for_twice(
    site: Site,
) -> None:
    """Its answer is used; an interrupted dispatch is repeated."""
    await site.begin(task("a"))
    site.agents.left["a"] = DoneRun("a", "Done.", result(StopCause.INTERRUPTED))
    await site.start()
    assert len(site.agents.orders) == 1
    await site.begin(task("b"))
    (site.settings.folder("demo") / "b.py").touch()
    site.agents.left["b"] = DoneRun("b", "Done.", result())
    await site.start()
    assert len(site.agents.orders) == 1
    assert [one.task_id for one in (await site.state()).completed_tasks] == ["b"]


@pytest.mark.parametrize("where", ["../other", "/tmp", "link"])
async def test_a_task_that_leaves_its_project_halts(site: Site, where: str) -> None:
    """CTL-60: the task is not dispatched."""
    folder = site.settings.folder("demo")
    folder.mkdir(parents=True)
    (folder.parent / "other").mkdir()
    (folder / "link").symlink_to(folder.parent)
    await site.begin(task("a", working_directory=where))
    await site.start()
    state = await site.state()
    assert state.halt_reason == "CURSOR_EXEC_FAILURE"
    assert "got a folder outside of the project" in (state.halt_details or "")
    assert site.agents.orders == []


async def test_a_question_may_change_nothing(site: Site) -> None:
    """C-22: an agent may only read for a question, as no rule checks again after it."""
    await site.begin(task("never", 0))
    await site.start()
    assert [str(order.access) for order in site.agents.orders] == ["edit", *["read"] * 4]


async def test_commands_of_a_validation_change_nothing_of_the_project(site: Site) -> None:
    """C-44: bubblewrap prevents changes where it works; elsewhere a line warns."""
    command = ("sh", "-c", "touch spoilt")
    await site.begin(task("a", 0, test_command="sh -c 'touch spoilt'", tests_required=True))
    await site.start()
    spoilt = (site.settings.folder("demo") / "spoilt").exists()
    assert spoilt == any("unisolated here" in line for line in site.said), command


async def test_commands_of_a_validation_write_what_their_task_lets_them(site: Site) -> None:
    """A declared path is made as a folder if it is missing; one that leads out is refused."""
    writes = ("made/here", "there.txt")
    folder = site.settings.folder("demo")
    folder.mkdir(parents=True)
    (folder / "there.txt").touch()
    (folder / "out").symlink_to(folder.parent)
    command = "echo x >made/here/report && echo x >there.txt"
    await site.begin(
        task("a", 0, test_command=command, tests_required=True, writable_paths=writes),
        task("b", 0, test_command="true", tests_required=True, writable_paths=("out/of/it",)),
    )
    await site.start()
    state = await site.state()
    assert [one.task_id for one in state.completed_tasks] == ["a"]
    assert (folder / "made/here/report").read_text() == "x\n"
    assert not (folder.parent / "of").exists()
    assert [one.task_id for one in state.blocked_tasks] == ["b"]
    assert "leads out of the project" in str(state.last_validation_report)


@pytest.mark.parametrize("is_worked_on", [False, True])
async def test_what_an_agent_writes_into_another_project_is_told(
    tmp_path: Path, is_worked_on: bool
) -> None:
    """CTL-60: it is told by file, but not if another host works there, which may be the writer."""

    def trespassing(order: RunOrder) -> str:
        other = order.cwd.parent / "other"
        (other / "new.py").touch()
        (other / "old.py").write_text("changed")
        (other / "gone.py").unlink(missing_ok=True)
        return writing(order)

    site = Site(tmp_path, Agents(trespassing))
    other = site.settings.folder("other")
    other.mkdir(parents=True)
    for name in ("old.py", "gone.py", "same.py"):
        (other / name).touch()
    await site.begin(task("a"))
    with held(other) if is_worked_on else contextlib.nullcontext():
        await site.start()
    lines = [json.loads(line) for line in (await audit_of(site))[AUDIT]]
    told = [(one["project"], one["paths"]) for one in lines if one["event"] == "OUTSIDE_WRITE"]
    assert told == ([] if is_worked_on else [("other", ["gone.py", "new.py", "old.py"])])


async def test_a_helper_proposes_and_rules_decide(tmp_path: Path) -> None:
    """CTL-39: its commands are run, may change nothing, and stand in the audit."""
    vague, wrong = "it is nice", "it is terse"
    proposed = [
        {"criterion": vague, "command": ["test", "-f", "a.py"]},
        {"criterion": wrong, "command": ["grep", "-q", "terse", "a.py"]},
    ]

    def working(order: RunOrder) -> str:
        if order.selection.agents[0].agent_cli == "gemini":
            return json.dumps(proposed)
        if order.access is Access.READ:
            return "yes"
        return writing(order)

    site = Site(tmp_path, Agents(working), helper="gemini:flash")
    await site.begin(task("a", 0, acceptance_criteria=(vague, wrong, "a.py exists")))
    await site.start()
    lines = [json.loads(line) for line in (await audit_of(site))[AUDIT]]
    (response,) = (one for one in lines if one["event"] == "HELPER_RESPONSE")
    assert [one["exit_code"] for one in response["commands"]] == [0, 1]
    (prompt,) = (one["prompt"] for one in lines if one["event"] == "HELPER_PROMPT")
    assert "- a.py\n" in prompt
    report = (await site.state()).last_validation_report
    assert report is not None
    assert (report["failed_criteria"], report["uncertain_criteria"]) == ([wrong], [])
    (helped,) = (one for one in site.agents.orders if one.label.endswith("/help"))
    assert (helped.access, helped.selection.agents[0].model) == (Access.READ, "flash")


def test_programs_that_a_sandbox_would_hide_are_seen(tmp_path: Path) -> None:
    """A virtual environment in a folder for temporary files is mounted, never that whole folder."""
    for folder in ("venv/bin", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    path = f"{tmp_path}/venv/bin:{tmp_path}/bin:{tmp_path}/none/bin:/usr/bin:relative"
    mounts = list(programs_below(tmp_path, {"PATH": path}))
    assert mounts == [Mount(tmp_path / "venv"), Mount(tmp_path / "bin")]


async def test_a_task_that_is_given_up_after_a_kill_does_not_come_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-39: the killed host had not told the queue that the task is in hand."""
    whole = Performer.perform

    async def cut(self: Performer, effect: ControlEffect) -> object:
        if isinstance(effect, SettleTask):
            raise Killed
        return await whole(self, effect)

    await site.begin(task("a"))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Performer, "perform", cut)
        await site.start()
    async with site.store() as store:
        await orders.block(store, "a", actor="ann")
        assert await store.queued() == ()
    await site.start()
    assert [one.task_id for one in (await site.state()).blocked_tasks] == ["a"]
    assert site.agents.orders == []


async def audit_of(site: Site) -> Mapping[str, list[str]]:
    async with site.store() as store:
        return await AuditTrail().take_all(store.log.read(stream=store.stream))


TASKS = (task("first"), task("second"), task("never"), task("last", 0))


async def boundaries(folder: Path) -> int:
    """Return the number of points for a kill."""
    site, count = Site(folder, Agents(writing)), 0
    await site.begin(*TASKS)
    whole = Performer.perform

    async def counted(self: Performer, effect: ControlEffect) -> object:
        nonlocal count
        count += 2
        return await whole(self, effect)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Performer, "perform", counted)
        await site.start()
    return count


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
@pytest.mark.parametrize("part", some(range(4), rest=pytest.mark.long))
async def test_a_kill_before_and_after_each_effect_loses_nothing(
    memory: Path, kind: str, part: int, request: pytest.FixtureRequest
) -> None:
    """With each real store, every task is completed or blocked once (CTL-05, CTL-62, C-39)."""
    port: int = request.getfixturevalue("redis_port") if kind == "redis" else 0
    (memory / "counted").mkdir()
    places = await boundaries(memory / "counted")
    assert places > 60
    whole = Performer.perform
    for place in range(part, places, 4):
        folder = memory / str(place)
        folder.mkdir()
        name = f"key{place}" if port else "key"
        site, passed = Site(folder, Agents(writing), name, port), 0
        await site.begin(*TASKS)

        async def cut(self: Performer, effect: ControlEffect, at: int = place) -> object:
            nonlocal passed
            passed += 1
            if passed == at + 1:
                raise Killed
            event = await whole(self, effect)
            passed += 1
            if passed == at + 1:
                raise Killed
            return event

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Performer, "perform", cut)
            with pytest.raises(Killed):
                await site.start()
        project = await site.start()
        assert project.ended is not None
        assert project.ended.outcome is ProjectOutcome.COMPLETED, place
        state = await site.state()
        assert [one.task_id for one in state.completed_tasks] == ["first", "second", "last"], place
        assert [one.task_id for one in state.blocked_tasks] == ["never"], place
        lines = await audit_of(site)
        assert sum('"event": "TASK_COMPLETE"' in line for line in lines[AUDIT]) == 3, place
        for name, due in lines.items():
            file = AuditFile(site.settings.folder("demo") / name)
            written = await asyncio.to_thread(file.path.read_text)
            assert written.splitlines() == due, place
            assert not list(file.path.parent.glob("*.altered-*")), place


async def test_a_clock_that_is_set_back_loses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the times are wrong: the order is that of the log."""
    hours = iter(range(10**6, 0, -1))
    monkeypatch.setattr(
        "otpy_agents.control.server.project.CLOCK", lambda: 1735689600.0 + 3600 * next(hours)
    )
    await site.begin(*TASKS)
    ended = (await site.start()).ended
    assert ended is not None
    assert ended.outcome is ProjectOutcome.COMPLETED
    done = (await site.state()).completed_tasks
    assert [one.task_id for one in done] == ["first", "second", "last"]
    assert [one.completed_at for one in done] == sorted(
        (one.completed_at for one in done), reverse=True
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_disk_that_is_full_at_any_write_ends_the_loop_with_one_line(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that was not written does not count, in log or audit, and the next start goes on."""
    whole_log, whole = EventLog.append, files._append
    count = full_at = 0

    def is_full() -> bool:
        nonlocal count
        count += 1
        return full_at > 0 and count >= full_at

    async def append(self: EventLog, *appends: Append) -> tuple[Stored, ...]:
        if not is_full():
            return await whole_log(self, *appends)
        database = self._file._database
        assert database is not None
        await database.execute("PRAGMA max_page_count = 1")
        return await whole_log(self, *appends)

    def write(path: Path, content: bytes) -> None:
        if is_full():
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, content)

    monkeypatch.setattr(EventLog, "append", append)
    monkeypatch.setattr(files, "_append", write)
    site = Site(memory, Agents(writing))
    await site.begin(task("a"), task("second"))
    count = 0
    await site.start()
    writes, broken = count, 0
    assert writes > 20
    for place in range(1, writes + 1):
        count = full_at = 0
        folder = memory / str(place)
        folder.mkdir()
        site = Site(folder, Agents(writing))
        await site.begin(task("a"), task("second"))
        count, full_at = 0, place
        ended = (await site.start()).ended
        assert ended is not None
        if ended.outcome is ProjectOutcome.BROKEN:
            broken += 1
            assert "No space left on device" in ended.line
            assert "\n" not in ended.line
        full_at = 0
        ended = (await site.start()).ended
        assert ended is not None
        assert ended.outcome is ProjectOutcome.COMPLETED
        done = [one.task_id for one in (await site.state()).completed_tasks]
        assert done == ["a", "second"], place
        for name, due in (await audit_of(site)).items():
            written = await asyncio.to_thread((site.settings.folder("demo") / name).read_text)
            assert written.splitlines() == due, place
    assert broken > writes / 2

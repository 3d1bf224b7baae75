"""Whole runs of real processes: their kept output, and the remains of many of them."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from attrs import evolve

from otpy_agents.errors import CommandRefused
from otpy_agents.log import CommandLog, log_beside
from otpy_agents.operator import ask
from otpy_agents.process.orphans import find
from otpy_agents.run import (
    AgentInstance,
    AgentSelection,
    Detail,
    Ending,
    RetryPolicy,
    SelectionMode,
    run_marker,
)
from otpy_agents.run.host.facts import AttemptOver, Fact, RunEnded, as_json
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.host import RunHost, run_host
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.stored_form import AttemptOutcome, StoredForm
from otpy_agents.store import RunStore

pytestmark = pytest.mark.real_time

LIMITED = """echo '{"type": "error", "message": "rate limited", "status": 429}'; exit 1"""


def order(folder: Path, script: str, **settings: Any) -> RunOrder:
    """Return an order to run a shell script."""
    settings.setdefault("policy", RetryPolicy(backoff_base=0.1, max_retries=0))
    return RunOrder(
        prompt=settings.pop("prompt", "do it"),
        cwd=folder,
        use="command",
        argv=("sh", "-c", script),
        **settings,
    )


def chain(folder: Path, script: str, *agents: str) -> RunOrder:
    """Return an order whose agents are commands of different accounts, in this order."""
    instances = tuple(
        AgentInstance(agent_id=name, agent_cli="command", credential=name) for name in agents
    )
    selection = AgentSelection(
        agents=instances,
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks=dict(pairwise(agents)),
    )
    return order(folder, script, selection=selection, policy=RetryPolicy(backoff_base=0.5))


@asynccontextmanager
async def hosted(folder: Path, facts: list[Fact], **settings: Any) -> AsyncGenerator[RunHost]:
    """A host in a program of its own, as far as its store can tell."""
    async with (
        RunStore(folder / "state" / "runs.sqlite3") as store,
        run_host(store, listeners=[facts.append], hooks=(), **settings) as host,
    ):
        yield host


async def test_a_flood_is_cut_at_ten_mebibytes_and_that_is_told(tmp_path: Path) -> None:
    """The run goes on; the number of lost bytes is in the log, in the facts and in the store."""
    facts: list[Fact] = []
    script = "yes 0123456789abcde | head -c 14680064; echo done"
    async with hosted(tmp_path, facts) as host:
        handle = await host.submit(order(tmp_path, script))
        result = await handle.wait()
    (over,) = [fact for fact in facts if isinstance(fact, AttemptOver)]
    assert result.ending is Ending.SUCCEEDED
    assert 4 * 2**20 <= over.cut < 4 * 2**20 + 64 * 1024
    logged = [as_json(fact)["text"] for fact in facts if fact.event == "run.log"]
    assert logged == [f"[supervisor] attempt 1: {over.cut} bytes of output were not kept"]
    async with RunStore(tmp_path / "state" / "runs.sqlite3", as_host=False) as store:
        (attempt,) = (await store.run(handle.id)).attempts
    assert AttemptOutcome.from_json(attempt.outcome or "").cut == over.cut


async def test_no_secret_is_stored_or_told(tmp_path: Path) -> None:
    """G-04: by name, by declaration and by value; in prompts, arguments, output and in pieces."""
    secrets = {"MY_TOKEN": "hunter2-hunter2", "DATABASE": "postgres-pass", "file": "from-a-file!"}
    pieces = "".join(
        f'echo \'{{"type": "text", "text": "{piece}"}}\'\n'
        for secret in secrets.values()
        for piece in (secret[:6], secret[6:])
    )
    words = " ".join(secrets.values())
    script = f"""
        echo "$MY_TOKEN $DATABASE {words}" >&2
        {pieces}
        (exec -a {secrets["file"]} sleep 60) &
        echo '{{"type": "error", "message": "connection reset by {words}"}}'
        exit 1
    """
    asked = order(
        *(tmp_path, script), prompt=f"use {words}", secrets=("DATABASE",), label="project/one"
    )
    asked = evolve(asked, argv=("bash", "-c", script))
    facts: list[Fact] = []
    environment = {
        **{name: secrets[name] for name in ("MY_TOKEN", "DATABASE")},
        "PATH": "/usr/bin:/bin",
    }
    async with hosted(
        tmp_path, facts, environment=environment, secrets={"file": secrets["file"]}
    ) as host:
        handle = await host.submit(asked)
        result = await handle.wait()
        seen = b"".join(
            path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()
        )
    told = json.dumps([as_json(fact) for fact in facts])
    assert "connection reset by [MY_TOKEN]" in str(result.error)
    assert b"use [MY_TOKEN] [DATABASE] [file]" in seen
    for secret in secrets.values():
        assert secret not in told
        assert secret not in handle.answer
        assert secret.encode() not in seen
    (ended,) = [fact for fact in facts if isinstance(fact, RunEnded)]
    assert ended.answer == "[MY_TOKEN][DATABASE][file]"


async def test_runs_of_another_host_see_a_limit_at_once(tmp_path: Path) -> None:
    """C-15: a run that begins later sees it, and so does a run that waits for its retry."""
    fails_once = "[ -e failed ] && echo done && exit; touch failed; echo 'connection reset'; exit 1"
    async with hosted(tmp_path, []) as host, hosted(tmp_path, []) as other:
        waiting = await other.submit(chain(tmp_path, fails_once, "a", "b"))
        while waiting.state.wait is None:  # noqa: ASYNC110 - nobody tells a test
            await asyncio.sleep(0.01)
        limited = await host.submit(chain(tmp_path, LIMITED, "a"))
        while not limited.state.attempts:  # noqa: ASYNC110 - nobody tells a test
            await asyncio.sleep(0.01)
        result = await waiting.wait()
        later = await (await other.submit(chain(tmp_path, "echo done", "a", "b"))).wait()
    assert limited.state.attempts[0].detail is Detail.RATE_LIMIT
    assert [record.agent_id for record in result.attempts] == ["a", "b"]
    assert [record.agent_id for record in later.attempts] == ["b"]


async def test_one_agent_that_is_installed_is_enough(tmp_path: Path) -> None:
    """C-05: a missing agent is passed by when its turn comes, and is named with a hint."""
    agents = (
        AgentInstance(agent_id="missing", agent_cli="codex"),
        AgentInstance(agent_id="there", agent_cli="command"),
    )
    selection = AgentSelection(
        agents=agents,
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks={"missing": "there"},
    )
    async with hosted(tmp_path, [], environment={"PATH": "/usr/bin:/bin"}) as host:
        asked = order(tmp_path, "echo done", selection=selection)
        result = await (await host.submit(asked)).wait()
    assert [record.agent_id for record in result.attempts] == ["missing", "there"]
    assert "npm install -g @openai/codex" in result.attempts[0].message
    assert (result.ending, result.retry_count) == (Ending.SUCCEEDED, 0)


async def test_an_operator_commands_runs_over_the_socket(tmp_path: Path) -> None:
    """A cancel from another program is carried out and recorded; a late command is refused."""
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, hooks=()) as host,
    ):
        handle = await host.submit(order(tmp_path, "sleep 600"))
        while handle.identity is None:  # noqa: ASYNC110 - nobody tells a test
            await asyncio.sleep(0.01)
        assert "cancel" in str(await ask(store.socket, "cancel", run=handle.id))
        assert (await handle.wait()).ending is Ending.CANCELLED
        with pytest.raises(CommandRefused):
            await ask(store.socket, "retry-now", run=handle.id)
        with pytest.raises(CommandRefused, match="'nobody', wanted one of this host"):
            await ask(store.socket, "kill", run="nobody")
        commands = await CommandLog(log_beside(store.path)).of(handle.id)
    assert [one.name for one in commands] == ["cancel", "retry-now"]


def kept() -> int:
    """Return the number of objects of runs."""
    gc.collect()
    return sum(issubclass(type(one), LiveRun | Flight) for one in gc.get_objects())


async def test_attempts_leave_nothing_behind(tmp_path: Path) -> None:
    """No process, descriptor, thread, task, object or file; the benchmark makes 1,000."""
    me = psutil.Process()

    def state() -> tuple[int, int, int]:
        # AnyIO's own idle threads are as many as were needed at once, and go after a while.
        ours = [one for one in threading.enumerate() if "AnyIO" not in one.name]
        return me.num_fds(), len(ours), len(asyncio.all_tasks())

    script = "echo out; sleep 99 & exit $(($$ % 2))"
    facts: list[Fact] = []
    async with hosted(tmp_path, facts) as host:

        async def attempts(number: int) -> list[str]:
            asked = order(tmp_path, script, policy=RetryPolicy(backoff_base=0.001))
            handles = [await host.submit(asked) for _ in range(number)]
            results = [await handle.wait() for handle in handles]
            assert sum(result.total_attempts for result in results) >= number
            return [handle.id for handle in handles]

        await attempts(3)
        await asyncio.sleep(0.2)  # the event log is told a moment later
        before, others = state(), me.children(recursive=True)  # such as a tracker of other tests
        ids = await attempts(80)
        facts.clear()
        await asyncio.sleep(0.2)
        assert state() == before
        assert host.handles == {}
        assert kept() <= 2  # of the last run, held by a callback that is on its way
        assert [one for run in ids for one in find(run_marker(run))] == []
        assert me.children(recursive=True) == others
        folder = tmp_path / "state" / "runs.sqlite3.files"
        assert list(folder.iterdir()) == []


async def test_runs_are_found_by_who_ordered_them(tmp_path: Path) -> None:
    """The label is stored, and so are the result and the session, for a caller that missed them."""
    script = """echo '{"type": "session", "id": "s1"}'; echo '{"type": "result", "text": "yes"}'"""
    async with hosted(tmp_path, []) as host:
        handle = await host.submit(order(tmp_path, script, label="project/one"))
        await handle.wait()
        await (await host.submit(order(tmp_path, script, label="project/two"))).wait()
    async with RunStore(tmp_path / "state" / "runs.sqlite3", as_host=False) as store:
        (record,) = await store.runs(label="project/one")
        assert await store.runs(label="project/one", unfinished=True) == ()
        assert len(await store.runs()) == 2
        stored = await store.run(record.id)
    assert (record.id, record.label) == (handle.id, "project/one")
    result = StoredForm.from_json(stored.state).state.result()
    assert result == await handle.wait()
    assert result.session == "s1"

"""`otpy-agents runs` over a store with runs of other programs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

import otpy
from otpy_agents.attempt.failures import Detail
from otpy_agents.cli import main
from otpy_agents.errors import CommandRefused
from otpy_agents.log import CommandLog, log_beside
from otpy_agents.operator import OperatorCommand, operator_supervisor
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.result import Cause, Ending, StopCause
from otpy_agents.run.decide.state import RunPhase
from otpy_agents.store import CooldownRecord, RunStore
from tests.agents.cli.commands.stories import RUN, put, record, waiting

pytestmark = pytest.mark.real_time

FAILED = record(detail=Detail.NETWORK)
RETRIED = record(2, detail=Detail.NETWORK, cause=Cause.RETRY, began=110, ended=111)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite3"


def call(state: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["runs", *words], env={"OTPY_STATE": str(state), "HOME": "/"})


def living(state: Path, look: Callable[[], Result], *runs: str) -> Result:
    """Return the output of a terminal while a host holds these runs."""

    async def main() -> Result:
        async with RunStore(state) as store:
            for run in runs or (RUN,):
                await put(store, run, waiting(time.time() + 3600, FAILED, RETRIED))
            return await asyncio.to_thread(look)

    return asyncio.run(main())


def left(state: Path, work: Callable[[RunStore], Coroutine[Any, Any, object]]) -> None:
    """Let a host do some work and end."""

    async def main() -> None:
        async with RunStore(state) as store:
            await work(store)

    asyncio.run(main())


def test_where_no_run_was_made_nothing_is_made_either(state: Path) -> None:
    """Listing runs leaves no file behind."""
    result = call(state)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no run is going on; --all lists the others" in result.stderr
    result = call(state, "show", "0a")
    assert result.exit_code == 2
    assert f"{state}: got no file, wanted one with runs" in result.stderr
    assert not state.exists()


def test_a_run_is_listed_while_it_goes_on(state: Path) -> None:
    """The row has its status, agent, number of attempts and prompt."""
    result = living(state, lambda: call(state))
    assert result.exit_code == 0
    head, row = result.stdout.splitlines()
    assert head.split() == ["id", "status", "agent", "attempts", "age", "cwd", "prompt"]
    assert row.split()[:5] == [RUN, "retrying", "(2/3)", "claude", "2"]
    assert row.rstrip().endswith("/srv/shop  Fix the failing test")


def test_a_run_whose_host_is_dead_is_interrupted(state: Path) -> None:
    """The line below shows the command to type."""
    left(state, lambda store: put(store, RUN, waiting(1000.0, FAILED)))
    result = call(state)
    assert result.stdout.splitlines()[1].split()[:3] == [RUN, "interrupted", "claude"]
    assert f"`otpy-agents runs resume {RUN}` goes on with it" in result.stderr
    assert "retry-now" not in call(state, "show", RUN).stdout


def test_those_that_are_over_are_listed_if_asked_for(state: Path) -> None:
    """`--all` lists them too."""
    over = evolve(waiting(0, record()), wait=None, phase=RunPhase.COMPLETE, ending=Ending.SUCCEEDED)
    left(state, lambda store: put(store, RUN, over, exit_code=0))
    assert call(state).stdout == ""
    assert call(state, "--all").stdout.splitlines()[1].split()[:2] == [RUN, "done"]


def test_a_program_gets_one_object_for_each_run(state: Path) -> None:
    """Its values are not cut."""
    result = living(state, lambda: call(state, "--json"))
    (run,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert run["id"] == RUN
    assert run["status"] == "retrying (2/3)"
    assert run["prompt"] == "Fix the\nfailing test"
    assert (run["attempts"], run["interrupted"], run["exit_code"]) == (2, False, None)


def test_a_run_is_shown_with_all_its_attempts(state: Path) -> None:
    """The wait and how to cut it, the commands and their authors, each attempt with its reason."""

    async def work(store: RunStore) -> Result:
        account = VendorAccount("codex")
        long = Cooldown(account, time.time() + 600)
        begun = waiting(time.time() + 3600, FAILED, RETRIED)
        await put(store, RUN, evolve(begun, cooldowns=CooldownTable((long,))))
        for cli in ("claude", "codex"):
            await store.cooldowns.put(
                CooldownRecord(agent_cli=cli, credential="", until=long.until, reason="429")
            )
        log = CommandLog(log_beside(state))
        number = await log.begin(name="cancel-retry", run=RUN, arguments="{}", actor="ann (uid 7)")
        await log.end(number, '{"ok": false, "message": "not\\nnow"}')
        return await asyncio.to_thread(call, state, "show", RUN[:3])

    async def main() -> Result:
        async with RunStore(state) as store:
            return await work(store)

    result = asyncio.run(main())
    assert result.exit_code == 0, result.output
    pairs = [line.partition(" ")[::2] for line in result.stdout.splitlines()]
    lines = {label: text.strip() for label, text in pairs if label != "cooldown"}
    cooldowns = [text.split()[0] for label, text in pairs if label == "cooldown"]
    assert lines["run"] == RUN
    assert lines["status"] == "retrying (2/3)"
    assert lines["prompt"] == "Fix the failing test"
    assert lines["agents"] == "claude -> codex"
    assert lines["waits"].endswith(f"`otpy-agents runs retry-now {RUN}`")
    assert sorted(cooldowns) == ["claude", "codex"]
    assert lines["command"].endswith("cancel-retry by ann (uid 7): not now")
    assert lines["1"].endswith("failed: network  no route to host")
    assert lines["2"].split()[:2] == ["claude", "retry"]


def test_a_run_that_is_over_is_shown_with_its_answer(state: Path) -> None:
    """It shows its end, its usage and its answer."""
    over = evolve(waiting(0, record()), wait=None, phase=RunPhase.COMPLETE, ending=Ending.SUCCEEDED)
    left(state, lambda store: put(store, RUN, over, exit_code=0, answer="It\x1b was\nthe clock."))
    text = call(state, "show", RUN).stdout
    assert "succeeded, last agent claude" in text
    assert "exit code 0" in text
    assert text.endswith("\n\nIt\\x1b was\nthe clock.\n")
    shown = json.loads(call(state, "show", RUN, "--json").stdout)
    assert shown["answer"] == "It\x1b was\nthe clock."
    assert shown["order"]["sandbox"]["name"] == "process"
    assert shown["attempts"][0]["outcome"]["record"]["usage"]["input"] == 1200


def test_a_run_that_cannot_be_read_is_shown_as_far_as_it_can(state: Path) -> None:
    """Another program that shares the file may be newer."""

    async def work(store: RunStore) -> None:
        lease = await put(store, RUN, waiting(0.0))
        await store.save(lease, '{"version": 99}', version=99, status="new", agent="claude")

    left(state, work)
    result = call(state, "show", RUN)
    assert result.exit_code == 0
    assert "got version 99, wanted 4 or older; upgrade otpy-tree" in result.stdout


def test_an_id_may_be_cut_as_long_as_it_is_plain_which_is_meant(state: Path) -> None:
    """An ambiguous or unknown one is refused with one line."""
    others = ("aa00000001", "aa00000002", "ab00000003")
    shown = living(state, lambda: call(state, "show", "AB"), *others)
    assert "ab00000003" in shown.stdout
    for beginning, line in [
        ("aa", "run 'aa': got the beginning of aa00000001, aa00000002; wanted one"),
        ("ff", "run 'ff': got an unknown id, wanted one of `otpy-agents runs --all`"),
    ]:
        result = call(state, "show", beginning)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"otpy-agents: {line}\n"


def test_a_command_is_carried_out_by_the_host_of_the_run(state: Path) -> None:
    """The run's answer is printed; a refusal is printed too, with status 1."""

    async def agrees(command: OperatorCommand) -> str:
        return f"{command.name} of {command.text('run')[:4]}"

    async def refuses(command: OperatorCommand) -> str:
        raise CommandRefused("there is no retry to decide about: the run is running")

    async def main() -> tuple[Result, Result]:
        async with RunStore(state) as store:
            await put(store, RUN, waiting(time.time() + 99))
            handlers = {"cancel": agrees, "retry-now": refuses}
            spec = operator_supervisor(store.socket, handlers, CommandLog(log_beside(state)))
            async with otpy.start(spec, hooks=[]):
                done = await asyncio.to_thread(call, state, "cancel", RUN[:2])
                return done, await asyncio.to_thread(call, state, "retry-now", RUN)

    done, refused = asyncio.run(main())
    assert (done.exit_code, done.stdout) == (0, f"{RUN}: cancel of {RUN[:4]}\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "there is no retry to decide about: the run is running" in refused.stderr


@pytest.mark.parametrize("name", ["retry-now", "cancel-retry", "force-fallback"])
def test_a_run_without_a_host_cannot_be_commanded(state: Path, name: str) -> None:
    """One line shows the command to type instead."""
    left(state, lambda store: put(store, RUN, waiting(1000.0)))
    result = call(state, name, RUN)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"`otpy-agents runs resume {RUN}` goes on with it" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_run_that_is_over_cannot_be_commanded(state: Path) -> None:
    """One line tells its end."""
    stopped = record(stopped=StopCause.CANCEL)
    over = evolve(waiting(0, stopped), wait=None, phase=RunPhase.COMPLETE, ending=Ending.CANCELLED)
    left(state, lambda store: put(store, RUN, over, exit_code=130))
    result = call(state, "cancel", RUN)
    assert result.exit_code == 1
    assert "got cancel, wanted a run that is not over; it is failed" in result.stderr


def test_the_state_file_may_be_named_before_and_behind_the_command(
    state: Path, tmp_path: Path
) -> None:
    """The option nearer to the end wins."""
    left(state, lambda store: put(store, RUN, waiting(1000.0)))
    other = str(tmp_path / "nowhere")
    for words in (
        ["--state", str(state), "show", RUN],
        ["show", RUN, "--state", str(state)],
        ["--state", other, "show", RUN, "--state", str(state)],
    ):
        assert call(Path(other), *words).exit_code == 0


def test_the_policy_is_printed_as_a_run_would_have_it() -> None:
    """It takes the options of `run`."""
    runner = CliRunner()
    assert runner.invoke(main, ["runs", "policy"]).stdout == f"{RetryPolicy().table()}\n"
    changed = runner.invoke(main, ["runs", "policy", "--max-retries", "1", "--fatal-scope=agent"])
    assert "retries of each agent: 1" in changed.stdout
    assert "a fatal failure ends: the agent" in changed.stdout
    wrong = runner.invoke(main, ["runs", "policy", "--backoff-base", "-1"])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)


def test_of_a_host_that_does_not_listen_it_is_said_where_to_resume(
    state: Path,
) -> None:
    """The command names the state file, if the user named it."""
    words = ["runs", "cancel", RUN, "--state", str(state)]
    result = living(state, lambda: CliRunner().invoke(main, words))
    assert result.exit_code == 1
    assert f"`otpy-agents runs resume {RUN} --state {state}` goes on with the run" in result.stderr

"""Gates in virtual time: when each one starts, and its result."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.engine.gates import (
    GATES_FILE,
    Gate,
    GateCache,
    GateExecutor,
    GateFailAction,
    GateResult,
    GateStatus,
    gate_commands,
)
from otpy_agents.engine.roles import GateUse, OnFail
from otpy_agents.errors import SandboxUnavailable, SpawnFailed
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox import BubblewrapSandbox
from otpy_agents.sandbox.commands import CommandSandbox
from otpy_agents.testing.sandbox import ScriptedSandbox, Scripts
from otpy_agents.testing.script import ExitWith, Script, Write

PASSED, FAILED, WARNED, SKIPPED = GateStatus


def lasting(seconds: float, code: int = 0, said: str = "said") -> Script:
    steps = (Write(text=said, after=0.0), ExitWith(code=code, after=seconds))
    return Script(*steps, session=False)


def gate(name: str, *depends_on: str, **more: object) -> Gate:
    fields: dict[str, object] = {"parallel_safe": True, **more}
    env = {"OTPY_ASSIGNMENT": name}  # selects the script
    return Gate(name=name, command=(name,), depends_on=depends_on, env=env, **fields)  # type: ignore[arg-type]


class Site:
    """A work tree, its gates, and the events that were told."""

    def __init__(self, folder: Path, gates: Sequence[Gate], scripts: Mapping[str, Scripts]) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        (self.tree / "a.py").write_text("x = 1\n")
        self.gates = {one.name: one for one in gates}
        self.sandbox = ScriptedSandbox(scripts)
        self.cache: GateCache | None = GateCache(folder / "cache")
        self.told: list[str] = []

    async def run(self, *uses: GateUse | str) -> dict[str, GateResult]:
        commands = CommandSandbox(self.told.append, inherited=os.environ, sandbox=self.sandbox)
        results = await GateExecutor(self.tree, commands, cache=self.cache).run(
            self.gates,
            [GateUse(name=use) if isinstance(use, str) else use for use in uses],
            on_start=lambda one: self.told.append(f"{one.name} begins"),
            on_result=lambda one: self.told.append(f"{one.name} {one.status}"),
        )
        return {one.name: one for one in results}

    @property
    def ran(self) -> list[str]:
        return [one.agent for one in self.sandbox.played]


async def test_gates_run_side_by_side_behind_those_they_depend_on(tmp_path: Path) -> None:
    """ENG-30: a gate that is not parallel-safe runs alone, and dependencies run too."""
    gates = [gate("lint"), gate("types", "lint"), gate("test"), gate("db", parallel_safe=False)]
    seconds = {"lint": 10, "types": 10, "test": 15, "db": 10}
    site = Site(tmp_path, gates, {name: [lasting(its)] for name, its in seconds.items()})
    began = asyncio.get_running_loop().time()
    results = await site.run("types", "test", "db")
    assert {one.status for one in results.values()} == {PASSED}
    times = {one.agent: round(one.began - began) for one in site.sandbox.played}
    assert times == {"lint": 0, "test": 0, "types": 10, "db": 20}
    assert results["db"].seconds == 10
    assert site.told[:3] == ["lint begins", "test begins", "lint passed"]


async def test_a_failure_holds_back_what_depends_on_it(tmp_path: Path) -> None:
    """A gate with `skip_on_dependency_failure: false` runs all the same."""
    gates = [gate("lint"), gate("test", "lint"), gate("e2e", "test")]
    gates.append(gate("docs", "lint", skip_on_dependency_failure=False))
    site = Site(tmp_path, gates, {"lint": [lasting(1, 1, "E501")]})
    results = await site.run("e2e", "docs")
    assert {one.name: (one.status, one.blocked_by) for one in results.values()} == {
        "lint": (FAILED, ""),
        "test": (SKIPPED, "lint"),
        "e2e": (SKIPPED, "test"),
        "docs": (PASSED, ""),
    }
    assert (results["lint"].output, results["lint"].exit_code) == ("E501\n", 1)
    assert site.ran == ["lint", "docs"]


@pytest.mark.parametrize(
    ("use", "action"),
    [
        (GateUse(name="lint", on_fail=OnFail.WARN), GateFailAction.FAIL),
        (GateUse(name="lint", required=False), GateFailAction.FAIL),
        (GateUse(name="lint"), GateFailAction.WARN),
        (GateUse(name="lint"), GateFailAction.SKIP),
    ],
)
async def test_a_failure_that_counts_for_little_holds_nothing_back(
    tmp_path: Path, use: GateUse, action: GateFailAction
) -> None:
    """The role may say so, or the gate."""
    gates = [gate("lint", fail_action=action), gate("test", "lint")]
    site = Site(tmp_path, gates, {"lint": [lasting(1, 1)]})
    results = await site.run(use, "test")
    assert results["test"].status is PASSED
    assert results["lint"].status is not PASSED
    assert not results["lint"].is_hold_up


async def test_a_gate_that_takes_too_long_fails_with_what_it_said(tmp_path: Path) -> None:
    """The sandbox ends it at its own time limit."""
    site = Site(tmp_path, [gate("test", timeout=30.0)], {"test": [lasting(99, said="hangs here")]})
    result = (await site.run("test"))["test"]
    assert (result.status, result.exit_code, result.seconds) == (FAILED, None, 30)
    assert result.output == "hangs here\nended after 30 s"
    assert result.is_started


async def test_a_gate_that_cannot_be_started_says_what_to_do(tmp_path: Path) -> None:
    """The result says that the gate was not started."""

    def missing(_: int) -> Script:
        raise SpawnFailed("pytest", "No such program")

    site = Site(tmp_path, [gate("test")], {"test": missing})
    result = (await site.run("test"))["test"]
    assert (result.status, result.is_started) == (FAILED, False)
    assert "'pytest': No such program" in result.output
    assert "another command for test in .supervisor/gates.yaml" in result.output


async def test_a_sandbox_that_does_not_work_is_told_before_anything_runs(tmp_path: Path) -> None:
    """C-24: the run is refused; no other sandbox takes the place of a broken one."""
    site = Site(tmp_path, [gate("test")], {})
    site.sandbox.unavailable = "no engine"
    with pytest.raises(SandboxUnavailable, match="no engine"):
        await site.run("test")
    assert site.told == []


async def test_a_cancelled_run_leaves_nothing_running(tmp_path: Path) -> None:
    """The sandbox ends the gate that was running."""
    site = Site(tmp_path, [gate("lint"), gate("test")], {"test": [lasting(99)]})
    task = asyncio.create_task(site.run("lint", "test"))
    await asyncio.sleep(5)
    assert [one.agent for one in site.sandbox.alive] == ["test"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.sandbox.alive == ()


# --- passes that are kept -------------------------------------------------------------------------


async def test_what_passed_is_not_run_again_until_something_changes(tmp_path: Path) -> None:
    """ENG-31: the next executor returns the kept result, marked as cached."""
    site = Site(tmp_path, [gate("lint"), gate("test", "lint")], {"test": [lasting(7)]})
    first = await site.run("test")
    again = await site.run("test")
    assert site.ran == ["lint", "test"]
    assert [(one.cached, one.seconds, one.output) for one in again.values()] == [
        (True, first[name].seconds, first[name].output) for name in again
    ]
    assert again["test"].seconds == 7
    (site.tree / "a.py").write_text("x = 2\n")
    await site.run("test")
    assert site.ran == ["lint", "test"] * 2


async def test_what_failed_is_run_again(tmp_path: Path) -> None:
    """A failure may have a cause outside the gate's inputs."""
    site = Site(tmp_path, [gate("test")], {"test": [lasting(1, 1), lasting(1)]})
    assert (await site.run("test"))["test"].status is FAILED
    assert (await site.run("test"))["test"].status is PASSED


async def test_only_what_a_gate_reads_matters_to_it(tmp_path: Path) -> None:
    """Only the files of `cache_inputs` count; a gate with `cache: false` always runs."""
    gates = [gate("lint", cache_inputs=("*.py",)), gate("docs", cache_inputs=("docs/",))]
    site = Site(tmp_path, [*gates, gate("net", cache=False)], {})
    await site.run("lint", "docs", "net")
    (site.tree / "a.py").write_text("x = 2\n")
    await site.run("lint", "docs", "net")
    assert sorted(site.ran) == ["docs", "lint", "lint", "net", "net"]


async def test_a_file_that_changes_meanwhile_keeps_the_pass_out(tmp_path: Path) -> None:
    """It is unknown which of the two versions the gate saw."""
    site = Site(tmp_path, [gate("test")], {"test": [lasting(9)]})
    task = asyncio.create_task(site.run("test"))
    await asyncio.sleep(5)
    (site.tree / "a.py").write_text("x = 2\n")
    assert (await task)["test"].status is PASSED
    assert not (await site.run("test"))["test"].cached
    assert (await site.run("test"))["test"].cached


async def test_what_writes_for_a_later_gate_is_run_with_it(tmp_path: Path) -> None:
    """The later gate would find no files otherwise."""
    gates = [
        gate("build", allowed_writes=("out/",)),
        gate("test", "build", allowed_writes=("out/",)),
        gate("lint"),
    ]
    site = Site(tmp_path, gates, {"test": [lasting(1, 1), lasting(1)]})
    for _ in range(3):
        await site.run("test", "lint")
    assert sorted(site.ran) == ["build", "build", "lint", "test", "test"]


# --- what a worker may have left ------------------------------------------------------------------


async def test_a_gate_that_a_worker_has_edited_is_what_it_was(tmp_path: Path) -> None:
    """ENG-27: the configuration is a text that the caller hands in, from the base commit."""
    site = Site(tmp_path, [], {"base": [lasting(1, 1)]})
    file = site.tree / GATES_FILE
    file.parent.mkdir()
    file.write_text("gates:\n  test: {command: ['true'], env: {}, cache_inputs: ['none']}")
    site.gates = {"test": evolve(gate("base"), name="test")}
    assert (await site.run("test"))["test"].status is FAILED
    assert site.ran == ["base"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"allowed_writes": ("out/",)}, "allowed_writes: out/: it leads out of the work tree"),
        ({"allowed_writes": ("out/deep",)}, "out/deep: it leads out of the work tree"),
        ({"allowed_writes": ("pipe",)}, "pipe: it is neither a file nor a folder"),
        ({"working_dir": "out"}, "working_dir: out leads out of the work tree"),
        ({"working_dir": "a.py"}, "working_dir: a.py is not a folder"),
    ],
)
async def test_a_link_of_a_worker_leads_no_gate_out(
    tmp_path: Path, more: dict[str, object], said: str
) -> None:
    """ENG-14: that gate fails before it is started; the others run."""
    site = Site(tmp_path, [gate("test", **more), gate("lint")], {})
    (tmp_path / "elsewhere").mkdir()
    (site.tree / "out").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(site.tree / "pipe")
    results = await site.run("test", "lint")
    assert said in results["test"].output
    assert (results["test"].status, results["lint"].status) == (FAILED, PASSED)
    assert site.ran == ["lint"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_nothing_secret_is_handed_to_a_gate() -> None:
    """A gate gets the variables that programs need; none if its sandbox has its own `PATH`."""
    here = {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h", "GITHUB_TOKEN": "x", "FOO": "y"}
    commands = gate_commands(SandboxChoice(), here, pytest.fail)
    assert commands.variables(BubblewrapSandbox()) == {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h"}
    assert commands.variables(ScriptedSandbox()) == {}

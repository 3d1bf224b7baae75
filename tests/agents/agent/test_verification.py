"""The command that says whether an agent is done (TREE-29, C-16)."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, final

import pytest
from attrs import define, frozen

from otpy_agents.agent import persistence, verification
from otpy_agents.agent.memory import Memory
from otpy_agents.agent.post import Post
from otpy_agents.errors import SpawnFailed, VerificationFailed
from otpy_agents.process.orphans import find
from otpy_agents.process.process import ExitStatus
from otpy_agents.sandbox.marker import list_marker
from otpy_agents.store.records import State
from otpy_agents.testing import Script, Succeed
from otpy_agents.workspace import Fate, Fates
from tests.agents.world import World, agent


@frozen(kw_only=True)
class Round:
    """The course of one start of the command."""

    code: int = 0
    lines: tuple[str, ...] = ()
    seconds: float = 1.0
    missing: bool = False


@final
@define(eq=False)
class FakeCommand:
    """Stands in for `WorkerProcess`."""

    round: Round
    env: Mapping[str, str]
    cwd: Path
    on_line: Callable[[str], object]
    alive: bool = False

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        if self.round.missing:
            raise SpawnFailed("check", "no such file")
        self.alive = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.alive = False

    async def wait(self) -> ExitStatus:
        for line in self.round.lines:
            self.on_line(line)
        await asyncio.sleep(self.round.seconds)
        return ExitStatus(code=self.round.code)


@final
class Commands:
    """Records every start of the command; each has a round of the list, or else the last."""

    def __init__(self) -> None:
        self.rounds: list[Round] = [Round()]
        self.started: list[FakeCommand] = []

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        grace: float,
        on_line: Callable[[str], object],
    ) -> FakeCommand:
        assert (tuple(argv), grace) == (("true", "it"), 5.0)
        round_ = self.rounds[min(len(self.started), len(self.rounds) - 1)]
        self.started.append(FakeCommand(round_, env, cwd, on_line))
        return self.started[-1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """The commands that are started; none of them is alive at the end."""
    made = Commands()
    monkeypatch.setattr(verification, "spawn", made.spawn)
    yield made
    assert not any(one.alive for one in made.started)


def begun(commands: Commands, number: int) -> Callable[[], bool]:
    """Return a function that tells whether this many commands were started."""
    return lambda: len(commands.started) == number


def checked(id: str = "a", *argv: str, **keys: object) -> str:
    """Return an assignment with a command that verifies it."""
    words = ", ".join(f'"{one}"' for one in argv or ("true", "it"))
    return agent(id, **keys) + f"verify = [{words}]\nbackoff = [1]\n"


async def test_an_agent_is_done_when_the_command_says_so(world: World, commands: Commands) -> None:
    """Exit code 0 is enough; the command runs in the agent's directory, with the list's marker."""
    known = await world.run(checked())
    assert known["a"].state is State.DONE
    assert world.states("a") == ["verifying", "done"]
    (one,) = commands.started
    assert str(one.cwd) == world.sandbox.played[0].cwd
    assert one.env["OTPY_ASSIGNMENT"] == "a"
    assert list_marker(world.ledger.list_id).items() <= one.env.items()


async def test_a_failed_round_is_told_to_the_agent_with_the_last_lines(
    world: World, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next life gets them as a message, without secrets, and passes in the second round."""
    lines = tuple(f"line {number}" for number in range(30))
    commands.rounds = [Round(code=2, lines=(*lines, "", "hunter2 is wrong", "x" * 600)), Round()]
    monkeypatch.setenv("MY_PASSWORD", "hunter2")
    known = await world.run(checked())
    assert known["a"].state is State.DONE
    assert world.states("a") == ["verifying", "failed", "working", "verifying", "done"]
    prompt = world.sandbox.played[1].prompt
    assert "- true it: exit code 2: xxx" in prompt
    assert "its last lines:\n  line 12\n" in prompt
    assert "line 11" not in prompt
    assert "[MY_PASSWORD] is wrong" in prompt
    assert "x" * 501 not in prompt


async def test_rounds_are_counted_over_all_hosts(world: World, commands: Commands) -> None:
    """Each task has one count: a host that always ends early adds no rounds (C-16)."""
    commands.rounds = [Round(code=1)]
    for rounds in (1, 2):
        async with world.running(checked(restarts=9)):
            await world.until(begun(commands, rounds))
            await world.until(lambda: world.states("a")[-1] == "failed")
        assert not world.known["a"].state.final
    known = await world.run(checked(restarts=9))
    assert len(commands.started) == 3
    assert known["a"].state is State.REAPED


async def test_who_had_its_last_round_under_a_host_that_ended_gets_no_other(
    world: World, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third round was counted, but the agent not yet reaped; the next host reaps it."""
    commands.rounds = [Round(code=1)]
    counted = asyncio.Event()
    write = Memory.write_failures

    async def and_hang(self: Memory, post: Post) -> None:
        await write(self, post)
        if post.failures["tests_failed"] == 3:
            counted.set()
            await asyncio.get_running_loop().create_future()

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "write_failures", and_hang)
        async with world.running(checked()):
            await counted.wait()
    assert not world.known["a"].state.final
    known = await world.run(checked())
    assert (known["a"].state, len(world.sandbox.played)) == (State.REAPED, 3)
    assert "tests_failed" in known["a"].reason


async def test_another_definition_has_its_own_rounds(world: World, commands: Commands) -> None:
    """Another definition is another task."""
    commands.rounds = [Round(code=1)]
    async with world.running(checked()):
        await world.until(begun(commands, 2))
        await world.until(lambda: world.states("a")[-1] == "failed")
    await world.run(checked(prompt="Do it better."))
    assert len(commands.started) == 5


async def test_after_three_rounds_a_person_is_told(world: World, commands: Commands) -> None:
    """Three is the number of C-16; the reason names the command and its last line."""
    commands.rounds = [Round(code=1, lines=("2 failed",))]
    known = await world.run(checked())
    assert len(commands.started) == 3
    assert known["a"].state is State.REAPED
    assert known["a"].reason == "terminal failure: tests_failed: true it: exit code 1: 2 failed"
    assert world.names("a", "operator.") == ["operator.notified"]


@pytest.mark.parametrize(
    ("round_", "why"),
    [
        (Round(seconds=1000.0), "true it: took longer than 300 s"),
        (Round(missing=True), "true it: cannot start 'check'"),
    ],
)
async def test_who_cannot_say_yes_says_no(
    world: World, commands: Commands, round_: Round, why: str
) -> None:
    """A command that takes too long, or cannot be started, is a failed round."""
    commands.rounds = [round_, Round()]
    known = await world.run(checked())
    assert known["a"].state is State.DONE
    assert f"- {why}" in world.sandbox.played[1].prompt


async def test_the_deadline_can_be_set(world: World, commands: Commands) -> None:
    """In seconds."""
    commands.rounds = [Round(seconds=11.0)]
    known = await world.run(checked() + "verify_deadline = 10\n")
    assert str(known["a"].reason).endswith("took longer than 10 s")


async def test_verifying_is_no_stall(world: World, commands: Commands) -> None:
    """The agent itself has nothing to do meanwhile."""
    commands.rounds = [Round(seconds=200.0)]
    known = await world.run(checked(stall=30))
    assert known["a"].state is State.DONE
    assert world.states("a") == ["verifying", "done"]
    assert len(world.sandbox.played) == 1


async def test_a_stop_ends_the_command(world: World, commands: Commands) -> None:
    """The next host then completes the assignment."""
    commands.rounds = [Round(seconds=200.0), Round()]
    async with world.running(checked()):
        await world.until(lambda: commands.started and commands.started[0].alive)
    assert not commands.started[0].alive
    known = await world.run(checked())
    assert known["a"].state is State.DONE


async def test_the_verifier_of_the_program_is_asked_too(world: World, commands: Commands) -> None:
    """The program's verifier is asked after the command, and only if that has passed."""
    asked: list[int] = []

    async def verifier(*_: object) -> verification.Complaint | None:
        asked.append(len(commands.started))
        return None

    commands.rounds = [Round(code=1), Round()]
    world.project_settings["verifier"] = verifier
    await world.run(checked())
    assert asked == [2]


async def test_a_verifier_that_cannot_be_awaited_ends_the_agent_once_it_is_asked(
    world: World,
) -> None:
    """No agent works twice for it, and the reason says what it returned."""
    world.project_settings["verifier"] = print
    known = await world.run(agent("a"))
    assert known["a"].state is State.REAPED
    assert "verifier: got None from <built-in function print>, wanted an awa" in known["a"].reason
    assert len(world.sandbox.played) == 1


async def test_a_program_that_is_not_there_is_found_out_before(world: World) -> None:
    """An agent whose work cannot be verified is not started (TREE-40)."""
    known = await world.run(checked("a", "no-such-program"))
    assert known["a"].state is State.FAILED
    assert "got program 'no-such-program'" in str(known["a"].reason)
    assert world.sandbox.played == []


def test_failed_tests_keep_the_work() -> None:
    """The agent is to repair it; work with another fault is discarded (TREE-38)."""
    assert Fates().of(persistence.word_for(VerificationFailed("tests_failed", ""))) is Fate.KEEP
    assert (
        Fates().of(persistence.word_for(VerificationFailed("changeset_wrong", ""))) is Fate.DISCARD
    )


TOUCHY = """
import pathlib, sys
seen = pathlib.Path("seen")
if seen.exists():
    sys.exit(0)
seen.touch()
print("not yet")
sys.exit(1)
"""


@pytest.mark.real_time
async def test_a_real_command_fails_and_then_succeeds(world: World, tmp_path: Path) -> None:
    """The command works in the work directory of the assignment."""
    script = tmp_path / "check.py"
    script.write_text(TOUCHY)
    world.sandbox.scripts["a"] = [Script(Succeed(after=0.0))]
    known = await world.run(checked("a", "{python}", "{here}/check.py").replace("[1]", "[0]"))
    assert known["a"].state is State.DONE
    assert f"{shlex.quote(sys.executable)} {script}: exit code 1: not yet" in (
        world.sandbox.played[1].prompt
    )
    assert (tmp_path / "w.work" / "a" / "seen").exists()


@pytest.mark.real_time
async def test_a_real_command_is_killed_with_its_group(world: World) -> None:
    """The group is killed when the tree is stopped."""
    world.sandbox.scripts["a"] = [Script(Succeed(after=0.0))]
    text = checked("a", "sh", "-c", "sleep 99 & sleep 99") + "grace = 0.1\n"
    async with world.running(text):
        marker = list_marker(world.ledger.list_id)
        await world.until(lambda: len(find(marker)) >= 2)
    assert find(marker) == []

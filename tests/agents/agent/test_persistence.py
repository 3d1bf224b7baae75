"""Sessions and work of agents over restarts of the agents and of their hosts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from otpy_agents.agent import persistence
from otpy_agents.agent.verification import Complaint
from otpy_agents.sandbox import Mount
from otpy_agents.store.records import State
from otpy_agents.store.sessions import FileSessions, SqliteSessions
from otpy_agents.testing import Crash, Fail, Hang, Say, Script, Succeed
from otpy_agents.workspace import Changeset, ChangesetOwner, Fate, Fates
from tests.agents.world import World, agent


async def test_a_session_survives_its_host(world: World) -> None:
    """The next host goes on in it, and the agent gets its last words (TREE-35, TREE-36)."""
    world.sandbox.scripts["a"] = [Script(Say(text="half way"), Hang()), Script()]
    async with SqliteSessions(world.folder / "sessions.sqlite") as sessions:
        world.project_settings["sessions"] = sessions
        async with world.running(agent("a")):
            await asyncio.sleep(5)
        (stored,) = await sessions.all()
        assert (stored.agent, stored.cli, stored.summary) == ("w/a", "command", "half way")
        await world.run(agent("a"))
        assert await sessions.all() == ()  # it is done
    first, second = world.sandbox.played
    assert second.session == first.own_session
    assert "Previous state: half way" in second.prompt


async def test_a_corrupt_session_is_set_aside_and_the_agent_starts_fresh(
    world: World,
) -> None:
    """A person is told where it is kept; nothing is deleted (TREE-35)."""
    world.sandbox.scripts["a"] = [Script(Say(text="x"), Fail()), Script()]
    kept = _Spoiling()
    world.project_settings["sessions"] = kept
    known = await world.run(agent("a", backoff=[1]))
    assert known["a"].state is State.DONE
    assert "moved to elsewhere" in str(world.event("agent.session_corrupt").detail["reason"])
    second = world.sandbox.played[1]
    assert second.session is None
    assert "Starting fresh" in second.prompt


class _Spoiling(persistence._Remembered):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """A store whose sessions are all corrupt."""

    async def load(self, agent: str) -> None:
        from otpy_agents.errors import SessionCorrupt  # noqa: PLC0415

        if await super().load(agent) is not None:
            await self.forget(agent)
            raise SessionCorrupt(agent, "nonsense", "elsewhere")


class FakeChangesets:
    """Work trees without git, which record each request."""

    asked: list[tuple[str, str]]

    def __init__(
        self, repository: Path, *, project: str, owner: ChangesetOwner, fates: Fates | None
    ) -> None:
        assert owner.identity
        self._folder = repository / project
        self._fates = fates or Fates()

    @contextlib.asynccontextmanager
    async def hold(self, assignment: str, *, digest: str, begun: bool) -> AsyncGenerator[None]:
        assert digest
        yield

    async def open(self, assignment: str) -> Changeset:
        path = self._folder / assignment
        path.mkdir(parents=True, exist_ok=True)
        self.asked.append((assignment, "open"))
        return Changeset(assignment, path, f"otpy/p/{assignment}")

    async def mounts(self, assignment: str) -> tuple[Mount, ...]:
        return (Mount(self._folder / assignment / "git"),)

    async def put_away(self, changeset: Changeset, reason: str) -> str:
        """Put away the work of an earlier life."""
        if len(self.asked) == 1:
            return ""
        self.asked[-1] = (changeset.assignment, f"put away: {reason}")
        return "old-work"

    async def settle(self, assignment: str, reason: str) -> Changeset:
        changeset = await self.open(assignment)
        discarded = self._fates.of(reason) is Fate.DISCARD
        self.asked[-1] = (assignment, f"{reason}: {'discard' if discarded else 'keep'}")
        return changeset


@pytest.fixture
def changesets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests to changesets."""
    FakeChangesets.asked = []
    monkeypatch.setattr(persistence, "Changesets", FakeChangesets)
    return FakeChangesets.asked


@pytest.mark.parametrize(
    ("script", "keys", "fate"),
    [
        (Script(Crash()), {}, "crash: keep"),
        (Script(Fail()), {}, "network: keep"),
        (Script(Hang()), {"stall": 30}, "stall: discard"),
        (Script(Hang()), {"deadline": 30}, "deadline: keep"),
    ],
)
async def test_work_is_kept_or_discarded_by_the_reason_of_the_restart(
    world: World,
    changesets: list[tuple[str, str]],
    script: Script,
    keys: dict[str, object],
    fate: str,
) -> None:
    """The agent works in its own work tree; the table decides what the next life finds."""
    world.sandbox.scripts["a"] = [script, Script()]
    repository = world.folder / "repository"
    known = await world.run(agent("a", backoff=[1], changeset=repository, **keys))
    assert known["a"].state is State.DONE
    assert changesets == [("a", "open"), ("a", fate)]
    assert {one.cwd for one in world.sandbox.played} == {str(repository / "w" / "a")}


async def test_a_changeset_outlives_its_host(
    world: World, changesets: list[tuple[str, str]]
) -> None:
    """The end of a host discards nothing."""
    world.sandbox.scripts["a"] = [Script(Hang()), Script()]
    text = agent("a", changeset=world.folder / "repository")
    async with world.running(text):
        await asyncio.sleep(5)
    await world.run(text)
    assert changesets == [("a", "open"), ("a", "host: keep")]


async def test_another_definition_finds_neither_work_nor_session(
    world: World, changesets: list[tuple[str, str]]
) -> None:
    """It is another agent: the first one's work is on a branch, which is told."""
    world.sandbox.scripts["a"] = [Script(Say(text="half way"), Hang()), Script(Crash()), Script()]
    repository = world.folder / "repository"
    async with SqliteSessions(world.folder / "sessions.sqlite") as sessions:
        world.project_settings["sessions"] = sessions
        async with world.running(agent("a", changeset=repository)):
            await asyncio.sleep(5)
        world.told.clear()
        await world.run(agent("a", changeset=repository, prompt="Do else.", backoff=[1]))
    put_away = ("a", "put away: started from scratch")
    assert changesets == [("a", "open"), put_away, ("a", "crash: keep")]
    assert world.event("agent.work_discarded").detail == {"branch": "old-work"}
    assert [one.session for one in world.sandbox.played][1] is None


async def test_a_wrong_changeset_is_discarded_and_the_agent_told_why(
    world: World, changesets: list[tuple[str, str]]
) -> None:
    """Verification fails once: feedback, a fresh work tree; twice: escalated (TREE-29)."""
    answers: list[str] = []

    async def verifier(_assignment: object, _cwd: Path, answer: str) -> Complaint | None:
        answers.append(answer)
        return Complaint(name="changeset_wrong", message="the tests are gone")

    world.project_settings["verifier"] = verifier
    world.sandbox.scripts["a"] = [Script(Succeed(answer="did it"))]
    text = agent("a", backoff=[1], changeset=world.folder / "repository")
    known = await world.run(text)
    assert answers == ["did it", "did it"]
    assert known["a"].state is State.REAPED
    why = "persistent failure: changeset_wrong: the tests are gone"
    assert known["a"].reason == why
    assert changesets == [("a", "open"), ("a", "verification: discard")]
    assert "Messages for you:\n- the tests are gone" in world.sandbox.played[1].prompt
    assert world.states("a")[:2] == ["verifying", "failed"]


@pytest.mark.real_time
async def test_files_are_a_store_of_sessions_too(world: World, tmp_path: Path) -> None:
    """Any store that follows the protocol works."""
    sessions = FileSessions(tmp_path / "sessions")
    world.project_settings["sessions"] = sessions
    world.sandbox.scripts["a"] = [Script(Say(text="x", after=0.0), Succeed(after=0.1))]
    known = await world.run(agent("a"))
    assert known["a"].state is State.DONE
    assert await sessions.all() == ()

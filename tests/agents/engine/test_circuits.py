"""Circuit breakers: what opens and closes them, and how processes share them (ENG-05, C-33)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.engine.circuits import (
    CIRCUITS,
    Circuit,
    CircuitChanged,
    CircuitKey,
    CircuitRules,
    CircuitState,
    CircuitStore,
)
from otpy_agents.engine.circuits.circuit import CLOSED
from otpy_agents.log import EventLog

RULES = CircuitRules(failures=3, window=100.0, reset=60.0)
OPUS = CircuitKey("claude", "opus", "implementer")
CODEX = CircuitKey("codex", "", "implementer")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fail", "succeed", "ask"]),
        st.sampled_from([0.0, 1.0, 30.0, 59.0, 60.0, 99.0, 100.0, 500.0]),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_circuit_opens_for_failures_and_closes_for_a_trial_that_succeeds(
    steps: list[tuple[str, float]],
) -> None:
    """At any time, failures within the window open it, and only a trial closes it again."""
    now, circuit, trials = 1000.0, CLOSED, 0
    failures: list[float] = []
    for what, later in steps:
        now += later
        before = circuit.state(now)
        match what:
            case "fail":
                circuit = circuit.failed(RULES, now)
                if before is not CircuitState.OPEN:
                    failures.append(now)
                recent = [at for at in failures if now - RULES.window < at]
                if before is CircuitState.CLOSED:
                    opens = len(recent) >= RULES.failures
                    assert (circuit.state(now) is CircuitState.OPEN) == opens
                else:
                    assert circuit.state(now) is CircuitState.OPEN
                trials = 0
            case "succeed":
                circuit = circuit.succeeded(now)
                if before is CircuitState.HALF_OPEN:
                    assert circuit == CLOSED
                    failures.clear()
                else:
                    assert circuit.state(now) is before
            case _:
                if circuit.admits(now) and before is CircuitState.HALF_OPEN:
                    circuit, trials = circuit.tried(now + 1000.0), trials + 1
                    assert not circuit.admits(now)
        assert circuit.admits(now) or circuit.state(now) is not CircuitState.CLOSED
        assert not (circuit.admits(now) and circuit.state(now) is CircuitState.OPEN)
        assert len(circuit.failures) <= RULES.failures
        if circuit.state(now) is CircuitState.OPEN:
            assert circuit.state(now + RULES.reset) is CircuitState.HALF_OPEN


def test_a_trial_of_which_nothing_is_heard_is_given_up() -> None:
    """The host of the trial may have died; the circuit must not wait for it for ever."""
    circuit = Circuit(until=100.0).tried(150.0)
    assert not circuit.admits(149.0)
    assert circuit.admits(150.0)


@pytest.mark.parametrize("key", [OPUS, CODEX, CircuitKey("my/own", "m:x", "planner")])
def test_a_key_is_read_as_it_is_written(key: CircuitKey) -> None:
    """A key of the list can be typed."""
    assert CircuitKey.parsed(str(key)) == key
    assert CircuitKey.parsed("claude") is None


# --- shared by processes --------------------------------------------------------------------------


class Hosts:
    """Processes of one user that work on one repository, each with its own connection."""

    def __init__(self, tmp_path: Path, stack: AsyncExitStack) -> None:
        self.now = 1000.0
        self.repository = tmp_path / "repository"
        self.repository.mkdir()
        self.file = self.repository / ".supervisor" / "circuits.json"
        self._log, self._stack = tmp_path / "events.sqlite3", stack

    async def host(self, repository: Path | None = None) -> CircuitStore:
        """Return the circuits as one more process sees them."""
        log = EventLog(self._log, types=[CircuitChanged], projections=[CIRCUITS])
        await self._stack.enter_async_context(log)
        clock: Callable[[], float] = lambda: self.now  # noqa: E731 - typed
        return CircuitStore(log, repository or self.repository, RULES, clock)


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncGenerator[Hosts]:
    """A repository, and no process yet."""
    async with AsyncExitStack() as stack:
        yield Hosts(tmp_path, stack)


@pytest.mark.real_time
async def test_failures_of_all_processes_open_a_circuit_for_all(hosts: Hosts) -> None:
    """Other agents, other steps and other repositories go on."""
    one, two = await hosts.host(), await hosts.host()
    assert await one.failed(OPUS, "overloaded") is CircuitState.CLOSED
    assert await two.failed(OPUS, "overloaded") is CircuitState.CLOSED
    assert await one.failed(OPUS, "overloaded") is CircuitState.OPEN
    for host in (one, two):
        assert not await host.admit(OPUS, within=300.0)
        assert await host.admit(CODEX, within=300.0)
        assert await host.admit(CircuitKey("claude", "opus", "planner"), within=300.0)
    other = await hosts.host(hosts.repository.parent / "other")
    assert await other.admit(OPUS, within=300.0)
    assert json.loads(hosts.file.read_text()) == {
        "claude:opus/implementer": {
            "state": "open",
            "failures": 3,
            "last_failure": "1970-01-01T00:16:40+00:00",
            "open_until": "1970-01-01T00:17:40+00:00",
        }
    }


@pytest.mark.real_time
async def test_one_of_all_processes_makes_the_attempt_that_decides(hosts: Hosts) -> None:
    """Of ten simultaneous requests one is admitted; its success closes the circuit for all."""
    one, two = await hosts.host(), await hosts.host()
    await asyncio.gather(*(host.failed(OPUS, "crash") for host in (one, two, one)))
    hosts.now += RULES.reset
    asked = await asyncio.gather(*(host.admit(OPUS, within=300.0) for host in (one, two) * 5))
    assert sorted(asked) == [False] * 9 + [True]
    assert await two.succeeded(OPUS) is CircuitState.CLOSED
    assert await one.admit(OPUS, within=300.0)
    assert await one.circuits() == {OPUS: CLOSED}


@pytest.mark.real_time
@pytest.mark.parametrize("how", ["by command", "by deleting the file"])
async def test_a_person_resets_circuits(hosts: Hosts, how: str) -> None:
    """Either way resets them for all processes (ENG-05)."""
    one, two = await hosts.host(), await hosts.host()
    for _ in range(3):
        await one.failed(OPUS, "crash")
        await one.failed(CODEX, "crash")
    if how == "by command":
        assert await two.reset(OPUS, actor="me") == (OPUS,)
        assert not await one.admit(CODEX, within=300.0)
        assert await two.reset() == (CODEX,)
        assert await two.reset() == ()
    else:
        hosts.file.unlink()
    assert await one.admit(OPUS, within=300.0)
    assert await one.admit(CODEX, within=300.0)
    assert {one["state"] for one in json.loads(hosts.file.read_text()).values()} == {"closed"}


@pytest.mark.real_time
async def test_a_repository_that_cannot_be_written_has_circuits_too(hosts: Hosts) -> None:
    """They are in the log; the file is only for people."""
    hosts.file.parent.write_text("in its place")
    one = await hosts.host()
    for _ in range(3):
        await one.failed(OPUS, "crash")
    assert not await one.admit(OPUS, within=300.0)

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from otpy_agents.errors import RunExists, RunHeld, RunLost
from otpy_agents.store import CooldownRecord, Lease, RunStore
from tests.agents.store.run_world import begun, create, ended, let_die, save, story
from tests.examples import examples

T = TypeVar("T")

MEMORY = Path("/dev/shm")  # hundreds of files, and nothing here depends on the disk
RUNS = st.sampled_from("abc")
HOSTS = st.integers(0, 2)
STATES = st.text("01", max_size=2)
UNTIL = st.integers(1, 9).map(float)
SOME = settings(
    max_examples=examples(15), stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)


@define
class Run:
    """The model of a run."""

    holder: int
    fence: int
    state: str
    finished: bool = False
    attempts: dict[int, str | None] = field(factory=dict[int, str | None])


class Histories(RuleBasedStateMachine):
    """Three hosts on one file, beside dictionaries."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.path = Path(self.folder.name) / "runs.sqlite3"
        self.hosts: list[RunStore] = []
        self.all: list[RunStore] = []
        for _ in range(3):
            self.hosts.append(self.opened())
        self.runs: dict[str, Run] = {}
        self.leases: list[tuple[RunStore, Lease]] = []
        self.dead: set[int] = set()
        self.cooldowns: dict[str, float] = {}
        self.turns = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def opened(self) -> RunStore:
        store = RunStore(self.path, clock=lambda: 0.0)
        self.all.append(self.do(store.__aenter__()))
        return store

    def teardown(self) -> None:
        for store in self.all:
            self.do(store.__aexit__(None, None, None))
        self.runner.close()
        self.folder.cleanup()

    @rule(host=HOSTS, run=RUNS, state=STATES)
    def create(self, host: int, run: str, state: str) -> None:
        store = self.hosts[host]
        if run in self.runs:
            with pytest.raises(RunExists):
                self.do(create(store, run, state))
        else:
            self.leases.append((store, self.do(create(store, run, state))))
            self.runs[run] = Run(store.host, 1, state)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), state=STATES, finish=st.booleans())
    def save(self, data: st.DataObject, state: str, finish: bool) -> None:
        """Save with any lease ever given, beginning one attempt and ending the one before."""
        store, lease = data.draw(st.sampled_from(self.leases))
        run = self.runs[lease.run]
        number = len(run.attempts)
        over = [ended(number, state)] if number else []
        exit_code = 0 if finish else None
        work = save(store, lease, state, *over, begun(number + 1), exit_code=exit_code)
        if lease.fence != run.fence:
            with pytest.raises(RunLost):
                self.do(work)
            return
        self.do(work)
        if number and run.attempts[number] is None:
            run.attempts[number] = state
        run.attempts[number + 1] = None
        run.state, run.finished = state, finish

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), host=HOSTS)
    def take_over(self, data: st.DataObject, host: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.runs)))
        store, run = self.hosts[host], self.runs[name]
        if run.holder not in {store.host, *self.dead}:
            with pytest.raises(RunHeld):
                self.do(store.take_over(name))
            return
        self.leases.append((store, self.do(store.take_over(name)).lease))
        run.holder, run.fence = store.host, run.fence + 1

    @rule(host=HOSTS)
    def die(self, host: int) -> None:
        """A host dies, as far as the others can see, and another one begins."""
        let_die(self.path, self.hosts[host].host)
        self.dead.add(self.hosts[host].host)
        self.hosts[host] = self.opened()

    @rule(host=HOSTS, cli=RUNS, until=UNTIL)
    def cool_down(self, host: int, cli: str, until: float) -> None:
        record = CooldownRecord(agent_cli=cli, credential="", until=until, reason="")
        self.do(self.hosts[host].cooldowns.put(record))
        self.cooldowns[cli] = max(until, self.cooldowns.get(cli, 0.0))

    @rule(host=HOSTS)
    def take_turn(self, host: int) -> None:
        assert self.do(self.hosts[host].take_turn("env")) == self.turns
        self.turns += 1

    @rule(host=HOSTS)
    def purge(self, host: int) -> None:
        finished = [name for name, run in self.runs.items() if run.finished]
        assert self.do(self.hosts[host].purge(-1.0)) == len(finished)
        for name in finished:
            del self.runs[name]
        self.leases = [(store, lease) for store, lease in self.leases if lease.run in self.runs]

    @rule(host=HOSTS, now=UNTIL)
    def look_at_cooldowns(self, host: int, now: float) -> None:
        seen = self.do(self.hosts[host].cooldowns.at(now))
        resting = {cli: until for cli, until in self.cooldowns.items() if until > now}
        assert {one.agent_cli: one.until for one in seen} == resting

    @invariant()
    def every_host_sees_what_the_model_knows(self) -> None:
        for store in self.hosts:
            seen = [self.do(store.run(run.id)) for run in self.do(store.runs())]
            assert {one.record.id: self.as_known(one) for one in seen} == self.runs
        dead = {run.id for run in self.do(self.hosts[0].dead_runs())}
        assert dead == {
            name for name, run in self.runs.items() if run.holder in self.dead and not run.finished
        }

    @staticmethod
    def as_known(run: Any) -> Run:
        record = run.record
        finished = record.finished is not None
        return Run(record.host, record.fence, run.state, finished, dict(story(run)))


def test_the_store_does_what_dictionaries_would_do() -> None:
    """After any deeds and deaths of three hosts on one file, each sees the same, right state.

    Only the latest lease of a run writes, and only a dead host loses a run.
    """
    run_state_machine_as_test(Histories, settings=SOME)

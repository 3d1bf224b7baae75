"""A registry compared with a list, in every order that Hypothesis can generate."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import otpy
from otpy import DynamicSupervisor, Process, Registry, SupervisorSpec
from otpy.errors import AlreadyRegistered, NotRegistered
from otpy.registry import Keys
from otpy.testing import MockClock
from tests.behaviours.actor import Actor, actor
from tests.examples import examples

KEYS = st.sampled_from(["a", "b", 1, 1.0])
NAMES = st.sampled_from(["ann", "bob", "eve"])


def same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


class Histories(RuleBasedStateMachine):
    """Three processes come and go, register and unregister; a list says which one holds what."""

    kind: Keys

    def __init__(self) -> None:
        super().__init__()
        self.loop = MockClock().loop_factory()
        self.stack = AsyncExitStack()
        self.actors: dict[str, Actor] = {}
        self.model: list[tuple[Any, Process, int]] = []
        self.value = 0
        self.do(self.begin())

    def do(self, work: Coroutine[Any, Any, object]) -> None:
        self.loop.run_until_complete(work)

    async def begin(self) -> None:
        tree = SupervisorSpec(
            "app", [Registry.spec("names", keys=self.kind), DynamicSupervisor.spec("pool")]
        )
        self.root = await self.stack.enter_async_context(otpy.start(tree, hooks=()))
        self.registry = Registry.of(self.root.child("names"))

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.loop.close()

    async def someone(self, name: str) -> Actor:
        if name not in self.actors:
            pool = self.root.child("pool").supervisor
            assert pool is not None
            self.actors[name] = await actor(pool, name)
        return self.actors[name]

    @rule(name=NAMES, key=KEYS)
    def register(self, name: str, key: object) -> None:
        async def work() -> None:
            who = await self.someone(name)
            holder = [p for k, p, _ in self.model if same(k, key)]
            self.value += 1
            if holder and self.kind is Keys.UNIQUE:
                with pytest.raises(AlreadyRegistered) as caught:
                    await who.call(lambda: self.registry.register(key))
                assert caught.value.process is holder[0]
            else:
                await who.call(lambda: self.registry.register(key, self.value))
                self.model.append((key, who.process, self.value))

        self.do(work())

    @rule(name=NAMES, key=KEYS)
    def unregister(self, name: str, key: object) -> None:
        async def work() -> None:
            who = await self.someone(name)
            await who.call(lambda: self.registry.unregister(key))
            self.model = [e for e in self.model if not (same(e[0], key) and e[1] is who.process)]

        self.do(work())

    @precondition(lambda self: self.actors)
    @rule(how=st.sampled_from(["return", "kill", "exit", "kill and go on"]), data=st.data())
    def end(self, how: str, data: st.DataObject) -> None:
        who = self.actors.pop(data.draw(st.sampled_from(sorted(self.actors))))

        async def work() -> None:
            if how == "return":
                await who.end()
            elif how == "exit":
                who.process.exit()
                await who.process.wait()
            else:
                who.process.kill()
            while who.process.alive:  # a process holds its keys exactly until it is dead
                assert len(self.registry.select()) == len(self.model)
                await asyncio.sleep(0)

        self.do(work())
        self.model = [e for e in self.model if e[1] is not who.process]

    @rule()
    def restart_the_registry(self) -> None:
        async def work() -> None:
            process = self.root.child("names")
            process.kill()
            again = await self.root.wait_for_restart("names", after=process.incarnation)
            self.registry = Registry.of(again)
            for name, who in list(self.actors.items()):
                if any(p is who.process for _, p, _ in self.model):
                    await who.process.wait()
                    del self.actors[name]
                else:
                    assert who.process.alive
            self.model = []
            await asyncio.sleep(10)  # out of the restart window

        self.do(work())

    @invariant()
    def it_holds_what_it_should(self) -> None:
        async def work() -> None:
            registry = self.registry
            for key in ("a", "b", 1, 1.0):
                expected = [(p, v) for k, p, v in self.model if same(k, key)]
                assert [(e.process, e.value) for e in registry.lookup(key)] == expected
                assert all(process.alive for process, _ in expected)
                if self.kind is Keys.DUPLICATE:
                    continue
                assert len(expected) <= 1
                if expected:
                    assert registry.whereis(key) is expected[0][0]
                else:
                    with pytest.raises(NotRegistered):
                        registry.whereis(key)
            assert registry.count() == len(self.model)
            for who in self.actors.values():
                keys = [k for k, p, _ in self.model if p is who.process]
                assert list(map(repr, registry.keys(who.process))) == list(map(repr, keys))
            assert set(registry._owned) == {p for _, p, _ in self.model}
            assert set(registry._forget) == set(registry._owned)

        self.do(work())


class UniqueHistories(Histories):
    kind = Keys.UNIQUE


class DuplicateHistories(Histories):
    kind = Keys.DUPLICATE


SOME = settings(max_examples=examples(25), stateful_step_count=25)


@pytest.mark.hypothesis
def test_a_unique_registry_never_errs() -> None:
    """No dead process is ever seen, no key is held twice, nothing is kept (REG-02 to REG-07)."""
    run_state_machine_as_test(UniqueHistories, settings=SOME)


@pytest.mark.hypothesis
def test_a_duplicate_registry_never_errs() -> None:
    """No dead process is ever seen, every entry is, in order, and nothing is kept."""
    run_state_machine_as_test(DuplicateHistories, settings=SOME)

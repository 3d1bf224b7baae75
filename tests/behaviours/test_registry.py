from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextvars import copy_context
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    InvalidSpec,
    Killed,
    Normal,
    Process,
    Registry,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import (
    AlreadyRegistered,
    KeysNotUnique,
    NotRegistered,
    NotRunning,
    NotSupervised,
    StartFailed,
)
from otpy.registry import Entry, Keys, Registered, Unregistered, Via
from otpy.reports import HookFailed
from otpy.testing import MockClock, Recording
from tests.behaviours.actor import Actor, actor
from tests.runtime.children import forever, own_exit, stubborn

HEARD: list[Registered | Unregistered] = []


@pytest.fixture
async def root(reports: Recording) -> AsyncGenerator[Supervisor]:
    """Start a tree with a registry of each kind."""
    HEARD.clear()
    names = Registry.spec("names", listeners=[HEARD.append])
    topics = Registry.spec("topics", keys=Keys.DUPLICATE)
    async with otpy.start(SupervisorSpec("app", [names, topics]), hooks=[reports]) as root:
        yield root


@pytest.fixture
async def names(root: Supervisor) -> Registry:
    """Return a registry with unique keys."""
    return Registry.of(root.child("names"))


@pytest.fixture
async def topics(root: Supervisor) -> Registry:
    """Return a registry with duplicate keys."""
    return Registry.of(root.child("topics"))


@pytest.fixture
async def ann(root: Supervisor) -> Actor:
    """Start a process."""
    return await actor(root, "ann")


@pytest.fixture
async def bob(root: Supervisor) -> Actor:
    """Start another process."""
    return await actor(root, "bob")


# --- unique keys ----------------------------------------------------------------------------------


async def test_the_caller_is_registered(names: Registry, ann: Actor) -> None:
    """A key leads to the process that registered it, and to its value (REG-02, REG-05)."""
    await ann.call(lambda: names.register("db", {"port": 1}))
    assert names.lookup("db") == [Entry("db", ann.process, {"port": 1})]
    assert names.whereis("db") is ann.process
    assert names.keys(ann.process) == ["db"]
    assert names.values("db", ann.process) == [{"port": 1}]
    assert names.count() == 1
    assert "entries=1" in repr(names)
    assert names.lookup("nobody") == []
    with pytest.raises(NotSupervised):
        names.register("db")


async def test_a_unique_key_is_held_once(names: Registry, ann: Actor, bob: Actor) -> None:
    """A second caller is told which process holds it, even if that is the caller (REG-02)."""
    await ann.call(lambda: names.register("db"))
    for who in (ann, bob):
        with pytest.raises(AlreadyRegistered, match=r"app/names: 'db' is taken") as caught:
            await who.call(lambda: names.register("db"))
        assert caught.value.process is ann.process
        assert caught.value.key == "db"
    assert names.count() == 1
    assert names.keys(bob.process) == []


async def test_keys_are_compared_strictly(names: Registry, ann: Actor) -> None:
    """Equal keys of different types are different keys, inside of tuples too (REG-05)."""
    keys: list[Any] = [1, 1.0, True, (1,), (1.0,), "1"]
    for key in keys:
        await ann.call(lambda key=key: names.register(key, key))  # type: ignore[misc]
    assert names.count() == len(keys)
    assert [type(names.lookup(key)[0].value) for key in keys] == list(map(type, keys))
    assert list(map(repr, names.keys(ann.process))) == list(map(repr, keys))


async def test_a_value_can_be_replaced_by_its_owner(
    names: Registry, topics: Registry, ann: Actor, bob: Actor
) -> None:
    """No other process can do so, and with duplicate keys not even the owner (REG-08)."""
    await ann.call(lambda: names.register("n", 1))
    assert await ann.call(lambda: names.update_value("n", lambda n: n + 1)) == (2, 1)
    assert names.lookup("n")[0].value == 2
    for who, key in ((bob, "n"), (ann, "other")):
        with pytest.raises(NotRegistered, match=key):
            await who.call(lambda key=key: names.update_value(key, lambda n: n))  # type: ignore[misc]
    await ann.call(lambda: topics.register("n", 1))
    with pytest.raises(KeysNotUnique):
        await ann.call(lambda: topics.update_value("n", lambda n: n))


async def test_a_name_outlives_the_process(
    clock: MockClock, root: Supervisor, names: Registry
) -> None:
    """`Via` leads to the process that holds the key at the moment of use (REG-10)."""

    async def service() -> None:
        names.register("service")
        await forever()

    via = Via(names, "service")
    with pytest.raises(NotRegistered):
        via.whereis()
    await root.start_child(ChildSpec("service", service))
    await clock.advance(0)
    first = via.whereis()
    assert first is root.child("service")
    first.kill()
    second = await root.wait_for_restart("service", after=1)
    await clock.advance(0)
    assert via.whereis() is second
    assert via == Via(names, "service")


async def test_a_name_needs_unique_keys(topics: Registry, ann: Actor) -> None:
    """A key that several processes may hold is not a name (REG-10)."""
    await ann.call(lambda: topics.register("t"))
    with pytest.raises(KeysNotUnique, match="app/topics"):
        Via(topics, "t").whereis()


async def test_a_taken_name_can_refuse_a_start(root: Supervisor, names: Registry) -> None:
    """REG-10, SUP-319: a child that registers before it is ready can be the only one."""

    async def only(*, task_status: Any) -> None:
        names.register("only")
        task_status.started()
        await forever()

    await root.start_child(ChildSpec("one", only))
    with pytest.raises(StartFailed) as caught:
        await root.start_child(ChildSpec("two", only))
    assert isinstance(caught.value.__cause__, AlreadyRegistered)
    assert names.whereis("only") is root.child("one")


# --- duplicate keys -------------------------------------------------------------------------------


async def test_a_duplicate_key_is_held_by_many(topics: Registry, ann: Actor, bob: Actor) -> None:
    """One process may hold it several times; each entry counts, in order (REG-04, REG-05)."""
    for who, value in ((ann, 1), (bob, 2), (ann, 3)):
        await who.call(lambda v=value: topics.register("t", v))  # type: ignore[misc]
    assert [(e.process, e.value) for e in topics.lookup("t")] == [
        (ann.process, 1),
        (bob.process, 2),
        (ann.process, 3),
    ]
    assert topics.keys(ann.process) == ["t", "t"]
    assert topics.values("t", ann.process) == [1, 3]
    assert topics.count() == 3


async def test_unregister_takes_only_the_callers_entries(
    topics: Registry, ann: Actor, bob: Actor
) -> None:
    """It takes all of them for that key; an unknown key is not an error (REG-06)."""
    for who in (ann, ann, bob):
        await who.call(lambda: topics.register("t"))
    await ann.call(lambda: topics.register("u"))
    await ann.call(lambda: topics.unregister("t"))
    assert [entry.process for entry in topics.lookup("t")] == [bob.process]
    await ann.call(lambda: topics.unregister("t"))
    await ann.call(lambda: topics.unregister("nothing"))
    assert topics.keys(ann.process) == ["u"]
    assert topics.count() == 2


async def test_entries_are_filtered_by_a_function(topics: Registry, ann: Actor) -> None:
    """`match` filters one key, `select` all keys, `unregister` the caller's own (REG-15)."""
    for key, value in (("t", 1), ("t", 2), ("u", 3)):
        await ann.call(lambda k=key, v=value: topics.register(k, v))  # type: ignore[misc]

    def odd(entry: Entry) -> bool:
        return bool(entry.value % 2)

    assert [e.value for e in topics.match("t", odd)] == [1]
    assert [(e.key, e.value) for e in topics.select(odd)] == [("t", 1), ("u", 3)]
    await ann.call(lambda: topics.unregister("t", odd))
    assert [e.value for e in topics.select()] == [2, 3]


async def test_dispatch_calls_with_all_entries(topics: Registry, ann: Actor) -> None:
    """The function runs once, unless there are no entries; errors reach the caller (REG-09)."""
    calls: list[list[Entry]] = []
    topics.dispatch("t", calls.append)
    assert calls == []
    for value in (1, 2):
        await ann.call(lambda v=value: topics.register("t", v))  # type: ignore[misc]
    topics.dispatch("t", calls.append)
    assert [[entry.value for entry in call] for call in calls] == [[1, 2]]
    with pytest.raises(ZeroDivisionError):
        topics.dispatch("t", lambda _: 1 / 0)


# --- ends of processes ----------------------------------------------------------------------------


async def test_what_a_process_holds_ends_with_it(
    names: Registry, topics: Registry, ann: Actor, bob: Actor
) -> None:
    """Its entries are gone the moment it ends; entries of other processes stay (REG-03, REG-07)."""
    seen: list[object] = []

    def look(_: Process, __: otpy.ExitReason) -> None:
        seen.extend([names.lookup("db"), names.count(), names.keys(ann.process), topics.select()])

    ann.process.on_exit(look)  # called before the callbacks of the registries
    await ann.call(lambda: names.register("db"))
    await ann.call(lambda: topics.register("t"))
    await bob.call(lambda: topics.register("t"))
    ann.process.kill()
    await ann.process.wait()
    assert seen == [[], 0, [], topics.lookup("t")]
    assert [entry.process for entry in topics.select()] == [bob.process]
    await bob.call(lambda: names.register("db"))
    assert names.whereis("db") is bob.process


async def test_a_key_of_a_dead_process_blocks_nobody(names: Registry, bob: Actor) -> None:
    """This holds even in the middle of that end, before the registry is told (REG-03)."""
    root = bob.process.parent
    assert isinstance(root, Supervisor)
    eve = await actor(root, "eve")
    taken: list[bool] = []

    async def take() -> None:
        def on_end(_: Process, __: otpy.ExitReason) -> None:
            names.register("db", "bob's")  # in bob's context
            taken.append(True)

        context = copy_context()
        eve.process.on_exit(lambda p, r: context.run(on_end, p, r))

    await bob.ask(take)
    await eve.call(lambda: names.register("db"))
    await eve.end()
    assert taken == [True]
    assert names.whereis("db") is bob.process
    assert names.count() == 1


async def test_a_process_that_was_given_up_holds_nothing(
    clock: MockClock, root: Supervisor, names: Registry, release: asyncio.Event
) -> None:
    """It cannot register again either, although its task still runs (REG-03)."""
    late: list[BaseException] = []

    async def refuses() -> None:
        names.register("r")
        await stubborn(release)
        try:
            names.register("r")
        except NotRunning as error:
            late.append(error)

    process = await root.start_child(ChildSpec("r", refuses, restart=Restart.TEMPORARY))
    assert process is not None
    await clock.advance(0)
    process.kill()
    await process.wait()
    assert names.count() == 0
    release.set()
    await clock.advance(0)
    assert [str(error) for error in late] == ["app/r: is not running"]


async def test_nothing_is_kept_of_a_process_with_its_last_key(
    clock: MockClock, names: Registry, ann: Actor
) -> None:
    """A process is bound to the registry only while it holds a key (REG-13)."""
    for _ in range(3):
        await ann.call(lambda: names.register("db"))
        await ann.call(lambda: names.unregister("db"))
    for _ in range(3):
        with pytest.raises(NotRegistered):
            await ann.call(lambda: names.update_value("db", str))
    assert not names._entries
    assert not names._owned
    assert not names._forget
    assert not live_of(ann.process)._ensure_cold().on_exit
    names._process.kill()
    await names._process.wait()
    await clock.advance(0)
    assert ann.process.alive


@pytest.mark.parametrize("reason", [Killed(), Shutdown("x"), Normal()])
async def test_processes_end_with_their_registry(
    root: Supervisor, names: Registry, ann: Actor, bob: Actor, reason: otpy.ExitReason
) -> None:
    """Those that hold keys end with its reason, others go on; it comes back empty (REG-13)."""
    await ann.call(lambda: names.register("db"))
    process = root.child("names")
    own_exit(process, reason)
    expected = Shutdown() if reason == Normal() else reason
    assert await ann.process.wait() == expected
    assert bob.process.alive
    again = Registry.of(await root.wait_for_restart("names", after=1))
    assert again.count() == 0
    await bob.call(lambda: again.register("db"))
    for attempt in (names.count, lambda: names.lookup("db"), lambda: names.meta("x")):
        with pytest.raises(NotRunning, match="app/names"):
            attempt()
    with pytest.raises(NotRunning):
        await bob.call(lambda: names.register("db"))


async def test_what_a_registry_has_forgotten_ends_later_and_disturbs_nobody(
    clock: MockClock, names: Registry, reports: Recording, root: Supervisor
) -> None:
    """REG-13: the next life of the registry does not know a registrant that is slow to end."""

    async def slow() -> None:
        names.register("slow")
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    process = await root.start_child(ChildSpec("slow", slow, restart=Restart.TEMPORARY))
    assert process is not None
    await clock.advance(0)
    root.child("names").kill()
    await root.wait_for_restart("names", after=1)
    assert process.alive
    assert not live_of(process)._ensure_cold().on_exit
    assert await process.wait() == Killed()
    assert reports.of(HookFailed) == ()


# --- meta, listeners, locks, spec -----------------------------------------------------------------


async def test_meta_belongs_to_no_process(names: Registry, ann: Actor) -> None:
    """It stays when the process that stored it ends (REG-11)."""
    await ann.call(lambda: names.put_meta("limit", 5))
    await ann.end()
    assert names.meta("limit") == 5
    names.delete_meta("limit")
    names.delete_meta("limit")
    assert names.meta("limit") is None
    assert names.meta("limit", 7) == 7


async def test_listeners_hear_of_what_processes_do(names: Registry, ann: Actor) -> None:
    """They are told of registering and unregistering, in order, but not of ends (REG-12)."""
    await ann.call(lambda: names.register("a", 1))
    await ann.call(lambda: names.unregister("a"))
    await ann.call(lambda: names.unregister("a"))
    await ann.call(lambda: names.register("b"))
    await ann.end()
    expected = [
        Registered("app/names", "a", ann.process, 1),
        Unregistered("app/names", "a", ann.process),
        Registered("app/names", "b", ann.process, None),
    ]
    assert expected == HEARD


async def test_a_listener_that_raises_is_dropped(reports: Recording) -> None:
    """The error is reported, and the listener is not called again; others go on (REG-12)."""
    heard: list[object] = []

    def broken(_: object) -> None:
        raise ZeroDivisionError

    spec = Registry.spec("names", listeners=[broken, heard.append])
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as root:
        names, ann = Registry.of(root.child("names")), await actor(root)
        for key in "ab":
            await ann.call(lambda key=key: names.register(key))  # type: ignore[misc]
    assert len(heard) == 2
    assert "broken" in reports.one(HookFailed, "app/names").hook


@pytest.mark.usefixtures("clock")
async def test_a_lock_lets_one_in_at_a_time(names: Registry, root: Supervisor) -> None:
    """Each key has its own, in order of arrival; killed waiters or holders free it (REG-15)."""
    steps: list[str] = []
    actors = [await actor(root, name) for name in "abcd"]

    def job(name: str, key: object) -> Callable[[], Any]:
        async def hold() -> None:
            async with names.lock(key):
                steps.append(f"+{name}")
                await asyncio.sleep(5)
                steps.append(f"-{name}")

        return hold

    for who, name in zip(actors[:3], "abc", strict=True):
        await who.tell(job(name, 1))
    await actors[3].tell(job("other", 1.0))
    await asyncio.sleep(1)
    actors[1].process.kill()  # a waiter
    await asyncio.sleep(1)
    actors[0].process.kill()  # the holder
    await asyncio.sleep(2)
    assert steps == ["+a", "+other", "+c"]
    await asyncio.sleep(9)
    assert steps == ["+a", "+other", "+c", "-other", "-c"]
    with pytest.raises(ZeroDivisionError):
        async with names.lock("x"):
            raise ZeroDivisionError
    async with names.lock("x"):
        pass
    assert not names._queues


async def test_a_bad_registry_is_refused(root: Supervisor) -> None:
    """The error comes where the spec is written, or from the look-up (REG-01, REG-16)."""
    with pytest.raises(InvalidSpec, match="Registry 'n': keys"):
        Registry.spec("n", keys="unique")  # type: ignore[arg-type]
    with pytest.raises(InvalidSpec, match="Registry 'n': listener"):
        Registry.spec("n", listeners=["log"])  # type: ignore[list-item]
    ann = await actor(root)
    with pytest.raises(TypeError, match=r"Registry\.spec"):
        Registry.of(ann.process)

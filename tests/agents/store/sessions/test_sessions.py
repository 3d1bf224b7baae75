"""The promises of every store of sessions (TREE-35, C-19)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from otpy_agents.errors import InvalidSession, SessionCorrupt
from otpy_agents.store.sessions import CHECKPOINT_LIMIT
from otpy_agents.store.sessions import session as module
from tests.agents.store.sessions.session_world import SessionWorld, session

pytestmark = pytest.mark.real_time

CHECKPOINT = {"step": 3, "files": ["a.py", "b.py"], "half": 0.5, "none": None, "snow": "☃\ud800"}


async def test_what_was_saved_is_loaded_by_the_next_host(sessions: SessionWorld) -> None:
    """It is complete, with its checkpoint; another agent has no session."""
    saved = session(checkpoint=CHECKPOINT)
    await sessions.store.save(saved)
    await sessions.opened()
    assert await sessions.store.load("p/a") == saved
    assert await sessions.store.load("p/b") is None
    assert await sessions.store.all() == (saved,)


async def test_the_last_save_counts(sessions: SessionWorld) -> None:
    """A session takes the place of the one before."""
    for number in range(3):
        await sessions.store.save(session(summary=f"step {number}"))
    loaded = await sessions.store.load("p/a")
    assert loaded is not None
    assert loaded.summary == "step 2"


@pytest.mark.parametrize("agent", ["../up", "a/b", "a-b", ".", "A", "a", "x" * 300, "nul\0", "☃"])
async def test_any_text_is_the_key_of_an_agent_of_its_own(
    sessions: SessionWorld, agent: str
) -> None:
    """Keys that look alike, or like paths, do not meet."""
    others = [session(other) for other in ("a b", "a_b", "b", "p/a")]
    for one in (session(agent), *others):
        await sessions.store.save(one)
    assert await sessions.store.load(agent) == session(agent)
    assert len(await sessions.store.all()) == 5


async def test_forgetting_is_done_once_and_borne_twice(sessions: SessionWorld) -> None:
    """Forgetting is no error before the first save, either."""
    await sessions.store.forget("p/a")
    await sessions.store.save(session())
    await sessions.store.forget("p/a")
    await sessions.store.forget("p/a")
    assert await sessions.store.load("p/a") is None
    assert await sessions.store.all() == ()


async def test_a_corrupt_session_is_set_aside_and_the_caller_starts_fresh(
    sessions: SessionWorld,
) -> None:
    """The caller gets one error, with the new place; the content is still there."""
    await sessions.store.save(session())
    await sessions.store.save(session("p/b"))
    sessions.write("p/a", b"rubbish")
    assert await sessions.store.all() == (session("p/b"),)
    with pytest.raises(SessionCorrupt, match=r"not JSON.*it was moved to") as caught:
        await sessions.store.load("p/a")
    assert str(sessions.path) in caught.value.aside
    assert sessions.set_aside() == [b"rubbish"]
    assert await sessions.store.load("p/a") is None
    await sessions.store.save(session(summary="fresh"))
    await sessions.opened()
    assert await sessions.store.load("p/a") == session(summary="fresh")
    assert sessions.set_aside() == [b"rubbish"]


async def test_everything_that_was_set_aside_is_kept(sessions: SessionWorld) -> None:
    """Both corrupt contents are kept, and forgetting the agent does not remove them."""
    for content in (b"first", b"second"):
        await sessions.store.save(session())
        sessions.write("p/a", content)
        with pytest.raises(SessionCorrupt):
            await sessions.store.load("p/a")
    await sessions.store.forget("p/a")
    assert sessions.set_aside() == [b"first", b"second"]


def changed(text: bytes, **changes: object) -> bytes:
    """Return a stored text with other entries and a checksum that fits."""
    outer: dict[str, Any] = json.loads(text)
    for name, value in changes.items():
        if name == "version":
            outer["version"] = value
        elif value is None:
            del outer["session"][name]
        else:
            outer["session"][name] = value
    if type(outer["version"]) is int:
        outer["checksum"] = module._checksum(outer["version"], outer["session"])
    return json.dumps(outer).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 99},
        {"version": 0},
        {"version": True},
        {"version": "1"},
        {"summary": None},
        {"more": 1},
        {"agent": "p/b"},
        {"cli": 5},
        {"session_id": ""},
        {"session_id": "\ud800"},
        {"saved_at": "soon"},
        {"checkpoint": "x" * CHECKPOINT_LIMIT},
    ],
    ids=str,
)
async def test_what_has_a_sound_checksum_and_no_sense_is_set_aside_too(
    sessions: SessionWorld, changes: dict[str, object]
) -> None:
    """A newer version, missing and additional fields, another agent's session, wrong types."""
    await sessions.store.save(session())
    sessions.write("p/a", changed(sessions.read("p/a"), **changes))
    with pytest.raises(SessionCorrupt):
        await sessions.store.load("p/a")
    assert await sessions.store.load("p/a") is None
    assert len(sessions.set_aside()) == 1


async def test_a_changed_letter_is_found(sessions: SessionWorld) -> None:
    """The checksum covers the content, not the layout."""
    await sessions.store.save(session())
    text = sessions.read("p/a")
    sessions.write("p/a", text.replace(b"half of", b"half  of"))
    with pytest.raises(SessionCorrupt, match="a wrong checksum"):
        await sessions.store.load("p/a")
    sessions.write("p/a", json.dumps(json.loads(text), indent=4, sort_keys=True).encode())
    assert await sessions.store.load("p/a") == session()


async def test_an_older_version_is_brought_up_to_date(
    sessions: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step through every version in between (G-15)."""
    await sessions.store.save(session())
    first = json.loads(sessions.read("p/a"))
    first["session"]["note"] = first["session"].pop("summary")
    sessions.write("p/a", changed(json.dumps(first).encode(), cli="Claude"))

    def to_second(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "cli": fields["cli"].lower()}

    def to_third(fields: dict[str, Any]) -> dict[str, Any]:
        return {**{k: v for k, v in fields.items() if k != "note"}, "summary": fields["note"]}

    monkeypatch.setattr(module, "NEWEST", 3)
    monkeypatch.setattr(module, "UPCASTERS", {1: to_second, 2: to_third})
    loaded = await sessions.store.load("p/a")
    assert loaded is not None
    assert loaded == session(version=3)
    await sessions.store.save(loaded)
    assert json.loads(sessions.read("p/a"))["version"] == 3
    assert await sessions.store.load("p/a") == loaded


async def test_a_cancelled_save_is_carried_to_its_end(sessions: SessionWorld) -> None:
    """The session is stored as a whole, whichever turn the cancellation hits."""
    for turns in range(4):
        saved = session(summary=f"turn {turns}")
        task = asyncio.ensure_future(sessions.store.save(saved))
        for _ in range(turns):
            await asyncio.sleep(0)
        began = turns > 0
        task.cancel()
        await asyncio.wait({task})
        if began:
            assert await sessions.store.load("p/a") == saved


async def test_many_at_once_do_not_mix(sessions: SessionWorld) -> None:
    """Saves of one agent and of others, all at the same time."""
    await asyncio.gather(
        *(sessions.store.save(session(f"p/{n % 5}", summary=f"{n}")) for n in range(25))
    )
    found = await sessions.store.all()
    assert [one.agent for one in found] == [f"p/{n}" for n in range(5)]
    assert all(int(one.summary) % 5 == int(one.agent[2:]) for one in found)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"agent": ""}, "got agent '', wanted some text"),
        ({"cli": ""}, "got cli '', wanted some text"),
        ({"session_id": "\ud800"}, "wanted Unicode text"),
        ({"checkpoint": {"a": {1, 2}}}, "wanted a JSON value"),
        ({"checkpoint": float("nan")}, "wanted a JSON value"),
        ({"checkpoint": ["x" * CHECKPOINT_LIMIT]}, f"wanted at most {CHECKPOINT_LIMIT}"),
        ({"version": 2}, "got version 2, wanted 1"),
    ],
)
async def test_what_cannot_be_stored_is_refused_where_it_is_made(
    fields: dict[str, object], wanted: str
) -> None:
    """The refusal must not come only when the agent has died."""
    with pytest.raises(InvalidSession, match=wanted):
        session(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

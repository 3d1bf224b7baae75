"""The journal: its kept events, page by page, and the readers that wait for more."""

from __future__ import annotations

import asyncio

from otpy_agents.tree.journal import KEPT, Journal


def noted(journal: Journal, count: int, id: str = "a", line: str = "x") -> Journal:
    for _ in range(count):
        journal.note("mortal.output", id, 1.0, {"line": line, "n": 3})
    return journal


def test_pages_follow_each_other_without_a_gap() -> None:
    """Each event is on one page; a page ends when it is full."""
    journal = noted(Journal(), 1200)
    seen: list[int] = []
    after = 0
    while True:
        page = journal.read(after)
        assert page.lost == 0
        if not page.entries:
            break
        seen += [entry.number for entry in page.entries]
        after = page.after
    assert seen == list(range(1, 1201))


def test_the_oldest_are_forgotten_and_that_is_told() -> None:
    """Number and size are limited; a new reader has missed nothing."""
    journal = noted(Journal(), KEPT + 10)
    assert journal.read(4).lost == 6
    assert journal.read(0).lost == 0
    assert journal.read(0).entries[0].number == 11
    assert journal.read(KEPT + 10).entries == ()
    large = noted(Journal(), 1000, line="y" * 8000)
    assert 200 < large.last - large.read(0).entries[0].number < 300


def test_a_page_may_be_about_one_agent() -> None:
    """Events about other agents are skipped, and not read again."""
    journal = noted(noted(Journal(), 3, id="a"), 2, id="b")
    page = journal.read(0, "a")
    assert ([entry.number for entry in page.entries], page.after) == ([1, 2, 3], 5)


def test_texts_are_cleaned() -> None:
    """Secrets do not enter it; other values stay as they are."""
    journal = noted(Journal(lambda text: text.replace("x", "[X]")), 1)
    assert journal.read().entries[0].detail == {"line": "[X]", "n": 3}
    assert journal.lines == {"a": "[X]"}


async def test_who_waits_is_woken_by_the_next_event() -> None:
    """The wait ends at once if there is one already."""
    journal = noted(Journal(), 2)
    await journal.beyond(1)
    waiting = asyncio.ensure_future(journal.beyond(2))
    await asyncio.sleep(1)
    assert not waiting.done()
    noted(journal, 1)
    await waiting

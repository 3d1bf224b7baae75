from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.snippets import FENCE, ROOT, documents

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")


def _prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def _anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of `path`."""
    found: set[str] = set()
    for match in HEADING.finditer(_prose(path)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["text"])
        slug = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        number = 1
        while slug in found:
            slug = f"{slug.removesuffix(f'-{number - 1}')}-{number}"
            number += 1
        found.add(slug)
    return found


def _links(path: Path) -> Iterator[str]:
    for match in LINK.finditer(CODE.sub("", _prose(path))):
        target = match["target"]
        if "://" not in target and not target.startswith("mailto:"):
            yield target


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path: Path) -> None:
    """Each relative link names a file that exists, and a heading that is in it."""
    dead: list[str] = []
    for target in _links(path):
        file, _, anchor = target.partition("#")
        goal = (path.parent / file).resolve() if file else path
        if not goal.exists() or (anchor and anchor not in _anchors(goal)):
            dead.append(target)
    assert dead == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """No page of `docs/` is an orphan."""
    reached: set[Path] = set()
    todo = [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        goals = [(page.parent / t.partition("#")[0]).resolve() for t in _links(page)]
        todo += [goal for goal in goals if goal.suffix == ".md" and goal.is_file()]
    assert set((ROOT / "docs").rglob("*.md")) - reached == set()


def test_the_index_lists_every_decision_by_its_number() -> None:
    """In order, each number once; that of a record that is gone is not given again."""
    records = sorted(path.name for path in (ROOT / "docs/explanation/decisions").glob("*.md"))
    listed = re.findall(
        r"^(\d+)\. \[.*\]\(explanation/decisions/(.+)\)$",
        (ROOT / "docs/index.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [name for _, name in listed] == records
    assert [int(number) for number, _ in listed] == [int(name[:4]) for name in records]
    assert len({number for number, _ in listed}) == len(listed)

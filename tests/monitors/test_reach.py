from __future__ import annotations

from pathlib import Path

import pytest

from otpy_monitors.reach import places_on_the_way, within_reach


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A writable folder of an agent, a safe one, and ways between them."""
    tmp_path = tmp_path.resolve()
    for name in ("work/sub", "safe/sub", "links"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "safe/rules.yaml").write_text("rules: []")
    (tmp_path / "links/safe").symlink_to(tmp_path / "safe")
    (tmp_path / "links/work").symlink_to("../work")
    (tmp_path / "work/to-safe").symlink_to("../safe")
    (tmp_path / "links/over-work").symlink_to(tmp_path / "work/to-safe/rules.yaml")
    (tmp_path / "work/rules.yaml").symlink_to(tmp_path / "safe/rules.yaml")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "exposed"),
    [
        ("safe/rules.yaml", False),
        ("links/safe/rules.yaml", False),
        ("safe/../safe/rules.yaml", False),
        ("works.yaml", False),
        ("not/there.yaml", False),
        ("loop/rules.yaml", False),
        ("work", True),
        ("work/not/there.yaml", True),
        ("work/rules.yaml", True),
        ("links/work/x.yaml", True),
        ("links/work/rules.yaml", True),
        ("links/over-work", True),
        ("work/to-safe/rules.yaml", True),
        ("safe/../work/x", True),
        ("work/sub/../../safe/rules.yaml", True),
    ],
)
@pytest.mark.parametrize("folder", ["work", "links/work", "work/sub/.."])
def test_a_file_is_in_reach_of_who_can_change_the_way_to_it(
    tree: Path, file: str, folder: str, exposed: bool
) -> None:
    """The places of the file and of each link on the way count, by any name of file and folder."""
    found = within_reach([tree / file], [tree / "safe/sub", tree / folder])
    assert found == ((tree / file, tree / folder) if exposed else None)


def test_every_link_on_the_way_is_passed(tree: Path) -> None:
    """The places come in the order of the way."""
    passed = [
        place.relative_to(tree)
        for place in places_on_the_way(tree / "links/over-work")
        if place.is_relative_to(tree) and place != tree
    ]
    names = ["links", "links/over-work", "work", "work/to-safe", "safe", "safe/rules.yaml"]
    assert passed == list(map(Path, names))


def test_without_folders_nothing_is_looked_at() -> None:
    """An agent without writable folders can change nothing."""
    assert within_reach([Path("/x")], []) is None

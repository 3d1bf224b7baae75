"""Files of an audit: rotation, and the damage of a crash or an agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.audit import AuditFile, Head

LIMIT = 40
LINES = [  # two lines fill a file
    f'{{"otpy": {{"position": {number}, "hash": "{number}"}}}}' for number in range(1, 6)
]
ALL = Head(5, "5")


def audit(folder: Path) -> AuditFile:
    return AuditFile(folder / "audit.log.jsonl", LIMIT)


def written(folder: Path, lines: list[str]) -> AuditFile:
    file = audit(folder)
    file.mend([])
    for line in lines:
        file.append(line)
    return file


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_full_file_is_numbered_and_a_new_one_begun(tmp_path: Path) -> None:
    """G-13: the oldest file is number 1, and the lines are in order."""
    file = written(tmp_path, LINES)
    assert list(contents(tmp_path)) == [
        "audit.log.jsonl",
        "audit.log.jsonl.1",
        "audit.log.jsonl.2",
    ]
    paths = [tmp_path / f"audit.log.jsonl{end}" for end in (".1", ".2", "")]
    assert "".join(path.read_text() for path in paths).splitlines() == LINES
    assert file.compare(LINES, ALL) is None


@given(done=st.integers(0, len(LINES)), cut=st.integers(0, 40))
def test_what_a_crash_has_left_is_completed_without_a_word(
    tmp_path_factory: pytest.TempPathFactory, done: int, cut: int
) -> None:
    """Any number of lines may be written, and the last one cut anywhere."""
    folder, whole = tmp_path_factory.mktemp("cut"), tmp_path_factory.mktemp("whole")
    written(whole, LINES)
    file = written(folder, LINES[:done])
    if file.path.exists() and cut:
        content = file.path.read_bytes()
        file.path.write_bytes(content[: max(0, len(content) - cut)])
    assert audit(folder).compare(LINES) is None
    assert audit(folder).mend(LINES) is None
    assert contents(folder) == contents(whole)


@pytest.mark.parametrize("left", range(6))
def test_a_line_that_was_on_the_disk_and_is_gone_is_told(tmp_path: Path, left: int) -> None:
    """G-14: a line that no host has written yet is not reported."""
    written(tmp_path, LINES[:left])
    for kept in range(6):
        head = Head(kept, str(kept) if kept else "0")
        assert (audit(tmp_path).compare(LINES, head) is None) == (left >= kept)
    damage = audit(tmp_path).mend(LINES, ALL)
    assert (damage is None) == (left == 5)
    assert audit(tmp_path).compare(LINES, ALL) is None


def test_a_log_that_makes_another_line_than_was_written_is_told(tmp_path: Path) -> None:
    """Both the log and the audit were altered."""
    written(tmp_path, LINES)
    damage = audit(tmp_path).compare(LINES, Head(5, "x"))
    assert damage is not None
    assert damage.line == 5


def test_a_host_may_be_killed_between_a_file_and_the_next(tmp_path: Path) -> None:
    """At that moment the full file has both its number and its name."""
    file = written(tmp_path, LINES[:2])
    (tmp_path / "audit.log.jsonl.1").hardlink_to(file.path)
    assert audit(tmp_path).mend(LINES[:3]) is None
    assert audit(tmp_path).compare(LINES[:3]) is None


@pytest.mark.parametrize("name", ["audit.log.jsonl.1", "audit.log.jsonl.2", "audit.log.jsonl"])
@pytest.mark.parametrize("how", ["changed", "removed", "linked"])
def test_each_file_that_was_altered_is_found_and_made_again(
    tmp_path: Path, name: str, how: str
) -> None:
    """The altered file is kept, unless it was removed."""
    written(tmp_path, LINES)
    before = contents(tmp_path)
    path = tmp_path / name
    path.unlink()
    if how == "changed":
        path.write_text(before[name].replace("position", "pos1tion"))
    if how == "linked":
        path.symlink_to("/etc/passwd")
    damage = audit(tmp_path).compare(LINES, ALL)
    assert damage is not None
    assert damage.path == path
    damage = audit(tmp_path).mend(LINES, ALL)
    assert damage is not None
    assert damage.path == path
    assert {**contents(tmp_path), **before} == contents(tmp_path)
    assert (tmp_path / f"{name}.altered-1").is_symlink() == (how == "linked")
    assert (tmp_path / f"{name}.altered-1").exists() == (how != "removed")


def test_a_file_that_nobody_wrote_is_in_nobodys_way(tmp_path: Path) -> None:
    """An agent may have made a file with the name of the next one."""
    file = written(tmp_path, LINES[:2])
    stray = tmp_path / "audit.log.jsonl.1"
    stray.write_text("x")
    damage = audit(tmp_path).compare(LINES[:2])
    assert damage is not None
    assert str(damage) == f"{stray}:1: the log has no such file"
    file.append(LINES[2])
    assert audit(tmp_path).compare(LINES[:3]) is None
    assert (tmp_path / "audit.log.jsonl.1.altered-1").read_text() == "x"

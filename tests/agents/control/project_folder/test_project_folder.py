"""The view of the rules on a project's folder, after any work of an agent."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

import pytest

from otpy_agents.control import project_folder
from otpy_agents.control.project_folder import (
    FILE_LIMIT,
    Mention,
    Obstacle,
    Search,
    locate,
    read_text,
    search,
)

TODO = re.compile(r"\bTODO\b")


def found(folder: Path, pattern: re.Pattern[str] = TODO, under: str = ".") -> Search:
    result = search(folder, pattern, under)
    assert isinstance(result, Search)
    return result


def test_a_file_is_found_and_read(tmp_path: Path) -> None:
    """Relative to the project, or by its whole path."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfh\xc3\xa4 \xff\n")
    assert read_text(tmp_path, "a.txt") == "hä \ufffd\n"
    assert locate(tmp_path, str(tmp_path / "a.txt")) == tmp_path.resolve() / "a.txt"


@pytest.mark.parametrize("name", ["../out.txt", "/etc/passwd", "a/../../out.txt", "link", "in/out"])
def test_what_leads_out_of_the_project_is_not_read(tmp_path: Path, name: str) -> None:
    """Its own path may lead out, or a link to a file or a folder."""
    project = tmp_path / "project"
    (project / "a").mkdir(parents=True)
    (tmp_path / "out.txt").write_text("TODO")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "out").write_text("TODO")
    (project / "link").symlink_to(tmp_path / "out.txt")
    (project / "in").symlink_to(tmp_path / "outside")
    assert locate(project, name) == Obstacle("leads out of the project", is_final=True)
    assert isinstance(read_text(project, name), Obstacle)
    assert found(project).mentions == ()


def test_a_folder_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    """`project2` is not inside of `project`."""
    for name in ("project", "project2"):
        (tmp_path / name).mkdir()
    assert isinstance(locate(tmp_path / "project", "../project2"), Obstacle)


@pytest.mark.parametrize("name", ["", "a\0b", "\udcff\ud800", "x" * 5000, "missing", "a.txt/b"])
def test_names_that_name_nothing(tmp_path: Path, name: str) -> None:
    """Such names fail the check and raise nothing."""
    (tmp_path / "a.txt").touch()
    obstacle = locate(tmp_path, name)
    assert isinstance(obstacle, Obstacle)
    assert obstacle.is_final


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    """Links may loop as a file, as a folder, and as a link to the folder above."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "x.txt").write_text("TODO")
    assert isinstance(read_text(tmp_path, "a"), Obstacle)
    assert isinstance(locate(tmp_path, "a/c"), Obstacle)
    assert [str(mention) for mention in found(tmp_path).mentions] == ["x.txt:1"]


def test_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    """Its content is unknown, so the search does not claim that the text is missing."""
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(1024**3)
    obstacle = read_text(tmp_path, "big.txt")
    assert isinstance(obstacle, Obstacle)
    assert not obstacle.is_final
    assert "1,073,741,824 bytes" in obstacle.saw
    assert found(tmp_path).unread == ("big.txt",)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe of an agent must not stop the loop."""
    os.mkfifo(tmp_path / "pipe")
    assert read_text(tmp_path, "pipe") == Obstacle("is not a regular file", is_final=True)
    assert read_text(tmp_path, ".") == Obstacle("is a folder", is_final=True)
    assert found(tmp_path).unread == ("pipe",)


@pytest.mark.parametrize("kept", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_accents_are_found_in_either_form(tmp_path: Path, kept: str, asked: str) -> None:
    """A criterion typed on one system may name a file made on another."""
    (tmp_path / unicodedata.normalize(kept, "Übersicht.md")).write_text("ok")  # type: ignore[arg-type]
    assert read_text(tmp_path, unicodedata.normalize(asked, "Übersicht.md")) == "ok"  # type: ignore[arg-type]


def test_a_search_tells_path_line_and_text(tmp_path: Path) -> None:
    """Mentions come in order, each line once."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.py").write_text("x\n  # TODO one, TODO two\n\nTODO")
    (tmp_path / "a.md").write_text("TODOS are none\nTODO: " + "x" * 1000)
    mentions = found(tmp_path).mentions
    assert mentions[0] == Mention("a.md", 2, ("TODO: " + "x" * 1000)[:200])
    assert mentions[1:] == (
        Mention("src/b.py", 2, "# TODO one, TODO two"),
        Mention("src/b.py", 4, "TODO"),
    )
    assert found(tmp_path, under="src/b.py").files == 1


def test_what_is_nobodys_text_is_passed_over(tmp_path: Path) -> None:
    """Binary files, folders of tools, and the audit files, which quote every criterion."""
    for folder in (".git", "node_modules", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text("TODO")
    (tmp_path / "binary").write_bytes(b"\0TODO")
    (tmp_path / "audit.log.jsonl").write_text("TODO")
    (tmp_path / "prompts.log.jsonl.1").write_text("TODO")
    (tmp_path / "src" / "audit.log.jsonl").write_text("TODO")
    seen = [str(mention) for mention in found(tmp_path).mentions]
    assert seen == ["src/audit.log.jsonl:1", "src/x:1"]


def test_a_name_that_is_no_utf_8_can_be_told(tmp_path: Path) -> None:
    """The name goes into JSON."""
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("TODO")
    (mention,) = found(tmp_path).mentions
    assert mention.path == "\ufffd.txt"


def test_a_search_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are files, bytes and mentions; the first unread file is reported."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x" * 10)
    monkeypatch.setattr(project_folder, "FILES_LIMIT", 3)
    assert (found(tmp_path).files, found(tmp_path).unread) == (3, ("3.txt",))
    monkeypatch.setattr(project_folder, "FILES_LIMIT", 9)
    monkeypatch.setattr(project_folder, "TOTAL_LIMIT", 20)
    assert (found(tmp_path).files, found(tmp_path).unread) == (2, ("2.txt",))
    (tmp_path / "0.txt").write_text("TODO\n" * 100_000)
    assert len(found(tmp_path).mentions) == 20


def test_a_folder_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that was not found may be in it."""
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert found(tmp_path).unread == ("shut",)


def test_the_limits_are_for_people() -> None:
    """A file that a person would read as a whole is within the limit."""
    assert FILE_LIMIT >= 10_000_000

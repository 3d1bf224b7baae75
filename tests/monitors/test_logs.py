"""Log files stay small and few, after a cut in the middle of a rotation too (G-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy import InvalidSpec
from otpy_monitors import Chore, rotate_logs
from tests.monitors.cuts import Cut, cut_everywhere

pytestmark = pytest.mark.real_time  # files belong to threads


async def sweep(chore: Chore) -> list[str]:
    """Do the chore to its end, and return what it found."""
    found: list[str] = []
    async for deletion in chore():
        found.append(deletion.what)
        await deletion.perform()
    return found


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text()[:3] for path in sorted(folder.iterdir())}


def names(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)


async def test_a_large_file_is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    """Each file takes the next number; a file at the limit stays."""
    write(tmp_path, a_log="new" * 40, a_log_1="one", a_log_2="two", b_log="b" * 100)
    found = await sweep(rotate_logs(tmp_path, max_bytes=100, keep=2))
    assert found == ["the oldest a.log beyond 2, as it is rotated (120 bytes)"]
    assert files(tmp_path) == {"a.log.1": "new", "a.log.2": "one", "b.log": "bbb"}


async def test_a_second_round_finds_nothing(tmp_path: Path) -> None:
    """It is idempotent; and so is a deletion that is performed twice."""
    write(tmp_path, a_log="new" * 40, a_log_1="one")
    chore = rotate_logs(tmp_path, max_bytes=100, keep=3)
    deletions = [deletion async for deletion in chore()]
    for deletion in deletions * 2:
        await deletion.perform()
    assert files(tmp_path) == {"a.log.1": "new", "a.log.2": "one"}
    assert await sweep(chore) == []


async def test_files_beyond_a_smaller_number_go(tmp_path: Path) -> None:
    """With a smaller number of kept files, the rest is deleted."""
    write(tmp_path, a_log="a", a_log_1="one", a_log_2="two", a_log_3="thr", a_log_12="twe")
    found = await sweep(rotate_logs(tmp_path, max_bytes=100, keep=1))
    assert sorted(found) == ["a.log.12", "a.log.2", "a.log.3"]
    assert files(tmp_path) == {"a.log": "a", "a.log.1": "one"}


async def test_only_log_files_are_touched(tmp_path: Path) -> None:
    """Folders, links and files that only look like logs stay."""
    (tmp_path / "folder.log").mkdir()
    target = tmp_path / "target.txt"
    target.write_text("x" * 500)
    (tmp_path / "link.log").symlink_to(target)
    (tmp_path / "dangling.log").symlink_to("nowhere")
    write(tmp_path, a_txt="x" * 500, a_log_old="x" * 500, a_log_0="x" * 500, a_log_x9="x" * 500)
    before = names(tmp_path)
    assert await sweep(rotate_logs(tmp_path, max_bytes=100, keep=2)) == []
    assert names(tmp_path) == before


async def test_a_folder_that_is_not_there_has_no_logs(tmp_path: Path) -> None:
    """The folder may be created later."""
    assert await sweep(rotate_logs(tmp_path / "none", max_bytes=1, keep=1)) == []


@pytest.mark.parametrize("before", ["", "1", "12", "123", "2", "13"])
async def test_cut_at_any_await_and_run_again_nothing_but_the_oldest_is_lost(
    tmp_path: Path, before: str
) -> None:
    """Scenario 19: after a cut at any step, the next rotation ends as if there had been no cut."""

    async def attempt(at: int) -> bool:
        folder = tmp_path / str(at)
        folder.mkdir()
        write(folder, a_log="new" * 40, **{f"a_log_{number}": number * 3 for number in before})
        chore = rotate_logs(folder, max_bytes=100, keep=3)
        cut = Cut(sweep(chore), at)
        await cut
        await sweep(chore)
        free = next((n for n in (1, 2, 3) if str(n) not in before), 3)
        kept = {f"a.log.{int(n) + (int(n) < free)}": n * 3 for n in before}
        if before == "123":
            kept = {"a.log.2": "111", "a.log.3": "222"}
        assert files(folder) == {"a.log.1": "new", **kept}
        return cut.happened

    assert await cut_everywhere(attempt) >= 3


@pytest.mark.parametrize(("max_bytes", "keep"), [(0, 1), (1, 0), (-5, 1)])
def test_a_rotation_that_keeps_nothing_is_refused(
    tmp_path: Path, max_bytes: int, keep: int
) -> None:
    """It fails where it is written."""
    with pytest.raises(InvalidSpec, match="wanted at least 1"):
        rotate_logs(tmp_path, max_bytes, keep)

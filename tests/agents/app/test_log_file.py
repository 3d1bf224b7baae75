"""The log file of a tree (G-13)."""

from __future__ import annotations

import json
from pathlib import Path

from otpy_agents.app.log_file import LogFile
from otpy_agents.tree.journal import Journal


def test_each_event_is_a_line_without_secrets(tmp_path: Path) -> None:
    """A line has the time of day, as a log outlives the host, which counts seconds."""
    journal = Journal(lambda text: text.replace("hunter2", "[PASSWORD]"))
    log = LogFile(tmp_path / "logs", "a/b")
    log.write(journal.note("mortal.output", "x", 1.0, {"line": "hunter2"}))
    (line,) = (tmp_path / "logs" / "a-b.log").read_text(encoding="utf-8").splitlines()
    entry = json.loads(line)
    assert "T" in entry.pop("at")
    assert entry == {"event": "mortal.output", "id": "x", "seconds": 1.0, "line": "[PASSWORD]"}


def test_a_rotated_log_is_gone_on_with_under_its_name(tmp_path: Path) -> None:
    """The log keeps its name although the old file was renamed since the last line."""
    journal, log = Journal(), LogFile(tmp_path, "w")
    log.write(journal.note("one", "x", 1.0, {}))
    (tmp_path / "w.log").rename(tmp_path / "w.log.1")
    log.write(journal.note("two", "x", 2.0, {}))
    assert '"two"' in (tmp_path / "w.log").read_text()

"""The line that a command refuses with."""

from __future__ import annotations

import pytest

from otpy_agents.cli.refusal import system_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(28, "No space left on device", "/a"), "/a: No space left on device"),
        (OSError("the pipe is gone"), "the pipe is gone"),
    ],
)
def test_what_the_system_refuses_is_said_with_its_file_if_it_names_one(
    error: OSError, line: str
) -> None:
    """A write to a full disk names none."""
    assert system_line(error) == line

"""Click's runner of commands in this process, the same with every version of click we allow."""

from __future__ import annotations

from click.testing import CliRunner


def click_runner() -> CliRunner:
    """Return a runner that keeps what goes to stderr apart from stdout."""
    runner = CliRunner()
    vars(runner)["mix_stderr"] = False  # Click 8.1 mixes them unless told; later versions never do.
    return runner

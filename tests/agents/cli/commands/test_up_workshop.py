"""The example of the README, under chaos."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from otpy_agents.worklist.assignment import Expectation
from otpy_agents.worklist.reader import read
from tests.agents.host import CHECKOUT, Site, survivors

pytestmark = pytest.mark.real_time


def test_the_workshop_under_chaos_is_accounted_for(site: Site, tmp_path: Path) -> None:
    """Two workers a second are killed: patient work is done, and no process is left over."""
    left = shutil.ignore_patterns("*.sqlite*", "*.work", "__pycache__")
    for folder in ("examples", "otpy"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=left)
    (tmp_path / "README.md").write_text("# A shop\n\n[the example](examples/shop.py)\n")
    site.file = tmp_path / "examples" / "workshop.toml"
    work = read(site.file)
    _, host = site.run("--chaos", "2")
    ended = host.summary()
    assert list(ended) == [one.id for one in work.assignments]
    assert set(ended.values()) == {"done", "reaped"}
    patient = [one for one in work.assignments if one.restarts >= 10]
    assert {ended[one.id] for one in patient} == {"done"}
    for one in work.assignments:
        if one.expect is Expectation.REAPED:
            assert ended[one.id] == "reaped"
    assert len(host.told("chaos.killed")) > 0
    assert survivors(site.file) == []

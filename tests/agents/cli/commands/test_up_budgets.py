"""`otpy-agents up` with budgets, and agents that tell their usage as they work."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.agents.host import ENVIRONMENT, PATIENCE, Site, state_of, survivors

pytestmark = pytest.mark.real_time

BOT = r"""
import json, os, time
from pathlib import Path

def say(**line):
    print(json.dumps(line), flush=True)

here = Path(__file__).parent
if "OTPY_SESSION" in os.environ:
    say(type="text", text="gone on with")
    say(type="result", text="done")
    raise SystemExit
say(type="session", id="s-1")
for number in range(1, 200):
    time.sleep(1.5 if number > 3 else 0)
    say(type="tool", id=str(number), name="look", input={})
    say(type="usage", input=1500 * number, output=25 * number)
    (here / "asked").write_text(str(number))
    while number > 2 and not (here / "go").exists():
        time.sleep(0.02)
    say(type="tool_end", id=str(number), ok=True)
"""
LIST = """
[[assignment]]
id = "a"
agent = "command"
prompt = "Do it."
argv = ["{python}", "{here}/bot.py"]
tokens = 8000
grace = 1
"""
REQUEST = 1525


def typed(site: Site, *words: str) -> str:
    """Type a command in another terminal, and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "otpy_agents", *words],
        env={**ENVIRONMENT, **state_of(site.file)},
        cwd=site.folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_15_a_real_agent_is_stopped_in_mid_run_and_goes_on_after_a_grant(site: Site) -> None:
    """Acceptance 15: `status` shows its usage, it stops within a request, its session goes on.

    The stopped run is listed as stopped.
    """
    (site.folder / "bot.py").write_text(BOT, encoding="utf-8")
    site.write(LIST)
    host = site.up()
    host.until("mortal.output", "a")
    host.until("mortal.output", "a")
    host.until("mortal.output", "a")
    working = json.loads(typed(site, "status", str(site.file), "--json"))["agents"][0]
    assert (working["state"], working["tokens"]) == ("working", 3 * REQUEST)
    (site.folder / "go").touch()
    paused = host.until("mortal.paused", "a")
    assert paused["by"] == "budget"
    assert survivors(site.file) == []
    asked = int((site.folder / "asked").read_text())
    resting = json.loads(typed(site, "status", str(site.file), "--json"))["agents"][0]
    assert (asked, resting["tokens"]) == (6, 6 * REQUEST)
    assert [run["status"] for run in listed(site)] == ["stopped"]
    typed(site, "budget", "grant", "a", "--tokens", "9000", "--list", str(site.file))
    assert host.end() == 0
    assert host.output("a")[-1] == "gone on with"


def listed(site: Site) -> list[dict[str, object]]:
    return [json.loads(line) for line in typed(site, "runs", "--all", "--json").splitlines()]


def test_an_agent_whose_price_nobody_knows_is_named_before_it_begins(site: Site) -> None:
    """The first event of the run names the agent and the missing model (G-08)."""
    list_ = '[[assignment]]\nid = "a"\nagent = "codex"\nprompt = "x"\ncost_usd = 1\nrestarts = 0\n'
    site.write(list_, cost_usd=2)
    host = site.up(env={"PATH": "/nonexistent"})
    first = next(iter(host))
    assert (first["event"], first["id"]) == ("budget.unheld", "a")
    assert "codex may not be held by the budget: it names no model" in first["detail"]
    assert host.end() == 1

"""The real CLIs behind walls: each uses the proxy it is given."""

from __future__ import annotations

import asyncio

import pytest

from otpy_agents.run import AgentInstance, AgentSelection, RetryPolicy, RunControl
from otpy_agents.run.host.facts import Fact, LogLine
from otpy_agents.run.host.host import run_host
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox import Mount, SandboxLimits
from otpy_agents.store import RunStore
from tests.agents.e2e.conftest import MakeHome
from tests.agents.e2e.home import PROVIDER
from tests.agents.sandbox.conftest import why_no_bubblewrap

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]


@pytest.mark.parametrize("cli", ["claude", "codex", "copilot", "gemini"])
async def test_a_cli_asks_the_proxy_for_its_vendor(cli: str, home_of: MakeHome) -> None:
    """ENG-12: otherwise a CLI only knows that there is no network; a refused request is enough."""
    if reason := why_no_bubblewrap():
        pytest.skip(reason)
    home = home_of(cli, "https://vendor.example.com")
    asked = asyncio.Event()

    def listen(fact: Fact) -> None:
        if isinstance(fact, LogLine) and "asked for vendor.example.com:443" in fact.text:
            asked.set()

    agent = AgentInstance(
        agent_id=cli,
        agent_cli=cli,
        model="gemini-2.5-flash" if cli == "gemini" else None,
        provider=PROVIDER if cli == "codex" else None,
    )
    order = RunOrder(
        prompt="Say hello",
        cwd=home.work,
        selection=AgentSelection(agents=(agent,)),
        policy=RetryPolicy(max_retries=0),
        sandbox=SandboxChoice(
            name="bubblewrap",
            hosts=(),
            limits=SandboxLimits(grace=1.0),
            mounts=(Mount(home.work.parent, writable=True),),
        ),
    )
    async with (
        RunStore(home.work.parent / "state" / "runs.sqlite3") as store,
        run_host(store, listeners=[listen], environment=home.environment, hooks=()) as host,
    ):
        run = await host.submit(order)
        async with asyncio.timeout(120):
            await asked.wait()
        await run.ask(RunControl.KILL)
        await run.wait()

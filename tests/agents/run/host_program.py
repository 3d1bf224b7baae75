"""A host of runs as a program of its own, which a test may kill.

    python -m tests.agents.run.host_program STORE FOLDER SANDBOX SCRIPT…

begins a run for each SCRIPT, or recovers the stored runs if there is none; every fact is a line of
JSON. SANDBOX is `process`, `bubblewrap`, or the socket of a Docker engine.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from otpy_agents.run import Liveness, RetryPolicy
from otpy_agents.run.host.facts import Fact, as_json
from otpy_agents.run.host.host import run_host
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox import BubblewrapSandbox, ProcessSandbox, Sandbox, SandboxLimits
from otpy_agents.sandbox.docker import DockerSandbox
from otpy_agents.store import RunStore
from tests.agents.sandbox.dockerd import IMAGE

_OURS: Final[Mapping[str, Sandbox]] = {
    "process": ProcessSandbox(),
    "bubblewrap": BubblewrapSandbox(),
}


def order_of(script: str, folder: Path, sandbox: str, **settings: float) -> RunOrder:
    """Return an order to run a shell script."""
    name = sandbox if sandbox in _OURS else "docker"
    return RunOrder(
        prompt="do it",
        cwd=folder,
        use="command",
        argv=("sh", "-c", script),
        policy=RetryPolicy(backoff_base=settings.get("backoff", 0.1)),
        liveness=Liveness(),
        sandbox=SandboxChoice(
            name=name, image=IMAGE, network=False, limits=SandboxLimits(grace=1.0)
        ),
    )


def sandboxes(sandbox: str) -> dict[str, Sandbox]:
    """Return the sandboxes that `order_of` names."""
    if sandbox in _OURS:
        return {sandbox: _OURS[sandbox]}
    return {"docker": DockerSandbox(IMAGE, Path(sandbox))}


def show(fact: Fact) -> None:
    """Print a fact."""
    sys.stdout.write(json.dumps(as_json(fact)) + "\n")
    sys.stdout.flush()


async def main() -> None:
    path, folder, sandbox, *scripts = sys.argv[1:]
    async with (
        RunStore(Path(path)) as store,
        run_host(store, listeners=[show], sandboxes=sandboxes(sandbox), hooks=()) as host,
    ):
        backoff = 3600.0 if "--long" in scripts else 0.1
        handles = [
            await host.submit(order_of(script, Path(folder), sandbox, backoff=backoff))
            for script in scripts
            if script != "--long"
        ]
        for handle in handles or await host.recover():
            await handle.wait()


if __name__ == "__main__":
    asyncio.run(main())

"""What a person types and sees: the command `otpy-agents`."""

from __future__ import annotations

import click

from otpy_agents.cli.cooldowns import cooldowns
from otpy_agents.cli.logs import logs
from otpy_agents.cli.operate import answer, budget, pause, reap, resume, warn
from otpy_agents.cli.refusal import RefusingGroup
from otpy_agents.cli.retry import retry
from otpy_agents.cli.run import run
from otpy_agents.cli.runs import runs
from otpy_agents.cli.status import status, tree
from otpy_agents.cli.up import up

_EPILOG = """\b
Start here:
  otpy-agents run "Say hello" --agent claude   one agent, one thing to do
  otpy-agents runs                             what is going on
  otpy-agents up list.toml                     many assignments at a time
  otpy-agents status                           what they do, from another terminal
"""


@click.group(
    cls=RefusingGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="otpy-tree", prog_name="otpy-agents")
def main() -> None:
    """Keep workers, and AI coding agents, alive, within budget and under control."""


for command in (
    up,
    run,
    runs,
    cooldowns,
    status,
    tree,
    logs,
    pause,
    resume,
    answer,
    reap,
    retry,
    warn,
    budget,
):
    main.add_command(command)

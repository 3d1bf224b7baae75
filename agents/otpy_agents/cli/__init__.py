"""What a person types and sees: the command `otpy-agents`."""

from __future__ import annotations

import click

from otpy_agents.cli.refusal import RefusingGroup
from otpy_agents.cli.run import run
from otpy_agents.cli.runs import runs
from otpy_agents.cli.up import up

_EPILOG = """\b
Start here:
  otpy-agents run "Say hello" --agent claude   one agent, one thing to do
  otpy-agents runs                             what is going on
  otpy-agents up list.toml                     many assignments at a time
"""


@click.group(
    cls=RefusingGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="otpy-tree", prog_name="otpy-agents")
def main() -> None:
    """Keep workers, and AI coding agents, alive, within budget and under control."""


main.add_command(up)
main.add_command(run)
main.add_command(runs)

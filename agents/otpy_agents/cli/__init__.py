"""What a person types and sees: the command `otpy-agents`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from otpy_agents.cli.refusal import RefusingGroup

_EPILOG = """\b
Start here:
  otpy-agents run "Say hello" --agent claude   one agent, one thing to do
  otpy-agents runs                             what is going on
  otpy-agents up list.toml                     many assignments at a time
  otpy-agents status                           what they do, from another terminal
"""

_COMMANDS: Final = {
    "answer": ("operate", "Answer what AGENT has asked, and let it go on."),
    "budget": (
        "budget",
        "Budgets of agents, programs and the whole list; `otpy-agents status` shows what is left.",
    ),
    "control": (
        "control",
        "Work off the tasks of a project, one after the other, and check each by rules.",
    ),
    "cooldowns": ("cooldowns", "List the accounts that rest, until when, and who was told so."),
    "engine": (
        "engine",
        "Let fresh workers do steps of work, judge them by gates, apply them whole or not at all.",
    ),
    "events": ("events", "Show what runs, lists and operators have done, oldest first."),
    "logs": ("logs", "Show the latest events of a running tree, or of one AGENT of it."),
    "pause": ("operate", "Let AGENT rest."),
    "reap": ("operate", "End AGENT for good."),
    "resume": ("operate", "Let AGENT go on: after a pause, a rule or a failure of its group."),
    "retry": ("retry", "Let what was reaped, or could not be started, begin again."),
    "run": ("run", "Let an agent do what PROMPT says; - reads it from standard input."),
    "runs": ("runs", "List runs, and look at one or command it with the commands below."),
    "status": ("status", "Show what the agents of a running tree do."),
    "tree": ("status", "Show the supervision tree that runs, as it is at this moment."),
    "up": ("up", "Work off the list in each FILE, a TOML file; several of them at the same time."),
    "warn": (
        "operate",
        "Send AGENT a message: into its notes ($OTPY_NOTES), and into its next prompt.",
    ),
}
"""Where each command is, and its short help: to print that, none has to be loaded."""


def _load(name: str) -> click.Command:
    module, _ = _COMMANDS[name]
    command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
    return command


@click.group(
    cls=RefusingGroup,
    lazy={name: short for name, (_, short) in _COMMANDS.items()},
    load=_load,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="otpy-tree", prog_name="otpy-agents")
def main() -> None:
    """Keep workers, and AI coding agents, alive, within budget and under control."""

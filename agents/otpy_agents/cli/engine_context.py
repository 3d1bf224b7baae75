"""`otpy-agents engine context`: the prompt that a worker would get, and what it costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from otpy_agents.cli.engine_repository import (
    repository_option,
    target_option,
    target_paths,
    top_of,
)
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import harmless
from otpy_agents.engine.context import (
    ContextPacker,
    ContextRequest,
    PackedContext,
    Part,
    Repomix,
)
from otpy_agents.engine.outputs import output_instructions
from otpy_agents.engine.roles import read_roles
from otpy_agents.errors import AgentsError

__all__ = ["context"]

_SHOWN: Final = 20
_EPILOG = """\b
The prompt goes to standard output, and its parts with their costs to the error stream:
  otpy-agents engine context implementer "Add a login" -t src/login.py > prompt.md
  otpy-agents engine context reviewer "Review it" > /dev/null

\b
A token is counted as four characters. What finds no room in the token_budget of the role is
left out, the least important first; include, exclude and priority_order of the role say what
that is.
"""


@click.command(epilog=_EPILOG)
@click.argument("role")
@click.argument("task")
@target_option
@repository_option
def context(repo: Path, *, role: str, task: str, targets: tuple[str, ...]) -> None:
    """Print the prompt that a worker of ROLE would get for TASK, with its costs; start nothing."""
    top = top_of(repo)
    if not task.strip():
        fail("TASK: got an empty task, wanted words that say what is to be done", 1)
    try:
        chosen = read_roles(top).role(role)
        request = ContextRequest(
            role=chosen,
            task=task,
            targets=target_paths(targets, repo),
            output=output_instructions(chosen.output),
        )
        packer = ContextPacker(repomix=Repomix.installed())
        packed = asyncio.run(packer.pack(request, top))
    except AgentsError as error:
        fail(error, 1)
    # A file gets what the worker would get; a terminal nothing that could move its cursor.
    shown = harmless(packed.prompt) if sys.stdout.isatty() else packed.prompt
    print(shown, end="", flush=True)
    for line in _costs(packed):
        say(line)


def _costs(packed: PackedContext) -> Iterator[str]:
    """Yield the parts of a prompt with their costs, and the parts left out."""
    included = [part for part in packed.parts if part.included]
    yield ""
    yield from _rows(included)
    left_out = packed.left_out
    if left_out:
        yield ""
        yield f"left out: {len(left_out) + packed.more:,}"
        yield from _rows(left_out[:_SHOWN])
        if (more := len(left_out) - len(left_out[:_SHOWN]) + packed.more) > 0:
            yield f"{'':>8}  and {more:,} more"
    yield ""
    yield packed.report().partition("\n")[0]


def _rows(parts: Sequence[Part]) -> Iterator[str]:
    kinds = max((len(part.kind) for part in parts), default=0)
    names = max((len(part.name) for part in parts), default=0)
    for part in parts:
        name = "" if part.name == part.kind else part.name
        yield f"{part.tokens:>8,}  {part.kind:<{kinds}}  {name:<{names}}  {part.why}"

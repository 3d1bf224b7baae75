"""`otpy-agents engine gates`: which gates judge a work tree, and what they say of this one."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from otpy_agents.cli.engine_repository import repository_option, top_of
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import harmless
from otpy_agents.cli.signals import hear_signals
from otpy_agents.engine.gates import (
    GATES_FILE,
    Gate,
    GateCache,
    GateExecutor,
    GateResult,
    GateStatus,
    KeptFiles,
    cache_folder,
    gate_commands,
    gate_stages,
    load_gates,
    outputs_folder,
    verdict,
)
from otpy_agents.engine.roles import GateUse, RoleBook, read_roles
from otpy_agents.engine.supervisor_files import FOLDER, read_supervisor_text
from otpy_agents.errors import AgentsError, InvalidEngineFile
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.run.host.walls import SANDBOXES, is_sandbox
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.store.redaction import Redaction
from otpy_agents.workspace.git import Git

__all__ = ["gates"]

T = TypeVar("T")

_GATE_FAILED: Final = 2
_BY_SIGNAL: Final = 128
_SHOWN_LINES: Final = 100

_EPILOG = f"""\b
A gate is a command that judges a work tree; exit code 0 passes. These are shipped: lint,
format_check, type_check, test, security. {GATES_FILE} changes them and adds more:

\b
  gates:
    lint:
      command: [ruff, check, src]
    build:
      command: [make, all]
      timeout: 120
      depends_on: [lint]
      allowed_writes: [build/**]

\b
Gates run without a network and cannot change the work tree; what they write under
allowed_writes is thrown away. One that passed is not run again while nothing has changed.
"""

_RUN_EPILOG = """\b
Exit status:
  0    all that are required passed
  1    they could not be run; the line says why
  2    a gate failed
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM
"""


@click.group(epilog=_EPILOG)
def gates() -> None:
    """Show the gates of a repository, or run them on its work tree as it is."""


@gates.command("list")
@repository_option
def list_gates(repo: Path) -> None:
    """Show all gates, in the order in which they run."""
    known, roles = _loaded(top_of(repo))
    heads = ("GATE", "FROM", "ROLES", "AFTER", "TIMEOUT", "ELSE", "COMMAND")
    rows = [_row(known[name], roles) for stage in gate_stages(known, known) for name in stage]
    for line in _aligned([heads, *rows]):
        click.echo(harmless(line))


@gates.command("run", epilog=_RUN_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@repository_option
@click.option(
    "--sandbox",
    envvar="OTPY_ENGINE_SANDBOX",
    metavar="WHERE",
    help="Where they run: docker:IMAGE, bubblewrap, or process for bubblewrap where it works.",
)
@click.option("--no-cache", is_flag=True, help="Run those that passed before, too.")
def run_gates(
    repo: Path, /, names: tuple[str, ...], sandbox: str | None, *, no_cache: bool
) -> None:
    """Run gates, and those they depend on, on the work tree as it is.

    Without a NAME: those of its roles, and those in .supervisor/gates.yaml.
    """
    if not sandbox:
        where = "docker:IMAGE, or by its name bubblewrap or process"
        fail(f"--sandbox: got nothing, wanted {where}; OTPY_ENGINE_SANDBOX may say it", 1)
    if not is_sandbox(sandbox):
        fail(f"--sandbox: got {sandbox!r}, wanted {SANDBOXES}", 1)
    where, _, image = sandbox.partition(":")
    top = top_of(repo)
    known, roles = _loaded(top)
    wanted = names or _usual(known, roles)
    uses = [GateUse(name=name) for name in wanted]
    choice = SandboxChoice(name=where, image=image)
    signals: list[int] = []
    try:
        results = asyncio.run(
            _until_signal(_run(top, known, uses, choice, cached=not no_cache), signals)
        )
    except AgentsError as error:
        fail(error, 1)
    except asyncio.CancelledError:
        raise SystemExit(_BY_SIGNAL + signals[0]) from None
    if not verdict(results, uses).passed:
        raise SystemExit(_GATE_FAILED)


async def _until_signal(work: Coroutine[Any, Any, T], signals: list[int]) -> T:
    """Carry work out; SIGTERM or SIGHUP cancels it, as Ctrl-C does, and is noted."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def end(number: int) -> None:
        signals.append(number)
        task.cancel()

    hear_signals(loop, end, (signal.SIGTERM, signal.SIGHUP))
    return await task


async def _run(
    top: Path,
    known: Mapping[str, Gate],
    uses: list[GateUse],
    choice: SandboxChoice,
    *,
    cached: bool,
) -> tuple[GateResult, ...]:
    answer = await Git().run(top, "rev-parse", "--git-common-dir")
    common = top / answer.text
    executor = GateExecutor(
        top,
        gate_commands(choice, os.environ, say),
        cache=GateCache(cache_folder(common, os.environ)) if cached else None,
        label=f"gates of {top}",
        mounts=(Mount(common),),
    )
    outputs = KeptFiles(outputs_folder(common, os.environ), clean=Redaction(os.environ))
    width = max(map(len, known))
    return await executor.run(
        known,
        uses,
        on_start=lambda gate: say(f"{gate.name:<{width}}  {shlex.join(gate.command)}"),
        on_result=lambda result: _show(result, width, outputs),
    )


def _loaded(top: Path) -> tuple[dict[str, Gate], RoleBook]:
    try:
        found = read_supervisor_text(top, GATES_FILE.removeprefix(f"{FOLDER}/"))
        known = load_gates(None) if found is None else load_gates(found[1], found[0])
        return known, read_roles(top)
    except InvalidEngineFile as error:
        return fail(error, 1)


def _usual(known: Mapping[str, Gate], roles: RoleBook) -> list[str]:
    used = [use.name for role in roles for use in role.gates]
    own = [name for name, gate in known.items() if not _is_shipped(gate)]
    return list(dict.fromkeys((*used, *own)))


def _is_shipped(gate: Gate) -> bool:
    return load_gates(None).get(gate.name) == gate


def _row(gate: Gate, roles: RoleBook) -> tuple[str, ...]:
    users = [role.name for role in roles if gate.name in {use.name for use in role.gates}]
    return (
        gate.name,
        "shipped" if _is_shipped(gate) else GATES_FILE,
        ", ".join(users) or "-",
        ", ".join(gate.depends_on) or "-",
        f"{gate.timeout:g} s",
        str(gate.fail_action),
        shlex.join(gate.command),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()


def _show(result: GateResult, width: int, outputs: KeptFiles) -> None:
    """Show a result at once; for one that did not pass, also its last lines."""
    took = f"{result.seconds:.1f} s"
    if result.cached:
        took = f"not run again: nothing has changed since it took {took}"
    not_run = result.status is GateStatus.SKIPPED and not result.is_started
    if not_run:
        took = result.output
    code = "" if result.exit_code in {None, 0} else f", exit code {result.exit_code}"
    click.echo(harmless(f"{result.name:<{width}}  {result.status:<7}  {took}{code}"))
    if result.status is not GateStatus.PASSED and not not_run:
        lines = result.output.strip().splitlines()
        if len(lines) > _SHOWN_LINES:
            file = outputs.put(f"{result.name}.log", result.output)
            where = "" if file is None else f"; all of it is in {file}"
            click.echo(f"    … {len(lines) - _SHOWN_LINES} lines before{where}")
        for line in lines[-_SHOWN_LINES:]:
            click.echo(harmless(f"    {line}"))

"""`otpy-agents engine`: a fresh worker for each step, judged by gates, applied whole or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from otpy_agents.cli.actor import actor
from otpy_agents.cli.engine_circuits import circuits
from otpy_agents.cli.engine_context import context
from otpy_agents.cli.engine_gates import gates
from otpy_agents.cli.engine_repository import (
    repository_option,
    target_option,
    target_paths,
    top_of,
)
from otpy_agents.cli.engine_roles import roles
from otpy_agents.cli.engine_start import EnginePlace, EngineStart
from otpy_agents.cli.engine_status import show_metrics, show_status
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail, usage_line
from otpy_agents.cli.run_words import at as at_time
from otpy_agents.engine.orders import Orders
from otpy_agents.engine.server import Engine
from otpy_agents.engine.server.templates import write_templates
from otpy_agents.engine.workflow.protocol import EndWorkflow
from otpy_agents.errors import AgentsError

__all__ = ["engine"]

T = TypeVar("T")

_EPILOG = """\b
Start here, in a git repository:
  otpy-agents engine init
  otpy-agents engine run implementer "Add a login form" -t src/login.py --sandbox bubblewrap
  otpy-agents engine plan "Let users log in" --sandbox bubblewrap
  otpy-agents engine approve feat-1a2b3c4d
  otpy-agents engine workflow feat-1a2b3c4d --parallel 2 --sandbox bubblewrap

\b
Each step gets a fresh agent that sees what the step needs, in a work tree of its own below
.worktrees. Gates judge what it has changed; then it is one commit on your branch, or nothing.
Roles, gates and rules are in .supervisor; `engine init` writes examples.

\b
Exit status:
  0    done
  1    it could not be done, or the command line is wrong; the line says why
  2    a gate failed
  3    a person said no
  4    it took too long
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM
"""


class _EngineGroup(click.Group):
    """The commands of the engine; 2 says that a gate failed, so a wrong call has the status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out the command that is typed."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            fail(usage_line(error), 1)


def _placed(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the option that says which repository is meant."""

    @repository_option
    @wraps(command)
    def placed(repo: Path, /, **options: Any) -> T:
        return command(EnginePlace(top_of(repo), repo), **options)

    return placed


def _working(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options of those that let workers work."""
    for option in (
        click.option(
            "--sandbox",
            envvar="OTPY_ENGINE_SANDBOX",
            metavar="WHERE",
            help="Where workers run: docker:IMAGE, bubblewrap or process.",
        ),
        click.option(
            "--allow-host",
            "hosts",
            multiple=True,
            metavar="HOST",
            help="Reach this host too, NAME[:PORT], beside the agent's vendor; may be repeated.",
        ),
        click.option(
            "--secret",
            "secrets",
            multiple=True,
            metavar="NAME",
            help="Keep the value of this variable out of everything; may be repeated.",
        ),
        click.option(
            "--seed", type=int, metavar="N", help="Make the random choices of routing repeatable."
        ),
        click.option("-q", "--quiet", is_flag=True, help="Write only the result."),
    ):
        command = option(command)
    return command


def _do(place: EnginePlace, work: Callable[[Orders], Awaitable[T]]) -> T:
    async def done() -> T:
        async with place.orders() as orders:
            return await work(orders)

    try:
        return asyncio.run(done())
    except AgentsError as error:
        fail(error, 1)


@click.group(cls=_EngineGroup, epilog=_EPILOG)
def engine() -> None:
    """Let fresh workers do steps of work, judge them by gates, apply them whole or not at all."""


@engine.command()
@_placed
def init(place: EnginePlace) -> None:
    """Write examples of roles, gates and rules into .supervisor; what is there stays."""
    for path, is_new in write_templates(place.repository):
        say(f"{path}: {'written' if is_new else 'is there, and stays'}")
    say("commit them: workflows go by what is committed")


@engine.command()
@click.argument("role")
@click.argument("task")
@target_option
@click.option("--rebase", is_flag=True, help="Try again on the new HEAD if HEAD has moved.")
@_working
@_placed
def run(
    place: EnginePlace,
    *,
    role: str,
    task: str,
    targets: tuple[str, ...],
    rebase: bool,
    **options: Any,
) -> None:
    """Let one worker of ROLE do TASK, judge it by its gates, and apply it.

    What it answers goes to standard output, and everything else to the error stream.
    """
    files = target_paths(targets, place.named)
    for typed, file in zip(targets, files, strict=True):
        if file.split("/")[0] == "..":
            fail(f"-t: got {typed!r}, wanted a file in {place.repository}", 1)

    async def work(engine: Engine, who: str) -> EndWorkflow:
        name = await engine.begin_run(role, task, files, rebase=rebase, actor=who)
        return await engine.wait(name)

    EngineStart(place, actor(), **options).run(work)


@engine.command()
@click.argument("task")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the plan into this file, which `engine workflow` takes.",
)
@_working
@_placed
def plan(place: EnginePlace, *, task: str, output: Path | None, **options: Any) -> None:
    """Let a planner divide TASK into features, phases and components.

    A plan is a proposal: `engine approve` agrees to it, and `engine workflow` works it off.
    """

    async def work(engine: Engine, who: str) -> EndWorkflow:
        return await engine.wait(await engine.begin_plan(task, actor=who))

    EngineStart(place, actor(), output=output, **options).run(work)


@engine.command()
@click.argument("what", metavar="FEATURE|FILE")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Components at the same time.",
)
@_working
@_placed
def workflow(place: EnginePlace, *, what: str, parallel: int, **options: Any) -> None:
    """Work off the components of a plan, phase by phase.

    FEATURE is a feat-... that `engine plan` printed and somebody approved; FILE is a plan as YAML.
    Components that are completed already are left out. If HEAD moves meanwhile, a step is moved to
    the new HEAD, and its gates run again.
    """

    async def work(engine: Engine, who: str) -> EndWorkflow:
        end = EndWorkflow(None, "")
        for feature in await engine.features_in(what):
            name = await engine.begin_feature(feature, parallel=parallel, actor=who)
            end = await engine.wait(name)
            if end.cause is not None:
                break
        return end

    EngineStart(place, actor(), **options).run(work)


@engine.command()
@click.argument("name", metavar="[WORKFLOW]", required=False)
@click.option("--workflow-id", metavar="WORKFLOW", help="The workflow, as an option.")
@click.option("--at", metavar="WHEN", help="As it stood then: a position of the log or a time.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@_placed
def status(
    place: EnginePlace,
    *,
    name: str | None,
    workflow_id: str | None,
    at: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the workflows of this repository, or one of them with its steps."""
    if name and workflow_id and name != workflow_id:
        raise click.UsageError("Got two workflows, wanted one.")
    if at is not None and follow:
        raise click.UsageError("Got --at with --follow, wanted one of the two.")
    show_status(place, name or workflow_id, at=at, follow=follow, as_json=as_json)


@engine.command()
@click.argument("name", metavar="FEATURE|WORKFLOW")
@click.argument("step", required=False)
@click.option("--why", default="", metavar="TEXT", help="Your reason; it is kept in the log.")
@_placed
def approve(place: EnginePlace, *, name: str, step: str | None, why: str) -> None:
    """Say yes to a plan, or to what a step that waits has changed; who says it is kept."""
    what = _do(place, lambda orders: orders.answer(name, step, yes=True, why=why, actor=actor()))
    then = f"; `otpy-agents engine workflow {what}` works it off" if "/" not in what else ""
    say(f"{what}: approved{then}")


@engine.command()
@click.argument("name", metavar="FEATURE|WORKFLOW")
@click.argument("step", required=False)
@click.option("--why", default="", metavar="TEXT", help="Your reason; it is kept in the log.")
@_placed
def deny(place: EnginePlace, *, name: str, step: str | None, why: str) -> None:
    """Say no to a plan, or to what a step that waits has changed; who says it is kept."""
    what = _do(place, lambda orders: orders.answer(name, step, yes=False, why=why, actor=actor()))
    say(f"{what}: denied")


@engine.command()
@click.option(
    "--days",
    type=click.IntRange(min=1, max=100_000),  # dates do not begin much earlier
    default=7,
    show_default=True,
    help="How many days, today included.",
)
@click.option("--role", metavar="ROLE", help="Show only this role.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How it is written.",
)
@_placed
def metrics(place: EnginePlace, *, days: int, role: str | None, form: str) -> None:
    """Show durations, success rates, retries, tokens, cost, gates and circuits."""
    show_metrics(place, days=days, role=role, as_json=form == "json")


@engine.command()
@click.argument("name", metavar="[CHECKPOINT]", required=False)
@_placed
def rollback(place: EnginePlace, *, name: str | None) -> None:
    """Undo what steps applied since CHECKPOINT, by one commit; without it, list checkpoints.

    A checkpoint is WORKFLOW for its beginning, or WORKFLOW/STEP for the end of a step. Nothing is
    rewritten, and no commit but those of steps is reverted.
    """
    if name is None:
        lines = _do(place, _checkpoints)
        for line in lines:
            print(line)
        if not lines:
            say("no checkpoint: no workflow was begun in this repository")
        return
    commit, count = _do(place, lambda orders: orders.rollback(name, actor=actor()))
    if not count:
        say(f"{name}: nothing was applied since")
    else:
        say(f"{name}: {count} reverted by {commit}")


async def _checkpoints(orders: Orders) -> list[str]:
    return [
        f"{one.name}  {at_time(one.at)}  {one.commit[:10]}  position {one.position}"
        async for one in orders.checkpoints()
    ]


for _command in (roles, context, gates, circuits):
    engine.add_command(_command)

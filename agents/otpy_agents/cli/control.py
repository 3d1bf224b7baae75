"""`otpy-agents control`: a goal, a queue of tasks, and a loop that believes only rules."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import click
from click.core import ParameterSource

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.cli.control_start import ControlPlace, ControlStart
from otpy_agents.cli.control_table import shown_state, tasks_table
from otpy_agents.cli.notes import say
from otpy_agents.cli.refusal import fail, system_line
from otpy_agents.cli.run_words import harmless
from otpy_agents.control import orders
from otpy_agents.control.audit import (
    AUDIT,
    NOTHING,
    PROMPTS,
    AuditFile,
    AuditTrail,
    FileDamage,
    Head,
)
from otpy_agents.control.halts import HALTS, read_halts
from otpy_agents.control.loop.machine import LoopRules
from otpy_agents.control.prompts import read_task_types, shipped_task_types
from otpy_agents.control.server import ControlSettings
from otpy_agents.control.server.ownership import refuse_foreign
from otpy_agents.control.state import ExecutionMode, ProjectState, ProjectStatus, is_project_name
from otpy_agents.control.stores import ControlStore
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.task import COMMAND, ControlTask
from otpy_agents.control.task_file import read_task_file
from otpy_agents.errors import (
    AdapterError,
    AgentsError,
    InvalidControlTable,
    InvalidRunSetting,
    InvalidStore,
    InvalidTask,
    OrderRefused,
)
from otpy_agents.operator import actor_of
from otpy_agents.run.host.walls import SANDBOXES, is_sandbox

__all__ = ["control"]

P = ParamSpec("P")
T = TypeVar("T")

_WRONG: Final = (InvalidStore, InvalidTask, OrderRefused)

_EPILOG = """\b
Start here:
  otpy-agents control init-state
  otpy-agents control set-goal --description "Build it" --project-id demo
  otpy-agents control enqueue --task-file tasks.json
  otpy-agents control resume
  otpy-agents control start

\b
A task file holds one task or an array of them:
  {"task_id": "task-001", "intent": "Add a greeting", "tool": "claude",
   "instructions": "Write hello.py, which prints hello.",
   "acceptance_criteria": ["hello.py exists", {"command": ["python", "hello.py"]}]}

\b
The agents work in DIR/PROJECT (--sandbox-root, --project-id). There lie audit.log.jsonl
and prompts.log.jsonl, too. State and queue are in the event log of the user, one project
for each DIR and --state-key.

\b
Exit status:
  0    done; `start`: the goal is reached
  1    it could not be done; the line says why
  2    the order, or the command line, is wrong
  3    `start`: the project is halted
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM
"""


def _actor() -> str:
    """Return the author of this command (G-16, C-41)."""
    return str(actor_of(os.geteuid(), os.getpid()))


def _placed(command: Callable[Concatenate[ControlPlace, P], T]) -> Callable[P, T]:
    """Give a command the options that say which project is meant."""

    @click.option(
        "--sandbox-root",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("sandbox"),
        show_default=True,
        metavar="DIR",
        help="Folder of the sandbox, with a folder for each project.",
    )
    @click.option(
        "--state-key",
        default="supervisor:state",
        show_default=True,
        metavar="KEY",
        help="Key of the project's state.",
    )
    @click.option(
        "--store",
        default="",
        envvar="OTPY_CONTROL_STORE",
        metavar="URL",
        help="sqlite:FILE or redis://HOST:PORT.  [the event log of the user]",
    )
    @click.option("--redis-host", metavar="HOST", help="Keep the project in Redis, at this host.")
    @click.option(
        "--redis-port",
        type=click.IntRange(1, 65535),
        default=6499,
        show_default=True,
        help="Port of Redis.",
    )
    @click.option(
        "--state-db",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Database of Redis for the state.",
    )
    @click.option(
        "--queue-db",
        type=click.IntRange(0),
        default=2,
        show_default=True,
        help="Database of Redis for the queue.",
    )
    @click.option(
        "--queue-name",
        default="tasks",
        show_default=True,
        metavar="NAME",
        help="The queue in Redis is the list queue:NAME.",
    )
    @click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help="Keep the value of the variable NAME out of what is shown or stored; repeatable."
        " Those with KEY, SECRET, PASSWORD or TOKEN in their name are anyway.",
    )
    @wraps(command)
    def placed(*args: Any, sandbox_root: Path, secrets: Any, **rest: Any) -> Any:
        names = ("redis_host", "redis_port", "state_key", "state_db", "queue_name", "queue_db")
        host, port, *where = (rest.pop(name) for name in names)
        redis = RedisPlace(host or "localhost", port, *where)
        for name in secrets:
            if name not in os.environ:
                fail(f"--secret: got {name!r}, wanted a variable that is set here", 2)
        store = _store(host, port, rest.pop("store"))
        place = ControlPlace(root=sandbox_root, redis=redis, store=store, secrets=secrets)
        return command(place, *args, **rest)

    return cast("Callable[P, T]", placed)


def _store(host: str | None, port: int, store: str) -> str:
    """Return the URL of the store; refuse options that would count for nothing."""
    context = click.get_current_context()

    def is_typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if host is not None:
        if is_typed("store"):
            fail("--store: got a store beside --redis-host, wanted one of them", 2)
        return f"redis://{host}:{port}"
    for name in ("redis_port", "state_db", "queue_db", "queue_name"):
        if is_typed(name) and not store.startswith("redis:"):
            option = f"--{name.replace('_', '-')}"
            fail(f"{option}: got it without Redis, wanted --redis-host or --store redis://…", 2)
    return store


def _do(place: ControlPlace, work: Callable[[ControlStore], Awaitable[T]]) -> T:
    """Do something with a store, or say in one line why not."""

    async def done() -> T:
        async with place.open() as store:
            return await work(store)

    try:
        return asyncio.run(done())
    except _WRONG as error:
        fail(error, 2)
    except AgentsError as error:
        fail(error, 1)
    except OSError as error:
        fail(system_line(error), 1)


@click.group(epilog=_EPILOG)
def control() -> None:
    """Work off the tasks of a project, one after the other, and check each by rules.

    You give a goal and tasks. An agent CLI does a task, and rules check its work. A task that fails
    a check is tried again, with the findings in its prompt, and is blocked in the end. Nothing here
    invents work, and everything can be read later.
    """


@control.command("init-state")
@_placed
@click.option(
    "--execution-mode",
    type=click.Choice([one.value for one in ExecutionMode]),
    default=ExecutionMode.AUTO.value,
    show_default=True,
    help="MANUAL asks before each dispatch.",
)
@click.option("--force", is_flag=True, help="Forget the state that is there; the queue stays.")
def init_state(place: ControlPlace, *, execution_mode: str, force: bool) -> None:
    """Make the state of a new project: HALTED, without a goal."""
    mode = ExecutionMode(execution_mode)
    _do(place, lambda store: orders.init_state(store, mode, fresh=force, actor=_actor()))
    say(f"{place.root}: a new project, HALTED; next: `otpy-agents control set-goal`")


@control.command("set-goal")
@_placed
@click.option("--description", metavar="TEXT", help="What is to be reached.")
@click.option("--project-id", metavar="NAME", help="Name of the project and of its folder.")
@click.option(
    "--completed/--not-completed",
    default=None,
    help="Whether the goal is reached when all is done.",
)
def set_goal(
    place: ControlPlace, *, description: str | None, project_id: str | None, completed: bool | None
) -> None:
    """Set the goal; you alone say whether it is reached."""
    if description is None and project_id is None and completed is None:
        fail("set-goal: got nothing to set, wanted --description, --project-id or --completed", 2)
    if project_id is not None and not is_project_name(project_id):
        fail(f"--project-id: got {project_id!r}, wanted a name for a folder", 2)
    if description is not None and not description.strip():
        fail(f"--description: got {description!r}, wanted a goal", 2)
    goal = orders.Goal(description, project_id, completed)
    state = _do(place, lambda store: orders.set_goal(store, goal, actor=_actor()))
    when = "reached when no task is left" if state.goal_completed else "open"
    say(f"{state.project}: {state.description} ({when})")


@control.command()
@_placed
@click.option(
    "--task-file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="One task or an array of them, in JSON.",
)
def enqueue(place: ControlPlace, *, task_file: Path) -> None:
    """Put the tasks of a file at the end of the queue, all of them or none."""
    try:
        tasks = read_task_file(task_file)
    except InvalidTask as error:
        fail(error, 2)

    async def put(store: ControlStore) -> ProjectState:
        await _tell_unreadable(place, store)
        return await orders.enqueue(store, tasks, actor=_actor())

    state = _do(place, put)
    names = ", ".join(task.task_id for task in tasks)
    running = state.status is ProjectStatus.RUNNING
    more = "" if running else f"; {state.status} until `otpy-agents control resume`"
    say(f"enqueued {len(tasks)}: {names}{more}")


@control.command()
@_placed
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why; it stands in the state and in the audit."
)
def halt(place: ControlPlace, *, reason: str) -> None:
    """Halt the project; a loop that works on it stops its attempt at once, in order."""
    if not reason.strip():
        fail(f"--reason: got {reason!r}, wanted a reason", 2)
    _do(place, lambda store: orders.halt(store, reason, actor=_actor()))
    say("HALTED; `otpy-agents control resume`, then `start`, goes on")


@control.command()
@_placed
def resume(place: ControlPlace) -> None:
    """Let a halted project run again; `start` begins its loop."""
    _do(place, lambda store: orders.resume(store, actor=_actor()))
    say("RUNNING; `otpy-agents control start` works it off")


@control.command()
@_placed
@click.argument("task", metavar="TASK")
def block(place: ControlPlace, *, task: str) -> None:
    """Give up the TASK in hand, so that the others can be done."""
    _do(place, lambda store: orders.block(store, task, actor=_actor()))
    say(f"{task} is blocked; `otpy-agents control unblock TASK` puts it into the queue again")


@control.command()
@_placed
@click.argument("task", metavar="TASK")
def unblock(place: ControlPlace, *, task: str) -> None:
    """Let a blocked TASK be done once more, after those that wait."""
    _do(place, lambda store: orders.unblock(store, task, actor=_actor()))
    say(f"{task} waits in the queue")


@control.command()
@_placed
@click.option("--json", "as_json", is_flag=True, help="Write the state itself.")
def status(place: ControlPlace, *, as_json: bool) -> None:
    """Show where the project stands: status, goal, queue, tasks, last report."""
    if as_json:
        state = _do(place, lambda store: store.load())
        print(json.dumps(state.to_json(), ensure_ascii=False, indent=2))
    else:
        print(harmless(shown_state(*_state_and_queue(place))))


@control.command()
@_placed
def tasks(place: ControlPlace) -> None:
    """List the tasks: completed, blocked, in hand, in the queue."""
    print(harmless(tasks_table(*_state_and_queue(place))))


def _state_and_queue(place: ControlPlace) -> tuple[ProjectState, tuple[ControlTask, ...]]:
    async def both(store: ControlStore) -> tuple[ProjectState, tuple[ControlTask, ...]]:
        await _tell_unreadable(place, store)
        return await store.load(), await store.queued()

    return _do(place, both)


async def _tell_unreadable(place: ControlPlace, store: ControlStore) -> None:
    """Tell what in the queue is no task; the loop stops at it, and the others can be seen."""
    for error in await store.unreadable():
        print(f"otpy-agents: {harmless(place.clean(str(error)))}", file=sys.stderr)


@control.command()
@_placed
@click.option("--verify", is_flag=True, help="Check each line of both files against the log.")
def audit(place: ControlPlace, *, verify: bool) -> None:
    """Print what was done, one JSON object for each event; or check what lies in the project."""
    _files(place, AUDIT, verify=verify)


@control.command()
@_placed
def prompts(place: ControlPlace) -> None:
    """Print each prompt and each answer, one JSON object for each."""
    _files(place, PROMPTS, verify=False)


def _files(place: ControlPlace, name: str, *, verify: bool) -> None:
    trail = AuditTrail()

    async def made(
        store: ControlStore,
    ) -> tuple[dict[str, list[str]], dict[str, Head], list[FileDamage]]:
        lines = await trail.take_all(store.log.read(stream=store.stream))
        project = (await store.load()).project
        folder = ControlSettings(root=place.root).folder(project)
        if verify:
            refuse_foreign(folder, store)
            await store.log.verify()
        kept = {file: trail.kept.get((project, file), NOTHING) for file in lines}
        compared = (
            AuditFile(folder / file).compare(due, kept[file])
            for file, due in lines.items()
            if verify
        )
        return lines, kept, [damage for damage in compared if damage is not None]

    lines, kept, damages = _do(place, made)
    if not verify:
        for line in lines[name]:
            print(line)
        return
    for damage in damages:
        print(f"otpy-agents: {harmless(str(damage))}", file=sys.stderr)
    if damages:
        raise SystemExit(1)
    count = sum(head.number for head in kept.values())
    left = sum(map(len, lines.values())) - count
    more = f"; the next `start` writes {left} more" if left else ""
    say(f"{count} lines, as they were written{more}")


@control.command()
@_placed
@click.option("-q", "--quiet", is_flag=True, help="Write nothing but the last line and errors.")
@click.option(
    "--sandbox",
    default="process",
    show_default=True,
    metavar="WHERE",
    help=f"Where agents work: {SANDBOXES}.",
)
@click.option(
    "--helper",
    default="",
    metavar="AGENT",
    help="Let this agent, claude or claude:MODEL, propose commands for what no rule can tell;"
    " they are run by rules.",
)
@click.option(
    "--interrogation-may-override",
    is_flag=True,
    help="Let the answer to a question settle what a rule has failed, too.",
)
@click.option(
    "--halts",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="TOML file with tables [[halt]]: more words that halt the project.",
)
@click.option(
    "--task-types",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="TOML file with tables [[task_type]]: types of tasks and their guidelines, for ours.",
)
def start(
    place: ControlPlace,
    *,
    quiet: bool,
    sandbox: str,
    helper: str,
    interrogation_may_override: bool,
    halts: Path | None,
    task_types: Path | None,
) -> None:
    """Work the queue off until the goal is reached or the project is halted.

    Ctrl-C stops the attempt in order; the task stays in hand, and the next start begins with it.
    """
    if not is_sandbox(sandbox):
        fail(InvalidRunSetting("--sandbox", repr(sandbox), SANDBOXES), 2)
    cli = helper.partition(":")[0]
    try:
        if helper and find_adapter(cli).name == COMMAND:
            fail(f"--helper: got {helper!r}, wanted an agent that answers a prompt", 2)
        rules = LoopRules(
            halts=HALTS if halts is None else read_halts(halts),
            interrogation_may_override=interrogation_may_override,
            helper=helper,
        )
        types = shipped_task_types() if task_types is None else read_task_types(task_types)
    except (AdapterError, InvalidControlTable) as error:
        fail(error, 2)
    settings = ControlSettings(
        root=place.root,
        rules=rules,
        types=types,
        sandbox=sandbox,
        secrets=place.secrets,
    )
    ControlStart(place, settings, quiet=quiet).run()

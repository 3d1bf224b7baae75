"""`otpy-agents retry`: restart given-up assignments, whether or not their tree runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from otpy import OtpyError
from otpy_agents.agent.budgets import kept_budgets
from otpy_agents.cli.offline import carry_out_here
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.status_table import what_to_type
from otpy_agents.cli.tree_lookup import (
    ANSWER_WITHIN,
    KnownTree,
    epilog_of,
    find_tree,
    list_option,
    listed_here,
    state_option,
    status_of,
)
from otpy_agents.cli.view import printable
from otpy_agents.errors import CommandRefused, HostGone
from otpy_agents.operator import CommandRefusal, ask
from otpy_agents.operator.message import OperatorRequest
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State
from otpy_agents.worklist.reader import read

if TYPE_CHECKING:
    from otpy_agents.worklist.assignment import WorkList

__all__ = ["retry"]


@click.command(epilog=epilog_of("retry build", "retry --reaped"))
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--reaped", is_flag=True, help="All that were reaped, or could not be started.")
@list_option
@state_option
def retry(ids: tuple[str, ...], *, reaped: bool, file: Path | None, state: Path | None) -> None:
    """Let what was reaped, or could not be started, begin again.

    An agent goes on in its session and its work tree; its restarts and failures count from zero,
    and what it has spent stays spent. Where the tree runs it is begun at once, else by the next
    `otpy-agents up`.
    """
    if bool(ids) == reaped:
        raise click.UsageError("Got no ID, or IDs and --reaped; wanted one of the two.")
    tree = _tree(file, state)
    try:
        said, refused = asyncio.run(_retried(tree, ids))
    except CommandRefused as error:
        fail(error, status_of(error))
    except OtpyError as error:
        fail(error, 1)
    for name, answer in said.items():
        print(printable(f"{name}: {answer}"))
    if not said and refused is None:
        print("nothing was reaped")
    if refused is not None:
        fail(refused, status_of(refused))


def _tree(file: Path | None, state: Path | None) -> KnownTree:
    """Return the named tree; without a name also one that does not run any more."""
    if file is None and state is None and not listed_here():
        worked_off = [one for one in Path().glob("*.toml") if one.with_suffix(".sqlite").exists()]
        if len(worked_off) != 1:
            got = ", ".join(sorted(map(str, worked_off))) or "no list that was worked on"
            fail(f"got {got} in this folder, wanted --list with one", 1)
        (file,) = worked_off
    return find_tree(file, state)


async def _retried(
    tree: KnownTree, ids: tuple[str, ...]
) -> tuple[dict[str, str], CommandRefused | None]:
    """Retry these, or all that were given up; return the answers, and the first refusal."""
    said: dict[str, str] = {}
    try:
        for name in ids or await _given_up(tree):
            said[name] = str(await ask(tree.socket, "retry", within=ANSWER_WITHIN, agent=name))
    except CommandRefused as error:
        return said, error
    except HostGone:
        return await _retried_on_disk(tree, ids), None
    return said, None


async def _given_up(tree: KnownTree) -> tuple[str, ...]:
    """Return the given-up assignments of a running tree, by `project/name`."""
    status = cast("dict[str, Any]", await ask(tree.socket, "status", within=ANSWER_WITHIN))
    return tuple(
        f"{one['project']}/{one['agent']}"
        for one in status["agents"]
        if one["over"] and one["state"] in {State.REAPED, State.FAILED}
    )


async def _retried_on_disk(tree: KnownTree, ids: tuple[str, ...]) -> dict[str, str]:
    """Do so in the ledger of a tree that does not run, for all of them or none.

    Raises:
        CommandRefused: One of them is not known, was not given up, or would be reaped at once.
        BudgetError: What is spent cannot be read.
        InvalidWorkList: The list is wrong, or cannot be read.
    """
    path = tree.ledger
    if not path.exists():
        raise CommandRefused(f"{path}: got no file, wanted a ledger; `{tree.up()}` makes one")
    work = None if tree.list is None else read(Path(tree.list))
    async with Ledger(path) as ledger:
        states = {record.id: record.state for record in await ledger.summary()}
        given_up = [one for one, at in states.items() if at in {State.REAPED, State.FAILED}]
        wanted = [name.rpartition("/")[2] for name in ids] or given_up
        for name in wanted:
            if name not in states:
                known = ", ".join(states)
                message = f"agent: got {name!r}, wanted one of {known}"
                raise CommandRefused(message, CommandRefusal.NOT_FOUND)
            if name not in given_up:
                message = f"agent {name!r}: it is {states[name]}, wanted one that was reaped"
                raise CommandRefused(message)
        spent = await _spent(tree, work, ledger) if wanted else {}
        for name in wanted:
            if name in spent:
                message = f"agent {name!r}: it would be reaped at once: {spent[name]}"
                raise CommandRefused(message)
        said: dict[str, str] = {}
        for name in wanted:

            async def carry_out(name: str = name) -> str:
                await ledger.retry(name)
                return f"begins again with the next `{tree.up()}`"

            request = OperatorRequest(command="retry", arguments={"agent": name})
            said[name] = await carry_out_here(tree, work, request, carry_out)
    return said


async def _spent(tree: KnownTree, work: WorkList | None, ledger: Ledger) -> dict[str, str]:
    """Return the programs that the next host would reap, each with why, and what to type first."""
    if work is None:
        return {}
    budgets = await kept_budgets(ledger.agents, work)
    spent: dict[str, str] = {}
    for one in work.assignments:
        account = f"{work.name}/{one.id}"
        pause = budgets.spent_up(account) if one.agent is None else None
        if pause is not None:
            grant = what_to_type(one.id, pause.by, tree, pause.account, pause.kind)
            spent[one.id] = f"{budgets.spent(account)}; grant it more: `{grant}`"
    return spent

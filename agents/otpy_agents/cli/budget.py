"""`otpy-agents budget`: more of a budget, whether or not its tree runs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click

from otpy import OtpyError
from otpy_agents.agent.budgets import kept_budgets
from otpy_agents.cli.offline import carry_out_here
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.tree_lookup import (
    ANSWER_WITHIN,
    KnownTree,
    epilog_of,
    find_tree,
    list_option,
    state_option,
    status_of,
)
from otpy_agents.cli.view import printable
from otpy_agents.errors import CommandRefused, HostGone
from otpy_agents.operator import CommandRefusal, ask
from otpy_agents.operator.message import OperatorRequest
from otpy_agents.store.ledger import Ledger
from otpy_agents.tree.grants import amounts_of, grant_each
from otpy_agents.worklist.reader import read

__all__ = ["budget"]


@click.group()
def budget() -> None:
    """Budgets of agents, programs and the whole list; `otpy-agents status` shows what is left."""


@budget.command(epilog=epilog_of("budget grant build --tokens 100000", "budget grant w --usd 5"))
@click.argument("agent")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Tokens.")
@click.option("--usd", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Dollars.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="M", help="Working time."
)
@click.option("--bytes", "size", type=click.IntRange(min=1), metavar="N", help="Bytes of output.")
@list_option
@state_option
def grant(
    agent: str,
    *,
    tokens: int | None,
    usd: float | None,
    minutes: float | None,
    size: int | None,
    file: Path | None,
    state: Path | None,
) -> None:
    """Let AGENT spend that much more; or all of them together, if AGENT is the name of the list.

    Who rests because it has spent its budget goes on, in the same session; a program that was
    reaped for it begins again by `otpy-agents retry`. What an agent may spend is part of what the
    list may spend: grant the list more first if that is spent too. Where the tree does not run, it
    is what the next `otpy-agents up` may spend.
    """
    amounts = {"tokens": tokens, "usd": usd, "minutes": minutes, "bytes": size}
    if all(amount is None for amount in amounts.values()):
        raise click.UsageError("Got no amount, wanted --tokens, --usd, --minutes or --bytes.")
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    try:
        said = asyncio.run(_granted(find_tree(file, state), agent, given))
    except CommandRefused as error:
        fail(error, status_of(error))
    except OtpyError as error:
        fail(error, 1)
    print(printable(f"{agent}: {said}"))


async def _granted(tree: KnownTree, agent: str, given: dict[str, float]) -> str:
    try:
        return str(await ask(tree.socket, "grant", within=ANSWER_WITHIN, agent=agent, **given))
    except HostGone:
        return await _granted_on_disk(tree, agent, given)


async def _granted_on_disk(tree: KnownTree, agent: str, given: dict[str, float]) -> str:
    """Do so in the ledger of a tree that does not run.

    Raises:
        CommandRefused: There is no such account, or it cannot have that.
        BudgetError: What is spent cannot be read.
        InvalidWorkList: The list is wrong, or cannot be read.
    """
    path = tree.ledger
    if not path.exists():
        raise CommandRefused(f"{path}: got no file, wanted a ledger; `{tree.up()}` makes one")
    async with Ledger(path) as ledger:
        work = None if tree.list is None else read(Path(tree.list))
        budgets = await kept_budgets(ledger.agents, work)
        accounts = budgets.ledger.accounts
        # An assignment may be called as its list is; then it is the one that is meant.
        meant = [one for one in accounts if one.endswith(f"/{agent}")] or [
            one for one in accounts if one == agent
        ]
        if not meant:
            message = f"agent: got {agent!r}, wanted one of {', '.join(accounts)}"
            raise CommandRefused(message, CommandRefusal.NOT_FOUND)
        grant = partial(budgets.grant, meant[0])

        async def carry_out() -> str:
            try:
                said = grant_each(amounts_of(given), grant, budgets.ledger, meant[0])
            finally:  # what was granted before a refusal is granted
                await budgets.save()
            return f"{said}, from the next `{tree.up()}` on"

        request = OperatorRequest(command="grant", arguments={"agent": agent, **given})
        return await carry_out_here(tree, work, request, carry_out)

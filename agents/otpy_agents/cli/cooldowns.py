"""`otpy-agents cooldowns`: which accounts rest, and how to let them be asked again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Final

import click

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_lookup import look, state_option
from otpy_agents.cli.run_words import at, span
from otpy_agents.cli.view import printable
from otpy_agents.clock import CLOCK
from otpy_agents.errors import UnknownAdapter
from otpy_agents.run.decide.cooldown import Cooldown, VendorAccount
from otpy_agents.run.decide.time_text import moment
from otpy_agents.run.host.stored_form import cooldown_table
from otpy_agents.store import RunStore

__all__ = ["cooldowns"]

_EPILOG: Final = """\b
Exit status:
  0  done, also if no such account rests
  1  the state file cannot be read or written
  2  there is no such account, or the command line is wrong

\b
Examples:
  otpy-agents cooldowns
  otpy-agents cooldowns clear claude
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@state_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per account.")
@click.pass_context
def cooldowns(context: click.Context, *, as_json: bool) -> None:
    """List the accounts that rest, until when, and who was told so.

    No run asks an account that rests. What is free again before that, because somebody has paid or
    logged in, is said so with `clear`; a run that succeeds with it says so by itself.
    """
    if context.invoked_subcommand is not None:
        return
    now = CLOCK()
    resting: tuple[Cooldown, ...] = look(lambda store: _resting(store, now), otherwise=())
    for one in resting:
        left, until = one.until - now, moment(one.until, now)
        if as_json:
            plain = {"agent_cli": one.account.agent_cli, "credential": one.account.credential}
            plain |= {"until": at(one.until), "reason": one.reason}
            print(json.dumps({**plain, "for_seconds": round(left, 1)}))
        else:
            why = f"  {one.reason}" if one.reason else ""
            print(printable(f"{one.account}  rests until {until} (in {span(left)}){why}"))
    if not resting and not as_json:
        print("otpy-agents: no account rests", file=sys.stderr)


@cooldowns.command()
@state_option
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def clear(names: tuple[str, ...]) -> None:
    """Let accounts be asked again at once: by the name of their CLI, or as they are listed.

    Runs that wait for one go on within a few seconds, also those of lists and other terminals.
    """
    now = CLOCK()
    resting: tuple[Cooldown, ...] = look(lambda store: _resting(store, now), otherwise=())
    chosen: list[VendorAccount] = []
    idle: list[str] = []
    for name in names:
        accounts = [one.account for one in resting]
        found = [one for one in accounts if name in {one.agent_cli, str(one)}]
        if not found:
            _know(name, resting)
            idle.append(name)
        chosen += found
    if chosen:
        look(lambda store: _end(store, chosen, now))
    for account in dict.fromkeys(chosen):
        print(printable(f"{account}: may be asked again"))
    for name in idle:
        print(printable(f"{name}: does not rest"))


async def _resting(store: RunStore, now: float) -> tuple[Cooldown, ...]:
    return cooldown_table(await store.cooldowns.at(now)).entries


async def _end(store: RunStore, accounts: Iterable[VendorAccount], now: float) -> bool:
    for one in accounts:
        await store.cooldowns.end(one.agent_cli, one.credential, now)
    return True


def _know(name: str, resting: tuple[Cooldown, ...]) -> None:
    """Leave if there can be no account of that name."""
    try:
        find_adapter(name.partition(" ")[0])
    except UnknownAdapter as error:
        listed = ", ".join(str(one.account) for one in resting)
        fail(f"NAME: got {name!r}, wanted one of {listed}" if listed else error, 2)

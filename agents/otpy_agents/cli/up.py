"""`otpy-agents up`: work a list off."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

import otpy
from otpy import OtpyError
from otpy_agents.agent.preflight import unheld_agents
from otpy_agents.app import open_app
from otpy_agents.cli.notices import notice
from otpy_agents.cli.reporter import Reporter
from otpy_agents.cli.steady import SteadyView
from otpy_agents.cli.tree_lookup import tree_of
from otpy_agents.cli.view import View, open_view
from otpy_agents.errors import AgentsError, InvalidRunSetting, InvalidWorkList
from otpy_agents.run.host.walls import SANDBOXES, is_sandbox
from otpy_agents.worklist.reader import read
from otpy_monitors import BudgetError, InvalidRules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from otpy import Supervisor
    from otpy_agents.app import App, Conclusion
    from otpy_agents.worklist.assignment import WorkList

_FRAME: Final = 0.2  # seconds between two drawings of the tree

_EPILOG = """\b
Exit status:
  0    every assignment ended as the list expects
  1    some did not, or the list could not be worked on
  2    the list, or the command line, is wrong
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM

\b
Examples:
  otpy-agents up examples/workshop.toml
  otpy-agents up examples/workshop.toml --fresh --chaos 2
  otpy-agents up examples/workshop.toml --json | jq -c 'select(.event == "summary")'
"""


@click.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--fresh",
    is_flag=True,
    help="Start over: forget what is done, empty its folders; changesets go to branches.",
)
@click.option(
    "--sandbox",
    metavar="WHERE",
    help=f"Where all agents work, whatever the list says: {SANDBOXES}.",
)
@click.option(
    "--chaos",
    type=click.FloatRange(min=0),
    metavar="RATE",
    default=0.0,
    help="Kill random workers and attempts with SIGKILL, RATE a second on average.",
)
@click.option(
    "--hygiene-dry-run",
    is_flag=True,
    help="Only tell what the cleanup daemon would delete; it deletes nothing.",
)
@click.option(
    "--budget-strict",
    is_flag=True,
    help="Refuse agents that cost_usd may not hold: nobody knows their price.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per event.")
def up(
    file: Path,
    *,
    fresh: bool,
    sandbox: str | None,
    chaos: float,
    hygiene_dry_run: bool,
    budget_strict: bool,
    as_json: bool,
) -> None:
    """Work off the list in FILE, a TOML file.

    Every assignment is run as a process of its own. One that fails is started again, within the
    limits of its policy; one that uses them up is reaped, with the reason. What is finished is kept
    in an SQLite file beside FILE: run the command again after a crash, and it goes on where it
    stopped. Ctrl-C stops everything in order; once more kills. While it works, `otpy-agents status`
    and its companions look at it and command it from another terminal.
    """
    if sandbox is not None and not is_sandbox(sandbox):
        _fail(InvalidRunSetting("--sandbox", repr(sandbox), SANDBOXES), 2)
    try:
        work = read(file, sandbox=sandbox)
        if budget_strict:
            _check_prices(work)
    except InvalidWorkList as error:
        _fail(error, 2)
    view = SteadyView(open_view(sys.stdout, partial(notice, tree=tree_of(work)), as_json=as_json))
    conclusions: list[Conclusion] = []
    try:
        otpy.run(
            lambda: _working(
                work, view, conclusions, fresh=fresh, chaos=chaos, dry_run=hygiene_dry_run
            )
        )
    except InvalidRules as error:
        _fail(error, 2)
    except (AgentsError, BudgetError) as error:
        _fail(error, 1)
    finally:
        view.close(conclusions)
    if not all(one.as_expected for one in conclusions) or not conclusions:
        raise SystemExit(1)


@contextlib.asynccontextmanager
async def _working(
    work: WorkList,
    view: View,
    conclusions: list[Conclusion],
    *,
    fresh: bool,
    chaos: float,
    dry_run: bool,
) -> AsyncGenerator[Supervisor]:
    """Yield the root of the tree at work; fill `conclusions` when it has ended."""
    reporter = Reporter(work, view, asyncio.get_running_loop().time)
    opened = open_app(work, fresh=fresh, chaos=chaos, hygiene_dry_run=dry_run, listen=reporter.hear)
    app: App | None = None
    try:
        async with opened as app:
            reporter.already(app.finished)
            drawing = asyncio.create_task(_draw(app, reporter))
            try:
                yield app.root
            finally:
                drawing.cancel()
    finally:
        if app is not None:
            conclusions += app.conclusions


def _check_prices(work: WorkList) -> None:
    for name, one in unheld_agents(work):
        got = f"{one.agent_id} with " + (f"the model {one.model!r}" if one.model else "no model")
        wanted = "one whose price is known, for --budget-strict"
        raise InvalidWorkList(work.file, None, f"assignment {name!r}.model", got, wanted)


async def _draw(app: App, reporter: Reporter) -> None:
    while True:
        reporter.draw(app.root.snapshot(), app.journal)
        await asyncio.sleep(_FRAME)


def _fail(error: OtpyError, status: int) -> NoReturn:
    print(f"otpy-agents: {error}", file=sys.stderr)
    raise SystemExit(status)

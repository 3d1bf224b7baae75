"""`otpy-agents up`: work lists off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
from attrs import evolve, frozen

import otpy
from otpy import (
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Crashed,
    OtpyError,
    Restart,
    SupervisorSpec,
)
from otpy_agents.agent.preflight import unheld_agents
from otpy_agents.app import open_app
from otpy_agents.cli.notices import notice, notice_of
from otpy_agents.cli.panes import Pane, Panes
from otpy_agents.cli.reporter import Reporter
from otpy_agents.cli.steady import SteadyView
from otpy_agents.cli.tree_lookup import named_tree, tree_of
from otpy_agents.cli.view import View, open_view
from otpy_agents.errors import AgentsError, InvalidRunSetting, InvalidWorkList
from otpy_agents.run.host.walls import SANDBOXES, is_sandbox
from otpy_agents.worklist.reader import read
from otpy_monitors import BudgetError, InvalidRules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from otpy import Supervisor
    from otpy_agents.app import App, Conclusion
    from otpy_agents.worklist.assignment import WorkList

_FRAME: Final = 0.2  # seconds between two drawings of the tree

_WRONG: Final = (InvalidRules, InvalidRunSetting, InvalidWorkList)
"""What only another list, or command line, can mend."""

_KNOWN: Final = (InvalidRules, AgentsError, BudgetError)
"""What a list may be refused for when its files are opened."""

_EPILOG = """\b
Exit status:
  0    every assignment ended as its list expects
  1    some did not, or a list could not be worked on
  2    a list, or the command line, is wrong
  129  stopped by SIGHUP;  130  by Ctrl-C;  143  by SIGTERM

\b
Examples:
  otpy-agents up examples/workshop.toml
  otpy-agents up examples/workshop.toml --fresh --chaos 2
  otpy-agents up nightly.toml weekly.toml
  otpy-agents up examples/workshop.toml --json | jq -c 'select(.event == "summary")'
"""


@click.command(epilog=_EPILOG)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
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
    help="Refuse agents that cost_usd may not hold: their price is unknown.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per event.")
def up(
    files: tuple[Path, ...],
    *,
    fresh: bool,
    sandbox: str | None,
    chaos: float,
    hygiene_dry_run: bool,
    budget_strict: bool,
    as_json: bool,
) -> None:
    """Work off the list in each FILE, a TOML file; several of them at the same time.

    Every assignment is run as a process of its own. One that fails is started again, within the
    limits of its policy; one that uses them up is reaped, with the reason. What is finished is kept
    in an SQLite file beside FILE: run the command again after a crash, and it goes on where it
    stopped. Ctrl-C stops everything in order; once more kills. While it works, `otpy-agents status`
    and its companions look at it and command it from another terminal.

    Of several lists each has a tree, a ledger and budgets of its own, and each line says LIST/ID.
    """
    if sandbox is not None and not is_sandbox(sandbox):
        _fail({"": InvalidRunSetting("--sandbox", repr(sandbox), SANDBOXES)})
    try:
        works = [read(file, sandbox=sandbox) for file in files]
        for work in works if budget_strict else ():
            _check_prices(work)
    except InvalidWorkList as error:
        _fail({"": error})
    options = Options(fresh=fresh, chaos=chaos, hygiene_dry_run=hygiene_dry_run)
    names = _names(works)
    several = dict(zip(names, works, strict=True))
    if len(works) > 1:
        told = partial(notice_of, trees={name: named_tree(one) for name, one in several.items()})
    else:
        told = partial(notice, tree=tree_of(works[0]))
    view = SteadyView(open_view(sys.stdout, told, as_json=as_json))
    conclusions: list[Conclusion] = []
    failed: dict[str, Exception] = {}
    try:
        if len(works) > 1:
            otpy.run(lambda: _side_by_side(several, view, conclusions, failed, options))
        else:
            otpy.run(lambda: _working(works[0], view, conclusions, options))
    except _KNOWN as error:
        failed[""] = error
    finally:
        view.close(conclusions)
    if failed:
        _fail(failed)
    if not all(one.as_expected for one in conclusions) or not conclusions:
        raise SystemExit(1)


@frozen(kw_only=True)
class Options:
    """What holds for all lists of one command.

    Attributes:
        fresh: See `open_app`, as the others.
        chaos: Kills per second.
        hygiene_dry_run: Whether the cleanup daemon only tells.
    """

    fresh: bool
    chaos: float
    hygiene_dry_run: bool


@contextlib.asynccontextmanager
async def _working(
    work: WorkList, view: View, conclusions: list[Conclusion], options: Options
) -> AsyncGenerator[Supervisor]:
    """Yield the root of the tree at work; fill `conclusions` when it has ended."""
    reporter = Reporter(work, view, asyncio.get_running_loop().time)
    opened = open_app(
        work,
        fresh=options.fresh,
        chaos=options.chaos,
        hygiene_dry_run=options.hygiene_dry_run,
        listen=reporter.hear,
    )
    app: App | None = None
    try:
        async with opened as app:
            reporter.note_finished(app.finished)
            drawing = asyncio.create_task(_draw(app, reporter))
            try:
                yield app.root
            finally:
                drawing.cancel()
    finally:
        if app is not None:
            conclusions += app.conclusions


@contextlib.asynccontextmanager
async def _side_by_side(
    works: Mapping[str, WorkList],
    view: View,
    conclusions: list[Conclusion],
    failed: dict[str, Exception],
    options: Options,
) -> AsyncGenerator[Supervisor]:
    """Yield a supervisor whose children work off one list each, in a tree of its own.

    A list that cannot be worked on keeps no other from it; why it cannot is in `failed`, by name.
    """
    panes = Panes(view, list(works))
    ends: dict[str, list[Conclusion]] = {name: [] for name in works}

    async def work_off(name: str, work: WorkList) -> None:
        pane = Pane(panes, name)
        try:
            async with _working(work, pane, ends[name], options) as root:
                await root.wait()
        except Exception as error:
            failed[name] = error
            if not isinstance(error, _KNOWN):
                raise  # the report of its end shows where it came from
        finally:
            pane.close(ends[name])

    children = [
        ChildSpec(
            f"list-{number}",
            work_off,
            one,
            restart=Restart.TEMPORARY,
            significant=True,
            shutdown=INFINITY,
        )
        for number, one in enumerate(works.items(), 1)
    ]
    spec = SupervisorSpec("lists", children, auto_shutdown=AutoShutdown.ALL_SIGNIFICANT)
    try:
        async with otpy.start(spec) as root:
            yield root
    finally:
        conclusions += (
            evolve(one, id=f"{name}/{one.id}") for name, found in ends.items() for one in found
        )


def _names(works: Sequence[WorkList]) -> list[str]:
    """Return the names of the lists: their own, or as typed if two are alike."""
    files = [os.fspath(work.file) for work in works]
    for number, file in enumerate(files):
        if file in files[:number]:
            raise click.UsageError(f"got {file} twice, wanted each list once")
    names = [work.name for work in works]
    return names if len(set(names)) == len(names) else files


def _check_prices(work: WorkList) -> None:
    for name, one in unheld_agents(work):
        got = f"{one.agent_id} with " + (f"the model {one.model!r}" if one.model else "no model")
        wanted = "one whose price is known, for --budget-strict"
        raise InvalidWorkList(work.file, None, f"assignment {name!r}.model", got, wanted)


async def _draw(app: App, reporter: Reporter) -> None:
    while True:
        reporter.draw(app.root.snapshot(), app.journal)
        await asyncio.sleep(_FRAME)


def _fail(errors: Mapping[str, Exception]) -> NoReturn:
    """Print the errors, a line each with the name of its list, if that has one, and exit."""
    for name, error in errors.items():
        list_name = f"{name}: " if name else ""
        said = error if isinstance(error, OtpyError) else Crashed(error)
        print(f"otpy-agents: {list_name}{said}", file=sys.stderr)
    wrong = any(isinstance(one, _WRONG) for one in errors.values())
    raise SystemExit(2 if wrong else 1)

"""The command: measure, print the table, keep it."""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from benchmarks import erlang, history
from benchmarks.catalogue import ERLANG, PEERS, WORKLOADS
from benchmarks.catalogue import OWN as OURS
from benchmarks.interpreters import ASYNCIO, OWN, UVLOOP, VERSIONS, Setting, find
from benchmarks.series import run
from benchmarks.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.series import Series
    from benchmarks.workload import Workload

RESULTS: Final = Path(__file__).with_name("RESULTS.md")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--short", is_flag=True, help="Small sizes, once, this Python; writes nothing.")
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice(list(WORKLOADS)),
    help="Only this workload; may be given several times.",
)
@click.option(
    "--python",
    "versions",
    multiple=True,
    metavar="VERSION",
    help=f"Only this Python; the default is what is found of {', '.join(VERSIONS)}.",
)
@click.option("--uvloop/--no-uvloop", default=None, help="With uvloop only, or without it only.")
@click.option("--peers", is_flag=True, help="Other projects too; installs them on demand.")
@click.option("--runs", type=click.IntRange(1), help="Processes for each number; the default is 5.")
@click.option("--compare", is_flag=True, help="Measure nothing; compare the last run with earlier.")
def main(
    *,
    short: bool,
    names: tuple[str, ...],
    versions: tuple[str, ...],
    uvloop: bool | None,
    peers: bool,
    runs: int | None,
    compare: bool,
) -> None:
    """Measure otpy beside asyncio by hand, and print how many times as much it takes.

    A whole run takes three quarters of an hour. It writes RESULTS.md and a line of history.jsonl;
    a run of some workloads only the latter.
    """
    if compare:
        _compare()
        return
    workloads = [WORKLOADS[name] for name in names or WORKLOADS]
    settings = _settings(versions or ((OWN,) if short else VERSIONS), uvloop=uvloop, short=short)
    began = time.monotonic()
    subjects = [*OURS, *(PEERS if peers else ())]
    if erlang.found() and not short:
        subjects.append(ERLANG)
    runs = runs or (1 if short else 5)
    try:
        series = run(workloads, subjects, settings, runs=runs, short=short, progress=_progress)
    except KeyboardInterrupt:
        click.echo("\ninterrupted; nothing was written", err=True)
        sys.exit(130)
    _progress("")
    text = _tables(series, workloads, settings, subjects)
    click.echo(text)
    if not short:
        history.append(history.record_of(series, settings, subjects, runs))
        if not names:
            minutes = (time.monotonic() - began) / 60
            RESULTS.write_text(_page(text, runs, minutes), encoding="utf-8")
        for line in history.regressions(history.read()):
            click.echo(f"worse than before: {line}")
    for (setting, workload, subject), why in series.failures.items():
        click.echo(f"FAILED {workload}, {subject}, {setting}:\n{why}", err=True)
    sys.exit(bool(series.failures))


def _settings(versions: Sequence[str], *, uvloop: bool | None, short: bool) -> list[Setting]:
    loops = [UVLOOP] if uvloop else [ASYNCIO] if uvloop is False or short else [ASYNCIO, UVLOOP]
    found = [version for version in versions if find(version) is not None]
    for version in versions:
        if version not in found:
            click.echo(f"Python {version} was not found", err=True)
    if not found:
        raise click.ClickException("there is no Python to measure on")
    return [Setting(version, loop) for loop in loops for version in found]


def _progress(text: str) -> None:
    """Show what is being measured; on a terminal in one line that is written over."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{text}", nl=False, err=True)
    elif text:
        click.echo(text, err=True)


def _tables(
    series: Series,
    workloads: Sequence[Workload],
    settings: Sequence[Setting],
    subjects: Sequence[str],
) -> str:
    parts = [
        f"## {setting}\n\n{table(series, workloads, setting, subjects)}\n" for setting in settings
    ]
    peers = [f"- {name}: {PEERS[name].differs}" for name in subjects if name in PEERS]
    if peers:
        parts.append("What projects do otherwise:\n\n" + "\n".join(peers) + "\n")
    refusals = {f"- {why}" for key, why in series.refusals.items() if key[2] not in OURS}
    if refusals:
        parts.append("What a project cannot do:\n\n" + "\n".join(sorted(refusals)) + "\n")
    return "\n".join(parts)


def _page(tables: str, runs: int, minutes: float) -> str:
    return f"""# Results

Written by `python -m benchmarks`; how to read it is said in [README.md](README.md).

- Commit: {history.commit()}
- Machine: {history.machine()}, {platform.platform(terse=True)}
- Medians of {runs} processes for each number; times are CPU time, but for crash to replacement.
- It took {minutes:.0f} minutes.

{tables}"""


def _compare() -> None:
    records = history.read()
    if len(records) < 2:
        raise click.ClickException(f"{history.HISTORY.name} holds no two runs to compare")
    worse = history.regressions(records)
    click.echo("\n".join(worse) or "nothing is worse than it was")
    sys.exit(bool(worse))

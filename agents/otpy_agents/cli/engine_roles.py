"""`otpy-agents engine roles`: which roles there are, and what is in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast

import click

from otpy_agents.cli.engine_repository import repository_option, top_of
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_words import harmless
from otpy_agents.engine.roles import Origin, RoleBook, WorkerRole, read_roles
from otpy_agents.errors import InvalidEngineFile, UnknownRole

__all__ = ["roles"]

_DEFAULT: Final = "default"
_COLUMN: Final = 48
_EPILOG = """\b
A role of your own is a file .supervisor/roles/NAME.yaml, for example
  extends: implementer
  cli: claude:opus
  system_prompt: |
    You work on the web pages.
  context:
    include: ["*.tsx", "*.css"]
  gates: [format_check]
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@click.pass_context
@repository_option
def roles(repo: Path, ctx: click.Context) -> None:
    """List the roles of the repository: those that are shipped, and its own."""
    ctx.obj = repo
    if ctx.invoked_subcommand is None:
        _list(repo)


def _again(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option of its group, too."""

    @click.option(
        "--repo",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        metavar="DIR",
        help="A folder of the repository.  [this one]",
    )
    @click.pass_obj
    @wraps(command)
    def placed(given: Path, /, repo: Path | None, **options: Any) -> None:
        command(given if repo is None else repo, **options)

    return placed


@roles.command("list")
@_again
def list_roles(repo: Path) -> None:
    """List the roles: name, base, agent, answer, gates, description."""
    _list(repo)


@roles.command()
@click.argument("name")
@_again
def show(repo: Path, name: str) -> None:
    """Show the role NAME as it is when all it extends is merged into it.

    Behind each value is where it was written. The output is YAML.
    """
    try:
        role = _book(repo).role(name)
    except UnknownRole as error:
        fail(error, 1)
    print(harmless("\n".join(_lines(role))))


def _book(repo: Path) -> RoleBook:
    try:
        return read_roles(top_of(repo))
    except InvalidEngineFile as error:
        fail(error, 1)


def _list(repo: Path) -> None:
    rows = [("ROLE", "BASE", "AGENT", "ANSWER", "GATES", "DESCRIPTION")]
    for role in _book(repo):
        base = "" if role.base == role.name else role.base
        gates = ", ".join(use.name for use in role.gates)
        rows.append((role.name, base or "-", role.cli, role.output, gates or "-", role.description))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        print(harmless(line.rstrip()))


def _lines(role: WorkerRole) -> Iterator[str]:
    """Yield a role as YAML, with where each value was written as comments."""
    origins = role.origins
    yield f"name: {role.name}"
    if role.base:
        yield f"# based on the shipped role {role.base}"
    for key, value in (
        ("description", role.description),
        ("cli", role.cli),
        ("argv", role.argv),
        ("flags", role.flags),
        ("output", str(role.output)),
    ):
        if value:
            yield from _value(key, value, origins.get(key, ()))
    yield f"system_prompt: |  # {', '.join(map(str, origins['system_prompt']))}"
    yield from (f"  {line}".rstrip() for line in role.system_prompt.splitlines())
    yield "context:"
    context = role.context
    for key in (
        *("include", "exclude", "always_include", "git_diff", "related", "priority_order"),
        "token_budget",
    ):
        yield from _value(key, getattr(context, key), origins.get(f"context.{key}", ()), "  ")
    yield "gates:" if role.gates else "gates: []"
    for use in role.gates:
        place = f"gates.{use.name}"
        yield _noted(f"  - name: {use.name}", origins[f"{place}.name"])
        required = json.dumps(use.required)
        yield _noted(f"    required: {required}", origins.get(f"{place}.required", ()))
        yield _noted(f"    on_fail: {use.on_fail}", origins.get(f"{place}.on_fail", ()))
    yield "config:"
    for key in ("max_retries", "timeout", "tdd", "coverage_target"):
        value = getattr(role.config, key)
        if value is not None:
            yield from _value(key, value, origins.get(f"config.{key}", ()), "  ")


def _value(key: str, value: Any, origins: Sequence[Origin], indent: str = "") -> Iterator[str]:
    if not isinstance(value, tuple):
        number = f"{value:g}" if isinstance(value, float) else None
        yield _noted(f"{indent}{key}: {number or _scalar(value)}", origins)
    elif not value:
        yield _noted(f"{indent}{key}: []", origins)
    else:
        # One that counts as a whole was written in one place.
        items = cast("tuple[str, ...]", value)
        each = len(origins) == len(items)
        yield f"{indent}{key}:" if each else _noted(f"{indent}{key}:", origins)
        for index, item in enumerate(items):
            line = f"{indent}  - {json.dumps(item, ensure_ascii=False)}"
            yield _noted(line, origins[index : index + 1]) if each else line


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _noted(line: str, origins: Sequence[Origin]) -> str:
    note = ", ".join(map(str, origins)) or _DEFAULT
    return f"{line:<{_COLUMN}}  # {note}"

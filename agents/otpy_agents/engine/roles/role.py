"""A role, as it is when all that it extends is merged into it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from attrs import Factory, field, frozen

from otpy_agents.engine.outputs import OutputKind

__all__ = ["VARIABLES", "ContextRules", "GateUse", "OnFail", "Origin", "WorkerRole", "RoleConfig"]

VARIABLES: Final = ("$TARGET", "$TARGET_IMPORTS", "$CHANGED_FILES")
"""What may stand in place of a glob: the target files, the files that those import or that go with
them by name, and the files that the git diff changes."""


@frozen
class Origin:
    """Where a value of a role was written.

    Attributes:
        file: The file; `shipped implementer.yaml` for one that comes with otpy.
        line: The line, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class OnFail(StrEnum):
    """What follows if a gate of a role fails."""

    BLOCK = "block"
    """The step fails at once."""
    RETRY_WITH_FEEDBACK = "retry_with_feedback"
    """The next attempt is told what the gate said; the step fails when no attempt is left."""
    WARN = "warn"
    """The failure is recorded, and the step goes on."""


@frozen(kw_only=True)
class GateUse:
    """A gate that judges the work of a role.

    Attributes:
        name: The gate, by its name in `gates.yaml`.
        required: Whether the work has to pass it; else its failure is recorded only.
        on_fail: What follows if it fails.
    """

    name: str
    required: bool = True
    on_fail: OnFail = OnFail.RETRY_WITH_FEEDBACK


@frozen(kw_only=True)
class ContextRules:
    """What a worker of a role is shown of the repository (ENG-20, ENG-21).

    Globs are patterns of `.gitignore`, relative to the top of the repository.

    Attributes:
        include: Globs of files to show while there is room.
        exclude: Globs of files never to show, but for target files.
        always_include: Globs of files to show before all others but the target files.
        git_diff: Whether to show the latest changes.
        related: Whether to show files that the target files import, or that go with them by name.
        priority_order: Globs and variables, the most important first; what is in none of them comes
            after those that are.
        token_budget: Tokens that the prompt may have, at four characters each.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    always_include: tuple[str, ...] = ()
    git_diff: bool = True
    related: bool = True
    priority_order: tuple[str, ...] = ()
    token_budget: int = 25_000


@frozen(kw_only=True)
class RoleConfig:
    """How a role works.

    Attributes:
        max_retries: Attempts after the first one (C-36).
        timeout: Seconds that one attempt may take.
        tdd: Whether the worker is told to write the tests first.
        coverage_target: Percent of the code that tests must cover, as the worker is told; None if
            it is told none.
    """

    max_retries: int = 3
    timeout: float = 300.0
    tdd: bool = False
    coverage_target: float | None = None


@frozen(kw_only=True)
class WorkerRole:
    """What kind of worker a step gets (ENG-25).

    Attributes:
        name: Its name.
        description: What it is for, in a line.
        base: The shipped role at the root of what it extends; empty if that is none.
        cli: The agent as `vendor` or `vendor:model`; or `command`, which is `argv`.
        argv: Program and arguments of `cli: command`.
        flags: More arguments for the CLI.
        system_prompt: What every worker of the role is told, those of its bases first.
        output: Which form its answer has.
        context: What it is shown.
        gates: What judges its work, in the order of the files.
        config: How it works.
        own_cli: Whether a file of the project says `cli`, which then counts before all routing.
        origins: Where each value was written, by its key, such as `context.include`; of a list, one
            for each item. What is not there is a default.
    """

    name: str
    description: str = ""
    base: str = ""
    cli: str
    argv: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    system_prompt: str
    output: OutputKind
    context: ContextRules = ContextRules()
    gates: tuple[GateUse, ...] = ()
    config: RoleConfig = RoleConfig()
    own_cli: bool = False
    origins: Mapping[str, tuple[Origin, ...]] = field(
        default=Factory(dict[str, tuple[Origin, ...]]), eq=False, repr=False
    )

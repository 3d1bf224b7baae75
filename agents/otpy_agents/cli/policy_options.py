"""The options of a command that make a retry policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
from attrs import evolve

from otpy_agents.run.decide.policy import FatalScope, RetryPolicy

__all__ = ["policy_from", "policy_options"]

_DEFAULT: Final = RetryPolicy()

_OPTIONS: Final = (
    click.option(
        "--max-retries",
        type=int,
        metavar="N",
        help=f"Retries of each agent; it has one attempt more.  [{_DEFAULT.max_retries}]",
    ),
    click.option(
        "--max-attempts",
        type=int,
        metavar="N",
        help=f"Attempts of all agents together.  [{_DEFAULT.max_attempts}]",
    ),
    click.option(
        "--backoff-base",
        type=float,
        metavar="SECONDS",
        help=f"Wait before the first retry, then 3 and 9 times that.  [{_DEFAULT.backoff_base:g}]",
    ),
    click.option(
        "--rate-limit-base",
        type=float,
        metavar="SECONDS",
        help="Wait after a rate limit for which no time was named, then 2 and 5 times that."
        f"  [{_DEFAULT.rate_limit_backoff_base:g}]",
    ),
    click.option(
        "--max-wait",
        type=float,
        metavar="SECONDS",
        help="Longest wait for an account that rests; a run that had to wait longer ends as quota."
        f"  [{_DEFAULT.max_wait:g}]",
    ),
    click.option(
        "--fatal-scope",
        type=click.Choice([str(scope) for scope in FatalScope]),
        help="What bad credentials and the like end: the task, or this agent's part in it, so that"
        " a fallback takes over."
        f"  [{_DEFAULT.fatal_scope}]",
    ),
    click.option(
        "--resume-session",
        is_flag=True,
        default=None,
        help="Let a retry go on in the session of the attempt before it.",
    ),
    click.option(
        "--supervise/--no-supervise",
        default=True,
        envvar="AGENTS_RUNNER_USE_SUPERVISOR",
        help="Without, the agent is run once: no retry, no fallback, no restart after a crash.",
    ),
)
_FIELDS: Final = {
    "max_retries": "max_retries",
    "max_attempts": "max_attempts",
    "backoff_base": "backoff_base",
    "rate_limit_base": "rate_limit_backoff_base",
    "max_wait": "max_wait",
    "fatal_scope": "fatal_scope",
    "resume_session": "resume",
}


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a policy; `policy_from` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def policy_from(options: dict[str, Any]) -> RetryPolicy:
    """Return the policy, and take its options out of those of the command.

    Raises:
        InvalidRunSetting: It can never work.
    """
    stated = {name: options.pop(option) for option, name in _FIELDS.items()}
    changes = {name: value for name, value in stated.items() if value is not None}
    if "fatal_scope" in changes:
        changes["fatal_scope"] = FatalScope(changes["fatal_scope"])
    if not options.pop("supervise"):
        changes["max_attempts"] = 1  # RUN-65
    return evolve(_DEFAULT, **changes)

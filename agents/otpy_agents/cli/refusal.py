"""How a command refuses to go on: one line on stderr and an exit status."""

from __future__ import annotations

import contextlib
import errno
import sys
from typing import Any, Final, NoReturn, final

import click

from otpy_agents.cli.streams import is_text, to_nowhere, tolerate_every_letter
from otpy_agents.errors import InvalidRunSetting

__all__ = ["RefusingGroup", "fail", "give_up_output"]

_INTERRUPTED: Final = 130
# What a setting is called by who types it, where that is not its own name behind two hyphens.
_TYPED: Final = {
    "agent.model": "--model",
    "liveness": "--liveness",
    "order.argv": "behind --",
    "order.prompt": "PROMPT",
    "order.sandbox.image": "--sandbox",
    "order.sandbox.name": "--sandbox",
    "retry.rate_limit_backoff_base": "--rate-limit-base",
    "retry.resume": "--resume-session",
}


def fail(reason: object, status: int) -> NoReturn:
    """Say why and leave.

    Args:
        reason: An error, or a sentence; a setting is called as it is typed.
        status: 1 if it could not be done, 2 if the call was wrong.
    """
    text = str(reason)
    if isinstance(reason, InvalidRunSetting):
        text = text.replace(reason.field, _as_typed(reason.field), 1)
    with contextlib.suppress(OSError):  # nobody may listen; the status says enough
        print(f"otpy-agents: {text}", file=sys.stderr, flush=True)
    raise SystemExit(status)


def _as_typed(field: str) -> str:
    part, _, name = field.partition(".")
    if field not in _TYPED and part in {"order", "retry"}:
        return f"--{name.replace('_', '-')}"
    return _TYPED.get(field, field)


def give_up_output(error: OSError, more: str = "") -> NoReturn:
    """Leave with status 1, because nothing can be written to standard output.

    Args:
        error: Why not.
        more: What else there is to say; nothing is said if who read the output went away.
    """
    to_nowhere(sys.stdout)
    if error.errno == errno.EPIPE:
        raise SystemExit(1)
    fail(f"standard output: {error.strerror or error}{more}", 1)


@final
class RefusingGroup(click.Group):
    """Commands that refuse a wrong call, and output that cannot be written, with one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Teach who types nothing; refuse words that are no text, which nobody could store."""
        if not args:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        for word in args:
            if not is_text(word):
                ctx.fail(f"Got {word!a}, wanted UTF-8.")
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Carry out a command line, and leave with its exit status.

        Raises:
            SystemExit: Always, but for what nobody has foreseen.
        """
        tolerate_every_letter()
        try:
            status: object = super().main(*args, **{**extra, "standalone_mode": False})
            if sys.stdout is not None:
                sys.stdout.flush()
        except click.UsageError as error:
            fail(_one_line(error), 2)
        except click.ClickException as error:
            fail(error.format_message(), error.exit_code)
        except click.Abort:
            raise SystemExit(_INTERRUPTED) from None
        except OSError as error:
            if error.filename is not None:  # that is no stream
                raise
            give_up_output(error)
        raise SystemExit(status if isinstance(status, int) else 0)


def _one_line(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split())
    if error.ctx is None:
        return text
    usage = " ".join(error.ctx.get_usage().split())
    return f"{text} {usage}; --help says more"

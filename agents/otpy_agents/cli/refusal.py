"""How a command refuses to go on: one line on stderr and an exit status."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, final

import click

from otpy_agents.cli.streams import is_text, to_nowhere, tolerate_every_letter

__all__ = ["RefusingGroup", "fail", "give_up_output", "system_line", "usage_line"]

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
    from otpy_agents.errors import InvalidRunSetting  # noqa: PLC0415 - help needs no errors

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


def system_line(error: OSError) -> str:
    """Return what the system refused, with the file where it names one."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


@final
class RefusingGroup(click.Group):
    """Commands that refuse a wrong call, and output that cannot be written, with one line.

    Args:
        lazy: Short help of commands that are loaded when they are asked for, by name.
        load: Loads one of them.
        settings: As click takes them.
    """

    def __init__(
        self,
        *,
        lazy: Mapping[str, str],
        load: Callable[[str], click.Command],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._lazy, self._load = lazy, load
        self._on_loaded: Callable[[], object] | None = None

    def short_help_of(self, name: str) -> str:
        """Return the short help of a command, which need not be loaded."""
        return self._lazy[name]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return their names, sorted."""
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a command; None if there is none of that name."""
        return self._load(cmd_name) if cmd_name in self._lazy else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the command that is typed, and say so."""
        found = super().resolve_command(ctx, args)
        if self._on_loaded is not None:
            self._on_loaded()
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands with their short help, and load none."""
        room = formatter.width - 6 - max(map(len, self._lazy))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=short).get_short_help_str(room))
                    for name, short in sorted(self._lazy.items())
                ]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show help for an empty command; refuse words that are not text, which no store keeps."""
        if not args and not ctx.resilient_parsing:  # which is how a shell asks for completions
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        for word in args:
            if not is_text(word):
                ctx.fail(f"Got {word!a}, wanted UTF-8.")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out the command that is typed; say so in one line if Ctrl-C ends it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("interrupted", _INTERRUPTED)

    def main(
        self, *args: Any, on_loaded: Callable[[], object] | None = None, **extra: Any
    ) -> NoReturn:
        """Carry out a command line, and leave with its exit status.

        Args:
            args: As click takes them.
            on_loaded: Called when the command that is typed has been loaded, before it begins.
            extra: As click takes them.

        Raises:
            SystemExit: Always, except for unforeseen errors.
        """
        tolerate_every_letter()
        self._on_loaded = on_loaded
        try:
            status: object = super().main(*args, **{**extra, "standalone_mode": False})
            if sys.stdout is not None:
                sys.stdout.flush()
        except click.UsageError as error:
            fail(usage_line(error), 2)
        except click.ClickException as error:
            fail(error.format_message(), error.exit_code)
        except click.Abort:
            raise SystemExit(_INTERRUPTED) from None
        except OSError as error:
            if error.filename is not None:  # that is not a stream
                raise
            give_up_output(error)
        raise SystemExit(status if isinstance(status, int) else 0)


def usage_line(error: click.UsageError) -> str:
    """Return the error of a call, and its usage, in one line."""
    text = " ".join(error.format_message().split())
    if error.ctx is None:
        return text
    usage = " ".join(error.ctx.get_usage().split())
    stop = "" if text.endswith((".", "!", "?")) else "."
    return f"{text}{stop} {usage}; --help says more"

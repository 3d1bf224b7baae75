"""`otpy-agents run`: let an agent do something, with retries and fallbacks, until it is done."""

from __future__ import annotations

import shlex
import sys
from typing import Any, Final, final

import click

from otpy_agents.cli.foreground import follow
from otpy_agents.cli.order_options import order_from, order_options
from otpy_agents.cli.refusal import fail
from otpy_agents.cli.run_lookup import state_file, state_option
from otpy_agents.cli.streams import is_text
from otpy_agents.errors import AgentsError, InvalidRunSetting
from otpy_agents.run.host.host import RunHandle, RunHost
from otpy_agents.store import RunStore

__all__ = ["run"]

_ARGV: Final = "otpy_agents.argv"

_EPILOG = """\b
Agents: claude, codex, gemini, copilot; or command, which runs what stands behind --
and finds the prompt in the file $OTPY_PROMPT_FILE. `otpy-agents runs policy` prints what follows
which failure.

\b
Liveness says when an attempt is ended and made again:
  none         never; a long silence is shown and nothing else
  deadline:S   after S seconds
  stall:S      after S seconds without a message, a tool call or tokens
  heartbeat:S  after S seconds without any output

\b
The answer goes to standard output, everything else to the error stream; with --json
each line of standard output is one object. Where a run stands is stored before it is
acted on, in $OTPY_STATE or ~/.local/state/otpy/runs.sqlite3. From another terminal:
  otpy-agents runs                what is going on
  otpy-agents runs retry-now ID   do not wait any longer
  otpy-agents runs resume ID      go on with a run whose program was killed

\b
Exit status:
  0    the agent did it
  1    it did not, or could not be started; otherwise the status of its last attempt
  2    the command line is wrong
  129  ended by SIGHUP;  130  by Ctrl-C;  137  by `runs kill`;  143  by SIGTERM

\b
Examples:
  otpy-agents run "Fix the failing test" --agent claude --fallback codex
  otpy-agents run - --agent codex --liveness stall:300 --budget-usd 2 < task.md
  otpy-agents run --agent command -- make -C build
"""


@final
class _WithArgv(click.Command):
    """A command that leaves alone what stands behind the first `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put that aside."""
        if "--" in args:
            border = args.index("--")
            ctx.meta[_ARGV] = tuple(args[border + 1 :])
            args = args[:border]
        return super().parse_args(ctx, args)


@click.command(cls=_WithArgv, epilog=_EPILOG, options_metavar="[OPTIONS]")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@order_options
@state_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object for each event.")
@click.option("-q", "--quiet", is_flag=True, help="Write nothing but the answer and errors.")
def run(prompt: tuple[str, ...], *, as_json: bool, quiet: bool, **options: Any) -> None:
    """Let an agent do what PROMPT says; - reads it from standard input.

    What fails is tried again, after a while if that helps, and then given to the next agent.
    Ctrl-C ends the run in good order; once more kills.
    """
    if as_json and quiet:
        raise click.UsageError("--json and --quiet contradict each other")
    argv: tuple[str, ...] = click.get_current_context().meta.get(_ARGV, ())
    try:
        order = order_from(_text(prompt), argv, options)
    except AgentsError as error:
        fail(error, 2)

    async def begin(host: RunHost, _: RunStore) -> RunHandle:
        return await host.submit(order)

    follow(state_file(), begin, as_json=as_json, quiet=quiet)


def _text(words: tuple[str, ...]) -> str | None:
    """Return the prompt.

    Raises:
        InvalidRunSetting: If it is more than one word for the shell.
    """
    if len(words) > 1:
        wanted = f"one, in quotes: {shlex.quote(' '.join(words))}"
        raise InvalidRunSetting("PROMPT", f"{len(words)} words", wanted)
    if words != ("-",):
        return words[0] if words else None
    if sys.stdin is None:
        fail("PROMPT: got a closed standard input, wanted some text on it", 2)
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError:
        text = None
    except OSError as error:
        fail(f"PROMPT: got '{error.strerror}' on standard input, wanted some text", 2)
    if text is None or not is_text(text):
        fail("PROMPT: got bytes on standard input that are not text, wanted UTF-8", 2)
    return text

"""What an operator may ask of runs over the socket of their host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from otpy_agents.errors import CommandRefused
from otpy_agents.run.decide.protocol import RunControl

if TYPE_CHECKING:
    from otpy_agents.operator import Handler, OperatorCommand
    from otpy_agents.run.host.handle import RunHandle

__all__ = ["COMMANDS", "run_commands"]

COMMANDS: Final[Mapping[str, RunControl]] = {
    "cancel": RunControl.CANCEL,
    "kill": RunControl.KILL,
    "retry-now": RunControl.RETRY_NOW,
    "cancel-retry": RunControl.CANCEL_RETRY,
    "force-fallback": RunControl.FORCE_FALLBACK,
}
"""Name of each command, and what it asks of the run that its argument `run` names."""


def run_commands(handles: Callable[[], Mapping[str, RunHandle]]) -> dict[str, Handler]:
    """Return the handler of each command.

    Args:
        handles: Returns the runs of the host, by id.
    """
    return {name: partial(_carry_out, handles, control) for name, control in COMMANDS.items()}


async def _carry_out(
    handles: Callable[[], Mapping[str, RunHandle]], control: RunControl, command: OperatorCommand
) -> str:
    run = command.text("run")
    handle = handles().get(run)
    if handle is None:
        raise CommandRefused(f"{command.name}: got run {run!r}, wanted one of this host")
    answered = await handle.ask(control)
    if not answered.accepted:
        raise CommandRefused(f"{command.name}: {answered.text}")
    return answered.text

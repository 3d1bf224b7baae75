"""How long work may take, and when a circuit opens: the numbers in `.supervisor/limits.yaml`."""

from __future__ import annotations

from typing import Final

from attrs import asdict, frozen

from otpy_agents.engine.supervisor_files import FOLDER, read_yaml

__all__ = ["EngineLimits", "load_limits"]

LIMITS_FILE: Final = f"{FOLDER}/limits.yaml"


@frozen(kw_only=True)
class EngineLimits:
    """The limits of a project.

    Attributes:
        workflow: Seconds that a workflow may take.
        component: Seconds that a step may take, with all its attempts and gates.
        circuit_failures: Failures within the window after which a circuit opens.
        circuit_window: Seconds of that window.
        circuit_reset: Seconds after which an open circuit lets one attempt through.
    """

    workflow: float = 3600.0
    component: float = 300.0
    circuit_failures: int = 5
    circuit_window: float = 300.0
    circuit_reset: float = 60.0


def load_limits(text: str | None, file: str = LIMITS_FILE) -> EngineLimits:
    """Return the limits in a text, with defaults for missing ones.

    Args:
        text: What is in the file; None if it is not there.
        file: How messages name it.

    Raises:
        InvalidEngineFile: It says something it must not.
    """
    ours = EngineLimits()
    if text is None:
        return ours
    table = read_yaml(file, text)
    table.only(*asdict(ours))
    return EngineLimits(
        workflow=table.number("workflow", ours.workflow),
        component=table.number("component", ours.component),
        circuit_failures=table.whole("circuit_failures", ours.circuit_failures, least=1),
        circuit_window=table.number("circuit_window", ours.circuit_window),
        circuit_reset=table.number("circuit_reset", ours.circuit_reset),
    )

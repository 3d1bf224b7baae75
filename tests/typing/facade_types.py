"""Never run: mypy and pyright check that `import otpy` is enough for errors and reports."""

from __future__ import annotations

from typing import assert_type

import otpy


def told(error: otpy.errors.CallFailed, report: otpy.reports.Report) -> tuple[str, str]:
    """Name an error and a report by the façade alone."""
    assert_type(report.path, str)
    return str(error), report.path


def found(task: otpy.tasks.Task[int], reply: otpy.server.Reply[str, int]) -> int:
    """Each name is found in its topic below `otpy`, without an import of the topic."""
    assert_type(reply.state, int)
    assert_type(task.process, otpy.Process)
    return reply.state


def served(static: otpy.SupervisorSpec, dynamic: otpy.specs.DynamicSpec) -> None:
    """The root of a lifespan has the type that belongs to its spec."""
    assert_type(otpy.lifespan(static).root, otpy.Supervisor)
    assert_type(otpy.lifespan(dynamic).root, otpy.DynamicSupervisor)

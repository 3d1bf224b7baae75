"""Never run: mypy and pyright check that handles show the calls of users, and nothing else."""

from __future__ import annotations

from typing import assert_type

import otpy
from otpy import server, signals, testing


async def use(root: otpy.Supervisor, pool: otpy.DynamicSupervisor) -> None:
    """The calls of users have their documented types."""
    process = root.child("a")
    assert_type(process.parent, otpy.Supervisor | otpy.DynamicSupervisor)
    assert_type(process.supervisor, otpy.Supervisor | otpy.DynamicSupervisor | None)
    assert_type(process.root, otpy.Supervisor | otpy.DynamicSupervisor)
    assert_type(process.incarnation, int)
    process.exit()
    process.kill()
    root.kill(grace=0)
    await pool.terminate_child(process)
    assert_type(otpy.current().alive, bool)


def misuse(root: otpy.Supervisor, pool: otpy.DynamicSupervisor, process: otpy.Process) -> None:
    """The calls of the runtime are not visible."""
    process.end(process.requested)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.stop()  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.record_end(None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.report_ready()  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.task.cancel()  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.behaviour.stop(otpy.Normal())  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    root.take(None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    root.enqueue(None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    root.note("a", None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    root.on_end = None  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    root.tree.order(print)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    pool.order_child(process.spec, None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    pool.error_of(None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    process.parent.tree.order(print)  # type: ignore[union-attr] # pyright: ignore[reportAttributeAccessIssue]


def misuse_what_hears(
    monitor: signals.Monitor,
    heard: signals.ExitSignals,
    caller: server.Caller[int],
    injected: testing.Injected,
) -> None:
    """The same holds for objects behind monitors, callers and fault plans."""
    monitor.notify(otpy.Normal())  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    heard.deliver(None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    caller.fail(otpy.Normal())  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    caller.reply("one")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    injected.note(1, None)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]

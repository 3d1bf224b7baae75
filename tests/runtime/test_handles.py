"""The user's handles: they show only the calls that users may make, and suffice for the runtime."""

from __future__ import annotations

import otpy
from otpy import ChildSpec, SupervisorSpec
from otpy._runtime.dynamic import DynamicShell
from otpy._runtime.process import LiveProcess
from otpy._runtime.supervisor import StaticShell
from tests.runtime.children import forever

PROCESS = {
    *("alive", "exit", "exit_reason", "get_state", "id", "incarnation", "kill", "last_exit"),
    *("link", "monitor", "on_exit", "parent", "path", "ready", "requested", "restarts", "resume"),
    *("root", "spec", "stop_requested", "supervisor", "suspend", "unlink", "value", "wait"),
}
BOTH = {
    *("abandoned", "child", "count_children", "ended", "failed", "failure", "kill", "portal"),
    *("retry_now", "running", "settled", "snapshot", "start_child", "stop", "subscribe"),
    *("terminate_child", "wait", "wait_for_restart", "wait_ready", "whereis", "which_children"),
}
STATIC = {"delete_child", "get_childspec", "reconfigure", "restart_child"}


def shown(kind: type) -> set[str]:
    names = [*dir(kind), *kind.__annotations__]
    return {name for name in names if not name.startswith("_")}


def test_the_types_show_exactly_what_users_may_call() -> None:
    """The user's handles show no operation of the runtime."""
    assert shown(otpy.Process) == PROCESS
    assert shown(otpy.Supervisor) == BOTH | STATIC
    assert shown(otpy.DynamicSupervisor) == BOTH | {"spec"}


async def test_every_handle_is_the_object_that_the_runtime_works_with() -> None:
    """Each life has one object, whose repr shows the public name."""
    spec = SupervisorSpec("app", [ChildSpec("a", forever), otpy.DynamicSupervisor.spec("pool")])
    async with otpy.start(spec, hooks=()) as app:
        pool = app.child("pool").supervisor
        assert isinstance(app, StaticShell)
        assert isinstance(pool, DynamicShell)
        assert isinstance(app.child("a"), LiveProcess)
        assert app.child("a").parent is app
        assert repr(app) == "<Supervisor 'app' running children=2>"
        assert repr(pool) == "<DynamicSupervisor 'app/pool' running children=0>"

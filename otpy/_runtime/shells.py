"""The two kinds of supervisor as the runtime knows them, and how each is made from its spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast, overload

from otpy._core.dynamic import DynamicMachine
from otpy._core.machine import SupervisorMachine
from otpy._core.spec import DynamicSpec
from otpy._runtime.dynamic import DynamicShell
from otpy._runtime.supervisor import StaticShell

if TYPE_CHECKING:
    from otpy._core.spec import SupervisorSpec
    from otpy._runtime.handles import AnySupervisor, DynamicSupervisor, Supervisor
    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Tree

AnyShell: TypeAlias = StaticShell | DynamicShell


def make_supervisor(
    spec: SupervisorSpec | DynamicSpec, tree: Tree, process: LiveProcess | None = None
) -> AnyShell:
    """Return the supervisor that `spec` describes; it has started nothing yet."""
    if isinstance(spec, DynamicSpec):
        return DynamicShell(DynamicMachine(spec, tree.random, tree.hooks), tree, process)
    return StaticShell(SupervisorMachine(spec, tree.random, tree.hooks), tree, process)


@overload
def shell_of(supervisor: Supervisor) -> StaticShell: ...
@overload
def shell_of(supervisor: DynamicSupervisor) -> DynamicShell: ...
def shell_of(supervisor: AnySupervisor) -> AnyShell:
    """Return `supervisor` as the runtime knows it: none was ever made as anything else."""
    return cast("AnyShell", supervisor)

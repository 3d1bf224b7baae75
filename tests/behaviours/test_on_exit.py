from __future__ import annotations

import otpy
from otpy import ChildSpec, Killed, Normal, Process, Restart, SupervisorSpec
from otpy.reports import HookFailed
from otpy.testing import Recording
from tests.behaviours.actor import actor
from tests.runtime.children import forever


async def test_an_exit_is_told_before_the_replacement_begins() -> None:
    """The callback is called exactly once, before the supervisor handles the exit."""
    heard: list[object] = []
    async with otpy.start(SupervisorSpec("app", [ChildSpec("w", forever)]), hooks=()) as root:
        first = root.child("w")

        def callback(process: Process, reason: otpy.ExitReason) -> None:
            heard.append((process, process.alive, reason, root.snapshot().children[0].incarnation))

        first.on_exit(callback)
        first.kill()
        await root.wait_for_restart("w", after=1)
        assert heard == [(first, False, Killed(), 1)]
        first.on_exit(callback)
        assert heard[1:] == [(first, False, Killed(), 2)]


async def test_a_callback_can_be_taken_back() -> None:
    """Another callback may do so while the process ends; doing it twice does no harm."""
    heard: list[str] = []
    async with otpy.start(SupervisorSpec("app", [])) as root:
        ann = await actor(root)
        forget_a = ann.process.on_exit(lambda _, __: heard.append("a"))

        def forget_the_next(*_: object) -> None:
            heard.append("b")
            forget_c()

        ann.process.on_exit(forget_the_next)
        forget_c = ann.process.on_exit(lambda _, __: heard.append("c"))
        forget_a()
        forget_a()
        await ann.end()
        assert heard == ["b"]
        forget_c()


async def test_a_callback_that_raises_disturbs_nobody(reports: Recording) -> None:
    """The error is reported, the other callbacks are called, and the supervisor goes on."""
    heard: list[otpy.ExitReason] = []
    async with otpy.start(SupervisorSpec("app", []), hooks=[reports]) as root:
        ann = await actor(root, restart=Restart.TRANSIENT)
        ann.process.on_exit(lambda _, __: 1 / 0)
        ann.process.on_exit(lambda _, reason: heard.append(reason))
        await ann.end()
        assert heard == [Normal()]
        assert isinstance(reports.one(HookFailed, "app/actor").error, ZeroDivisionError)
        ann.process.on_exit(lambda _, __: 1 / 0)
        assert len(reports.of(HookFailed)) == 2

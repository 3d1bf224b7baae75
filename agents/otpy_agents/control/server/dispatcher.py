"""Has an agent CLI execute a prompt: one fresh context, one attempt (CTL-32 to CTL-34)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, final

from attrs import evolve

from otpy_agents.adapters.adapter import Access
from otpy_agents.agent.runs import Runs, ended
from otpy_agents.attempt.failures import Detail
from otpy_agents.control.loop.protocol import AgentEnded, NotDispatched
from otpy_agents.control.server.settings import ControlSettings
from otpy_agents.control.task import COMMAND, ControlTask
from otpy_agents.control.validation import AgentOutcome
from otpy_agents.errors import AgentsError
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection
from otpy_agents.run.decide.liveness import Liveness, LivenessKind
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.result import AttemptRecord, RunResult
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.walls import choice_of

__all__ = ["Dispatcher"]

_ONCE: Final = RetryPolicy(
    max_retries=0, crash_restarts=0, max_attempts=1, enable_fallback=False, max_wait=0.0
)
"""The retries are those of the task: it alone sets their number (CTL-02)."""

_NOT_DONE: Final = frozenset(
    {
        *(Detail.AUTH, Detail.BILLING, Detail.QUOTA, Detail.RATE_LIMIT, Detail.OVERLOADED),
        *(Detail.SERVER_ERROR, Detail.NETWORK, Detail.MODEL_UNAVAILABLE, Detail.USAGE),
        *(Detail.CRASH, Detail.CONTEXT_OVERFLOW),
    }
)
"""Failures by which an agent was not executed; with others it has ended by itself."""


@final
class Dispatcher:
    """Makes dispatches by the run supervisor.

    Args:
        runs: Where runs are made.
        settings: What the operator decides.
    """

    def __init__(self, runs: Runs, settings: ControlSettings) -> None:
        self._runs = runs
        self._settings = settings

    async def dispatch(
        self, task: ControlTask, prompt: str, cwd: Path, label: str
    ) -> AgentEnded | NotDispatched:
        """Have the tool of a task execute a prompt.

        A dispatch of this label that an earlier host has left is taken up if its agent has ended by
        itself, and else made again: finished work is not paid for twice.

        Args:
            task: Whose tool, mode and command are used.
            prompt: What is to be done.
            cwd: Where; absolute.
            label: Of this dispatch, and of no other.

        Cancellation:
            The agent is stopped in order; nothing of it is alive afterwards.
        """
        return await self._make(task, prompt, cwd, label)

    async def ask(
        self, task: ControlTask, prompt: str, cwd: Path, label: str
    ) -> AgentEnded | NotDispatched:
        """Ask the tool of a task a question; as `dispatch`, but it is to change nothing (C-22).

        No rule looks at the project again after an answer.
        """
        return await self._make(task, prompt, cwd, label, access=Access.READ)

    async def help(
        self, task: ControlTask, helper: str, prompt: str, cwd: Path, label: str
    ) -> AgentEnded | NotDispatched:
        """Ask a helper, `CLI` or `CLI:MODEL`, for commands; as `ask` otherwise (CTL-39)."""
        cli, _, model = helper.partition(":")
        own = evolve(task, tool=cli, agent_mode=model or None, command=())
        return await self.ask(own, prompt, cwd, label)

    async def _make(
        self, task: ControlTask, prompt: str, cwd: Path, label: str, **more: Any
    ) -> AgentEnded | NotDispatched:
        try:
            order = evolve(self._order(task, prompt, cwd, label), **more)
            left = await self._runs.find(label) or await self._runs.over(label)
            if left is not None:
                answer = _heard(task, await ended(left), left.answer)
                if isinstance(answer, AgentEnded):
                    return answer
            run = await self._runs.submit(order)
            return _heard(task, await ended(run), run.answer)
        except AgentsError as error:
            return NotDispatched(str(error))

    def _order(self, task: ControlTask, prompt: str, cwd: Path, label: str) -> RunOrder:
        agent = AgentInstance(
            agent_id=task.tool,
            agent_cli=task.tool,
            model=_model(task),
            # A program has no vendor: what it writes of limits holds up no other dispatch.
            credential=label if task.tool == COMMAND else "",
        )
        return RunOrder(
            prompt=prompt,
            cwd=cwd,
            selection=AgentSelection(agents=(agent,)),
            policy=_ONCE,
            liveness=Liveness(LivenessKind.DEADLINE, self._settings.deadline),
            argv=task.command,
            sandbox=choice_of(
                self._settings.sandbox,
                [task.tool],
                network=True,
                environment=os.environ,
                field="--sandbox",
            ),
            secrets=self._settings.secrets,
            label=label,
        )


def _model(task: ControlTask) -> str | None:
    """Return the model that a mode names; `auto` leaves it to the tool, as a program has none."""
    return None if task.agent_mode in {None, "auto"} or task.tool == COMMAND else task.agent_mode


def _heard(task: ControlTask, result: RunResult, answer: str) -> AgentEnded | NotDispatched:
    """Take an agent's result as it is: an exit code other than 0 fails nothing."""
    last = result.attempts[-1] if result.attempts else None
    if last is None or last.stopped is not None or _is_not_done(task, last):
        return NotDispatched(result.error or result.ending.value)
    return AgentEnded(AgentOutcome(last.exit_code, answer))


def _is_not_done(task: ControlTask, last: AttemptRecord) -> bool:
    """Whether the tool was not executed; a program that has an exit code was, whatever it wrote."""
    if task.tool == COMMAND and last.exit_code is not None:
        return last.detail is Detail.CRASH
    return last.detail in _NOT_DONE

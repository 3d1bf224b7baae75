"""A worker: one fresh agent for one attempt, whose answer has the form of its role (ENG-36)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from attrs import evolve, frozen

from otpy_agents.adapters.adapter import Access
from otpy_agents.agent.runs import ended
from otpy_agents.attempt.failures import Detail
from otpy_agents.engine.events import FailureCause
from otpy_agents.engine.outputs import (
    ImplementationOutput,
    Output,
    OutputFault,
    OutputKind,
    PlanOutput,
    WorkStatus,
    read_output,
    schema_of,
)
from otpy_agents.engine.plan import Feature, plan_of
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.errors import AgentsError, CliMissing
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection
from otpy_agents.run.decide.liveness import Liveness, LivenessKind
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.result import Ending, RunResult, StopCause
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox.behaviour import Mount

if TYPE_CHECKING:
    from otpy_agents.agent.runs import Runs

__all__ = ["WorkerResult", "do_work", "read_result", "worker_order"]

_RETRIES: Final = RetryPolicy(max_retries=2, backoff_base=2.0, max_wait=60.0, jitter=0.1)
"""The retries within an attempt: for the network, a busy vendor, a crash."""

_OPEN: Final = "process"
"""The sandbox that holds nothing off."""


@final
@frozen(kw_only=True)
class WorkerResult:
    """What an attempt of a worker came to.

    Attributes:
        output: Its answer; None if there is none that fits.
        fault: The misfit of its answer; empty if it fits.
        failure: Why there is no answer at all; empty if there is one.
        cause: The kind of that.
        seconds: How long it took.
        tokens_in: Tokens that it read, those from a cache included.
        tokens_out: Tokens that it wrote.
        cost_usd: US dollars; None if unknown.
        is_agents_fault: Whether a circuit counts it as a failure of the agent.
    """

    output: Output | None = None
    fault: str = ""
    failure: str = ""
    cause: FailureCause = FailureCause.ERROR
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    is_agents_fault: bool = False

    @property
    def output_json(self) -> str:
        """The output as JSON; empty if there is none."""
        return "" if self.output is None else self.output.model_dump_json()

    @property
    def claims(self) -> tuple[str, ...]:
        """The files that it says it has changed."""
        one = self.output
        return one.files_modified if isinstance(one, ImplementationOutput) else ()

    @property
    def gave_up(self) -> str:
        """Why it says that it could not do it; empty if it says that it could."""
        one = self.output
        if not isinstance(one, ImplementationOutput) or one.status is WorkStatus.COMPLETED:
            return ""
        return "; ".join(one.next_steps) or "it did not say why"

    def features(self, workflow: str) -> tuple[Feature, ...]:
        """Return its proposed features; empty unless it is a planner."""
        one = self.output
        return plan_of(one, workflow).features if isinstance(one, PlanOutput) else ()


def worker_order(
    role: WorkerRole,
    agent: str,
    prompt: str,
    folder: Path,
    *,
    sandbox: SandboxChoice,
    mounts: Sequence[Mount] = (),
    label: str,
    secrets: tuple[str, ...] = (),
) -> RunOrder:
    """Return the run that is one attempt of a worker: a fresh context, and one agent (C-21).

    Args:
        role: As whom. A role that implements may change files, and in a sandbox that holds do
            anything; the others look around.
        agent: `vendor`, `vendor:model` or `command`.
        prompt: Its prompt, including `output_instructions`.
        folder: Its work tree; absolute.
        sandbox: Where it runs.
        mounts: What else it sees there.
        label: Of this attempt, and of no other.
        secrets: Names of more variables that are secret.
    """
    cli, _, model = agent.partition(":")
    instance = AgentInstance(
        agent_id=agent, agent_cli=cli, model=model or None, cli_flags=shlex.join(role.flags)
    )
    access = _access(role, sandbox)
    return RunOrder(
        prompt=prompt,
        cwd=folder,
        selection=AgentSelection(agents=(instance,)),
        policy=_RETRIES,
        liveness=Liveness(LivenessKind.DEADLINE, role.config.timeout),
        access=access,
        argv=role.argv,
        sandbox=evolve(sandbox, mounts=(*sandbox.mounts, *mounts)),
        # Claude Code lets root do anything only where it is told so.
        environment={"IS_SANDBOX": "1"} if access is Access.FULL else {},
        schema=json.dumps(schema_of(role.output)),
        secrets=secrets,
        label=label,
    )


def _access(role: WorkerRole, sandbox: SandboxChoice) -> Access:
    if role.output is not OutputKind.IMPLEMENTATION:
        return Access.READ
    # Asked for each command, an agent that nobody answers cannot even run the tests.
    return Access.EDIT if sandbox.name == _OPEN else Access.FULL


async def do_work(runs: Runs, order: RunOrder, kind: OutputKind) -> WorkerResult:
    """Make the run of an attempt, and read its answer; a misfit is not a crash (ENG-37).

    Cancellation:
        The agent is stopped in order; nothing of it is alive afterwards.
    """
    try:
        run = await runs.submit(order)
        return read_result(await ended(run), run.answer, kind)
    except AgentsError as error:
        return WorkerResult(failure=str(error), is_agents_fault=isinstance(error, CliMissing))


def read_result(result: RunResult, answer: str, kind: OutputKind) -> WorkerResult:
    """Return the result of a finished run.

    An agent that had some tool refused has worked all the same if its answer fits: what it has
    done, the gates judge (C-25). One without an answer is told so, as one whose answer does not
    fit.
    """
    attempts, usage = result.attempts, result.usage
    last = attempts[-1] if attempts else None
    spent = WorkerResult(
        seconds=attempts[-1].ended - attempts[0].began if attempts else 0.0,
        tokens_in=usage.input,
        tokens_out=usage.output,
        cost_usd=None if usage.unpriced else usage.cost_usd,
    )
    detail = None if last is None else last.detail
    if result.ending is Ending.SUCCEEDED or detail is Detail.TOOLS_DENIED:
        output = read_output(kind, answer)
        if not isinstance(output, OutputFault):
            return evolve(spent, output=output)
        if result.ending is Ending.SUCCEEDED:
            return evolve(spent, fault=output.message, is_agents_fault=True)
    why = result.error or str(result.ending)
    if detail is Detail.NO_RESULT:
        return evolve(spent, fault=f"{kind} output: {why}", is_agents_fault=True)
    late = last is not None and last.stopped is StopCause.DEADLINE
    return evolve(
        spent,
        failure=why,
        cause=FailureCause.TIME if late else FailureCause.ERROR,
        is_agents_fault=result.user_stop is None,
    )

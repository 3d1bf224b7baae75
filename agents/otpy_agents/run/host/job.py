"""Makes the job of one attempt from an order: its command, environment and place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, frozen

from otpy_agents.adapters.adapter import Adapter, AttemptRequest
from otpy_agents.run.decide.chain import AgentInstance
from otpy_agents.run.decide.protocol import LaunchAttempt
from otpy_agents.run.host.logins import provider_of
from otpy_agents.run.host.order import RunOrder
from otpy_agents.sandbox.behaviour import Egress, Job, Mount
from otpy_agents.sandbox.marker import RESERVED, run_marker
from otpy_agents.store.redaction import Redaction

__all__ = ["Surroundings", "inherited", "job_of", "record_of"]


@frozen(kw_only=True)
class Surroundings:
    """The shared surroundings of a host's attempts.

    Attributes:
        environment: What attempts inherit.
        secrets: Secret values to keep out of what is shown or stored, by name.
    """

    environment: Mapping[str, str]
    secrets: Mapping[str, str]

    def own_redaction(self) -> Redaction:
        """Return what cleans text of the secrets that this host knows without any order."""
        return Redaction(self.environment, values=self.secrets)

    def redaction(self, order: RunOrder, environment: Mapping[str, str]) -> Redaction:
        """Return what cleans text of the secrets in `environment` and of our own."""
        return Redaction(environment, names=order.secrets, values=self.secrets)


def inherited(order: RunOrder, around: Surroundings, *, inherits: bool) -> dict[str, str]:
    """Return the environment of each attempt of `order`, without the agent's additions.

    Args:
        order: The order; its own variables win.
        around: What there is to inherit. Variables of an outer run are dropped.
        inherits: Whether all of it is taken, or only what the order names.
    """
    names = around.environment if inherits else order.passed
    environment = {
        name: around.environment[name]
        for name in names
        if name in around.environment and not name.startswith(RESERVED)
    }
    # Python holds output back when it goes into a pipe: it would not stream, and look like a stall.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    return {**environment, **order.environment}


def job_of(
    run: str,
    order: RunOrder,
    launch: LaunchAttempt,
    adapter: Adapter,
    *,
    folder: Path,
    around: Surroundings,
    inherits: bool,
) -> Job:
    """Return what one attempt runs.

    Args:
        run: Id of the run.
        order: The order of the run.
        launch: The attempt, as the machine decided.
        adapter: That of the agent's CLI.
        folder: A folder for this attempt alone, which is there or will be made.
        around: The host's surroundings for it.
        inherits: `Sandbox.inherits`.

    Raises:
        InvalidRequest: The CLI cannot be started like that.
    """
    agent = launch.agent
    base = AttemptRequest(
        prompt=order.prompt,
        folder=folder,
        access=order.access,
        argv=order.argv,
        schema=order.schema,
    )
    request = agent.request(base, session=launch.session, budget_usd=launch.budget_usd)
    environment = inherited(order, around, inherits=inherits)
    environment.update(_configuration(agent, adapter))
    request = evolve(request, provider=provider_of(agent, order, environment, launch.session))
    hosts = order.sandbox.hosts
    job = Job(
        run_id=run,
        attempt=launch.number,
        launch=adapter.launch(request),
        cwd=order.cwd,
        environment=environment,
        marker=run_marker(run, launch.number),
        limits=order.sandbox.limits,
        network=order.sandbox.network,
        egress=None if hosts is None else Egress(hosts=hosts, folder=folder.with_suffix(".egress")),
        mounts=(*_mounts(agent, folder), *order.sandbox.mounts),
        artifacts=order.artifacts,
        record=record_of(folder),
    )
    return evolve(job, secrets=around.redaction(order, job.variables))


def record_of(folder: Path) -> Path:
    """Return the file for the exit of the attempt whose folder it is; the attempt may write there.

    So it lies beside the folder.
    """
    return folder.with_suffix(".exit")


def _configuration(agent: AgentInstance, adapter: Adapter) -> dict[str, str]:
    if not agent.config_dir or not adapter.config_variable:
        return {}
    return {adapter.config_variable: agent.config_dir}


def _mounts(agent: AgentInstance, folder: Path) -> tuple[Mount, ...]:
    """Return the folders that a CLI writes to beside its work directory (RUN-05)."""
    configuration = (Path(agent.config_dir),) if agent.config_dir else ()
    return tuple(Mount(one, writable=True) for one in (folder, *configuration))

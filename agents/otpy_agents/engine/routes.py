"""Which agent does a step: the role says so, or what agents have achieved (ENG-33 to ENG-35).

`route` is a pure function: the same history and the same chance choose the same agent.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import field, frozen

from otpy_agents.adapters.registry import adapter_names
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.engine.supervisor_files import FOLDER, YamlTable, read_yaml
from otpy_agents.engine.task_types import TASK_TYPES, infer_task_type

__all__ = [
    "ADAPTIVE_FILE",
    "AdaptiveRules",
    "History",
    "Route",
    "RouteRecord",
    "chance_of",
    "infer_task_type",
    "read_adaptive",
    "recalculated",
    "route",
]

ADAPTIVE_FILE: Final = f"{FOLDER}/adaptive.yaml"

_SHARE: Final = "a share as a number from 0 to 1"
_AGENT: Final = "an agent as VENDOR or VENDOR:MODEL"


def _sealed(lists: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType(dict(lists))


@frozen(kw_only=True)
class AdaptiveRules:
    """How agents are chosen where the role leaves it open.

    Attributes:
        enabled: Whether they are; else each role has the agent it names.
        min_samples_before_adapt: Attempts of an agent at a type of task before its record counts.
        recalculation_interval: New attempts at a type of task before records are looked at again.
        exploration_rate: Share of the steps for which any agent of the list is taken, so that those
            that are never best get a record too.
        success_threshold: Share of attempts that an agent must have succeeded with.
        success_weight: How much success counts among agents above the threshold.
        duration_weight: How much it counts that an agent is quick.
        routing: Agents for a type of task, the preferred one first.
    """

    enabled: bool = False
    min_samples_before_adapt: int = 10
    recalculation_interval: int = 10
    exploration_rate: float = 0.1
    success_threshold: float = 0.8
    success_weight: float = 0.6
    duration_weight: float = 0.4
    routing: Mapping[str, tuple[str, ...]] = field(
        factory=dict[str, tuple[str, ...]], converter=_sealed
    )


@frozen(kw_only=True)
class RouteRecord:
    """What an agent has achieved at a type of task.

    Attributes:
        attempts: How many it made.
        good: How many of them gave an output that fits.
        seconds: How long all of them took together.
    """

    attempts: int = 0
    good: int = 0
    seconds: float = 0.0

    @property
    def success(self) -> float:
        """Share of the attempts that were good; 0 if there are none."""
        return self.good / self.attempts if self.attempts else 0.0


History: TypeAlias = Mapping[tuple[str, str], RouteRecord]
"""Records by type of task and agent, as `("refactoring", "claude:sonnet")`."""


@frozen
class Route:
    """Which agent does a step.

    Attributes:
        cli: The agent, as `vendor` or `vendor:model`; or `command`.
        reason: Why, in a line for people and the log.
    """

    cli: str
    reason: str


def route(
    role: WorkerRole,
    task_type: str,
    rules: AdaptiveRules,
    history: History,
    chance: float,
    resting: Collection[str] = (),
) -> Route:
    """Return the agent for a step: of the role, of the rules, or of the shipped role.

    Args:
        role: Who does it; what the project's own file says counts before all.
        task_type: Of the task, see `infer_task_type`.
        rules: What `adaptive.yaml` says.
        history: What agents have achieved.
        chance: A number from 0 up to 1, see `chance_of`.
        resting: Agents whose circuit lets nothing through; avoided where there is another.
    """
    if role.own_cli:
        return Route(role.cli, f"the project's role {role.name} says so")
    listed = rules.routing.get(task_type, ())
    if not rules.enabled or not listed:
        return Route(role.cli, f"the role {role.base or role.name} says so")
    agents = [agent for agent in listed if agent not in resting]
    if not agents:
        return Route(listed[0], f"first for {task_type}; the circuits of all others are open too")
    if len(agents) > 1 and chance < rules.exploration_rate:
        place = int(chance / rules.exploration_rate * len(agents))
        return Route(agents[place], f"tried out for {task_type}")
    return _best(agents, task_type, rules, history)


def _best(agents: Sequence[str], task_type: str, rules: AdaptiveRules, history: History) -> Route:
    records = {agent: history.get((task_type, agent), RouteRecord()) for agent in agents}
    known = {
        agent: record
        for agent, record in records.items()
        if record.attempts >= rules.min_samples_before_adapt
    }
    good = {one: known[one] for one in known if known[one].success >= rules.success_threshold}
    if good:
        slowest = max(one.seconds / one.attempts for one in good.values())
        best = max(good, key=lambda one: _score(good[one], slowest, rules))
        return Route(best, f"best for {task_type}: {_told(good[best])}")
    untried = [agent for agent in agents if agent not in known]
    if untried:
        return Route(untried[0], f"first for {task_type} of those with no sufficient record")
    best = max(known, key=lambda one: known[one].success)
    return Route(best, f"least bad for {task_type}: {_told(known[best])}")


def _score(record: RouteRecord, slowest: float, rules: AdaptiveRules) -> float:
    took = record.seconds / record.attempts
    quick = 1 - took / slowest if slowest else 1.0
    return rules.success_weight * record.success + rules.duration_weight * quick


def _told(record: RouteRecord) -> str:
    return f"{record.good} of {record.attempts} attempts succeeded"


def chance_of(seed: int | None, *parts: str) -> float:
    """Return a number from 0 up to 1 for `route`.

    Args:
        seed: The same seed and parts give the same number; None gives another one each time.
        parts: What it is for, such as workflow, step and attempt.
    """
    if seed is None:
        return random.random()
    return random.Random("/".join((str(seed), *parts))).random()


def recalculated(known: History, latest: History, rules: AdaptiveRules) -> History:
    """Return the history to choose by: the latest records of types with enough new attempts.

    A choice does not change with each attempt then, and a run of bad luck is seen as a whole.

    Args:
        known: What was chosen by so far; empty at the beginning.
        latest: What there is now.
        rules: Of them `recalculation_interval`.
    """
    before, now = _attempts(known), _attempts(latest)
    due = {
        kind
        for kind, attempts in now.items()
        if kind not in before or attempts - before[kind] >= rules.recalculation_interval
    }
    kept = {key: record for key, record in known.items() if key[0] not in due}
    return kept | {key: record for key, record in latest.items() if key[0] in due}


def _attempts(history: History) -> dict[str, int]:
    total: dict[str, int] = {}
    for (kind, _), record in history.items():
        total[kind] = total.get(kind, 0) + record.attempts
    return total


# --- reading --------------------------------------------------------------------------------------


def read_adaptive(text: str | None, file: str = ADAPTIVE_FILE) -> AdaptiveRules:
    """Return the rules that a text has; without one nothing is adapted.

    Args:
        text: What is in the file; None if it is not there.
        file: How messages name it.

    Raises:
        InvalidEngineFile: It says something it must not.
    """
    ours = AdaptiveRules()
    if text is None:
        return ours
    whole = read_yaml(file, text)
    whole.only("adaptive")
    table = whole.table("adaptive")
    table.only(
        *("enabled", "min_samples_before_adapt", "recalculation_interval", "exploration_rate"),
        *("success_threshold", "score_weights", "routing"),
    )
    weights = table.table("score_weights")
    weights.only("success_rate", "avg_duration")
    return AdaptiveRules(
        enabled=table.flag("enabled", default=True),
        min_samples_before_adapt=table.whole(
            "min_samples_before_adapt", ours.min_samples_before_adapt, least=1
        ),
        recalculation_interval=table.whole(
            "recalculation_interval", ours.recalculation_interval, least=1
        ),
        exploration_rate=_share(table, "exploration_rate", ours.exploration_rate),
        success_threshold=_share(table, "success_threshold", ours.success_threshold),
        success_weight=_share(weights, "success_rate", ours.success_weight),
        duration_weight=_share(weights, "avg_duration", ours.duration_weight),
        routing=_lists(table.table("routing")),
    )


def _share(table: YamlTable, key: str, default: float) -> float:
    if table.values.get(key) == 0:
        return 0.0
    return table.number(key, default, wanted=_SHARE, most=1.0)


def _lists(table: YamlTable) -> dict[str, tuple[str, ...]]:
    table.only(*TASK_TYPES)
    lists = {kind: table.texts(kind) for kind in table}
    for kind, agents in lists.items():
        for place, agent in enumerate(agents):
            vendor, colon, model = agent.partition(":")
            if vendor not in adapter_names() or (colon and not model):
                known = ", ".join(name for name in adapter_names() if name != "command")
                raise table.wrong(kind, place, wanted=f"{_AGENT}, with one of {known}")
            if vendor == "command":
                raise table.wrong(kind, place, wanted=f"{_AGENT}; a command belongs to a role")
    return lists

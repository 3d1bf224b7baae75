"""The assignments of a soak: the acts of their agents, and the outcomes that they must have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, TypeAlias

from attrs import field, frozen

from otpy_agents.run import Detail
from otpy_agents.store.records import State
from otpy_agents.testing import (
    Ask,
    Crash,
    Do,
    Fail,
    Hang,
    Say,
    Script,
    Spend,
    Step,
    Succeed,
    UseTool,
)

__all__ = ["KINDS", "UNPROVEN", "Kind", "Plan", "plans_of", "rules_of"]

UNPROVEN: Final = "unproven"
"""What an agent answers whose work is not accepted."""

_TOKENS: Final = 1000
_OUTSIDE: Final = {"file_path": "/etc/passwd"}

_PATIENCE: Final[Mapping[str, object]] = {
    "agent": "command",
    "argv": ["agent"],
    "prompt": "Do your work.",
    "restarts": 99,
    "within": 600,
    "backoff": [1, 5, 20],
    "stall": 900,
}
"""What every assignment says: what is not its own fault must not use up its restarts."""

Acts: TypeAlias = Callable[[int, Random, float], Script]
"""From the number of an attempt, from 1, chance, and the seconds of useful work to a script."""


@frozen(kw_only=True)
class Kind:
    """A kind of assignment.

    Attributes:
        share: The number of its assignments, in proportion to the others.
        acts: The acts of its agent.
        keys: Its keys in the list; `...` is ample time for its useful work, and None is no key.
        ends: The outcome that it must have, in spite of all other faults.
        why: The text that the reason must have; empty for any.
    """

    share: int
    acts: Acts
    keys: Mapping[str, object] = field(factory=dict[str, object])
    ends: State = State.DONE
    why: str = ""


@frozen(kw_only=True)
class Plan:
    """One assignment.

    Attributes:
        id: Its id; begins with its kind.
        kind: Its kind.
        seconds: Useful work until it is done, if nothing interrupts it.
        seed: Of its chance.
    """

    id: str
    kind: Kind
    seconds: float
    seed: str

    @property
    def table(self) -> str:
        """Its table in the work list."""
        keys = {**_PATIENCE, **self.kind.keys}
        keys = {
            key: 1.3 * self.seconds + 1500 if value is ... else value for key, value in keys.items()
        }
        shown = (
            f"{key} = {json.dumps(value)}".replace("{id}", self.id)
            for key, value in keys.items()
            if value is not None
        )
        return "\n".join(["[[assignment]]", f'id = "{self.id}"', *shown, ""])

    def __call__(self, number: int) -> Script:
        """Return the acts of its agent in an attempt."""
        return self.kind.acts(number, Random(f"{self.seed}/{number}"), self.seconds)


def _works(chance: Random, seconds: float) -> list[Step]:
    """Return useful work for this many seconds, in turns with tools."""
    steps: list[Step] = [Spend(input=chance.randrange(1, 9), output=1, after=0.5)]
    passed, spent = 0.5, 10
    while passed < seconds:
        after, lasts = chance.uniform(1, 400), chance.uniform(1, 800)
        passed, spent = passed + after + lasts, spent + chance.randrange(1, 20)
        steps.append(UseTool(lasts=lasts, after=after))
        if chance.random() < 0.2:
            steps.append(Spend(input=spent, output=1))
    return steps


def _until(times: int, *ends: Step, early: float = 0.5) -> Acts:
    """Return the acts of an agent that ends otherwise in its first attempts, and then is done.

    Args:
        times: The number of these attempts.
        ends: Their ends.
        early: The share of the work after which they end, at most.
    """

    def acts(number: int, chance: Random, seconds: float) -> Script:
        if number > times:
            return Script(*_works(chance, seconds))
        share = chance.uniform(0.0, early)
        return Script(*_works(chance, seconds * share), *ends, deaf=chance.random() < 0.2)

    return acts


def _always(*ends: Step) -> Acts:
    return _until(10**9, *ends, early=0.1)


def _spends(number: int, chance: Random, seconds: float) -> Script:
    """Spend a budget in the first attempt, and then do some more."""
    if number > 1:
        return Script(*_works(chance, seconds))
    much = Spend(input=_TOKENS, output=1, after=30)
    return Script(much, UseTool(lasts=chance.uniform(1, 300)), Hang())


def _vanishes(number: int, chance: Random, seconds: float) -> Script:
    """Remove its own work directory, and crash."""
    gone = Do(action=lambda cwd: shutil.rmtree(cwd, ignore_errors=True))
    return Script(*_works(chance, seconds / 10 / number), gone, Crash())


def _overspends(number: int, chance: Random, seconds: float) -> Script:
    """Spend a whole budget in each of the first attempts, and finish with the rest."""
    if number > _BUDGETS:
        return Script(*_works(chance, seconds))
    return Script(Spend(input=2 * _TOKENS, output=1, after=30), UseTool(lasts=9.0), Hang())


_BUDGETS: Final = 2
_HOPELESS: Final = {"restarts": 3, "within": 360_000, "backoff": [2, 4]}
_DRONE: Final = {"role": "drone", "restarts": 1, "within": 360_000}
_MANY: Final = "restarts used up"


def _reaped(
    why: str, *ends: Step, share: int = 2, keys: Mapping[str, object] | None = None
) -> Kind:
    """Return a kind that fails in every attempt, and is given up for that."""
    return Kind(share=share, acts=_always(*ends), ends=State.REAPED, why=why, keys=keys or {})


KINDS: Final[Mapping[str, Kind]] = {
    "steady": Kind(share=8, acts=_until(0)),
    "silent": Kind(
        share=2, acts=lambda _n, _c, long: Script(Say(text="x", after=min(long / 18, 600)))
    ),
    "crashy": Kind(share=4, acts=_until(3, Crash())),
    "flaky": Kind(share=4, acts=_until(4, Fail(detail=Detail.NETWORK))),
    "busy": Kind(share=2, acts=_until(3, Fail(detail=Detail.OVERLOADED))),
    "limited": Kind(share=4, acts=_until(6, Fail(detail=Detail.RATE_LIMIT))),
    "stuck": Kind(share=4, acts=_until(2, Hang())),
    "asking": Kind(share=3, acts=_until(2, Ask(question="Which?"))),
    "fresh": Kind(share=2, acts=_until(2, Crash()), keys={"context": "fresh"}),
    "late": Kind(share=2, acts=_until(1, Hang(), early=0.1), keys={"deadline": ..., "stall": None}),
    "dear": Kind(share=3, acts=_spends, keys={"tokens": _TOKENS}),
    "renewed": Kind(
        share=2, acts=_overspends, keys={"tokens": _TOKENS, "on_exceed": "restart(fresh=9)"}
    ),
    "gang": Kind(share=3, acts=_until(2, Crash()), keys={"gang": "g"}),
    "long": Kind(share=1, acts=_until(1, Fail(detail=Detail.CONTEXT_OVERFLOW))),
    "sloppy": Kind(share=2, acts=_until(2, Succeed(answer=UNPROVEN))),
    "hopeless": _reaped(_MANY, Crash(), keys=_HOPELESS),
    "drone": _reaped(_MANY, Crash(), keys=_DRONE),
    "unserved": _reaped(
        "terminal failure: model_unavailable", Fail(detail=Detail.MODEL_UNAVAILABLE)
    ),
    "odd": _reaped("unknown failure", Fail(detail=Detail.UNKNOWN)),
    "wordy": _reaped(
        "persistent failure: context_overflow", Fail(detail=Detail.CONTEXT_OVERFLOW), share=1
    ),
    "liar": _reaped("terminal failure: tests_failed", Succeed(answer=UNPROVEN), share=1),
    "rogue": _reaped("outside", UseTool(name="Write", input=_OUTSIDE, lasts=60.0), Hang()),
    "homeless": Kind(
        share=1, acts=_until(0), keys={"cwd": "nowhere"}, ends=State.FAILED, why="a folder that"
    ),
    "vanishing": Kind(
        share=1, acts=_vanishes, keys={"cwd": "{id}"}, ends=State.FAILED, why="a folder that"
    ),
}
"""By name."""


def plans_of(seed: int, count: int, seconds: float) -> tuple[Plan, ...]:
    """Return the assignments of a soak, in the order of the list.

    Args:
        seed: Of their chance.
        count: Their number.
        seconds: Useful work of each, about.
    """
    chance = Random(f"{seed}/plans")
    names = [name for name, kind in KINDS.items() for _ in range(kind.share)]
    drawn = [names[number % len(names)] for number in range(count)]
    chance.shuffle(drawn)
    return tuple(
        Plan(
            id=f"{name}-{number}",
            kind=KINDS[name],
            seconds=seconds * chance.uniform(0.5, 1.5),
            seed=f"{seed}/{number}",
        )
        for number, name in enumerate(drawn)
    )


def rules_of() -> str:
    """Return the rules on what agents do."""
    return "rules:\n  - name: outside\n    kind: files-outside\n    action: reap\n"

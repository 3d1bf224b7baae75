"""One scenario in other manners: with another kind of child, and with other hooks.

A step that a kind of child cannot do is taken out of the scenario first, on both sides. An event
that otpy is not asked to report is taken out of both traces before the comparison.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, final

from attrs import evolve, frozen

from tests.conformance.scenario import Call, Scenario, Sup, Together, Worker

if TYPE_CHECKING:
    from tests.conformance.scenario import Node, Step
    from tests.conformance.trace import Section, Trace

HEARINGS: Final = ("recorded", "logged", "unheard")
"""By which hooks a tree is heard: the runner's own, the default log before that, or none at all."""

LONG: Final = 5000
"""Milliseconds that nobody ever needs."""

_TOLD_BY_CHILDREN: Final = ("start", "fail", "ignore", "die", "kill", "exit", "asked", "end")


@final
@frozen
class Manner:
    """The manner in which otpy plays a scenario.

    Attributes:
        kind: The kind of child of its workers; see `actor.py`.
        hearing: One of `HEARINGS`.
        made: Whether functions make the children of supervisors, in place of lists.
    """

    kind: str = "announced"
    hearing: str = "recorded"
    made: bool = False

    def fitted(self, scenario: Scenario) -> Scenario:
        """Return `scenario` without the parts that this kind of child cannot do.

        - Only a child that reports when it is ready can be dead on arrival: it has done so, and
          ended, before its supervisor handles the first.
        - A plain coroutine function is ready at once. It cannot fail to start, or start slowly.
        - A limit of 0 is over before a child that is asked, not cancelled, can take a step.
        - A child that is told to end before its first step never runs (AIO-06): where that may be,
          its script must not end in another way than asked.
        """
        if self.kind == "announced":
            return scenario
        hasty = scenario.holds or any(isinstance(step, Together) for step in scenario.steps)

        def worker(found: Worker) -> Worker:
            if self.kind != "plain":
                shutdown = LONG if found.shutdown == 0 else found.shutdown
                return evolve(found, starts=found.starts.replace("d", "s"), shutdown=shutdown)
            ends = found.ends if found.ends == "silent" or not hasty else "shutdown"
            takes = 0 if hasty else found.takes
            return evolve(found, starts="", start_takes=0, ends=ends, takes=takes)

        def node(found: Node) -> Node:
            if isinstance(found, Worker):
                return worker(found)
            return evolve(found, children=tuple(map(node, found.children)))

        def step(found: Step) -> Step:
            if isinstance(found, Together):
                items: Any = tuple(map(step, found.items))
                return evolve(found, items=items)
            if isinstance(found, Call) and isinstance(found.arg, Worker | Sup):
                return evolve(found, arg=node(found.arg))
            return found

        tree: Any = node(scenario.tree)
        return Scenario(tree, tuple(map(step, scenario.steps)))

    def heard(self, trace: Trace) -> Trace:
        """Return the part of `trace` that this manner reports."""
        return [self._section(section) for section in trace]

    def _section(self, section: Section) -> Section:
        events, results, ended = section.events, section.results, section.ended
        if self.kind == "plain":  # a child is ready before it takes its first step
            events = [event for event in events if not event.startswith("start ")]
        if self.hearing == "unheard":
            events = [event for event in events if event.split()[0] in _TOLD_BY_CHILDREN]
            if self.kind == "plain":  # the child may never have taken that step
                events = [event for event in events if event.split()[0] not in {"asked", "end"}]
            results = [re.sub(r"\berror .*", "error", found) for found in results]
            ended = []
        return evolve(section, events=events, results=results, ended=ended)

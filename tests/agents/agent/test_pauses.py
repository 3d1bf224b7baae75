"""The causes of a mortal's rest, and their cures, on their own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.agent.pause import BUDGET, OPERATOR, QUESTION, AgentPause, Cure, Pauses

CURES = {
    OPERATOR: Cure.RESUME,
    "rule:r": Cure.RESUME,
    "gang:g": Cure.RESUME,
    BUDGET: Cure.GRANT,
    QUESTION: Cure.ANSWER,
}
CAUSES = st.sampled_from(sorted(CURES))
STEPS = st.lists(st.one_of(CAUSES, st.sampled_from(Cure)), max_size=20)


@given(STEPS)
def test_each_pause_is_ended_by_its_own_cure_and_by_nothing_else(steps: list[str]) -> None:
    """The first pause of a cause counts until its cure; the oldest of all pauses is told."""
    pauses, model = Pauses(), dict[str, AgentPause]()
    for number, step in enumerate(steps):
        if isinstance(step, Cure):
            pauses = pauses.cured(step)
            model = {cause: one for cause, one in model.items() if CURES[cause] is not step}
        else:
            pause = AgentPause(by=step, why=f"step {number}")
            pauses = pauses.add(pause)
            model.setdefault(step, pause)
        assert pauses.first == next(iter(model.values()), None)
        assert [cause in pauses for cause in CURES] == [cause in model for cause in CURES]


def test_a_pause_says_what_a_person_has_to_type() -> None:
    """One command for each cure."""
    said = {cause: AgentPause(by=cause, why="why", kind="cost_usd").needs("a") for cause in CURES}
    assert said[OPERATOR] == said["rule:r"] == "why: `otpy-agents resume a`"
    assert said[QUESTION] == "it has asked 'why': `otpy-agents answer a TEXT`"
    assert said[BUDGET] == "why; grant it more: `otpy-agents budget grant a --usd X`"

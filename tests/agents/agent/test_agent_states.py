"""One machine holds the state of an agent; a move outside its table cannot happen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.agent.state import MOVES, Agent, AgentState, Happening, moves_table
from otpy_agents.errors import ForbiddenMove

WORKING, FAILED, REAPED = AgentState.WORKING, AgentState.FAILED, AgentState.REAPED
happenings = st.lists(st.sampled_from(Happening), max_size=30)


@given(happenings)
def test_an_agent_moves_as_the_table_says_and_not_otherwise(history: list[Happening]) -> None:
    """Each move is a fact that fits the one before; a forbidden one changes nothing (TREE-25)."""
    agent = Agent("p/a")
    before = agent.state
    for happening in history:
        if agent.can(happening):
            move = agent.take(happening, "because")
            assert (move.source, move.target) == (before, agent.state)
            assert MOVES[move.source, happening] is move.target
            assert (move.agent, move.happening, move.why) == ("p/a", happening, "because")
        else:
            with pytest.raises(ForbiddenMove):
                agent.take(happening)
        assert not (before.final and agent.state is not before)
        before = agent.state


def test_a_failed_agent_is_restarted_or_reaped_and_nothing_else() -> None:
    """TREE-26."""
    follows = {what: to for (source, what), to in MOVES.items() if source is FAILED}
    assert follows == {Happening.RESTARTED: WORKING, Happening.REAPED: REAPED}


def test_every_state_can_be_reached_and_the_final_ones_not_be_left() -> None:
    """Every state can be reached from working; done and reaped have no way out."""
    reached = {WORKING}
    for _ in AgentState:
        reached |= {to for (source, _), to in MOVES.items() if source in reached}
    assert reached == set(AgentState)
    assert {state for state in AgentState if state.final} == {AgentState.DONE, REAPED}
    assert not {source for source, _ in MOVES} & {AgentState.DONE, REAPED}


def test_an_agent_that_is_not_over_can_always_be_given_up() -> None:
    """The agent can be reaped directly from every state but the final ones (TREE-49)."""
    for state in AgentState:
        assert Agent("p/a", state).can(Happening.REAPED) is not state.final


def test_done_is_only_what_was_verified() -> None:
    """An agent that claims to be done is not done yet."""
    assert [key for key, to in MOVES.items() if to is AgentState.DONE] == [
        (AgentState.VERIFYING, Happening.ACCEPTED)
    ]


def test_the_table_can_be_printed() -> None:
    """A line for each move."""
    lines = moves_table().splitlines()
    assert lines[0].split() == ["state", "what", "happens", "next"]
    assert len(lines) == len(MOVES) + 1

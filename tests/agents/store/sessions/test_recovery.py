"""The note to a restarted agent, and the session that it resumes (TREE-36, TREE-37, C-21)."""

from __future__ import annotations

import pytest

from otpy_agents.store.sessions import RestartContext, continuation, recovery_note
from tests.agents.store.sessions.session_world import session

PROMPT = "Write the parser."
WHY = "exit code 1"


def test_the_note_names_the_reason_the_state_and_the_task() -> None:
    """They come in this order, each on a line of its own (TREE-36)."""
    assert recovery_note(WHY, session()).splitlines() == [
        "You were restarted because exit code 1",
        "Previous state: half of the tests pass",
        "Continue your assignment.",
    ]


def test_without_a_state_it_starts_fresh() -> None:
    """Nothing was stored, or the stored session was corrupt."""
    assert recovery_note(WHY, None).splitlines() == [
        "You were restarted because exit code 1",
        "Starting fresh: nothing of your previous state was kept.",
        "Continue your assignment.",
    ]


def test_a_checkpoint_is_given_back() -> None:
    """The note has it as the JSON that the agent has left (TREE-39)."""
    assert 'Your last checkpoint: {"step": 3}' in recovery_note(
        WHY, session(checkpoint={"step": 3}, summary="")
    )


def test_nothing_that_killed_an_agent_keeps_the_next_from_starting() -> None:
    """A NUL, an endless reason or an endless summary would make an impossible argument."""
    note = recovery_note("\0" * 10**6, session(summary="x" * 10**6))
    assert "\0" not in note
    assert len(note) < 6000
    assert "You were restarted; why is not known." in recovery_note("", None)


@pytest.mark.parametrize("policy", RestartContext)
def test_a_first_life_gets_its_assignment_and_nothing_else(policy: RestartContext) -> None:
    """There is nothing to recover from."""
    first = continuation(policy, None, None, prompt=PROMPT, cli="claude")
    assert (first.session, first.prompt) == (None, PROMPT)


@pytest.mark.parametrize(
    ("policy", "resumed", "prompt"),
    [
        (RestartContext.FRESH, False, PROMPT),
        (RestartContext.RESUME, True, "Continue your assignment."),
        (RestartContext.RESUME_WITH_NOTE, True, recovery_note(WHY, session())),
    ],
)
def test_a_restart_goes_on_as_the_policy_says(
    policy: RestartContext, resumed: bool, prompt: str
) -> None:
    """It starts fresh, or resumes silently, or resumes with the note (C-21)."""
    found = continuation(policy, session(), WHY, prompt=PROMPT, cli="claude")
    assert found.session == (session() if resumed else None)
    assert found.prompt == prompt


@pytest.mark.parametrize(
    ("policy", "prompt"),
    [
        (RestartContext.FRESH, PROMPT),
        (RestartContext.RESUME, PROMPT),
        (RestartContext.RESUME_WITH_NOTE, f"{recovery_note(WHY, None)}\n\n{PROMPT}"),
    ],
)
def test_without_a_session_the_assignment_is_given_again(
    policy: RestartContext, prompt: str
) -> None:
    """A new session does not know the assignment."""
    found = continuation(policy, None, WHY, prompt=PROMPT, cli="claude")
    assert (found.session, found.prompt) == (None, prompt)


def test_the_session_of_another_cli_is_told_and_not_resumed() -> None:
    """After a fallback the next agent cannot open it, but can read where the last one stood."""
    found = continuation(
        RestartContext.RESUME_WITH_NOTE, session(), WHY, prompt=PROMPT, cli="codex"
    )
    assert found.session is None
    assert "half of the tests pass" in found.prompt
    assert found.prompt.endswith(PROMPT)
    silent = continuation(RestartContext.RESUME, session(), WHY, prompt=PROMPT, cli="codex")
    assert (silent.session, silent.prompt) == (None, PROMPT)


def test_a_session_of_an_earlier_host_is_gone_on_with() -> None:
    """The note says that the reason of the restart is unknown."""
    found = continuation(
        RestartContext.RESUME_WITH_NOTE, session(), None, prompt=PROMPT, cli="claude"
    )
    assert found.session == session()
    assert "why is not known" in found.prompt

"""The agent that does a step, and the reason for this choice (ENG-33 to ENG-35)."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.engine.routes import (
    AdaptiveRules,
    RouteRecord,
    chance_of,
    infer_task_type,
    read_adaptive,
    recalculated,
    route,
)
from otpy_agents.errors import InvalidEngineFile

ROLE = WorkerRole(
    name="implementer",
    base="implementer",
    cli="claude:sonnet",
    system_prompt="Write code.",
    output=OutputKind.IMPLEMENTATION,
)
FILE = """\
adaptive:
  enabled: true
  min_samples_before_adapt: 10
  recalculation_interval: 20
  exploration_rate: 0.1
  score_weights:
    success_rate: 0.6
    avg_duration: 0.4
  routing:
    refactoring:
      - claude:opus
      - codex
      - gemini:pro
"""
RULES = read_adaptive(FILE)
LISTED = RULES.routing["refactoring"]
CHANCE = 0.5


def record(good: int, attempts: int, seconds: float = 60.0) -> RouteRecord:
    return RouteRecord(attempts=attempts, good=good, seconds=attempts * seconds)


@pytest.mark.parametrize(
    ("records", "cli", "reason"),
    [
        ({}, "claude:opus", "first for refactoring of those with no sufficient record"),
        ({"codex": record(9, 9)}, "claude:opus", "first for refactoring of those with no"),
        ({"codex": record(8, 10)}, "codex", "best for refactoring: 8 of 10 attempts succeeded"),
        ({"claude:opus": record(7, 10)}, "codex", "first for refactoring of those with no"),
        (
            {"claude:opus": record(10, 10, 100.0), "codex": record(9, 10, 20.0)},
            "codex",
            "best for refactoring: 9 of 10 attempts succeeded",
        ),
        (
            {"claude:opus": record(2, 10), "codex": record(5, 10), "gemini:pro": record(0, 10)},
            "codex",
            "least bad for refactoring: 5 of 10 attempts succeeded",
        ),
    ],
)
def test_records_choose_among_the_agents_that_the_file_lists(
    records: dict[str, RouteRecord], cli: str, reason: str
) -> None:
    """Few samples prove nothing, and above the threshold a quick agent may beat a better one."""
    history = {("refactoring", agent): one for agent, one in records.items()}
    found = route(ROLE, "refactoring", RULES, history, CHANCE)
    assert found.cli == cli
    assert found.reason.startswith(reason)


def test_a_role_of_the_project_counts_before_all() -> None:
    """The shipped role comes last: without a list for the type, or without adaptation."""
    own = evolve(ROLE, cli="gemini", own_cli=True)
    assert route(own, "refactoring", RULES, {}, 0.0).cli == "gemini"
    for rules, kind in ((RULES, "testing"), (evolve(RULES, enabled=False), "refactoring")):
        found = route(ROLE, kind, rules, {}, 0.0)
        assert (found.cli, found.reason) == ("claude:sonnet", "the role implementer says so")


def test_a_share_of_the_steps_tries_agents_out() -> None:
    """Each agent of the list gets its turn, and a seed gives the same turns (ENG-34)."""
    history = {("refactoring", "codex"): record(10, 10)}
    chances = [chance_of(7, "wf-1", f"step-{number}") for number in range(1000)]
    assert chances == [chance_of(7, "wf-1", f"step-{number}") for number in range(1000)]
    found = [route(ROLE, "refactoring", RULES, history, chance) for chance in chances]
    tried = [one.cli for one in found if one.reason == "tried out for refactoring"]
    assert 60 < len(tried) < 140
    assert {*tried} == {*LISTED}
    assert 0 <= chance_of(None) < 1


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([("refactoring", agent) for agent in LISTED]),
        st.integers(0, 20).flatmap(lambda n: st.builds(record, st.integers(0, n), st.just(n))),
    ),
    st.floats(0, 1, exclude_max=True),
    st.sets(st.sampled_from(LISTED)),
)
def test_an_agent_that_rests_is_taken_only_if_all_do(
    history: dict[tuple[str, str], RouteRecord], chance: float, resting: set[str]
) -> None:
    """No choice leaves the list of the operator (C-02), and the same facts choose the same."""
    found = route(ROLE, "refactoring", RULES, history, chance, resting)
    assert found.cli in LISTED
    assert found.cli not in resting or resting == {*LISTED}
    assert found == route(ROLE, "refactoring", RULES, dict(history), chance, resting)


def test_records_are_looked_at_again_after_some_attempts() -> None:
    """The records of other types stay as they are."""
    other = ("testing", "codex")
    known = {("refactoring", "codex"): record(10, 10), other: record(1, 1)}
    latest = {("refactoring", "codex"): record(10, 29), other: record(1, 2)}
    assert recalculated({}, known, RULES) == known
    assert recalculated(known, latest, RULES) == known
    more = {**latest, ("refactoring", "claude:opus"): record(1, 1)}
    assert recalculated(known, more, RULES) == {**more, other: record(1, 1)}


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("Add /api/login endpoint", "code_gen"),
        ("", "code_gen"),
        ("Refactor the parser so that it can be tested", "refactoring"),
        ("Rename Foo to Bar", "refactoring"),
        ("Fix the crash in the login form", "debugging"),
        ("Write the missing tests for the ledger", "testing"),
        ("Add a login with tests", "code_gen"),
        ("Test the ledger", "testing"),
        ("Design the storage of sessions", "architecture"),
        ("Document how circuits are reset", "documentation"),
        ("Review the login for injections", "review"),
    ],
)
def test_the_type_of_a_task_is_inferred(task: str, kind: str) -> None:
    """By the word that comes first: a task begins with what is to be done (ENG-33)."""
    assert infer_task_type(task) == kind


def test_without_a_file_nothing_is_adapted() -> None:
    """The defaults of a file are those of ENG-33 and ENG-34."""
    assert read_adaptive(None) == AdaptiveRules()
    assert read_adaptive("adaptive:\n  exploration_rate: 0\n") == evolve(
        AdaptiveRules(), enabled=True, exploration_rate=0.0
    )
    ours = AdaptiveRules()
    numbers = (ours.min_samples_before_adapt, ours.exploration_rate, ours.success_threshold)
    assert numbers == (10, 0.1, 0.8)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("enabled: true", "enabled: 1", "adaptive.yaml:2: adaptive.enabled: got 1, wanted true"),
        ("rate: 0.1", "rate: 1.5", "adaptive.yaml:5: adaptive.exploration_rate: got 1.5, wanted a"),
        ("success_rate", "success", ":7: adaptive.score_weights.success: got the unknown key"),
        ("refactoring:", "gardening:", ":10: adaptive.routing.gardening: got the unknown key"),
        ("- codex", "- oracle", ':12: adaptive.routing.refactoring[1]: got "oracle", wanted an'),
        ("- codex", "- command", ':12: adaptive.routing.refactoring[1]: got "command", wanted'),
        ("gemini:pro", "'gemini:'", ':13: adaptive.routing.refactoring[2]: got "gemini:"'),
    ],
)
def test_what_a_file_must_not_say_is_refused_with_its_line(
    old: str, new: str, message: str
) -> None:
    """A misspelt agent is found before it is chosen."""
    with pytest.raises(InvalidEngineFile) as refused:
        read_adaptive(FILE.replace(old, new))
    assert message in str(refused.value)

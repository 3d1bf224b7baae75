from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_monitors import (
    Action,
    Activity,
    AgentAppeared,
    AgentCard,
    AgentGone,
    ChildSpawned,
    CommandBlocked,
    CommandRun,
    Custom,
    Finding,
    RuleBook,
    RuleBroken,
    RulesExposed,
    RuleState,
    SameCall,
    TokenSpeed,
    ToolCallBegan,
    TooManyChildren,
    UsageSeen,
    Violated,
    ViolationRule,
)
from tests.monitors.agents import card, found, judged, rule


def called(at: float, tool: str = "Bash", **input: object) -> ToolCallBegan:
    return ToolCallBegan("site/a", at, str(at), tool, input)


def test_a_finding_names_the_life_the_rule_and_whom_to_tell() -> None:
    """The agent's owner can act on exactly that life, and tell its parent."""
    reap = rule(CommandBlocked((re.compile("x"),)), Action.REAP)
    agent = card("site/a", incarnation=3, parent="site")
    (finding,) = judged(reap, agent, CommandRun("site/a", 1.0, "x"))[1]
    assert finding == Violated("app/pool/a", 3, reap, "a command holds 'x'", "site/a", "site")
    assert str(finding) == "violation of 'r': a command holds 'x'"


def test_all_rules_are_checked_in_order() -> None:
    """One deed may break several rules."""
    rules = [
        ViolationRule(name, CommandBlocked((re.compile("x"),)), Action.LOG) for name in ("b", "a")
    ]
    broken = judged(RuleBook(rules), card(), CommandRun("site/a", 1.0, "x"))[1]
    assert [one.rule.name for one in broken if isinstance(one, Violated)] == ["b", "a"]


@pytest.mark.parametrize(
    ("agents", "judges"),
    [(("*",), True), (("site/*",), True), (("x", "site/[ab]"), True), (("site",), False)],
)
def test_a_rule_may_be_for_some_agents_only(agents: tuple[str, ...], judges: bool) -> None:
    """One of the rule's patterns must match the agent's whole key."""
    check = rule(CommandBlocked((re.compile("x"),)), agents=agents)
    assert bool(judged(check, card(), CommandRun("site/a", 1.0, "x"))[1]) == judges


def test_who_is_not_there_is_not_judged() -> None:
    """An agent is not judged before it appears or after it is gone: there is no life to act on."""
    check = rule(CommandBlocked((re.compile("x"),)))
    deed = CommandRun("site/a", 1.0, "x")
    steps = judged(check, deed, card(), deed, AgentGone("site/a", 2.0, ""), deed)
    assert [len(step) for step in steps] == [0, 0, 1, 0, 0]


def test_the_next_life_begins_with_a_clean_sheet() -> None:
    """The deeds of an earlier life do not count."""
    assert found(SameCall(2), card(), called(1.0), card(incarnation=2), called(2.0)) == [""] * 4


@pytest.mark.parametrize(
    ("asked", "follows"),
    [
        (Action.LOG, Action.PAUSE),
        (Action.NOTIFY, Action.PAUSE),
        (Action.WARN, Action.PAUSE),
        (Action.PAUSE, Action.PAUSE),
        (Action.REAP, Action.REAP),
    ],
)
def test_a_rule_that_cannot_be_checked_counts_as_violated(asked: Action, follows: Action) -> None:
    """It fails closed: the agent is at least paused, and the other rules are still checked."""

    def broken(activity: Activity, of: AgentCard) -> str | None:
        raise ZeroDivisionError("by\nnought")

    bad = ViolationRule("bad", Custom(broken), asked)
    good = rule(CommandBlocked((re.compile("x"),)))
    agent = card(incarnation=2, parent="site")
    story = judged(RuleBook([bad, good]), agent, CommandRun("site/a", 1.0, "x"))[1]
    said = "ZeroDivisionError: by nought"
    failed = RuleBroken("app/pool/a", 2, bad, said, "site/a", "site")
    assert story == [
        failed,
        Violated("app/pool/a", 2, good, "a command holds 'x'", "site/a", "site"),
    ]
    assert failed.action is follows
    assert str(failed) == f"rule 'bad' could not be checked ({said}): {follows}"


@pytest.mark.parametrize("returned", [True, False, 0, ["x"]])
def test_a_predicate_that_returns_nonsense_fails_closed(returned: object) -> None:
    """True and False do not say what is wrong, and guessing the meaning would be a hole."""
    bad = rule(Custom(lambda _activity, _card: returned))  # type: ignore[arg-type, return-value]
    (finding,) = judged(bad, card())[0]
    assert isinstance(finding, RuleBroken)
    assert finding.error == f"TypeError: the predicate returned {returned!r}, wanted a text or None"


def test_an_agent_that_can_change_the_rules_is_reported(tmp_path: Path) -> None:
    """It is reported when it appears: the rules may have been read before its card was known."""
    file = tmp_path / "conf" / "rules.yaml"
    book = RuleBook([rule(SameCall(2))], files=(file,))
    safe, other = card(directories=(tmp_path / "work",)), card("site/b", directories=(tmp_path,))
    assert judged(book, safe) == [[]]
    ((finding,),) = judged(book, other)
    assert finding == RulesExposed("app/pool/b", 1, str(file), str(tmp_path), "site/b")
    assert str(finding) == f"{file} is within reach of 'site/b', which may write in {tmp_path}"


def test_rules_in_a_place_that_cannot_be_looked_at_count_as_exposed(tmp_path: Path) -> None:
    """The check fails closed, and does not crash the monitor."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    book = RuleBook([rule(SameCall(2))], files=(tmp_path / "rules.yaml",))
    ((finding,),) = judged(book, card(directories=(tmp_path / "a" / "x",)))
    assert isinstance(finding, RulesExposed)


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["site/a", "site/b"]),
        st.integers(0, 20),
        st.sampled_from(["appear", "gone", "spawn", "call", "use", "run"]),
        st.integers(0, 2),
    ),
    max_size=60,
)
ALL = RuleBook(
    [
        ViolationRule("calls", SameCall(3), Action.LOG),
        ViolationRule("often", SameCall(3, 30.0), Action.LOG),
        ViolationRule("speed", TokenSpeed(100, 30.0), Action.LOG),
        ViolationRule("kids", TooManyChildren(2), Action.LOG),
        ViolationRule("runs", CommandBlocked((re.compile("1"),)), Action.LOG),
    ]
)


def activity_of(agent: str, at: float, kind: str, number: int) -> Activity:
    """Return the activity of a drawn deed."""
    match kind:
        case "appear":
            return AgentAppeared(at, card(agent, parent=["", "site/a", "site/b"][number]))
        case "gone":
            return AgentGone(agent, at, "")
        case "spawn":
            return ChildSpawned(agent, at, f"k{number}")
        case "call":
            return ToolCallBegan(agent, at, "c", "T", {"n": number})
        case "use":
            return UsageSeen(agent, at, "", "m", 20 * number, 5)
        case _:
            return CommandRun(agent, at, str(number))


@given(DEEDS)
def test_counts_agree_with_counting_anew(drawn: list[tuple[str, int, str, int]]) -> None:
    """Windows and rows find exactly what a scan of the whole story so far would find."""
    state, now, story = RuleState(ALL), 0.0, list[Activity]()
    begun = dict[tuple[str, str], int]()  # where the current count of a rule begins in the story
    for agent, pause, kind, number in drawn:
        now += pause
        activity = activity_of(agent, now, kind, number)
        story.append(activity)
        names = {
            one.rule.name
            for one in state.step(activity)
            if isinstance(one, Violated) and one.agent == agent
        }
        if kind == "appear":
            begun = {key: value for key, value in begun.items() if key[0] != agent}
            begun |= {(agent, name): len(story) for name in ("calls", "often", "speed")}
        if kind == "gone":
            begun = {key: value for key, value in begun.items() if key[0] != agent}
        there = (agent, "speed") in begun
        assert ("runs" in names) == (there and kind == "run" and number == 1)
        for name in ("calls", "often", "speed"):
            expected = there and breaks(name, agent, now, kind, story[begun[agent, name] :])
            assert (name in names) == expected, name
            if expected and name == "speed":
                begun[agent, name] = len(story)
        if names & {"calls", "often"}:
            # Only the reported call starts a new count; a further comparison would copy the code.
            return


def breaks(name: str, agent: str, now: float, kind: str, story: list[Activity]) -> bool:
    """Return whether the last activity of `story` breaks the rule."""
    own = [one for one in story if one.agent == agent]
    calls = [one for one in own if isinstance(one, ToolCallBegan)]
    if name == "speed":
        steps = [one for one in own if isinstance(one, UsageSeen) and one.at >= now - 30]
        return kind == "use" and sum(one.input_tokens + one.output_tokens for one in steps) > 100
    if kind != "call":
        return False
    if name == "calls":
        return len(calls) >= 3 and calls[-1].input == calls[-2].input == calls[-3].input
    return sum(one.at >= now - 30 and one.input == calls[-1].input for one in calls) >= 3


@given(DEEDS)
def test_the_same_story_gives_the_same_findings(drawn: list[tuple[str, int, str, int]]) -> None:
    """Judging is a fold: no clock, no chance, no outside state."""
    story = [activity_of(agent, float(at), kind, number) for agent, at, kind, number in drawn]

    def play() -> list[list[Finding]]:
        return judged(ALL, *story)

    assert play() == play()

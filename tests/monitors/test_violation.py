from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy.errors import InvalidSpec
from otpy_monitors import (
    Action,
    Activity,
    AgentAppeared,
    AgentCard,
    AgentGone,
    Check,
    ChildSpawned,
    CommandBlocked,
    CommandRun,
    Custom,
    FilesOutside,
    FilesTouched,
    Finding,
    NetworkForbidden,
    NetworkUsed,
    Progressed,
    RuleBook,
    RuleBroken,
    RulesExposed,
    RuleState,
    SameCall,
    TokenSpeed,
    ToolBegan,
    TooManyChildren,
    UsageSeen,
    Violated,
    ViolationRule,
)
from tests.monitors.agents import card, judged


def rule(check: Check, action: Action = Action.LOG, **more: tuple[str, ...]) -> ViolationRule:
    return ViolationRule("r", check, action, **more)


def found(check: Check, *story: Activity | AgentCard) -> list[str]:
    """Return what was found wrong with each activity of a story."""
    steps = judged(rule(check), *story)
    assert all(isinstance(one, Violated) for step in steps for one in step)
    return [" | ".join(one.found for one in step if isinstance(one, Violated)) for step in steps]


# --- rules as values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        (FilesOutside((Path("here"),)), "also is 'here', wanted absolute paths"),
        (CommandBlocked(()), r"patterns is \(\), wanted at least one pattern"),
        (TooManyChildren(-1), "at_most is -1, wanted a number from 0"),
        (TokenSpeed(0, 1.0), "tokens is 0, wanted a number above 0"),
        (TokenSpeed(1, 0.0), "seconds is 0.0, wanted seconds above 0"),
        (SameCall(1), "times is 1, wanted a number from 2"),
        (SameCall(2, float("inf")), "seconds is inf, wanted seconds above 0"),
    ],
)
def test_a_rule_that_can_never_work_is_refused(check: Check, complaint: str) -> None:
    """Where it is written."""
    with pytest.raises(InvalidSpec, match=f"rule 'r': {complaint}"):
        rule(check)


def test_two_rules_of_one_name_are_refused() -> None:
    """A name stands in reasons and logs, and must tell which rule it was."""
    one = rule(SameCall(2))
    with pytest.raises(InvalidSpec, match="rules: 'r' is there for the second time"):
        RuleBook([one, one])
    with pytest.raises(InvalidSpec, match="rule 'r': agents is"):
        rule(SameCall(2), agents=())


# --- what each check finds --------------------------------------------------------------------

WORKPLACE = card(directories=(Path("/work/a"),), cwd=Path("/work/a"))


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/work/a/src/x.py", True),
        ("src/x.py", True),
        ("/work/a", True),
        ("/shared/x", True),
        ("/work/ab/x", False),
        ("/work/b/x", False),
        ("/etc/passwd", False),
        ("/", False),
    ],
)
def test_files_may_be_written_in_the_folders_of_the_card_only(path: str, inside: bool) -> None:
    """And in those of the rule; a relative path starts from where the agent works."""
    check = FilesOutside(also=(Path("/shared"),))
    wrong = found(check, WORKPLACE, FilesTouched("site/a", 1.0, ("/work/a/ok", path)))[1]
    assert (wrong == "") == inside
    assert inside or wrong == f"{path} is written, which lies outside"


def test_what_cannot_be_told_counts_as_outside() -> None:
    """An agent without folders may write nowhere; a relative path needs a start."""
    relative = FilesTouched("site/a", 1.0, ("x",))
    assert found(FilesOutside(), card(), relative)[1] == (
        "x is written, and what it starts from is not known"
    )
    assert found(FilesOutside(), card(cwd=Path("/work")), relative)[1] == (
        "/work/x is written, which lies outside"
    )


def test_links_and_dots_lead_where_they_lead(tmp_path: Path) -> None:
    """A link out of the folder, and `..`, do not get an agent out; a link into it is no crime."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "out").symlink_to(outside)
    (outside / "in").symlink_to(inside)
    state = RuleState(RuleBook([rule(FilesOutside())]))
    state.step(AgentAppeared(0.0, card(directories=(inside,), cwd=inside)))
    wrong = [
        bool(state.step(FilesTouched("site/a", 1.0, (str(path),))))
        for path in (
            "out/x",
            "../outside/x",
            inside / "out" / "x",
            outside / "in" / "x",
            "sub/../x",
        )
    ]
    assert wrong == [True, True, True, False, False]


def test_a_command_is_blocked_by_what_is_found_in_it() -> None:
    """Searched, not matched from the start; the first pattern that is found is told."""
    check = CommandBlocked((re.compile(r"rm\s+-rf"), re.compile("sudo")))
    lines = ["cd x && sudo rm  -rf /", "sudo ls", "rm x", "git push"]
    assert found(check, card(), *(CommandRun("site/a", 1.0, line) for line in lines))[1:] == [
        "a command holds 'rm  -rf'",
        "a command holds 'sudo'",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("allow", "deny", "host", "wrong"),
    [
        (None, (), "example.org", "is not allowed"),
        ((), (), "example.org", "is not allowed"),
        (("example.org",), (), "Example.ORG.", ""),
        (("*.Example.org",), (), "a.b.example.org", ""),
        (("*.example.org",), (), "example.org", "is not allowed"),
        (("*.example.org",), (), "example.org.evil.net", "is not allowed"),
        (None, ("*.evil.net",), "example.org", ""),
        (None, ("*.evil.net",), "a.EVIL.net", "is denied"),
        (("*",), ("10.*",), "10.0.0.1", "is denied"),
        (("::1",), (), "[::1]", ""),
    ],
)
def test_hosts_are_allowed_and_denied(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], host: str, wrong: str
) -> None:
    """By name or pattern, in any case; what is denied is denied although it is allowed."""
    said = found(NetworkForbidden(allow, deny), card(), NetworkUsed("site/a", 1.0, host))[1]
    assert said.partition("which ")[2] == wrong


def test_children_count_while_they_are_there() -> None:
    """However they become known, once each; each one too many is told."""
    boss = card("site/boss")
    kids = [card(f"site/k{number}", parent="site/boss") for number in range(4)]
    said = found(
        TooManyChildren(2),
        boss,
        ChildSpawned("site/boss", 1.0, "site/k0"),
        AgentAppeared(1.0, kids[0]),
        AgentAppeared(2.0, kids[1]),
        ChildSpawned("site/boss", 3.0, "site/k2"),
        AgentGone("site/k1", 4.0, "done"),
        AgentAppeared(5.0, kids[3]),
        AgentGone("site/k3", 6.0, "done"),
        AgentAppeared(7.0, kids[1]),
    )
    third = "is its child number 3, of 2 at most"
    assert said == [
        "",
        "",
        "",
        "",
        f"site/k2 {third}",
        "",
        f"site/k3 {third}",
        "",
        f"site/k1 {third}",
    ]


def test_children_nobody_saw_go_with_their_parent() -> None:
    """Those that were only spoken of; those that are there still count for its next life."""
    boss = card("site/boss")
    said = found(
        TooManyChildren(1),
        boss,
        ChildSpawned("site/boss", 1.0, "ghost"),
        AgentGone("site/boss", 2.0, "crashed"),
        boss,
        ChildSpawned("site/boss", 3.0, "ghost"),
        AgentGone("ghost", 4.0, "done"),
        AgentAppeared(4.0, card("site/k", parent="site/boss")),
        AgentGone("site/boss", 5.0, "crashed"),
        boss,
        ChildSpawned("site/boss", 6.0, "other"),
    )
    assert said[:-1] == [""] * 9
    assert said[-1] == "other is its child number 2, of 1 at most"


def used(at: float, tokens: int, *, run: str = "", cached: int = 0) -> UsageSeen:
    """Return a step that used tokens; with a run, the run's count so far."""
    return UsageSeen("site/a", at, run, "m", tokens - 1, 1, cached, cumulative=bool(run))


def test_tokens_count_within_the_window() -> None:
    """What lies further back is forgotten, and a finding lets the count begin anew."""
    check = TokenSpeed(100, 10.0)
    story = [used(0.0, 60), used(5.0, 40), used(10.5, 50), used(10.6, 11), used(11.0, 100)]
    assert found(check, card(), *story)[1:] == [
        "",
        "",
        "",
        "101 tokens within 10 s, of 100 at most",
        "",
    ]


def test_cached_tokens_do_not_count_towards_speed() -> None:
    """An agent with a long context reads it again with every step."""
    assert found(TokenSpeed(100, 10.0), card(), used(0.0, 10, cached=100_000))[1] == ""


def test_cumulative_counters_count_what_came_on_top() -> None:
    """What a run had used before it was first heard of counts nothing; nor does a reset (G-07)."""
    story = [
        used(0.0, 5000, run="r1"),
        used(1.0, 5060, run="r1"),
        used(1.0, 9000, run="r2"),
        used(2.0, 20, run="r1"),
        used(3.0, 61, run="r1"),
    ]
    assert found(TokenSpeed(100, 10.0), card(), *story)[1:] == [
        "",
        "",
        "",
        "",
        "101 tokens within 10 s, of 100 at most",
    ]


def called(at: float, tool: str = "Bash", **input: object) -> ToolBegan:
    return ToolBegan("site/a", at, str(at), tool, input)


def test_the_same_call_in_a_row_is_one_too_many() -> None:
    """The order of the keys does not matter, another call in between does; then it counts anew."""
    again, other = called(1.0, x=1, y=2), called(1.0, x=1)
    story = [again, other, again, called(2.0, y=2, x=1), again, again, again, other, again]
    said = found(SameCall(3), card(), *story)[1:]
    wrong = "'Bash' is called 3 times in a row with the same input"
    assert said == ["", "", "", "", wrong, "", "", "", ""]


def test_the_same_call_within_a_time_counts_whatever_lies_between() -> None:
    """Until it is too long ago."""
    story = [called(0.0), called(4.0, "Read"), called(5.0), called(10.5), called(14.9)]
    said = found(SameCall(3, 10.0), card(), *story)[1:]
    assert said == ["", "", "", "", "'Bash' is called 3 times within 10 s with the same input"]


def test_input_that_is_no_json_can_be_compared() -> None:
    """Whatever an adapter passes on."""
    story = [called(float(at), path=Path("/x"), more={1, 2}) for at in range(2)]
    assert found(SameCall(2), card(), *story)[2] != ""


def test_a_predicate_says_what_is_wrong() -> None:
    """It sees each activity of the agent once, with its card; None and "" are fine."""
    seen: list[tuple[Activity, AgentCard]] = []

    def shouts(activity: Activity, of: AgentCard) -> str | None:
        seen.append((activity, of))
        return "it shouts" if isinstance(activity, Progressed) and activity.what.isupper() else None

    boss = card(directories=(Path("/x"),))
    story: list[Activity] = [
        AgentAppeared(0.0, boss),
        Progressed("site/a", 1.0, "HELP"),
        Progressed("site/a", 1.0, "help"),
        ChildSpawned("site/a", 2.0, "k"),
        AgentGone("site/a", 3.0, "done"),
    ]
    assert found(Custom(shouts), *story) == ["", "it shouts", "", "", ""]
    assert seen == [(activity, boss) for activity in story]


# --- who is judged, and what is told ----------------------------------------------------------


def test_a_finding_names_the_life_the_rule_and_whom_to_tell() -> None:
    """So that whoever owns the agent can act on exactly that life, and tell its parent."""
    reap = rule(CommandBlocked((re.compile("x"),)), Action.REAP)
    agent = card("site/a", incarnation=3, parent="site")
    (finding,) = judged(reap, agent, CommandRun("site/a", 1.0, "x"))[1]
    assert finding == Violated("app/pool/a", 3, reap, "a command holds 'x'", "site/a", "site")
    assert str(finding) == "violation of 'r': a command holds 'x'"


def test_all_rules_are_checked_in_order() -> None:
    """One deed may break several."""
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
    """By patterns of their keys, of which one must match the whole key."""
    check = rule(CommandBlocked((re.compile("x"),)), agents=agents)
    assert bool(judged(check, card(), CommandRun("site/a", 1.0, "x"))[1]) == judges


def test_who_is_not_there_is_not_judged() -> None:
    """Neither before it appears nor after it is gone: there is no life to act on."""
    check = rule(CommandBlocked((re.compile("x"),)))
    deed = CommandRun("site/a", 1.0, "x")
    steps = judged(check, deed, card(), deed, AgentGone("site/a", 2.0, ""), deed)
    assert [len(step) for step in steps] == [0, 0, 1, 0, 0]


def test_the_next_life_begins_with_a_clean_sheet() -> None:
    """What an agent did in an earlier life is not held against it."""
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
    """It fails closed: the agent is paused at least; the other rules are checked all the same."""

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
    """True and False say nothing of what is wrong; guessing which is meant would be a hole."""
    bad = rule(Custom(lambda _activity, _card: returned))  # type: ignore[arg-type, return-value]
    (finding,) = judged(bad, card())[0]
    assert isinstance(finding, RuleBroken)
    assert finding.error == f"TypeError: the predicate returned {returned!r}, wanted a text or None"


def test_an_agent_that_can_change_the_rules_is_reported(tmp_path: Path) -> None:
    """When it appears: its card may not have been known when the rules were read."""
    file = tmp_path / "conf" / "rules.yaml"
    book = RuleBook([rule(SameCall(2))], files=(file,))
    safe, other = card(directories=(tmp_path / "work",)), card("site/b", directories=(tmp_path,))
    assert judged(book, safe) == [[]]
    ((finding,),) = judged(book, other)
    assert finding == RulesExposed("app/pool/b", 1, str(file), str(tmp_path), "site/b")
    assert str(finding) == f"{file} is within reach of 'site/b', which may write in {tmp_path}"


def test_rules_in_a_place_that_cannot_be_looked_at_count_as_exposed(tmp_path: Path) -> None:
    """It fails closed, and does not crash the monitor."""
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
    """Return what a drawn deed stands for."""
    match kind:
        case "appear":
            return AgentAppeared(at, card(agent, parent=["", "site/a", "site/b"][number]))
        case "gone":
            return AgentGone(agent, at, "")
        case "spawn":
            return ChildSpawned(agent, at, f"k{number}")
        case "call":
            return ToolBegan(agent, at, "c", "T", {"n": number})
        case "use":
            return UsageSeen(agent, at, "", "m", 20 * number, 5)
        case _:
            return CommandRun(agent, at, str(number))


@given(DEEDS)
def test_counts_agree_with_counting_anew(drawn: list[tuple[str, int, str, int]]) -> None:
    """Windows and rows find exactly what a look at the whole story so far would find."""
    state, now, story = RuleState(ALL), 0.0, list[Activity]()
    begun = dict[tuple[str, str], int]()  # where the present count of a rule begins in the story
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
            # Only the call that was found begins anew; comparing further would copy the code.
            return


def breaks(name: str, agent: str, now: float, kind: str, story: list[Activity]) -> bool:
    """Return whether the last activity of `story` breaks the rule."""
    own = [one for one in story if one.agent == agent]
    calls = [one for one in own if isinstance(one, ToolBegan)]
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
    """A fold: no clock, no chance, nothing kept outside."""
    story = [activity_of(agent, float(at), kind, number) for agent, at, kind, number in drawn]

    def play() -> list[list[Finding]]:
        return judged(ALL, *story)

    assert play() == play()

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otpy import InvalidSpec
from otpy_monitors import (
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
    NetworkForbidden,
    NetworkUsed,
    Progressed,
    RuleBook,
    RuleState,
    SameCall,
    TokenSpeed,
    ToolCallBegan,
    TooManyChildren,
    UsageSeen,
)
from tests.monitors.agents import card, found, rule


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
    """The error comes where the rule is written."""
    with pytest.raises(InvalidSpec, match=f"rule 'r': {complaint}"):
        rule(check)


def test_two_rules_of_one_name_are_refused() -> None:
    """A name stands in reasons and logs, and must name one rule."""
    one = rule(SameCall(2))
    with pytest.raises(InvalidSpec, match="rules: 'r' is there for the second time"):
        RuleBook([one, one])
    with pytest.raises(InvalidSpec, match="rule 'r': agents is"):
        rule(SameCall(2), agents=())


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
    """The rule's own folders count too; a relative path starts from the agent's work directory."""
    check = FilesOutside(also=(Path("/shared"),))
    wrong = found(check, WORKPLACE, FilesTouched("site/a", 1.0, ("/work/a/ok", path)))[1]
    assert (wrong == "") == inside
    assert inside or wrong == f"{path} is written, which lies outside"


def test_what_cannot_be_told_counts_as_outside() -> None:
    """An agent without folders may write nowhere; a relative path needs a known start."""
    relative = FilesTouched("site/a", 1.0, ("x",))
    assert found(FilesOutside(), card(), relative)[1] == (
        "x is written, and what it starts from is not known"
    )
    assert found(FilesOutside(), card(cwd=Path("/work")), relative)[1] == (
        "/work/x is written, which lies outside"
    )


def test_links_and_dots_lead_where_they_lead(tmp_path: Path) -> None:
    """A link or `..` that leads out of the folder is outside; one that leads into it is inside."""
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
    """Patterns are searched, not matched from the start; the first one found is told."""
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
    """Names and patterns match in any case; a denied host is denied even if it is allowed."""
    said = found(NetworkForbidden(allow, deny), card(), NetworkUsed("site/a", 1.0, host))[1]
    assert said.partition("which ")[2] == wrong


def test_children_count_while_they_are_there() -> None:
    """A child counts once, whichever way it becomes known; each one over the limit is told."""
    boss = card("site/boss")
    kids = [card(f"site/k{number}", parent="site/boss") for number in range(4)]
    said = found(
        TooManyChildren(2),
        boss,
        ChildSpawned("site/boss", 1.0, "site/k0"),
        AgentAppeared(1.0, kids[0]),
        AgentAppeared(2.0, kids[1]),
        ChildSpawned("site/boss", 3.0, "site/k2"),
        AgentAppeared(3.0, kids[2]),
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
        "",
        f"site/k3 {third}",
        "",
        f"site/k1 {third}",
    ]


def test_a_child_belongs_to_one_parent() -> None:
    """The child's card names the parent; the parent assumed before has one child less."""
    said = found(
        TooManyChildren(1),
        card("site/a"),
        card("site/b"),
        ChildSpawned("site/a", 1.0, "k1"),
        AgentAppeared(1.0, card("k1", parent="site/b")),
        ChildSpawned("site/a", 2.0, "k2"),
        ChildSpawned("site/b", 3.0, "k3"),
    )
    assert said == ["", "", "", "", "", "k3 is its child number 2, of 1 at most"]


def test_children_nobody_saw_go_with_their_parent() -> None:
    """Children known only by name go with their parent; live ones count for its next life too."""
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
    """Older tokens are forgotten, and a finding restarts the count."""
    check = TokenSpeed(100, 10.0)
    story = [used(0.0, 60), used(5.0, 40), used(10.5, 50), used(10.6, 11), used(11.0, 100)]
    assert found(check, card(), *story)[1:] == [
        "",
        "",
        "",
        "101 tokens within 10 s, of 100 at most",
        "",
    ]


def test_the_ends_of_a_window_belong_to_it() -> None:
    """An activity exactly as old as the window still counts."""
    assert found(TokenSpeed(100, 10.0), card(), used(0.0, 60), used(10.0, 60))[2] != ""
    assert found(SameCall(2, 10.0), card(), called(0.0), called(10.0))[2] != ""


def test_after_a_finding_old_calls_do_not_count_against_new_ones() -> None:
    """Old calls do not postpone a finding either, when they leave the window."""
    story = [called(at) for at in (0.0, 1.0, 12.0, 13.0)]
    said = [bool(one) for one in found(SameCall(2, 10.0), card(), *story)[1:]]
    assert said == [False, True, False, True]


def test_cached_tokens_do_not_count_towards_speed() -> None:
    """An agent with a long context reads it again with every step."""
    assert found(TokenSpeed(100, 10.0), card(), used(0.0, 10, cached=100_000))[1] == ""


def test_cumulative_counters_count_what_came_on_top() -> None:
    """A run's usage before its first reading does not count; nor does a reset (G-07)."""
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


def called(at: float, tool: str = "Bash", **input: object) -> ToolCallBegan:
    return ToolCallBegan("site/a", at, str(at), tool, input)


def test_the_same_call_in_a_row_is_one_too_many() -> None:
    """The order of keys does not matter; another call in between restarts the count."""
    again, other = called(1.0, x=1, y=2), called(1.0, x=1)
    story = [again, other, again, called(2.0, y=2, x=1), again, again, again, other, again]
    said = found(SameCall(3), card(), *story)[1:]
    wrong = "'Bash' is called 3 times in a row with the same input"
    assert said == ["", "", "", "", wrong, "", "", "", ""]


def test_the_same_call_within_a_time_counts_whatever_lies_between() -> None:
    """Calls count until the window has passed."""
    story = [called(0.0), called(4.0, "Read"), called(5.0), called(10.5), called(14.9)]
    said = found(SameCall(3, 10.0), card(), *story)[1:]
    assert said == ["", "", "", "", "'Bash' is called 3 times within 10 s with the same input"]


def test_input_that_is_no_json_can_be_compared() -> None:
    """An adapter may pass on any input."""
    story = [called(float(at), path=Path("/x"), more={1, 2}) for at in range(2)]
    assert found(SameCall(2), card(), *story)[2] != ""


def test_a_predicate_says_what_is_wrong() -> None:
    """The predicate sees each activity of the agent once, with its card; None and "" are fine."""
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

"""What a work list says of agents, groups and their budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.errors import InvalidWorkList
from otpy_agents.run import Access
from otpy_agents.tree.gang import Gang, GangAction
from otpy_agents.tree.sessions import Context
from otpy_agents.tree.worklist import parse

FILE = Path("/lists/w.toml")
AGENT = '[[assignment]]\nid = "a"\nagent = "claude"\nprompt = "Mend it."\n'
COMMAND = AGENT.replace("claude", "command")


def test_everything_can_be_said_of_an_agent() -> None:
    """Every key arrives in the values, paths resolved from the folder of the file."""
    text = (
        AGENT
        + """
    fallback = ["codex", "gemini"]
    model = "haiku"
    access = "read"
    context = "fresh"
    changeset = "site"
    tokens = 100_000
    cost_usd = 2.5
    stall = 300
    stall_warn = 200
    long_tools = { Bash = 1800 }
    verify = ["{here}/check", "-q"]
    verify_deadline = 60
    gang = "team"
    [[gang]]
    name = "team"
    failures = 3
    within = 60
    action = "restart"
    [list]
    tokens = 1_000_000
    cost_usd = 10
    long_tools = { Bash = 900, "*" = 300 }
    """
    )
    work = parse(text, FILE)
    (one,) = work.assignments
    assert one.agent is not None
    agent = one.agent
    assert (agent.cli, agent.prompt, agent.fallback) == ("claude", "Mend it.", ("codex", "gemini"))
    assert (agent.model, agent.access, agent.context) == ("haiku", Access.READ, Context.FRESH)
    assert (agent.changeset, agent.stall_warn) == (Path("/lists/site"), 200.0)
    assert agent.long_tools == {"Bash": 1800.0, "*": 300.0}
    assert (agent.tokens, agent.cost_usd) == (100_000, 2.5)
    assert (agent.verify, agent.verify_deadline) == (("/lists/check", "-q"), 60.0)
    assert (one.argv, one.stall, one.gang) == ((), 300.0, "team")
    assert work.gangs == (Gang(name="team", failures=3, within=60.0, action=GangAction.RESTART),)
    assert (work.tokens, work.cost_usd) == (1_000_000, 10.0)


def test_an_agent_has_defaults() -> None:
    """It may edit, it resumes with a note, and it has no limit of its own."""
    (one,) = parse(AGENT, FILE).assignments
    assert one.agent is not None
    assert (one.agent.access, one.agent.context) == (Access.EDIT, Context.RESUME_WITH_NOTE)
    assert (one.agent.tokens, one.agent.cost_usd, one.agent.changeset) == (None, None, None)
    assert (one.agent.verify, one.agent.verify_deadline) == ((), 300.0)
    assert (one.agent.stall_warn, one.agent.long_tools) == (None, {"*": 600.0})
    assert (one.restarts, one.within, one.backoff) == (3, 300.0, None)


def test_a_stall_is_warned_of_when_four_fifths_of_it_have_passed() -> None:
    """Whoever sets a stall gets a warning first, without a word about it (TREE-30)."""
    (one,) = parse(AGENT + "stall = 300", FILE).assignments
    assert one.agent is not None
    assert one.agent.stall_warn == 240.0


def test_a_command_may_be_an_agent() -> None:
    """Its argv is that of the agent, not that of a plain program."""
    (one,) = parse(COMMAND + 'argv = ["{here}/bot"]', FILE).assignments
    assert one.agent is not None
    assert (one.argv, one.agent.argv) == ((), ("/lists/bot",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[[assignment]]\nid = "a"\nargv = ["x"]\nprompt = "y"',
            (
                "w.toml:4: assignment 'a'.prompt: got it without an agent,"
                " wanted it together with `agent`"
            ),
        ),
        (
            '[[assignment]]\nid = "a"\nagent = "claude"',
            "w.toml:1: assignment 'a'.prompt: got nothing, wanted what the agent shall do",
        ),
        (
            COMMAND,
            "w.toml:1: assignment 'a'.argv: got nothing, wanted a list of texts, the program first",
        ),
        (
            AGENT + 'argv = ["x"]',
            (
                "w.toml:5: assignment 'a'.argv: got it beside \"claude\","
                ' wanted it with `agent = "command"` only'
            ),
        ),
        (
            AGENT + "stall_warn = 3\nstall = 3",
            (
                "w.toml:5: assignment 'a'.stall_warn: got 3 with a `stall` of 3,"
                " wanted less than `stall`"
            ),
        ),
        (
            AGENT + "long_tools = { Bash = 60 }",
            (
                "w.toml:5: assignment 'a'.long_tools: got it without `stall`,"
                " wanted it together with `stall`"
            ),
        ),
        (
            AGENT + "stall = 3\nlong_tools = { Bash = 0 }",
            (
                "w.toml:6: assignment 'a'.long_tools.Bash: got 0,"
                " wanted a table of seconds above 0 under names of tools"
            ),
        ),
        (
            AGENT + '[list]\nlong_tools = ["Bash"]',
            (
                'w.toml:6: list.long_tools: got ["Bash"],'
                " wanted a table of seconds above 0 under names of tools"
            ),
        ),
        (
            AGENT + "verify_deadline = 3",
            (
                "w.toml:5: assignment 'a'.verify_deadline: got it without `verify`,"
                " wanted it together with `verify`"
            ),
        ),
        (
            AGENT + "verify = []",
            ("w.toml:5: assignment 'a'.verify: got [], wanted a list of texts, the program first"),
        ),
        (
            AGENT + 'gang = "x"',
            "w.toml:5: assignment 'a'.gang: got \"x\", wanted the name of a [[gang]]",
        ),
        (
            AGENT + '[[gang]]\nname = "g"\naction = "x"',
            'w.toml:7: gang \'g\'.action: got "x", wanted "restart" or "ask"',
        ),
        (
            AGENT + '[[gang]]\nname = "g"\n[[gang]]\nname = "g"',
            'w.toml:8: gang #2.name: got "g" for the second time, wanted a unique name',
        ),
    ],
)
def test_what_does_not_go_together_gets_one_line(text: str, expected: str) -> None:
    """The line names the place, what is there and what is wanted."""
    with pytest.raises(InvalidWorkList) as caught:
        parse(text, Path("w.toml"))
    assert str(caught.value) == expected

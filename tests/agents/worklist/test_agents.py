"""Agents, groups and their budgets in a work list."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.errors import InvalidWorkList
from otpy_agents.run import Access
from otpy_agents.run.host.walls import WAY_OUT
from otpy_agents.store.sessions import RestartContext
from otpy_agents.worklist.gang import Gang, GangAction
from otpy_agents.worklist.reader import parse

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
    assert (agent.model, agent.access, agent.context) == (
        "haiku",
        Access.READ,
        RestartContext.FRESH,
    )
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
    assert (one.agent.access, one.agent.context) == (Access.EDIT, RestartContext.RESUME_WITH_NOTE)
    assert (one.agent.tokens, one.agent.cost_usd, one.agent.changeset) == (None, None, None)
    assert (one.agent.verify, one.agent.verify_deadline) == ((), 300.0)
    assert (one.agent.stall_warn, one.agent.long_tools) == (None, {"*": 600.0})
    assert (one.restarts, one.within, one.backoff) == (3, 300.0, None)


def test_a_stall_is_warned_of_when_four_fifths_of_it_have_passed() -> None:
    """A stall has a warning before it by default (TREE-30)."""
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
            "w.toml:1: assignment 'a'.prompt: got nothing, wanted the task for the agent",
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
            AGENT + "tokens = 6\n[list]\ntokens = 5",
            "w.toml:5: assignment 'a'.tokens: got 6, wanted at most the 5 of the whole list",
        ),
        (
            AGENT + "cost_usd = 2.5\n[list]\ncost_usd = 2",
            "w.toml:5: assignment 'a'.cost_usd: got 2.5, wanted at most the 2 of the whole list",
        ),
        (
            AGENT + "wall_seconds = 100\n[list]\nwall_seconds = 10",
            (
                "w.toml:5: assignment 'a'.wall_seconds: got 100,"
                " wanted at most the 10 of the whole list"
            ),
        ),
        (
            '[[assignment]]\nid = "a"\nargv = ["x"]\noutput_bytes = 9\n[list]\noutput_bytes = 8',
            "w.toml:4: assignment 'a'.output_bytes: got 9, wanted at most the 8 of the whole list",
        ),
        (
            AGENT.replace("claude", "claudee"),
            (
                "w.toml:3: assignment 'a'.agent: got \"claudee\","
                " wanted one of claude, codex, command, copilot, cursor, gemini"
            ),
        ),
        (
            AGENT + 'fallback = ["codex", "gemeni"]',
            (
                "w.toml:5: assignment 'a'.fallback[1]: got \"gemeni\","
                " wanted one of claude, codex, command, copilot, cursor, gemini"
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
            AGENT + 'sandbox = "bubblewrap"',
            (
                "w.toml:1: assignment 'a'.network: got nothing with the sandbox \"bubblewrap\","
                " wanted true, or false if claude needs none, here or in [list]"
            ),
        ),
        (
            AGENT + 'sandbox = "docker"',
            (
                "w.toml:5: assignment 'a'.sandbox: got \"docker\","
                " wanted process, bubblewrap or docker:IMAGE"
            ),
        ),
        (
            AGENT + '[list]\nsandbox = "bubblewrap:x"',
            (
                'w.toml:6: list.sandbox: got "bubblewrap:x",'
                " wanted process, bubblewrap or docker:IMAGE"
            ),
        ),
        (
            AGENT + "network = false",
            (
                "w.toml:5: assignment 'a'.network: got false in the sandbox \"process\","
                ' wanted a `sandbox` of "bubblewrap" or "docker:IMAGE", here or in [list]'
            ),
        ),
        (
            AGENT + "network = 1",
            (
                "w.toml:5: assignment 'a'.network: got 1, wanted true, false, or a list of hosts: "
                f"{WAY_OUT}"
            ),
        ),
        (
            AGENT + 'secrets = ["A=B"]',
            (
                "w.toml:5: assignment 'a'.secrets[0]: got \"A=B\","
                " wanted a list of names that do not begin with OTPY_"
            ),
        ),
        (
            AGENT + 'env = { KEY = "k" }\n[list]\nsecrets = ["KEY"]',
            (
                "w.toml:5: assignment 'a'.env: got a value for the secret \"KEY\","
                " wanted it in `secrets`, with its value in the environment of the host alone"
            ),
        ),
        (
            AGENT + 'env = { API_TOKEN = "t" }',
            (
                "w.toml:5: assignment 'a'.env: got a value for the secret \"API_TOKEN\","
                " wanted it in `secrets`, with its value in the environment of the host alone"
            ),
        ),
        (
            AGENT + 'artifacts = ""',
            "w.toml:5: assignment 'a'.artifacts: got \"\", wanted the path of a folder",
        ),
        (
            '[[assignment]]\nid = "a"\nargv = ["x"]\nsandbox = "bubblewrap"',
            (
                "w.toml:4: assignment 'a'.sandbox: got it without an agent,"
                " wanted it together with `agent`"
            ),
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


WALLED = """
[list]
sandbox = "docker:node:22"
network = true
secrets = ["KEY"]
artifacts = "out"
"""


def walls_of(text: str, *, sandbox: str | None = None) -> tuple[object, ...]:
    """Return the sandbox, network, secrets and artifacts of the first agent of a list."""
    agent = parse(text, FILE, sandbox=sandbox).assignments[0].agent
    assert agent is not None
    return agent.sandbox, agent.network, agent.secrets, agent.artifacts


def test_a_list_puts_walls_around_its_agents() -> None:
    """Secrets are added up, each agent has its own folder, and the rest can be overridden."""
    assert walls_of(AGENT) == ("", None, (), None)
    image = "docker:node:22"
    assert walls_of(WALLED + AGENT) == (image, True, ("KEY",), Path("/lists/out/a"))
    own = 'sandbox = "bubblewrap"\nnetwork = false\nsecrets = ["KEY", "B"]\nartifacts = "own"\n'
    said = ("bubblewrap", False, ("KEY", "B"), Path("/lists/own"))
    assert walls_of(WALLED + AGENT + own) == said
    assert walls_of(WALLED + AGENT + own, sandbox=image) == (image, *said[1:])
    assert walls_of(WALLED + AGENT, sandbox="process")[0] == "process"


def test_a_list_says_which_hosts_its_agents_reach() -> None:
    """The hosts replace the whole network or none; an agent may have its own."""
    text = WALLED.replace("true", '["vendor", "pypi.org:443"]') + AGENT
    assert walls_of(text)[1] == ("vendor", "pypi.org:443")
    assert walls_of(text + "network = false")[1] is False
    with pytest.raises(InvalidWorkList, match=r'got \["vendor", "pypi.org:443"\] in the sandbox'):
        parse(text, FILE, sandbox="process")
    with pytest.raises(InvalidWorkList, match="wanted true, false, or a list of hosts: vendor, or"):
        parse(AGENT + 'network = ["https://pypi.org"]', FILE)


def test_a_command_needs_no_word_about_the_network() -> None:
    """It has none behind walls, as in `run`; with a fallback to a vendor the key is required."""
    text = COMMAND + 'argv = ["x"]\nsandbox = "bubblewrap"\n'
    assert walls_of(text)[:2] == ("bubblewrap", None)
    with pytest.raises(InvalidWorkList, match="false if codex needs none"):
        parse(text + 'fallback = ["codex"]', FILE)
    with pytest.raises(InvalidWorkList, match='false in the sandbox "process"'):
        parse(text + "network = false", FILE, sandbox="process")


def test_what_must_be_in_the_environment_can_be_said() -> None:
    """The list gives names; our own names are refused."""
    (one,) = parse(AGENT + 'needs_env = ["KEY", "TOKEN"]\n', FILE).assignments
    assert one.needs_env == ("KEY", "TOKEN")
    with pytest.raises(InvalidWorkList, match="needs_env"):
        parse(AGENT + 'needs_env = ["OTPY_X"]\n', FILE)

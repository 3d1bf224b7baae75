"""The order that `otpy-agents run` builds from its command line."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from otpy_agents.adapters.adapter import Access
from otpy_agents.adapters.vendor_hosts import vendor_hosts
from otpy_agents.cli import main
from otpy_agents.run.decide.chain import AgentInstance, SelectionMode, build_chain
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import FatalScope, RetryPolicy
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox import Mount


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[RunOrder]:
    """The orders that were submitted; none is run."""
    taken: list[RunOrder] = []

    class Host:
        async def submit(self, order: RunOrder) -> None:
            taken.append(order)

    def follow(state: Path, start: Any, **_: object) -> None:
        with pytest.raises(StopIteration):
            start(Host(), None).send(None)

    monkeypatch.setattr(importlib.import_module("otpy_agents.cli.run"), "follow", follow)
    monkeypatch.setenv("CARGO", "here")
    monkeypatch.setenv("CODEX_HOME", "/nowhere")
    monkeypatch.setenv("MY_TOKEN", "sesame")
    return taken


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["run", *words], input=stdin)


def ordered(orders: list[RunOrder], *words: str, stdin: str | None = None) -> RunOrder:
    result = call(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return orders[-1]


def test_a_prompt_is_enough(orders: list[RunOrder]) -> None:
    """The defaults are Codex, this folder, the default policy, a process, and no limits."""
    order = ordered(orders, "Do it")
    assert (order.prompt, order.cwd) == ("Do it", Path.cwd())
    assert [agent.agent_cli for agent in order.selection.agents] == ["codex"]
    assert order.policy == RetryPolicy()
    assert (order.liveness, order.budget_usd, order.access) == (Liveness(), None, Access.EDIT)
    assert order.sandbox == SandboxChoice()


def test_fallbacks_are_asked_in_the_order_they_stand_in(orders: list[RunOrder]) -> None:
    """Each takes over from the one before; the model is that of the first agent."""
    words = ("--agent", "claude", "--fallback", "codex", "--fallback", "gemini", "--model", "opus")
    order = ordered(orders, "x", *words)
    assert order.selection.selection_mode is SelectionMode.FALLBACK
    chain, _ = build_chain(order.selection, order.default, cursor=5)
    assert chain.agents == (
        AgentInstance(agent_id="claude", agent_cli="claude", model="opus"),
        AgentInstance(agent_id="codex", agent_cli="codex"),
        AgentInstance(agent_id="gemini", agent_cli="gemini"),
    )


def test_every_option_reaches_the_order(orders: list[RunOrder], tmp_path: Path) -> None:
    """Each option has its field in the order."""
    order = ordered(
        orders,
        *("x", "--cwd", str(tmp_path), "--access", "read", "--liveness", "stall:300"),
        *("--budget-usd", "2", "--max-retries", "1", "--max-attempts", "4"),
        *("--backoff-base", "0.5", "--rate-limit-base", "7", "--fatal-scope", "agent"),
        *("--resume-session", "--artifacts", "out", "--env", "CARGO", "--env", "LANG=C"),
        *("--secret", "MY_TOKEN"),
    )
    assert order.cwd == tmp_path
    assert order.access is Access.READ
    assert order.liveness == Liveness.parse("stall:300")
    assert order.budget_usd == 2
    assert order.policy == RetryPolicy(
        max_retries=1,
        max_attempts=4,
        backoff_base=0.5,
        rate_limit_backoff_base=7.0,
        fatal_scope=FatalScope.AGENT,
        resume=True,
    )
    assert order.artifacts == Path.cwd() / "out"
    assert dict(order.environment) == {"LANG": "C"}
    assert order.passed == ("CARGO", "MY_TOKEN")
    assert order.secrets == ("MY_TOKEN",)
    assert "sesame" not in repr(order)


@pytest.mark.parametrize(
    "words",
    [
        "--agent claude",
        "--agent claude --model opus",
        "--agent gemini",
        "--agent codex --model gpt-5.5",
        "--agent command -- true",
    ],
)
def test_a_strict_budget_takes_an_agent_whose_price_is_known(
    orders: list[RunOrder], words: str
) -> None:
    """The price table knows it, or the CLI tells the cost or the model itself (G-08)."""
    order = ordered(orders, "x", "--budget-usd", "2", "--budget-strict", *words.split())
    assert order.budget_usd == 2


@pytest.mark.parametrize("word", ["false", "0", None])
def test_the_bare_agent_is_run_once(
    word: str | None, orders: list[RunOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-65: a flag or the variable decides, before any other option."""
    words = ["--no-supervise"]
    if word is not None:
        monkeypatch.setenv("AGENTS_RUNNER_USE_SUPERVISOR", word)
        words = []
    order = ordered(orders, "x", *words, "--fallback", "claude", "--max-attempts", "4")
    assert order.policy == RetryPolicy(max_attempts=1)


def test_the_prompt_may_come_from_standard_input(orders: list[RunOrder]) -> None:
    """The prompt is unchanged, with all its lines."""
    assert ordered(orders, "-", stdin="one\ntwo\n").prompt == "one\ntwo\n"


def test_any_command_is_an_agent(orders: list[RunOrder]) -> None:
    """Words after `--` are passed on unchanged, even if they look like options."""
    order = ordered(orders, "Build", "--agent", "command", "--", "make", "--quiet", "--", "all")
    assert order.argv == ("make", "--quiet", "--", "all")
    assert order.prompt == "Build"


def test_each_command_has_limits_of_its_own(orders: list[RunOrder]) -> None:
    """One program's rate limit does not hold for another; runs of one program share it."""
    words = ("--agent", "claude", "--fallback", "command", "--")
    (claude, one), (_, again), (_, other) = (
        ordered(orders, prompt, *words, "python", script).selection.agents
        for prompt, script in (("x", "a.py"), ("y", "a.py"), ("x", "b.py"))
    )
    assert one.account == again.account
    assert one.account != other.account
    assert str(one.account).startswith("command (python-")
    assert claude.credential == ""


def test_a_command_needs_no_prompt(orders: list[RunOrder]) -> None:
    """Lists then show its command line."""
    order = ordered(orders, "--agent", "command", "--", "sh", "-c", "echo 1")
    assert (order.prompt, order.argv) == ("sh -c 'echo 1'", ("sh", "-c", "echo 1"))


def test_in_bubblewrap_an_agent_can_write_where_its_login_is(
    orders: list[RunOrder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the four CLIs needs its folder; without it, one line says so."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "other"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    words = ("x", "--agent", "claude", "--fallback", "codex", "--sandbox", "bubblewrap")
    (tmp_path / "other").mkdir()
    refused = call(*words, "--network")
    assert refused.exit_code == 2
    line = f"got no '{tmp_path}/.codex', wanted the folder of codex, which its first use makes"
    assert f"--sandbox bubblewrap: {line}" in refused.stderr
    (tmp_path / ".codex").mkdir()
    sandbox = ordered(orders, *words, "--network").sandbox
    assert sandbox.mounts == (
        Mount(tmp_path / "other", writable=True),
        Mount(tmp_path / ".codex", writable=True),
    )


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        (["--sandbox", "process"], SandboxChoice()),
        (["--sandbox", "process", "--network"], SandboxChoice()),
        (
            ["--sandbox", "docker:node:22", "--no-network"],
            SandboxChoice(name="docker", image="node:22", network=False),
        ),
    ],
)
def test_a_sandbox_is_named_with_its_image(
    orders: list[RunOrder], words: list[str], choice: SandboxChoice
) -> None:
    """The network is set as requested."""
    assert ordered(orders, "x", *words).sandbox == choice


def test_a_command_in_a_sandbox_has_no_network_unless_asked(orders: list[RunOrder]) -> None:
    """Agents need a network, so it must be declared for them; commands do not."""
    words = ("--sandbox", "bubblewrap", "--agent", "command", "--", "true")
    assert not ordered(orders, *words).sandbox.network


def test_hosts_are_all_of_the_network_that_is_reached(orders: list[RunOrder]) -> None:
    """`vendor` stands for each agent's hosts, and `--network` need not be given."""
    words = ("x", "--agent", "claude", "--fallback", "codex", "--sandbox", "docker:i")
    sandbox = ordered(orders, *words, "--allow-host", "pypi.org", "--allow-host", "vendor").sandbox
    assert not sandbox.network
    assert sandbox.hosts == ("pypi.org", *vendor_hosts("claude"), *vendor_hosts("codex"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "PROMPT: got '', wanted some text, or - for standard input"),
        (["  "], "PROMPT: got '  ', wanted some text, or - for standard input"),
        (["x", "--agent", "clod"], "agent 'clod': got an unknown name, wanted one of claude, "),
        (["x", "--fallback", "codex"], "--fallback: got 'codex', wanted each agent once"),
        (["x", "--liveness", "stall"], "--liveness: got 'stall', wanted none, deadline:SECONDS"),
        (["x", "--max-retries", "-1"], "--max-retries: got -1, wanted a whole number"),
        (["x", "--budget-usd", "0"], "--budget-usd: got 0.0, wanted US dollars above 0"),
        (["x", "--budget-strict"], "--budget-strict: got no --budget-usd, wanted the budget to"),
        (
            ["x", "--budget-usd", "2", "--budget-strict"],
            "--budget-strict: got codex with no --model, wanted a --model whose price is known",
        ),
        (
            ["x", "--budget-usd", "2", "--budget-strict", "--agent", "gemini", "--model", "ours"],
            "--budget-strict: got gemini with the model 'ours', wanted a --model whose price",
        ),
        (["x", "--sandbox", "jail"], "--sandbox: got 'jail', wanted process, bubblewrap or docker"),
        (["x", "--sandbox", "docker:"], "--sandbox: got 'docker:', wanted process, bubblewrap"),
        (["x", "--sandbox", "process:a"], "--sandbox: got 'process:a', wanted process, "),
        (["x", "--no-network"], "--no-network: got --sandbox process, wanted bubblewrap or docker"),
        (["x", "--sandbox", "bubblewrap"], "got nothing about the network, wanted --network, --al"),
        (["x", "--allow-host", "a.com"], "--allow-host: got --sandbox process, wanted bubblewrap"),
        (["x", "--allow-host", "a.com", "--network"], "--allow-host: got it with --network, want"),
        (
            ["x", "--sandbox", "docker:i", "--allow-host", "https://a.com"],
            "--allow-host: got 'https://a.com', wanted vendor, or a name as api.example.com",
        ),
        (["fix", "the test"], "PROMPT: got 2 words, wanted one, in quotes: 'fix the test'"),
        (["x", "--env", "=1"], "--env: got '=1', wanted NAME=VALUE, or the NAME of one set here"),
        (["x", "--rate-limit-base", "-1"], "--rate-limit-base: got -1.0, wanted seconds of at"),
        (["x", "--bogus"], "No such option"),
        (["x", "--access", "root"], "'root' is not one of 'read', 'edit', 'full'. Usage: "),
        (["x", "--max-retries", "many"], "Invalid value for '--max-retries': 'many' is not a"),
        (["x", "--cwd"], "Option '--cwd' requires an argument"),
        (["a\udcff"], "Got 'a\\udcff', wanted UTF-8"),
        (["x", "--env", "NOT_THERE"], "--env: got 'NOT_THERE', wanted a variable that is set here"),
        (["x", "--secret", "NOT_THERE"], "--secret: got 'NOT_THERE', wanted a variable that is"),
        (["x", "--env", "A_TOKEN=1"], "--env: got a value for 'A_TOKEN', wanted --secret A_TOKEN"),
        (["x", "--agent", "command"], "behind --: got nothing, wanted a command there for --agent"),
        (["x", "--", "make"], "behind --: got make, wanted nothing there"),
    ],
)
def test_a_wrong_call_is_refused_with_one_line(
    orders: list[RunOrder], words: list[str], line: str
) -> None:
    """The line names the value got and the value wanted, and no run begins."""
    result = call(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("otpy-agents: ")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1
    assert orders == []


@pytest.mark.parametrize("words", [["run", "x"], ["runs", "resume", "x"]])
def test_json_and_quiet_contradict_each_other(orders: list[RunOrder], words: list[str]) -> None:
    """The user can have meant only one of them."""
    result = CliRunner().invoke(main, [*words, "--json", "--quiet"])
    assert result.exit_code == 2
    assert "contradict" in result.stderr


@pytest.mark.parametrize("words", [["run"], ["runs"], ["runs", "show"], ["runs", "resume"]])
def test_help_teaches(words: list[str]) -> None:
    """Each command says what it is for; `run` also explains exit codes, liveness and state."""
    text = CliRunner().invoke(main, [*words, "--help"]).stdout
    assert "Usage: " in text
    if words == ["run"]:
        for word in ("Examples:", "Exit status:", "130", "stall:S", "runs.sqlite3", "retry-now"):
            assert word in text

"""The launch of each agent CLI, the meaning of its events, and the search for adapters."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents import (
    AmbiguousAdapter,
    BrokenAdapter,
    InvalidRequest,
    UnknownAdapter,
)
from otpy_agents.adapters.registry import BUILT_IN, GROUP, Adapters
from otpy_agents.run import (
    Access,
    Adapter,
    AttemptRequest,
    adapter_names,
    classify,
    find_adapter,
)

ROOT = Path(__file__).resolve().parents[3]
AGENTS = ("claude", "codex", "copilot", "gemini")
FOLDER = Path("/private")


class TestRegistry:
    def test_those_of_ours_are_announced_as_everybody_elses_are(self) -> None:
        """The package's metadata announces the built-in adapters under the same group."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        assert project["project"]["entry-points"][GROUP] == BUILT_IN
        assert set(adapter_names()) >= set(BUILT_IN)

    @pytest.mark.parametrize("name", BUILT_IN)
    def test_each_is_found_by_its_name(self, name: str) -> None:
        """An adapter is found by its own name, and says how to get its program."""
        adapter = find_adapter(name)
        assert adapter.name == name
        assert adapter.install_hint
        programs = {"command": "", "cursor": "cursor-agent"}
        assert adapter.executable == programs.get(name, name)

    def test_an_unknown_name_is_answered_with_those_there_are(self) -> None:
        """The error for a typing error lists the possible names."""
        with pytest.raises(UnknownAdapter, match=r"wanted one of .*claude, codex, comm"):
            classify("cluade", exit_code=0, stdout="", stderr="")

    def test_two_of_one_name_are_refused(self) -> None:
        """The choice between two packages is not guessed."""
        mine = EntryPoint("claude", "my_package:ADAPTER", GROUP)
        adapters = Adapters([EntryPoint("claude", BUILT_IN["claude"], GROUP), mine])
        with pytest.raises(AmbiguousAdapter) as caught:
            adapters.find("claude")
        assert caught.value.values == ("my_package:ADAPTER", BUILT_IN["claude"])

    def test_the_same_one_twice_is_one(self) -> None:
        """A distribution that is on the path twice is not a conflict."""
        point = EntryPoint("codex", BUILT_IN["codex"], GROUP)
        assert Adapters([point, point]).find("codex").name == "codex"

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("no_such_module_of_anybody:ADAPTER", "ModuleNotFoundError"),
            ("json:dumps", "without name, executable"),
            (BUILT_IN["codex"], "with the name 'codex', wanted 'mine'"),
        ],
    )
    def test_a_broken_one_breaks_nothing_but_itself(self, value: str, problem: str) -> None:
        """An adapter is loaded on request, and its error then names its problem."""
        good = EntryPoint("gemini", BUILT_IN["gemini"], GROUP)
        adapters = Adapters([EntryPoint("mine", value, GROUP), good])
        assert adapters.find("gemini").name == "gemini"
        with pytest.raises(BrokenAdapter, match=problem):
            adapters.find("mine")


class TestLaunch:
    @pytest.mark.parametrize("cli", AGENTS)
    @pytest.mark.parametrize("prompt", ["say hi", "--help", "-p x", "a\nb 'c' \"d\" $e"])
    def test_any_prompt_is_standard_input(self, cli: str, prompt: str) -> None:
        """A prompt is never read as a flag, never split, and never shown in a list of processes."""
        launch = find_adapter(cli).launch(AttemptRequest(prompt=prompt, folder=FOLDER))
        assert launch.argv[0] == cli
        assert launch.stdin is not None
        assert launch.stdin.parent == FOLDER
        assert launch.files[launch.stdin] == prompt
        assert not any(prompt in word for word in launch.argv)

    @pytest.mark.parametrize("cli", [*AGENTS, "command"])
    def test_a_long_prompt_is_in_a_file_alone(self, cli: str) -> None:
        """No word of the command and no variable holds it, as Linux limits each to 128 KiB."""
        request = AttemptRequest(prompt="p" * 1_000_000, folder=FOLDER, argv=("tool",))
        launch = find_adapter(cli).launch(request)
        assert request.prompt in launch.files.values()
        assert max(map(len, (*launch.argv, *launch.environment.values()))) < 1000

    def test_gemini_blocks_where_it_would_lose_its_output(self) -> None:
        """It repeats the prompt in its output, and drops what the pipe has not taken at its end."""
        adapter = find_adapter("gemini")
        short, long = (
            adapter.launch(AttemptRequest(prompt="p" * length, folder=FOLDER))
            for length in (9, 9999)
        )
        assert "NODE_OPTIONS" not in short.environment
        assert str(FOLDER) in long.environment["NODE_OPTIONS"]

    def test_what_gemini_would_cut_is_refused(self) -> None:
        """The CLI reads 8 MiB, and goes on without the rest."""
        with pytest.raises(InvalidRequest, match="got 9,000,000 bytes, wanted at most 8,388,608"):
            find_adapter("gemini").launch(AttemptRequest(prompt="p" * 9_000_000, folder=FOLDER))

    @pytest.mark.parametrize("cli", AGENTS)
    def test_model_session_and_flags_are_passed_on(self, cli: str) -> None:
        """The request's settings stand in the command, before the prompt."""
        request = AttemptRequest(
            prompt="p", folder=FOLDER, model="m1", session="s1", flags=("--extra", "1")
        )
        argv = find_adapter(cli).launch(request).argv
        joined = " ".join(argv)
        assert "--model m1" in joined
        assert {"claude": "--resume s1", "codex": "resume s1", "gemini": "--resume s1"}.get(
            cli, "--resume=s1"
        ) in joined
        assert "--extra 1" in joined

    @pytest.mark.parametrize("cli", AGENTS)
    def test_each_access_has_its_own_flags(self, cli: str) -> None:
        """The three kinds of access lead to three different commands."""
        commands = {
            find_adapter(cli).launch(AttemptRequest(prompt="p", folder=FOLDER, access=access)).argv
            for access in Access
        }
        assert len(commands) == len(Access)

    def test_full_access_is_never_the_default(self) -> None:
        """A CLI's own guards are switched off only on request."""
        for cli in AGENTS:
            argv = find_adapter(cli).launch(AttemptRequest(prompt="p", folder=FOLDER)).argv
            loose = {"bypassPermissions", "danger-full-access", "yolo", "--allow-all-paths"}
            assert not loose & set(argv)

    def test_copilot_reports_what_it_spent(self) -> None:
        """It is told to write its usage, which it does not print, into the attempt's own folder."""
        launch = find_adapter("copilot").launch(AttemptRequest(prompt="p", folder=FOLDER))
        assert launch.report is not None
        assert launch.report.parent == FOLDER
        assert f"--usage-output-file={launch.report}" in launch.argv

    def test_waiting_is_ours(self) -> None:
        """A CLI that can be told not to retry by itself is told so."""
        request = AttemptRequest(prompt="p", folder=FOLDER, provider="mine")
        claude, codex, gemini = (
            find_adapter(cli).launch(request) for cli in ("claude", "codex", "gemini")
        )
        assert claude.environment["CLAUDE_CODE_MAX_RETRIES"] == "0"
        assert "model_providers.mine.request_max_retries=0" in codex.argv
        assert "model_providers.mine.stream_max_retries=0" in codex.argv
        path = Path(gemini.environment["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"])
        assert path.parent == FOLDER
        assert json.loads(gemini.files[path]) == {"general": {"maxAttempts": 1}}

    @pytest.mark.parametrize(
        ("provider", "address"),
        [("openai", ""), ("http://near/v1", ',base_url="http://near/v1"')],
    )
    def test_codex_is_given_a_twin_of_its_own_provider(self, provider: str, address: str) -> None:
        """The built-in provider takes no settings; a copy with its name, login and address does."""
        argv = find_adapter("codex").launch(
            AttemptRequest(prompt="p", folder=FOLDER, provider=provider)
        )
        fields = 'name="OpenAI",wire_api="responses",requires_openai_auth=true'
        none = "request_max_retries=0,stream_max_retries=0"
        assert f"model_providers.otpy={{{fields},{none}{address}}}" in argv.argv
        assert 'model_provider="otpy"' in argv.argv

    def test_codex_is_told_nothing_about_its_own_provider(self) -> None:
        """The CLI refuses settings for a built-in provider."""
        argv = find_adapter("codex").launch(AttemptRequest(prompt="p", folder=FOLDER)).argv
        assert "-c" not in argv

    def test_the_budget_is_passed_to_who_takes_one(self) -> None:
        """Claude Code itself stops at an amount of money."""
        request = AttemptRequest(prompt="p", folder=FOLDER, budget_usd=2.5)
        argv = find_adapter("claude").launch(request).argv
        assert argv[argv.index("--max-budget-usd") + 1] == "2.5"

    def test_a_schema_is_passed_to_who_takes_one(self) -> None:
        """It is text, in a file, or in a file that a variable names; other CLIs do not get it."""
        request = AttemptRequest(prompt="p", folder=FOLDER, argv=("tool",), schema='{"a": 1}')
        made = {name: find_adapter(name).launch(request) for name in BUILT_IN}
        claude, codex = made["claude"].argv, made["codex"].argv
        assert claude[claude.index("--json-schema") + 1] == '{"a": 1}'
        named = {
            codex[codex.index("--output-schema") + 1]: made["codex"],
            made["command"].environment["OTPY_SCHEMA_FILE"]: made["command"],
        }
        for file, launch in named.items():
            assert launch.files[Path(file)] == '{"a": 1}'
        for name in BUILT_IN:
            without = find_adapter(name).launch(evolve(request, schema=""))
            assert (without == made[name]) == (name not in {"claude", "codex", "command"})

    def test_a_command_is_started_as_it_is(self) -> None:
        """The environment of any command holds its session, its prompt, and the prompt's file."""
        request = AttemptRequest(prompt="p", folder=FOLDER, argv=("tool", "--x"), session="s")
        launch = find_adapter("command").launch(request)
        assert launch.argv == ("tool", "--x")
        ((file, text),) = launch.files.items()
        assert text == "p"
        assert launch.environment == {
            "OTPY_PROMPT": "p",
            "OTPY_PROMPT_FILE": str(file),
            "OTPY_SESSION": "s",
        }

    def test_what_cannot_be_started_is_refused(self) -> None:
        """An empty prompt and a missing program are errors before the start (RUN-01)."""
        with pytest.raises(InvalidRequest, match=r"request.prompt: got ' \\n', wanted some text"):
            AttemptRequest(prompt=" \n", folder=FOLDER)
        with pytest.raises(InvalidRequest, match=r"request\.argv"):
            find_adapter("command").launch(AttemptRequest(prompt="p", folder=FOLDER))


def test_the_built_in_adapters_are_adapters() -> None:
    """Each satisfies the protocol that other packages must satisfy."""
    adapters: list[Adapter] = [find_adapter(name) for name in BUILT_IN]
    assert len({adapter.name for adapter in adapters}) == len(BUILT_IN)

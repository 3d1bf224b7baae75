"""The login of an agent: the limits that it shares, and the provider of its model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otpy_agents.run.decide.chain import AgentChain, AgentInstance, AgentSelection
from otpy_agents.run.decide.cooldown import VendorAccount
from otpy_agents.run.host.logins import provider_of, with_accounts
from otpy_agents.run.host.order import RunOrder, SandboxChoice

CODEX = """
model_provider = "proxy"
profile = "{profile}"
openai_base_url = "http://near/v1"
[model_providers.proxy]
base_url = "http://proxy/v1"
[profiles.work]
model_provider = "openai"
"""
BUILT_IN = CODEX.replace("{profile}", "work")


def codex() -> AgentInstance:
    return AgentInstance(agent_id="codex", agent_cli="codex")


@pytest.mark.parametrize(
    ("config", "key", "provider"),
    [
        (CODEX, True, "proxy"),
        (CODEX, False, "proxy"),
        (BUILT_IN, True, "http://near/v1"),
        (BUILT_IN, False, None),  # a login with ChatGPT
        (CODEX.replace("proxy", '"a.b"'), True, None),
        ("model_provider = 3", True, None),
        ("[", True, None),
        (None, True, "openai"),
        (None, False, None),
    ],
)
def test_codex_is_called_with_the_provider_it_is_set_up_with(
    config: str | None, *, key: bool, provider: str | None, tmp_path: Path
) -> None:
    """Codex can be told to leave the waits to us if its provider has a name."""
    login = {"OPENAI_API_KEY": "sk" if key else None}
    (tmp_path / "auth.json").write_text(json.dumps(login), encoding="utf-8")
    if config is not None:
        (tmp_path / "config.toml").write_text(config, encoding="utf-8")
    order = RunOrder(prompt="x", cwd=tmp_path, selection=AgentSelection(agents=(codex(),)))
    assert provider_of(codex(), order, {"CODEX_HOME": str(tmp_path)}) == provider


def test_a_key_in_the_environment_is_a_login_too(tmp_path: Path) -> None:
    """CI has only a key; but the choice of a project or of a container stands."""
    around = {"HOME": str(tmp_path), "CODEX_API_KEY": "sk"}
    order = RunOrder(prompt="x", cwd=tmp_path / "work")
    assert provider_of(codex(), order, around) == "openai"
    image = SandboxChoice(name="docker", image="agent")
    assert provider_of(codex(), RunOrder(prompt="x", cwd=tmp_path, sandbox=image), around) is None
    (tmp_path / "work/.codex").mkdir(parents=True)
    assert provider_of(codex(), order, around) is None


def test_each_key_is_an_account() -> None:
    """G-06: the limit of one does not hold up the other, and no key is stored."""
    agents = tuple(AgentInstance(agent_id=cli, agent_cli=cli) for cli in ("claude", "gemini", "x"))
    chain = AgentChain(agents=agents)

    def accounts(**around: str) -> list[VendorAccount]:
        return [agent.account for agent in with_accounts(chain, around).agents]

    assert accounts(PATH="/bin") == [
        VendorAccount("claude"),
        VendorAccount("gemini"),
        VendorAccount("x"),
    ]
    one, other = accounts(ANTHROPIC_API_KEY="sesame"), accounts(ANTHROPIC_API_KEY="bread")
    assert accounts(ANTHROPIC_API_KEY="sesame", GEMINI_API_KEY="x")[0] == one[0]
    assert one[0] != other[0]
    assert one[1:] == other[1:] == [VendorAccount("gemini"), VendorAccount("x")]
    assert "sesame" not in str(one)
    assert accounts(CLAUDE_CONFIG_DIR="/a") != accounts(CLAUDE_CONFIG_DIR="/b")


def test_an_account_that_is_named_stays() -> None:
    """An agent's own folder counts before that of the environment."""
    chain = AgentChain(
        agents=(
            AgentInstance(agent_id="a", agent_cli="claude", credential="team"),
            AgentInstance(agent_id="b", agent_cli="claude", config_dir="/mine"),
        )
    )
    named = with_accounts(chain, {"CLAUDE_CONFIG_DIR": "/a"})
    assert named == chain
    both = with_accounts(chain, {"ANTHROPIC_API_KEY": "sesame"}).agents
    assert both[0].account == VendorAccount("claude", "team")
    assert both[1].account not in {
        VendorAccount("claude", "/mine"),
        VendorAccount("claude", "team"),
    }

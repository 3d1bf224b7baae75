"""The agents that a run may use, under any configuration."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run import Access, AttemptRequest
from otpy_agents.run.decide.chain import (
    AgentChain,
    AgentInstance,
    AgentSelection,
    SelectionMode,
    build_chain,
    default_agent,
)
from otpy_agents.run.decide.cooldown import VendorAccount

DEFAULT = default_agent()


def agent(name: str, **settings: str) -> AgentInstance:
    return AgentInstance(agent_id=name, agent_cli="claude", **settings)


def select(
    names: str, fallbacks: dict[str, str] | None = None, mode: str = "fallback"
) -> AgentSelection:
    return AgentSelection(
        agents=tuple(agent(name) for name in names),
        selection_mode=SelectionMode(mode),
        agent_fallbacks=fallbacks or {},
    )


def ids(chain: AgentChain) -> str:
    return "".join(one.agent_id for one in chain.agents)


@pytest.mark.parametrize("selection", [None, AgentSelection()])
def test_nobody_selected_means_the_default_agent(selection: AgentSelection | None) -> None:
    """RUN-20 and RUN-30: without a selection the chain is one agent, `codex` by default."""
    chain, cursor = build_chain(selection, DEFAULT, 4)
    assert (chain, cursor) == (AgentChain(agents=(DEFAULT,)), 4)
    assert (DEFAULT.agent_id, DEFAULT.agent_cli) == ("codex", "codex")


def test_the_default_agent_is_named_as_people_write_it() -> None:
    """RUN-20: the name is normalised, and an empty one is `codex`."""
    assert default_agent(" Claude ", config_dir="/c").account == VendorAccount("claude", "/c")
    assert default_agent(" ").agent_cli == "codex"


CHAINS: list[tuple[str, dict[str, str], str, int]] = [
    ("abc", {"a": "b", "b": "c"}, "abc", 0),
    ("abc", {}, "a", 0),
    ("abc", {"a": "c", "c": "b"}, "acb", 0),
    ("ab", {"a": "b", "b": "a"}, "ab", 1),
    ("ab", {"a": "a"}, "a", 1),
    ("abc", {"a": "b", "b": "x"}, "ab", 1),
    ("ab", {"b": "x"}, "a", 0),
]


@pytest.mark.parametrize(("names", "fallbacks", "wanted", "warnings"), CHAINS)
def test_a_chain_follows_the_fallbacks_and_always_ends(
    names: str, fallbacks: dict[str, str], wanted: str, warnings: int
) -> None:
    """RUN-31 to RUN-33, C-09: a cycle and an unknown id end it, with one warning each."""
    chain, _ = build_chain(select(names, fallbacks), DEFAULT)
    assert (ids(chain), len(chain.warnings)) == (wanted, warnings)


def test_a_cycle_and_a_bad_id_are_named_in_the_warning() -> None:
    """Acceptance 3: the log names the line of the configuration to correct."""
    cycle, _ = build_chain(select("ab", {"a": "b", "b": "a"}), DEFAULT)
    assert cycle.warnings == ("fallback 'b' -> 'a' leads back: the chain ends at 'b'",)
    bad, _ = build_chain(select("ab", {"a": "x"}), DEFAULT)
    assert bad.warnings == ("fallback 'a' -> 'x': there is no agent 'x', the chain ends there",)


def test_ids_that_are_not_unique_leave_one_agent() -> None:
    """RUN-18, RUN-34: a selection that cannot be understood still gives a run one agent."""
    chain, _ = build_chain(select("aba", {"a": "b"}), DEFAULT)
    assert ids(chain) == "a"
    assert chain.warnings == ("agent ids are not unique: 'a' runs without a fallback",)


def test_round_robin_begins_with_the_next_agent_each_time() -> None:
    """RUN-24 and G-09: one agent on per run, and the fallbacks are followed from there."""
    selection = select("abc", {"a": "b", "b": "c", "c": "a"}, "round-robin")
    seen: list[str] = []
    cursor = 0
    for _ in range(4):
        chain, cursor = build_chain(selection, DEFAULT, cursor)
        seen.append(ids(chain))
    assert seen == ["abc", "bca", "cab", "abc"]


def test_a_cursor_outlives_a_change_of_the_agents() -> None:
    """A stored cursor may point behind the end: agents were removed since."""
    assert ids(build_chain(select("ab", mode="round-robin"), DEFAULT, 5)[0]) == "b"


def test_fallback_mode_leaves_the_cursor_alone() -> None:
    """RUN-19: it always begins with the first agent."""
    chain, cursor = build_chain(select("ab"), DEFAULT, 1)
    assert (ids(chain), cursor) == ("a", 1)


def test_the_mode_may_be_text_and_is_checked() -> None:
    """RUN-19: two values, and a third one is refused where it is written."""
    assert AgentSelection(selection_mode="fallback").selection_mode is SelectionMode.FALLBACK
    with pytest.raises(InvalidRunSetting, match="got 'best', wanted 'round-robin' or 'fallback'"):
        AgentSelection(selection_mode="best")


def test_a_run_cannot_change_the_selection() -> None:
    """RUN-35: neither through the mapping it was made from nor through its own."""
    fallbacks = {"a": "b"}
    selection = select("ab", fallbacks)
    fallbacks["a"] = "x"
    assert selection.agent_fallbacks == {"a": "b"}
    with pytest.raises(TypeError):
        selection.agent_fallbacks["a"] = "x"  # type: ignore[index]


def test_every_problem_is_named_to_who_writes_the_configuration() -> None:
    """C-09: an unknown id is an error there; a cycle is none, round-robin needs it."""
    selection = select("abb", {"a": "x", "y": "b", "b": "a"})
    assert selection.problems({"codex", "gemini"}) == (
        "agent id 'b' is used 2 times",
        "agent 'a': got the CLI 'claude', wanted one of codex, gemini",
        "agent 'b': got the CLI 'claude', wanted one of codex, gemini",
        "agent 'b': got the CLI 'claude', wanted one of codex, gemini",
        "fallback 'a' -> 'x': there is no agent 'x'",
        "fallback 'y' -> 'b': there is no agent 'y'",
    )
    assert select("ab", {"a": "b", "b": "a"}).problems() == ()


@given(
    st.lists(st.sampled_from("abcd"), max_size=5),
    st.dictionaries(st.sampled_from("abcdx"), st.sampled_from("abcdx")),
    st.sampled_from(SelectionMode),
    st.integers(0, 9),
)
def test_any_selection_gives_a_chain(
    names: list[str], fallbacks: dict[str, str], mode: SelectionMode, cursor: int
) -> None:
    """RUN-32 to RUN-34: under any configuration a run has an agent, none twice, and it ends."""
    selection = select("".join(names), fallbacks, mode)
    chain, following = build_chain(selection, DEFAULT, cursor)
    held = ids(chain) if names else ""
    assert len(set(held)) == len(held)
    assert following == cursor or (0 <= following < len(names))
    unique = len(set(names)) == len(names)
    links = list(pairwise(held))
    assert all(unique and fallbacks[one] == other for one, other in links)
    if names and unique and fallbacks.get(held[-1]) in names:
        assert fallbacks[held[-1]] in held, "it ended although it could go on"


def test_an_agent_overrides_what_a_run_is_about() -> None:
    """RUN-36: every other field of the base is copied; flags are split as a shell does."""
    base = AttemptRequest(
        prompt="p",
        folder=Path("/f"),
        session="old",
        model="gpt",
        provider="mine",
        access=Access.FULL,
        flags=("--base",),
        argv=("x",),
        budget_usd=9,
    )
    one = agent("a", cli_flags="--dir '/a b' -v", model="opus")
    got = one.request(base, session="s", budget_usd=1.5)
    assert got == AttemptRequest(
        prompt="p",
        folder=Path("/f"),
        session="s",
        model="opus",
        access=Access.FULL,
        flags=("--dir", "/a b", "-v"),
        argv=("x",),
        budget_usd=1.5,
    )


def test_an_account_is_a_credential_or_a_folder() -> None:
    """G-06: agents with one login share its limits, under any name."""
    assert agent("a", config_dir="/x").account == agent("b", config_dir="/x").account
    assert agent("a", config_dir="/x").account != agent("b", config_dir="/y").account
    one = agent("a", config_dir="/x", credential="team")
    assert one.account == agent("b", config_dir="/y", credential="team").account
    assert (str(one.account), str(agent("a").account)) == ("claude (team)", "claude")


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"agent_id": " ", "agent_cli": "claude"}, "agent.agent_id: got ' ', wanted a name"),
        ({"agent_id": "a", "agent_cli": ""}, "agent.agent_cli: got '', wanted a name"),
        ({"agent_id": "a", "agent_cli": "x", "cli_flags": "'"}, "agent 'a'.cli_flags: got"),
    ],
)
def test_an_agent_that_cannot_be_started_is_refused(settings: dict[str, str], place: str) -> None:
    """The constructor refuses it, and names what to correct."""
    with pytest.raises(InvalidRunSetting, match=place):
        AgentInstance(**settings)


@pytest.mark.parametrize("names", ["", "aa"])
def test_a_chain_by_hand_is_checked_too(names: str) -> None:
    """A run needs an agent, and never uses one twice."""
    with pytest.raises(InvalidRunSetting, match="at least one agent, no id twice"):
        AgentChain(agents=tuple(agent(name) for name in names))

"""Roles: the shipped ones, those of a project, and the merge of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles import (
    GateUse,
    OnFail,
    Origin,
    RoleBook,
    WorkerRole,
    load_roles,
    read_roles,
    role_texts,
)
from otpy_agents.errors import InvalidEngineFile, UnknownRole

SECURITY = """\
name: security_reviewer
description: Security-focused code reviewer
extends: reviewer

cli: claude:opus

system_prompt: |
  Review code with a security focus.

context:
  include:
    - "src/api/**/*.py"
    - tests/**
  token_budget: 40000

gates:
  - test
  - {name: security, on_fail: block}

config:
  max_retries: 2
  timeout: 600
x-owner: the security team
"""


def book(**files: str) -> RoleBook:
    """Return the roles of a project with these files."""
    return load_roles(role_texts({f".supervisor/roles/{k}.yaml": v for k, v in files.items()}))


def role(name: str = "mine", **files: str) -> WorkerRole:
    return book(**files).role(name)


def test_three_roles_are_shipped() -> None:
    """ENG-24: each has an agent, a prompt and its own form of answer, and needs no file."""
    roles = book()
    assert roles.names == ("implementer", "planner", "reviewer")
    assert [one.output for one in roles] == [
        *(OutputKind.IMPLEMENTATION, OutputKind.PLAN, OutputKind.REVIEW)
    ]
    for one in roles:
        assert one.base == one.name
        assert one.cli.startswith("claude:")
        assert one.description
        assert one.system_prompt
        assert 25_000 <= one.context.token_budget <= 30_000
        assert not one.own_cli
    assert [use.name for use in roles.role("implementer").gates] == ["test", "lint"]


def test_an_overlay_is_merged_into_its_base() -> None:
    """ENG-25, ENG-26: lists append, mappings merge, others replace, prompts follow each other."""
    base = book().role("reviewer")
    merged = role("security_reviewer", security_reviewer=SECURITY)
    assert merged.cli == "claude:opus"
    assert merged.own_cli
    assert merged.base == "reviewer"
    assert merged.output is OutputKind.REVIEW
    assert merged.description == "Security-focused code reviewer"
    assert merged.system_prompt == (f"{base.system_prompt}\n\nReview code with a security focus.")
    assert merged.context.include == ("tests/**", "src/api/**/*.py")
    assert merged.context.always_include == base.context.always_include
    assert merged.context.token_budget == 40_000
    assert merged.gates == (
        GateUse(name="test"),
        GateUse(name="security", on_fail=OnFail.BLOCK),
    )
    assert (merged.config.max_retries, merged.config.timeout) == (2, 600.0)


def test_each_value_knows_where_it_was_written() -> None:
    """`origins` has file and line, for each item of a list; a default has none."""
    origins = role("security_reviewer", security_reviewer=SECURITY).origins
    file = ".supervisor/roles/security_reviewer.yaml"
    assert origins["cli"] == (Origin(file, 5),)
    assert [one.file for one in origins["system_prompt"]] == ["shipped reviewer.yaml", file]
    assert origins["context.include"][1] == Origin(file, 12)
    assert origins["gates.security.on_fail"] == (Origin(file, 18),)
    assert origins["config.timeout"] == (Origin(file, 22),)
    assert "config.tdd" not in origins


def test_roles_extend_each_other_in_chains() -> None:
    """A chain ends at a shipped role, which is the base of all of them."""
    roles = book(
        web="extends: implementer\nsystem_prompt: Web.\ncontext: {priority_order: [web/**]}",
        react=(
            "extends: web\nsystem_prompt_additions: [React., Hooks.]\n"
            "context: {priority_order: ['*.tsx', $TARGET]}\n"
            "gates: [{name: lint, required: false}, format_check]"
        ),
    )
    merged = roles.role("react")
    assert merged.base == "implementer"
    assert merged.system_prompt.endswith("\n\nWeb.\n\nReact.\n\nHooks.")
    assert merged.context.priority_order == ("*.tsx", "$TARGET")
    assert merged.gates == (
        GateUse(name="test"),
        GateUse(name="lint", required=False),
        GateUse(name="format_check"),
    )
    assert not merged.own_cli


def test_a_project_can_change_a_shipped_role() -> None:
    """A role that extends its own name extends the shipped one, for all that extend it too."""
    roles = book(
        implementer="extends: implementer\nsystem_prompt: Ours.",
        web="extends: implementer\nsystem_prompt: Web.",
    )
    assert roles.role("implementer").system_prompt.endswith("change them.\n\nOurs.")
    assert roles.role("web").system_prompt.endswith("change them.\n\nOurs.\n\nWeb.")


def test_a_role_can_start_a_program() -> None:
    """`cli: command` takes an argv; what belongs to one vendor's program stays with it."""
    script = "extends: implementer\ncli: command\nargv: [python, agent.py]"
    merged = role("mine", mine=script)
    assert (merged.cli, merged.argv, merged.own_cli) == ("command", ("python", "agent.py"), True)
    again = role(
        "next", mine=script + "\nflags: [-x]", next="extends: mine\nargv: [sh]\nflags: [-y]"
    )
    assert (again.argv, again.flags) == (("sh",), ("-x", "-y"))
    other = role("next", mine=script + "\nflags: [-x]", next="extends: mine\ncli: codex")
    assert (other.cli, other.argv, other.flags) == ("codex", (), ())


def test_a_role_can_stand_alone() -> None:
    """Without `extends` a role declares its agent, its prompt and its form of answer itself."""
    alone = role("mine", mine="cli: codex\nsystem_prompt: Do.\noutput: review")
    assert (alone.base, alone.output, alone.gates) == ("", OutputKind.REVIEW, ())
    named = role("planner", planner="cli: codex\nsystem_prompt: Do.")
    assert (named.output, named.system_prompt) == (OutputKind.PLAN, "Do.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extend: planner", ":1: extend: got the unknown key 'extend', wanted one of name,"),
        ("extends: nobody", ':1: extends: got "nobody", wanted one of implementer, mine, planner'),
        ("extends: mine", ":1: extends: got mine → mine, wanted roles that end with a base"),
        ("name: other\nextends: planner", ":1: name: got \"other\", wanted 'mine' as the file"),
        ("cli: codex", ":1: got neither 'system_prompt' nor 'extends', wanted"),
        ("system_prompt: x", ":1: got neither 'cli' nor 'extends', wanted 'cli', or a role"),
        ("cli: codex\nsystem_prompt: x", ":1: got neither 'output' nor 'extends', wanted"),
        ("extends: planner\ncli: gpt5", ':2: cli: got "gpt5", wanted one of claude, codex'),
        ("extends: planner\ncli: 'a b'", ':2: cli: got "a b", wanted vendor, vendor:model or'),
        ("extends: planner\ncli: command:x", ":2: cli:"),
        ("extends: planner\n\ncli: command", ":3: cli: got `cli: command` without `argv`"),
        ("extends: planner\nargv: [sh]", ":2: argv: got it with `cli: claude:opus`, wanted it"),
        ("extends: planner\nargv: []", ":2: argv: got [], wanted a program and its arguments"),
        ("extends: planner\ngates: [a, a]", ":2: gates[1]: got the gate 'a' for the second time"),
        ("extends: planner\ngates:\n- {on_fail: warn}", ":3: gates[0]: got nothing for 'name'"),
        ("extends: planner\ngates: [{name: a, fail: b}]", ":2: gates[0].fail: got the unknown"),
        ("extends: planner\ngates: [{name: a, on_fail: b}]", "wanted one of block, retry_with_"),
        ("extends: planner\ngates: [3]", ":2: gates[0]: got 3, wanted the name of a gate"),
        ("extends: planner\ncontext:\n  include: [$FILES]", ":3: context.include[0]: got"),
        ("extends: planner\ncontext:\n  include: ['../x']", "wanted a glob relative to the top"),
        ("extends: planner\ncontext:\n  include: ['#x']", "wanted a glob relative to the top"),
        ("extends: planner\ncontext: {token_budget: 0}", "got 0, wanted a whole number from 1"),
        ("extends: planner\ncontext: {depth: 1}", "context.depth: got the unknown key 'depth'"),
        ("extends: planner\nconfig: {retries: 1}", "config.retries: got the unknown key"),
        ("extends: planner\nconfig: {timeout: soon}", 'config.timeout: got "soon", wanted seconds'),
        ("extends: planner\nconfig: {coverage_target: 101}", "wanted percent above 0, at most"),
        ("extends: planner\noutput: essay", 'output: got "essay", wanted one of plan, impl'),
    ],
)
def test_a_wrong_role_is_refused_at_its_line(text: str, message: str) -> None:
    """One line says file, line, key, what is there and what is wanted."""
    with pytest.raises(InvalidEngineFile) as caught:
        book(mine=text)
    said = str(caught.value)
    assert said.startswith(".supervisor/roles/mine.yaml:")
    assert message in said
    assert "\n" not in said


def test_a_circle_of_roles_is_refused() -> None:
    """The message shows the circle."""
    with pytest.raises(InvalidEngineFile, match="got a → b → c → a, wanted roles that end"):
        book(a="extends: b", b="extends: c", c="extends: a")


def test_an_unknown_role_is_told_with_the_known_ones() -> None:
    """A typing error is thus seen at once."""
    with pytest.raises(UnknownRole, match="got 'coder', wanted one of implementer, planner, rev"):
        book().role("coder")


def test_roles_are_read_from_the_folder(tmp_path: Path) -> None:
    """Files other than YAML are ignored; a second file for a role is refused."""
    assert read_roles(tmp_path).names == ("implementer", "planner", "reviewer")
    folder = tmp_path / ".supervisor" / "roles"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("none")
    (folder / "dba.yml").write_text("extends: implementer")
    assert read_roles(tmp_path).role("dba").base == "implementer"
    (folder / "dba.yaml").write_text("extends: implementer")
    with pytest.raises(InvalidEngineFile, match="got the role 'dba' again, wanted it in"):
        read_roles(tmp_path)
    (folder / "dba.yaml").rename(folder / "d b.yaml")
    with pytest.raises(InvalidEngineFile, match="got a role called 'd b', wanted a name of"):
        read_roles(tmp_path)


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c/**"]), max_size=3), max_size=4))
def test_no_layer_loses_what_those_below_it_say(layers: list[list[str]]) -> None:
    """The lists of a chain hold the items of all its roles, each once, oldest first."""
    files: dict[str, str] = {}
    for number, globs in enumerate(layers):
        below = f"r{number - 1}" if number else "planner"
        listed = ", ".join(globs)
        files[f"r{number}"] = f"extends: {below}\ncontext: {{include: [{listed}]}}"
    expected = dict.fromkeys(["docs/**", *(glob for globs in layers for glob in globs)])
    last = book(**files).role(f"r{len(layers) - 1}" if layers else "planner")
    assert last.context.include == tuple(expected)
    assert len(last.origins["context.include"]) == len(last.context.include)

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_monitors import (
    Action,
    CommandBlocked,
    Custom,
    FilesOutside,
    InvalidRules,
    NetworkForbidden,
    SameCall,
    TokenSpeed,
    TooManyChildren,
    ViolationRule,
    parse_rules,
    read_rules,
)

FILE = Path("rules.yaml")

EVERYTHING = r"""
# what agents must not do
rules:
  - name: stay-inside
    kind: files-outside
    action: reap
    agents: ["site/*", "shop/*"]
    also: [/tmp/shared]
  - {name: no-wiping, kind: command, action: pause, block: ['rm\s+-rf', sudo]}
  - name: no   # a text in YAML 1.2
    kind: network
    action: notify
    allow: ["*.npmjs.org"]
    deny: [on]
  - {name: few, kind: children, action: log, at_most: 3}
  - {name: slow, kind: token-speed, action: warn, tokens: 100000, seconds: 60}
  - {name: row, kind: same-call, action: warn, times: 3}
  - {name: often, kind: same-call, action: warn, times: 10, seconds: 1e2}
"""


def test_every_kind_can_be_written() -> None:
    """Rules come in order, with the defaults filled in."""
    book = parse_rules(EVERYTHING, FILE)
    blocked = CommandBlocked((re.compile(r"rm\s+-rf"), re.compile("sudo")))
    assert book.rules == (
        ViolationRule(
            "stay-inside", FilesOutside((Path("/tmp/shared"),)), Action.REAP, ("site/*", "shop/*")
        ),
        ViolationRule("no-wiping", blocked, Action.PAUSE),
        ViolationRule("no", NetworkForbidden(("*.npmjs.org",), ("on",)), Action.NOTIFY),
        ViolationRule("few", TooManyChildren(3), Action.LOG),
        ViolationRule("slow", TokenSpeed(100_000, 60.0), Action.WARN),
        ViolationRule("row", SameCall(3), Action.WARN),
        ViolationRule("often", SameCall(10, 100.0), Action.WARN),
    )
    assert book.files == (FILE.absolute(),)


def test_a_list_of_hosts_that_is_empty_allows_none() -> None:
    """An empty list is not the same as no list."""
    text = "rules: [{name: n, kind: network, action: log, allow: [], deny: [a]}]"
    assert parse_rules(text, FILE).rules[0].check == NetworkForbidden((), ("a",))


def test_a_file_is_read_once_and_its_digest_kept(tmp_path: Path) -> None:
    """Later changes of the file have no effect."""
    file = tmp_path / "rules.yaml"
    file.write_text(EVERYTHING, encoding="utf-8")
    book = read_rules(file)
    file.write_text("rules: []", encoding="utf-8")
    assert len(book.rules) == 7
    assert book.digest == hashlib.sha256(EVERYTHING.encode()).hexdigest()


RULE = "rules:\n- name: n\n  action: log\n"
KINDS = "files-outside, command, network, children, token-speed, same-call, predicate"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: rules: got nothing, wanted a list of rules"),
        ("[]", ":1: rules: got [], wanted a list of rules"),
        ("\nrules: 3", ":2: rules: got 3, wanted a list of rules"),
        ("rules: []\nrule: []", ":2: rule: got an unknown key, wanted rules"),
        ("rules:\n- x", ':2: rule #1: got "x", wanted a rule: name, kind and action'),
        ("rules:\n- name: n", f":2: rule 'n'.kind: got nothing, wanted one of {KINDS}"),
        (RULE + "  kind: x", f":4: rule 'n'.kind: got \"x\", wanted one of {KINDS}"),
        (RULE + "  kind: [x]", f":4: rule 'n'.kind: got ['x'], wanted one of {KINDS}"),
        (
            RULE + "  kind: children",
            ":2: rule 'n'.at_most: got nothing, wanted a whole number from 0",
        ),
        (
            RULE + "  kind: children\n  at_most: -1",
            ":5: rule 'n'.at_most: got -1, wanted a whole number from 0",
        ),
        (
            RULE + "  kind: children\n  at_most: '1'",
            ":5: rule 'n'.at_most: got \"1\", wanted a whole number from 0",
        ),
        (
            RULE + "  kind: children\n  at_most: true",
            ":5: rule 'n'.at_most: got True, wanted a whole number from 0",
        ),
        (
            RULE + "  kind: children\n  most: 1\n  at_most: x",
            (
                ":5: rule 'n'.most: got an unknown key, wanted one of name, action, agents, "
                "kind, at_most"
            ),
        ),
        (
            RULE + "  kind: children\n  at_most: x\n  most: 1",
            ":5: rule 'n'.at_most: got \"x\", wanted a whole number from 0",
        ),
        (
            "rules:\n- {name: n, kind: children, at_most: 1, action: kill}",
            ":2: rule 'n'.action: got \"kill\", wanted log, notify, warn, pause or reap",
        ),
        (
            "rules:\n- {name: '', kind: children, at_most: 1, action: log}",
            ':2: rule #1.name: got "", wanted a text that no other rule has',
        ),
        (
            "rules:\n- {name: 2, kind: children, at_most: 1, action: log}",
            ":2: rule #1.name: got 2, wanted a text that no other rule has",
        ),
        (
            RULE + "  kind: command\n  block:\n  - a\n  - (",
            (
                ":7: rule 'n'.block[1]: got \"(\", wanted a list of regular expressions of Python, "
                "at least one"
            ),
        ),
        (
            RULE + "  kind: command\n  block: []",
            (
                ":5: rule 'n'.block: got [], wanted a list of regular expressions of Python, "
                "at least one"
            ),
        ),
        (
            RULE + "  kind: files-outside\n  also: [tmp]",
            ":5: rule 'n'.also[0]: got \"tmp\", wanted a list of absolute paths of folders",
        ),
        (
            RULE + "  kind: network\n  allow: ['http://x']",
            (
                ":5: rule 'n'.allow[0]: got \"http://x\", wanted a list of hosts, "
                "or of patterns such as *.example.org"
            ),
        ),
        (
            RULE + "  kind: token-speed\n  tokens: 5\n  seconds: .inf",
            ":6: rule 'n'.seconds: got inf, wanted seconds as a number above 0",
        ),
        (
            RULE + "  kind: same-call\n  times: 1",
            ":5: rule 'n'.times: got 1, wanted a whole number from 2",
        ),
        (
            RULE + "  kind: same-call\n  times: 2\n  agents: []",
            ":6: rule 'n'.agents: got [], wanted a list of patterns of agents' keys",
        ),
        (
            RULE + "  kind: predicate\n  call: nothing",
            ":5: rule 'n'.call: got \"nothing\", wanted the name of a function, as module:function",
        ),
        (
            RULE + "  kind: predicate\n  call: no_such:f",
            (
                ":5: rule 'n'.call: got \"no_such:f\" "
                "(ModuleNotFoundError: No module named 'no_such'), wanted a function of a module"
            ),
        ),
        (
            RULE + "  kind: predicate\n  call: os:sep",
            (
                ":5: rule 'n'.call: got \"os:sep\", which cannot be called, "
                "wanted a function of a module"
            ),
        ),
        (
            RULE + "  kind: children\n  at_most: 1\n" + RULE[7:] + "  kind: same-call\n  times: 2",
            ':6: rule #2.name: got "n" for the second time, wanted a unique name',
        ),
        ("rules: [", ":1: got a mistake (expected the node content, but found '<stream end>')"),
        (
            "rules: []\n\n\tx: 1",
            ":3: got a mistake (found character '\\t' that cannot start any token)",
        ),
        ("rules: []\n---\nrules: []", ":2: got a mistake (but found another document)"),
        (
            "rules: []\nrules: []",
            ":2: got the key 'rules' for the second time, wanted each key once",
        ),
        ("rules: []\n1: []", ":2: got a key that is not text, wanted a text"),
        ("rules: []\n? [a]\n: b", ":2: got a key that is not text, wanted a text"),
        (
            "rules:\n- &one {name: n}\n- *one",
            ":2: got the anchor 'one', wanted every value where it belongs",
        ),
        ("a: *b", ":1: got a mistake (found undefined alias 'b'), wanted YAML"),
        (
            "rules: 2026-01-01",
            ":1: got a value with the tag tag:yaml.org,2002:timestamp, wanted a text or a number",
        ),
        (
            "rules:\n- !!python/object:os.system {}",
            ":2: got a value with the tag",
        ),
        ("rules: \x07", ":1: got a mistake ("),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    """The line has file, line, key, the value got and the value wanted; the first error counts."""
    with pytest.raises(InvalidRules) as raised:
        parse_rules(text, FILE)
    said = str(raised.value)
    assert said.startswith(f"rules.yaml{message}"), said
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """The file is missing, or not text."""
    with pytest.raises(
        InvalidRules, match=r"none.yaml: got no such file or directory, wanted a rule"
    ):
        read_rules(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"rules:\n- \xff")
    with pytest.raises(InvalidRules, match=r"bytes.yaml:2: got bytes that are not UTF-8"):
        read_rules(tmp_path / "bytes.yaml")


@given(st.text(alphabet="rules:-n []{}&*!#'\"|>\n\t01.,%@`", max_size=40))
def test_whatever_the_text_is_the_answer_is_rules_or_one_line(text: str) -> None:
    """Any text gives either rules or `InvalidRules`."""
    with contextlib.suppress(InvalidRules):
        assert parse_rules(text, FILE).rules == ()


# --- out of the agents' reach -----------------------------------------------------------------


def test_a_rule_file_that_an_agent_may_write_is_refused(tmp_path: Path) -> None:
    """A link to such a file is refused too; a file beside the folder is fine (acceptance 17)."""
    (tmp_path / "work").mkdir()
    inside, beside = tmp_path / "work" / "rules.yaml", tmp_path / "rules.yaml"
    inside.write_text(EVERYTHING, encoding="utf-8")
    beside.symlink_to(inside)
    for file in (inside, beside):
        with pytest.raises(InvalidRules) as raised:
            read_rules(file, writable=[tmp_path / "other", tmp_path / "work"])
        assert str(raised.value) == (
            f"{file}: got {file}, which can be changed by an agent that may write in "
            f"{tmp_path / 'work'}, wanted a file out of the agents' reach"
        )
    assert read_rules(inside, writable=[tmp_path / "other"]).rules


def test_folders_that_a_rule_opens_are_in_reach_too(tmp_path: Path) -> None:
    """Every agent may write in the folders of `also`, so these must not hold the rules."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"rules:\n- name: n\n  kind: files-outside\n  action: log\n  also: [{tmp_path}]\n",
        encoding="utf-8",
    )
    with pytest.raises(InvalidRules, match=r"rules.yaml:5: rule 'n'.also: got .*, which can be"):
        read_rules(file)


def test_a_place_that_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    """A reach that is unknown counts as within reach."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InvalidRules, match="got a place that cannot be looked at"):
        parse_rules("rules: []", tmp_path / "rules.yaml", writable=[tmp_path / "loop" / "x"])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of a package with a predicate in it."""
    package = tmp_path / "code" / "own_rules"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "judge.py").write_text("def never(activity, card):\n    return None\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "code"), *sys.path])
    for name in ("own_rules", "own_rules.judge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "own_rules.judge"


def test_a_predicate_is_imported_with_the_rules(module: str, tmp_path: Path) -> None:
    """The predicate's source files belong to the rules."""
    text = RULE + f"  kind: predicate\n  call: {module}:never"
    book = parse_rules(text, tmp_path / "rules.yaml")
    check = book.rules[0].check
    assert isinstance(check, Custom)
    assert check.name == f"{module}:never"
    package = tmp_path / "code" / "own_rules"
    assert book.files == (tmp_path / "rules.yaml", package / "__init__.py", package / "judge.py")


def test_a_predicate_that_an_agent_may_write_is_refused(module: str, tmp_path: Path) -> None:
    """A rule is no better guarded than the code it calls."""
    text = RULE + f"  kind: predicate\n  call: {module}:never"
    with pytest.raises(
        InvalidRules, match=r"rules.yaml:5: rule 'n'.call: got .*__init__.py, which"
    ):
        parse_rules(text, tmp_path / "rules.yaml", writable=[tmp_path / "code"])

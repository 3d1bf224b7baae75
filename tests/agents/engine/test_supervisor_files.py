"""The folder `.supervisor`: how it is read, and how a mistake in it is reported."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.engine.supervisor_files import (
    YamlTable,
    merged,
    read_supervisor_text,
    read_yaml,
)
from otpy_agents.errors import InvalidEngineFile


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


TEXT = """\
x-note: mine
lint:
  timeout: 5
  retries: 2
  text: hello
  list: [a, b]
  flag: true
  colour: blue
  x-own: [1]
items:
  - one
  - {name: two}
"""


def test_each_reader_returns_its_kind_of_value() -> None:
    """A value that is there is returned, and the default for one that is not."""
    whole = read_yaml("f.yaml", TEXT)
    assert list(whole) == ["lint", "items"]
    table = whole.table("lint")
    assert table.number("timeout", None) == 5.0
    assert table.whole("retries", 0) == 2
    assert table.text("text", "") == "hello"
    assert table.texts("list") == ("a", "b")
    assert table.flag("flag", default=False) is True
    assert table.choice("colour", Colour.RED) is Colour.BLUE
    assert [table.number("no", 1.5), table.texts("no"), table.text("no", None)] == [1.5, (), None]
    assert whole.items("items")[0] == "one"
    assert whole.row("items", 1).text("name", "") == "two"
    assert list(whole.table("nothing")) == []
    assert list(whole.table("lint")) == [*("timeout", "retries", "text", "list", "flag", "colour")]


WRONG: list[tuple[str, Callable[[YamlTable], object], str]] = [
    (
        "a: 1\nb: 2",
        lambda t: t.only("a"),
        "f.yaml:2: b: got the unknown key 'b', wanted one of",
    ),
    ("a: 1", lambda t: t.require("b"), "f.yaml:1: got nothing for 'b', wanted the key 'b'"),
    ("\na: 1", lambda t: t.text("a", ""), "f.yaml:2: a: got 1, wanted a text"),
    ("a: ''", lambda t: t.text("a", ""), 'f.yaml:1: a: got "", wanted a text'),
    ("a:", lambda t: t.text("a", ""), "f.yaml:1: a: got nothing, wanted a text"),
    ("a: b", lambda t: t.texts("a"), 'a: got "b", wanted a list of texts'),
    ("a:\n- b\n- 3", lambda t: t.texts("a"), "f.yaml:3: a[1]: got 3, wanted a text"),
    ("a: 0", lambda t: t.number("a", 1), "got 0, wanted seconds as a number above 0"),
    ("a: true", lambda t: t.number("a", 1), "got true, wanted seconds"),
    ("a: .inf", lambda t: t.number("a", 1), "wanted seconds"),
    ("a: -1", lambda t: t.whole("a", 1), "got -1, wanted a whole number from 0"),
    ("a: true", lambda t: t.whole("a", 1), "got true, wanted a whole number"),
    ("a: 1", lambda t: t.flag("a", default=True), "got 1, wanted true or false"),
    ("a: pink", lambda t: t.choice("a", Colour.RED), 'got "pink", wanted one of red, blue'),
    ("a: [1]", lambda t: t.table("a"), "got [1], wanted a mapping"),
    ("a: {b: 1}", lambda t: t.tables("a"), "a.b: got 1, wanted a mapping"),
    ("a: {}", lambda t: t.items("a"), "got {}, wanted a list"),
]


@pytest.mark.parametrize(("text", "read", "message"), WRONG)
def test_a_value_of_another_kind_is_refused_at_its_line(
    text: str, read: Callable[[YamlTable], object], message: str
) -> None:
    """The error names file, line, key, what is there and what is wanted."""
    table = read_yaml("f.yaml", text)
    with pytest.raises(InvalidEngineFile) as caught:
        read(table)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "f.yaml:1: got a mistake"),
        ("a: 1\na: 2", "f.yaml:2: got the key 'a' for the second time"),
        ("- a", 'f.yaml:1: got ["a"], wanted a mapping of keys to values'),
        ("a: \0", "f.yaml: got a binary file, wanted YAML"),
        ("a: " + "[" * 500, "f.yaml: got lists or mappings that are nested"),
    ],
)
def test_a_text_that_is_no_such_yaml_is_refused(text: str, message: str) -> None:
    """A file with any content gets an error of one line."""
    with pytest.raises(InvalidEngineFile) as caught:
        read_yaml("f.yaml", text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_files_are_read_from_the_folder(tmp_path: Path) -> None:
    """A missing file is no error; one that cannot be read is."""
    folder = tmp_path / ".supervisor"
    assert read_supervisor_text(tmp_path, "gates.yaml") is None
    folder.mkdir()
    (folder / "gates.yaml").write_text("a: é", encoding="utf-8")
    assert read_supervisor_text(tmp_path, "gates.yaml") == (".supervisor/gates.yaml", "a: é")
    (folder / "bad.yaml").write_bytes(b"\xff")
    (folder / "folder.yaml").mkdir()
    (folder / "large.yaml").write_bytes(b" " * (1024 * 1024 + 1))
    (folder / "gone.yaml").symlink_to("nowhere")
    for name, got in {
        "bad.yaml": "not UTF-8",
        "folder.yaml": "not a file",
        "large.yaml": "bytes",
        "gone.yaml": "not a file",
    }.items():
        with pytest.raises(InvalidEngineFile, match=got):
            read_supervisor_text(tmp_path, name)


VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("kl"), inner),
    max_leaves=6,
)
TABLES = st.dictionaries(st.sampled_from("klm"), VALUES)


@settings(max_examples=50)
@given(TABLES, TABLES)
def test_merging_follows_its_rules(base: dict[str, Any], over: dict[str, Any]) -> None:
    """Mappings merge key by key, lists append without repeats, other values are replaced."""
    result: dict[str, Any] = merged(base, over)
    assert result.keys() == base.keys() | over.keys()
    assert merged(base, {}) == base
    both = base.keys() & over.keys()
    for key in both:
        if all(isinstance(side[key], dict) for side in (base, over)):
            assert result[key] == merged(base[key], over[key])
        elif all(isinstance(side[key], list) for side in (base, over)):
            assert result[key][: len(base[key])] == base[key]
            assert set(map(str, over[key])) <= set(map(str, result[key]))
        else:
            assert result[key] == over[key]
    assert all(result[key] == {**base, **over}[key] for key in result.keys() - both)
    assert merged(result, over) == result

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.errors import InvalidTreeSetting, InvalidWorkList
from otpy_agents.worklist.assignment import Expectation, Role
from otpy_agents.worklist.diagnosis import key_lines
from otpy_agents.worklist.reader import parse, read

FILE = Path("/lists/workshop.toml")
PLAIN = '[[assignment]]\nid = "zip"\nargv = ["zip"]\n'


def complaint(text: str) -> str:
    """Return the one line of the error about a bad work list."""
    with pytest.raises(InvalidWorkList) as caught:
        parse(text, Path("w.toml"))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_depend_on_the_role() -> None:
    """A mortal gets 3 restarts in 300 s, a drone 1 in 60 s without delay (TREE-17, TREE-18)."""
    drone = '[[assignment]]\nid = "d"\nargv = ["d"]\nrole = "drone"\n'
    work = parse(PLAIN + drone, FILE)
    one, two = work.assignments
    assert (one.role, one.restarts, one.within, one.backoff) == (Role.MORTAL, 3, 300.0, None)
    assert (two.role, two.restarts, two.within, two.backoff) == (Role.DRONE, 1, 60.0, ())
    assert (one.grace, one.expect, one.cwd, one.deadline) == (5.0, Expectation.DONE, None, None)
    assert (work.name, work.parallel, work.rule_file) == ("workshop", 4, None)
    assert (work.start_rate.starts, work.start_rate.seconds) == (20, 10.0)
    assert work.state == Path("/lists/workshop.sqlite")


def test_everything_can_be_said() -> None:
    """Every key of the file arrives in the values, paths resolved from the file's folder."""
    text = """
    [list]
    name = "all"
    parallel = 2
    start_rate = { starts = 3, seconds = 1.5 }
    wall_seconds = 60
    output_bytes = 1_000
    state = "state/all.db"
    rule_file = "rules.yaml"
    [[assignment]]
    id = "a.b-c_1"
    argv = ["{python}", "{here}/x.py", "--root={here}"]
    role = "mortal"
    cwd = "work"
    env = { A = "1" }
    deadline = 1
    stall = 0.5
    grace = 0
    expect = "reaped"
    wall_seconds = 2.5
    output_bytes = 10
    restarts = 0
    within = 9
    backoff = [0, 0.5]
    """
    work = parse(text, FILE)
    (one,) = work.assignments
    assert (work.parallel, work.wall_seconds, work.output_bytes) == (2, 60.0, 1000)
    assert (work.start_rate.starts, work.start_rate.seconds) == (3, 1.5)
    assert work.state == Path("/lists/state/all.db")
    assert one.argv == (sys.executable, "/lists/x.py", "--root=/lists")
    assert (one.cwd, dict(one.env)) == (Path("/lists/work"), {"A": "1"})
    assert (one.deadline, one.stall, one.grace, one.within) == (1.0, 0.5, 0.0, 9.0)
    assert (one.restarts, one.backoff, one.expect) == (0, (0.0, 0.5), Expectation.REAPED)
    assert work.rule_file == Path("/lists/rules.yaml")


def test_values_are_frozen() -> None:
    """Neither an assignment nor its environment can be changed after it was read."""
    (one,) = parse(PLAIN + 'env = { A = "1" }', FILE).assignments
    with pytest.raises(AttributeError):
        one.restarts = 9  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        one.env["A"] = "2"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def test_the_digest_follows_the_definition_only() -> None:
    """A changed definition has another digest; comments, order and place do not matter."""
    (one,) = parse(PLAIN, FILE).assignments
    (same,) = parse('[[assignment]] # x\nargv = ["zip"]\nid = "zip"', Path("/b.toml")).assignments
    (other,) = parse(PLAIN + "grace = 1", FILE).assignments
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            PLAIN + 'deadline = "soon"',
            "w.toml:4: assignment 'zip'.deadline: got \"soon\", wanted seconds as a number above 0",
            id="wrong type",
        ),
        pytest.param(
            PLAIN + "# c\nbackoff = [\n  1,\n  2, # c\n  -3,\n]\n",
            "w.toml:5: assignment 'zip'.backoff[2]: got -3,"
            " wanted a list of seconds, numbers from 0",
            id="multi-line array",
        ),
        pytest.param(
            PLAIN + 'env = { A = "x", B = 1 }',
            "w.toml:4: assignment 'zip'.env.B: got a value of type int,"
            " wanted a table of texts under names that do not begin with OTPY_",
            id="inline table, value not shown",
        ),
        pytest.param(
            PLAIN + '[assignment.env]\nA = "x"\nOTPY_LIST = "x"',
            "w.toml:6: assignment 'zip'.env.OTPY_LIST: got \"OTPY_LIST\","
            " wanted a table of texts under names that do not begin with OTPY_",
            id="reserved variable",
        ),
        pytest.param(
            PLAIN + '\n# the next\n[[assignment]]\nid = "b"\n\n[list]\nparallel = 2',
            "w.toml:6: assignment 'b'.argv: got nothing,"
            " wanted a list of texts, the program first, or an `agent`",
            id="missing key points at its table",
        ),
        pytest.param(
            PLAIN + "\n" + PLAIN,
            'w.toml:6: assignment #2.id: got "zip" for the second time, wanted a unique name',
            id="duplicate points at the second",
        ),
        pytest.param(
            PLAIN + "grace = inf",
            "w.toml:4: assignment 'zip'.grace: got Infinity, wanted seconds as a number from 0",
            id="endless",
        ),
        pytest.param(
            "[list]\nstart_rate = { starts = 0 }\n" + PLAIN,
            "w.toml:2: list.start_rate.starts: got 0, wanted starts from 1, seconds above 0,"
            " as { starts = 20, seconds = 10 }",
            id="a rate of no starts",
        ),
        pytest.param(
            "[list]\nparallel = true\n" + PLAIN,
            "w.toml:2: list.parallel: got true, wanted a whole number from 1",
            id="a truth is no number",
        ),
        pytest.param(
            '[list]\njake_restarts = "often"\n' + PLAIN,
            'w.toml:2: list.jake_restarts: got "often",'
            ' wanted a whole number from 0, or "unlimited"',
            id="a limit that is none",
        ),
        pytest.param(
            PLAIN + '[[rule]]\nname = "r"\npattern = "("\non = "path"\naction = "log"',
            'w.toml:4: rule: got it, wanted a rule of the kind "command"'
            " in the file that `rule_file` in [list] names",
            id="rules of an older version",
        ),
        pytest.param(
            PLAIN + "x = [1,\n2\n\n", "w.toml:5: got unclosed array, wanted TOML", id="unfinished"
        ),
        pytest.param(
            PLAIN + "id = 1", "w.toml:4: got cannot overwrite a value, wanted TOML", id="twice"
        ),
        pytest.param(
            "", "w.toml:1: assignment: got nothing, wanted at least one [[assignment]] table",
            id="empty",
        ),
        pytest.param(
            "assignment = 3",
            "w.toml:1: assignment: got 3, wanted at least one [[assignment]] table",
            id="no table",
        ),
        pytest.param(
            "assignment = [4]",
            "w.toml:1: assignment #1: got 4, wanted at least one [[assignment]] table",
            id="no table in the array",
        ),
    ],
)  # fmt: skip
def test_a_bad_list_gets_one_line(text: str, expected: str) -> None:
    """The line names the file, the line, the key, the value got and the value wanted."""
    assert complaint(text) == expected


def test_an_unknown_key_is_told_what_keys_there_are() -> None:
    """A typing mistake in a key is not ignored."""
    message = complaint(PLAIN + "deadlin = 3")
    assert message.startswith("w.toml:4: assignment 'zip'.deadlin: got an unknown key, wanted one")
    assert "deadline" in message


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n"])
def test_an_id_can_be_the_name_of_a_folder(name: str) -> None:
    """Ids that would leave the state folder or break a line are refused."""
    assert "wanted letters" in complaint(f"[[assignment]]\nid = {name!r}\nargv = ['x']"
                                         .replace("'a\\n'", '"a\\n"'))  # fmt: skip


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b"])
def test_no_assignment_has_an_id_that_a_list_could_not_give_it(name: str) -> None:
    """One that a program makes would leave the state folder as well."""
    (one,) = parse(PLAIN, FILE).assignments
    with pytest.raises(InvalidTreeSetting, match=r"assignment\.id: got .*, wanted letters"):
        evolve(one, id=name)


@pytest.mark.parametrize(
    "bad", ['argv = ["x\\u0000"]', 'cwd = "\\u0000"', 'env = { A = "\\u0000" }']
)
def test_what_the_kernel_would_refuse_is_refused_here(bad: str) -> None:
    """A NUL in an argument, a path or a variable is found before a worker is started."""
    head = '[[assignment]]\nid = "a"\n' + ("" if "argv" in bad else 'argv = ["x"]\n')
    assert complaint(head + bad).startswith("w.toml:")


def test_the_first_mistake_in_the_file_is_named() -> None:
    """Of several mistakes the error names the topmost."""
    assert complaint(PLAIN + "stall = 0\ndeadline = 0\nargv2 = 1").startswith("w.toml:4:")


def test_a_file_that_cannot_be_read_is_one_line_too(tmp_path: Path) -> None:
    """Missing files, folders and bytes that are not text raise the same error."""
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"a = 1\nb = '\xff'")
    for path, expected in (
        (tmp_path / "no.toml", "no.toml: got no such file or directory, wanted a work list"),
        (tmp_path, ": got is a directory, wanted a work list"),
        (binary, "b.toml:2: got bytes that are not UTF-8, wanted a text"),
    ):
        with pytest.raises(InvalidWorkList) as caught:
            read(path)
        assert expected in str(caught.value)


def test_reading_a_file_gives_what_parsing_its_text_gives(tmp_path: Path) -> None:
    """`read` adds nothing but the file."""
    file = tmp_path / "w.toml"
    file.write_text(PLAIN, encoding="utf-8")
    assert read(file) == parse(PLAIN, file)


def test_lines_of_every_shape_of_toml() -> None:
    """Each key has the line its statement begins on."""
    text = (
        "# comment\na = 1\n\nb = [\n 1,\n 2,\n]\nc.d = '''\nx = 1\n'''\n"
        "[t]\ne = {f = 1, g = {h = 2}}\n[[l]]\n[[l]]\ni = 1\n[l.m]\nn = 1\n"
    )
    assert key_lines(text) == {
        ("a",): 2,
        ("b",): 4, ("b", 0): 4, ("b", 1): 4,
        ("c",): 8, ("c", "d"): 8,
        ("t",): 11, ("t", "e"): 12, ("t", "e", "f"): 12,
        ("t", "e", "g"): 12, ("t", "e", "g", "h"): 12,
        ("l",): 13, ("l", 0): 13, ("l", 1): 14, ("l", 1, "i"): 15,
        ("l", 1, "m"): 16, ("l", 1, "m", "n"): 17,
    }  # fmt: skip


@given(st.lists(st.sampled_from(["#", "", "k = 1", "k = [\n1,\n2]", "k = '''\n[x]\n'''"])))
def test_the_line_of_a_key_is_where_it_is_written(pieces: list[str]) -> None:
    """The line of a key is found below any other text."""
    lines: list[str] = []
    expected: dict[tuple[str | int, ...], int] = {}
    for number, piece in enumerate(pieces):
        if piece.startswith("k"):
            expected[(f"k{number}",)] = len(lines) + 1
        lines += piece.replace("k", f"k{number}").split("\n")
    found = key_lines("\n".join(lines))
    assert {path: line for path, line in found.items() if len(path) == 1} == expected


@pytest.mark.parametrize(
    ("said", "meant"),
    [("", 10), ("jake_restarts = 0", 0), ('jake_restarts = "unlimited"', None)],
)
def test_how_often_jake_may_crash_can_be_said(said: str, meant: int | None) -> None:
    """Ten times an hour, or as often as the list says (C-13)."""
    assert parse(f"[list]\n{said}\n{PLAIN}", Path("w.toml")).jake_restarts == meant

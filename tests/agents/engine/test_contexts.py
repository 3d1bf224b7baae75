"""The prompt of a worker: its contents, their order, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.engine.context import (
    ContextRequest,
    ContextSection,
    ContextSource,
    PackedContext,
    PartKind,
    pack,
)
from otpy_agents.engine.context.candidates import diff_of_files
from otpy_agents.engine.context.values import (
    PROTECTED,
    FileReading,
    FileText,
    MissingFile,
    UnreadableFile,
)
from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles import ContextRules, RoleConfig, WorkerRole
from otpy_agents.errors import TargetRefused

DIFF = """\
diff --git a/src/app.py b/src/app.py
--- a/src/app.py
+++ b/src/app.py
@@ -1 +1 @@
-old
+new
diff --git a/a b.txt b/a b.txt
+diff --git x
"""


def source(files: Mapping[str, str | UnreadableFile], diff: str = "", **more: Any) -> ContextSource:
    """Return a work tree in memory."""

    def read(path: str) -> FileReading:
        found = files.get(path)
        if isinstance(found, str):
            return FileText(found)
        return MissingFile() if found is None else found

    return ContextSource(
        read=read,
        files=tuple(sorted(files)),
        diff=diff,
        changed=tuple(sorted(path for path, _ in diff_of_files(diff))),
        **more,
    )


def role(config: RoleConfig | None = None, **rules: Any) -> WorkerRole:
    return WorkerRole(
        name="mine",
        cli="codex",
        system_prompt="You work.",
        output=OutputKind.IMPLEMENTATION,
        context=ContextRules(**rules),
        config=config or RoleConfig(),
    )


def names(packed: PackedContext) -> list[str]:
    """Return the optional parts of a prompt, in order of importance."""
    return [p.name for p in packed.parts if p.included and p.kind not in PROTECTED]


def test_a_prompt_has_its_blocks_in_order() -> None:
    """ENG-20, ENG-23: prompt, task, what failed, targets, context, and the form of the answer."""
    packed = pack(
        ContextRequest(
            role=role(RoleConfig(tdd=True, coverage_target=80.0), include=("docs/**",)),
            task="Add a login.\n",
            targets=("src/app.py", "src/new.py"),
            feedback="test: 1 failed",
            sections=(ContextSection("Review", "Mind the tests."),),
            output="Answer with JSON.",
        ),
        source({"src/app.py": "print('new')", "docs/a.md": "```\ncode\n```\n"}, DIFF),
    )
    assert (
        packed.prompt
        == """\
You work.
- Write the test first, see it fail, and then write the code that makes it pass.
- Tests must cover at least 80 % of the code.

# Task

Add a login.

# What failed in the last attempt

test: 1 failed

# Target files

## src/app.py

```py
print('new')
```

## src/new.py

This file is not there yet.

# Context

## Review

Mind the tests.

## Changes in src/app.py

```diff
diff --git a/src/app.py b/src/app.py
--- a/src/app.py
+++ b/src/app.py
@@ -1 +1 @@
-old
+new
```

## Changes in a b.txt

```diff
diff --git a/a b.txt b/a b.txt
+diff --git x
```

## docs/a.md

````md
```
code
```
````

# Your answer

Answer with JSON.
"""
    )
    assert [part.kind for part in packed.parts] == [
        *(PartKind.SYSTEM_PROMPT, PartKind.TASK, PartKind.FEEDBACK, PartKind.OUTPUT),
        *(PartKind.TARGET, PartKind.TARGET, PartKind.SECTION, PartKind.DIFF, PartKind.DIFF),
        PartKind.INCLUDED,
    ]
    assert packed.tokens == -(-len(packed.prompt) // 4)
    assert packed.report() == f"{packed.tokens} of 25,000 tokens"


TREE = {
    "a/main.py": "import a.used\nfrom a import gone, models\nfrom . import near",
    "a/used.py": "1",
    "a/models.py": "2",
    "a/near.py": "3",
    "tests/a/test_main.py": "4",
    "README.md": "5",
    "web/app.ts": "6",
    "src/app.py": "7",
}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"related": False}, ["a/main.py"]),
        (
            {},
            ["a/main.py", "a/used.py", "a/models.py", "a/near.py", "tests/a/test_main.py"],
        ),
        (
            {"related": False, "include": ("*.py", "!src")},
            [*("a/main.py", "a/models.py", "a/near.py", "a/used.py", "tests/a/test_main.py")],
        ),
        (
            {"related": False, "include": ("*.ts",), "always_include": ("/README*",)},
            ["a/main.py", "README.md", "web/app.ts"],
        ),
        (
            {"include": ("web",), "exclude": ("tests", "$TARGET_IMPORTS", "$TARGET")},
            ["a/main.py", "web/app.ts"],
        ),
        (
            {"include": ("*.ts", "*.md"), "priority_order": ("*.md", "$TARGET", "a/near.py")},
            [
                *("README.md", "a/main.py", "a/near.py", "a/used.py", "a/models.py"),
                *("tests/a/test_main.py", "web/app.ts"),
            ],
        ),
        ({"related": False, "include": ("$CHANGED_FILES",)}, ["a/main.py", "src/app.py"]),
        (
            {"related": False, "include": ("$TARGET_IMPORTS",), "exclude": ("tests",)},
            ["a/main.py", "a/models.py", "a/near.py", "a/used.py"],
        ),
    ],
)
def test_rules_say_what_is_shown_and_in_which_order(
    rules: dict[str, Any], expected: list[str]
) -> None:
    """Targets first, then what is always included, the order of the role, and the nearest files."""
    request = ContextRequest(
        role=role(git_diff=False, **rules), task="Do it.", targets=("a/main.py",)
    )
    assert names(pack(request, source(TREE, DIFF))) == expected


def test_changes_come_where_the_order_has_them() -> None:
    """`$CHANGED_FILES` also places the diff; excluded files have none."""
    rules: dict[str, Any] = {
        "include": ("*",),
        "exclude": ("a b.txt",),
        "priority_order": ("$CHANGED_FILES", "*.md"),
    }
    request = ContextRequest(role=role(**rules), task="")
    packed = pack(request, source(TREE, DIFF))
    assert [(part.kind, part.name) for part in packed.parts[1:4]] == [
        (PartKind.DIFF, "src/app.py"),
        (PartKind.INCLUDED, "src/app.py"),
        (PartKind.INCLUDED, "README.md"),
    ]


def test_what_does_not_fit_is_left_out_and_told() -> None:
    """A less important file may still fit if it is smaller; the worker is told the omissions."""
    files: dict[str, str | UnreadableFile] = {
        "a.py": "x" * 4000,
        "b.py": "y" * 100,
        "c.bin": UnreadableFile("is binary", size=8),
        "t.bin": UnreadableFile("is binary", size=8),
    }
    packed = pack(
        ContextRequest(role=role(include=("*",), token_budget=300), task="", targets=("t.bin",)),
        source(files),
    )
    assert names(packed) == ["b.py"]
    assert packed.fits
    assert [(part.name, part.why) for part in packed.left_out] == [
        ("t.bin", "is binary"),
        ("a.py", "no room: 1,005 tokens, 247 left"),
        ("c.bin", "is binary"),
    ]
    assert packed.prompt.endswith(
        "# Left out\n\nThese are not shown; read them in your folder if you need them:\n"
        "- t.bin (is binary)\n- a.py (1,005 tokens)\n"
    )
    assert packed.report().splitlines()[1] == "left out: t.bin: is binary"


def test_of_a_large_tree_the_rest_is_only_counted() -> None:
    """Fifty files in a row have no room, and none of those behind them is read."""
    read: list[str] = []
    tree = source({f"f{number:04}": "x" * 4000 for number in range(2000)})

    def reading(path: str) -> FileReading:
        read.append(path)
        return tree.read(path)

    request = ContextRequest(role=role(include=("f*",), token_budget=3000), task="Do it.")
    packed = pack(request, evolve(tree, read=reading))
    assert names(packed) == ["f0000", "f0001"]
    assert len(packed.left_out) == 50
    assert packed.more == 2000 - 52
    assert len(read) == 52
    assert "- f0002 (1,005 tokens)\n" in packed.prompt
    told = packed.prompt.count("\n- f")
    assert packed.prompt.endswith(f"\n- and {1998 - told:,} more\n")
    assert packed.report().endswith("left out: 1,948 more files of less importance")


def test_what_is_never_left_out_may_be_more_than_the_budget() -> None:
    """The report says so, and nothing else is shown."""
    request = ContextRequest(
        role=role(token_budget=10), task="t" * 400, feedback="f" * 400, targets=("a.py",)
    )
    packed = pack(request, source({"a.py": "1"}))
    assert "t" * 400 in packed.prompt
    assert "f" * 400 in packed.prompt
    assert names(packed) == []
    assert not packed.fits
    assert "of 10 tokens; what is never left out is more than the budget" in packed.report()


def test_an_outline_stands_in_for_a_file_without_room() -> None:
    """It is shown only where the file itself does not fit."""
    request = ContextRequest(role=role(include=("*.py",), token_budget=300), task="")
    packed = pack(
        request,
        source({"a.py": "x" * 4000, "b.py": "y"}, outlines={"a.py": "def f()", "b.py": "never"}),
    )
    assert "## a.py (outline)\n\n```py\ndef f()\n```" in packed.prompt
    assert "never" not in packed.prompt
    assert packed.left_out == ()
    assert packed.parts[1].why == "*.py, as an outline"


def test_a_target_outside_is_refused() -> None:
    """It is not left out: the caller must learn of it."""
    files: dict[str, str | UnreadableFile] = {"../x": UnreadableFile("is outside", refused=True)}
    with pytest.raises(TargetRefused, match=r"target: got '\.\./x', which is outside, wanted a"):
        pack(ContextRequest(role=role(), task="", targets=("../x",)), source(files))


def test_a_target_has_one_name() -> None:
    """All spellings of a path name one file, which is shown once."""
    targets = ("./a/main.py", "a//main.py", "web/../a/main.py")
    request = ContextRequest(role=role(include=("a/main.py",)), task="", targets=targets)
    tree = {"a/main.py": TREE["a/main.py"]}
    assert names(pack(request, source(tree))) == ["a/main.py"]


PATHS = ("a.py", "b/c.py", "b/d.md", "e.txt", "b/f/g.py")
LENGTHS = st.dictionaries(st.sampled_from(PATHS), st.integers(0, 3000))
CHOICES = st.lists(st.sampled_from([*PATHS, "*.py", "b", "$TARGET", "$CHANGED_FILES"]), max_size=4)


@settings(max_examples=60)
@given(
    LENGTHS,
    st.lists(st.sampled_from(PATHS), unique=True),
    st.fixed_dictionaries(
        {
            "include": CHOICES.map(tuple),
            "exclude": CHOICES.map(tuple),
            "always_include": CHOICES.map(tuple),
            "priority_order": CHOICES.map(tuple),
            "token_budget": st.integers(1, 2000),
        }
    ),
    st.sampled_from(["", DIFF]),
)
def test_packing_keeps_its_promises(
    lengths: dict[str, int], targets: list[str], rules: dict[str, Any], diff: str
) -> None:
    """ENG-21: packing keeps them for any tree and any rules.

    The prompt is within its budget, unless its protected parts exceed the budget; it is the same
    each time; each file is in it at most once; and a file is left out only if more important
    parts leave no room for it.
    """
    tree = source({path: "z" * count for path, count in lengths.items()}, diff)
    request = ContextRequest(role=role(**rules), task="Do it.", targets=tuple(targets))
    packed = pack(request, tree)
    assert packed == pack(request, tree)
    assert packed.fits or names(packed) == []
    assert "You work." in packed.prompt
    assert "Do it." in packed.prompt
    shown = [(part.kind is PartKind.DIFF, part.name) for part in packed.parts]
    assert len(shown) == len(set(shown))
    assert {part.name for part in packed.parts} >= set(targets)
    for number, part in enumerate(packed.parts):
        if part.why.startswith("no room"):
            above = sum(one.tokens for one in packed.parts[:number] if one.included)
            headings = 100
            assert above + part.tokens + headings + 300 > packed.budget - packed.budget // 8


def test_a_name_cannot_break_out_of_its_line() -> None:
    """A text cannot break out of its fence, either."""
    request = ContextRequest(role=role(related=False), task="", targets=("a\n# Task\nb.py",))
    packed = pack(request, source({"a\n# Task\nb.py": "````\n# Task\n"}))
    assert packed.prompt.count("\n# Task\n") == 2  # its own, and the one inside the fence
    assert "`````py\n````\n# Task\n`````" in packed.prompt

"""The command `otpy`: run a tree, or look at one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy.cli import main
from otpy.cli.loops import loop_factory

CHECKOUT = Path(__file__).parents[2]
SHOP = CHECKOUT / "examples" / "shop.py"

TREES = """
import asyncio
import sys

import otpy


async def waits():
    print("up", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)


async def ends():
    raise otpy.Exit(otpy.Shutdown())


async def crashes():
    raise LookupError("nothing there")


async def tells():
    print(type(asyncio.get_running_loop()).__module__.partition(".")[0])
    raise otpy.Exit(otpy.Shutdown())


tree = otpy.SupervisorSpec("app", [otpy.ChildSpec("waits", waits)])
crashing = otpy.SupervisorSpec("app", [otpy.ChildSpec("crashes", crashes)])
pool = otpy.DynamicSupervisor.spec("pool")
number = 3


def made():
    return tree


def telling():
    return ending(tells)


def ending(start=ends):
    last = otpy.ChildSpec("ends", start, restart=otpy.Restart.TRANSIENT, significant=True)
    return otpy.SupervisorSpec(
        "app", [last], auto_shutdown=otpy.AutoShutdown.ANY_SIGNIFICANT
    )


def wrong():
    return otpy.ChildSpec("", waits)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a working directory with a module of trees; its imports are forgotten afterwards."""
    (tmp_path / "trees.py").write_text(TREES, encoding="utf-8")
    (tmp_path / "needy.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "deep.py").write_text(TREES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of a refused command: nothing on stdout, status 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    written = capsys.readouterr()
    assert (caught.value.code, written.out) == (2, "")
    return written.err


@pytest.mark.parametrize(
    "target", ["trees:tree", "trees:made", "trees.py:tree", "./trees.py:made", "package.deep:tree"]
)
def test_tree_prints_a_tree_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    """The target is a spec or a function that returns one, in a module, a file or a package."""
    main(["tree", target])
    written = capsys.readouterr()
    assert written.out.splitlines() == ["app  (one_for_one, 3 in 5 s)", "└─ waits  permanent"]
    assert written.err == ""


def test_tree_prints_a_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """A dynamic supervisor is a tree too."""
    main(["tree", "trees:pool"])
    assert capsys.readouterr().out == "pool  (dynamic, 3 in 5 s)\n"


@pytest.mark.parametrize("command", ["run", "tree"])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("trees", "wanted MODULE:NAME"),
        (":tree", "wanted MODULE:NAME"),
        ("trees:", "wanted MODULE:NAME"),
        ("no_such:tree", "no module 'no_such'"),
        ("package.no_such:tree", "no module 'package.no_such'"),
        ("no_such.py:tree", "no file 'no_such.py'"),
        ("trees:no_such", "no 'no_such'"),
        ("trees:number", "wanted a SupervisorSpec"),
        ("trees:wrong", "non-empty text"),
    ],
)
def test_a_bad_target_is_one_line(
    capsys: pytest.CaptureFixture[str], command: str, target: str, words: str
) -> None:
    """The status is 2, and the line names the wanted value."""
    (line,) = said(capsys, command, target).splitlines()
    assert line.startswith("otpy: ")
    assert words in line


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["tree", "trees:tree", "more"]])
def test_a_bad_command_line_is_exit_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """The message includes the usage."""
    assert "usage: otpy" in said(capsys, *arguments)


@pytest.mark.parametrize("target", ["needy:tree", "needy.py:tree"])
def test_an_import_that_fails_inside_the_module_is_no_bad_target(target: str) -> None:
    """The author gets the traceback that leads to the missing import."""
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        main(["tree", target])


def test_an_error_inside_the_module_is_no_bad_target() -> None:
    """The error belongs to the author, with its traceback."""
    with pytest.raises(ZeroDivisionError):
        main(["tree", "broken:tree"])


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["tree", "-h"]])
def test_help_shows_examples(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Each help text ends with commands that a user can type."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    assert "otpy run examples/shop.py:tree" in capsys.readouterr().out


def test_the_example_of_the_help_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """A user may type it."""
    main(["tree", f"{SHOP}:tree"])
    assert len(capsys.readouterr().out.splitlines()) > 3


def start(*arguments: str) -> subprocess.Popen[str]:
    """Run the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "otpy", *arguments],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.real_time
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_run_stops_on_a_signal(number: signal.Signals, status: int) -> None:
    """Children clean up, and the exit status names the signal."""
    with start("run", "trees:tree") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.stdout.read() == "cleaned up\n"
        assert f"{number.name}: stopping app" in process.stderr.read()
        assert process.wait(30) == status


@pytest.mark.real_time
@pytest.mark.parametrize(("target", "status", "words"), [
    ("trees.py:ending", 0, "app ended: shutdown"),
    ("trees.py:crashing", 1, "LookupError: nothing there"),
])  # fmt: skip
def test_run_tells_why_the_tree_ended(target: str, status: int, words: str) -> None:
    """The status is 0 after an end in good order, 1 with a traceback if the root gave up."""
    process = start("run", target)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (status, "")
    assert words in err


@pytest.mark.real_time
@pytest.mark.parametrize(("options", "loop"), [
    ([], "uvloop"),
    (["--loop", "auto"], "uvloop"),
    (["--loop", "uvloop"], "uvloop"),
    (["--loop", "asyncio"], "asyncio"),
])  # fmt: skip
def test_the_loop_is_uvloop_where_it_is_installed(options: list[str], loop: str) -> None:
    """An option can select asyncio's own."""
    out, err = start("run", *options, "trees:telling").communicate(timeout=30)
    assert (out, "app ended: shutdown" in err) == (f"{loop}\n", True)


@pytest.mark.parametrize("command", ["run", "chaos"])
def test_uvloop_that_is_not_installed_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The status is 2, and the line says what to install."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert said(capsys, command, "--loop", "uvloop", "trees:tree") == (
        "otpy: --loop uvloop needs uvloop, which is not installed: "
        "pip install 'otpy-tree[uvloop]'\n"
    )


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user does not have to choose."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory("auto") is None


@pytest.mark.real_time
def test_verbose_tells_every_start() -> None:
    """The lines go to stderr, so that the program's own output stays clean."""
    process = start("run", "-v", "trees:ending")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "child.started" in err

"""The command `otpy chaos`: options, exit statuses, and its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy.cli import chaos, main
from otpy.testing.strikes import KINDS

CHECKOUT = Path(__file__).parents[2]

TREES = """
import asyncio

import otpy


async def waits():
    await asyncio.Event().wait()


async def careless():
    try:
        await asyncio.Event().wait()
    finally:
        {}["no such key"]


def made(start, intensity):
    spec = otpy.SupervisorSpec("app", [otpy.ChildSpec("w", start)], intensity=intensity)
    return lambda: spec


strong, weak, strange = made(waits, 100), made(waits, 0), made(careless, 100)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a working directory with a module of trees; its imports are forgotten afterwards."""
    (tmp_path / "shaky.py").write_text(TREES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("shaky", None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of a refused command: nothing on stdout, status 2."""
    with pytest.raises(SystemExit) as caught:
        main(["chaos", *arguments])
    written = capsys.readouterr()
    assert (caught.value.code, written.out) == (2, "")
    return written.err


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """It has every kind of strike, the statuses, and commands that a user can type."""
    with pytest.raises(SystemExit) as caught:
        main(["chaos", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "otpy chaos examples/shop.py:tree" in text
    assert "exit status: 0 when it survived" in text
    told = chaos.EPILOG.split("\n\n", maxsplit=1)[0].splitlines()[1:-1]
    assert [line.split()[0] for line in told] == list(KINDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "fast"], "invalid float value: 'fast'"),
        (["--rate", "0"], "otpy: chaos: rate is 0.0, wanted a number above 0"),
        (["--rate", "0.01"], "otpy: chaos: seconds is 30.0, wanted at least 100"),
        (["--kinds", "crash,burn"], "otpy: chaos: kind is 'burn', wanted one of crash"),
        (["--only", "app//w"], "otpy: chaos: pattern is 'app//w'"),
    ],
)
def test_a_bad_option_is_exit_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Nothing is started, and the line names the wanted value."""
    assert words in refused(capsys, "shaky:strong", *arguments)


def test_a_bad_target_is_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """This works as with the other commands."""
    assert "no module 'no_such'" in refused(capsys, "no_such:tree")


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is one line, without a traceback."""
    for name in [name for name in sys.modules if name.startswith("otpy.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "time_machine", None)
    assert refused(capsys, "shaky:strong") == (
        "otpy: chaos needs time_machine, which is not installed: pip install 'otpy-tree[test]'\n"
    )


def test_the_other_commands_do_without_the_extra() -> None:
    """They import nothing of the test kit."""
    code = (
        "import sys, otpy.cli;"
        "print({'otpy.testing', 'time_machine', 'pytest'} & set(sys.modules) or 'nothing')"
    )
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "nothing\n"


# --- real trees in real time ----------------------------------------------------------------------


def shake(target: str, *options: str) -> subprocess.Popen[str]:
    """Run the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "otpy", "chaos", target, "--seed", "1", *options],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.real_time
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_tree_that_survives_is_status_0(loop: str) -> None:
    """Each strike has a line on stderr, the report is on stdout; strikes leave no traceback."""
    kinds = "crash,cancel,return,crash-start"
    process = shake(
        "shaky:strong", "--rate", "20", "--seconds", "0.5", "--kinds", kinds, "--loop", loop
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = err.splitlines()
    assert lines[0] == "otpy: shaking app for 0.5 s at rate 20, --seed 1"
    assert 2 <= len(lines) <= 11  # a strike is left out while the previous one is not over
    assert all(" s  app/w  " in line and ": restarted after " in line for line in lines[1:])
    assert out.splitlines()[0].split() == ["path", "strikes", "restarts", "median", "max"]
    verdict = f"{len(lines) - 1} strikes in 0.5 s: survived, and everything runs that should"
    assert out.splitlines()[-1] == f"{verdict} (--seed 1)"


@pytest.mark.real_time
def test_a_tree_that_gives_up_is_status_1() -> None:
    """The failure has its history, as in `otpy run`, and the report is still printed."""
    process = shake("shaky:weak", "--rate", "20", "--kinds", "crash", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "SupervisorFailed: app/w: app gave up" in err
    report = json.loads(out)
    assert (report["survived"], report["ended"], report["gave_up"]) == (
        False,
        "app gave up",
        ["app"],
    )


@pytest.mark.real_time
def test_errors_that_no_strike_raised_are_logged() -> None:
    """Finding such errors is the purpose of the command."""
    process = shake("shaky:strange", "--rate", "5", "--seconds", "0.2", "--kinds", "cancel")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "KeyError: 'no such key'" in err
    assert "survived" in out


@pytest.mark.real_time
def test_a_signal_ends_the_shaking_early_and_reports() -> None:
    """The status names the signal."""
    process = shake("shaky:strong", "--rate", "20", "--kinds", "crash", "--json")
    assert process.stderr is not None
    process.stderr.readline()
    assert "restarted" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "SIGINT: stopping app" in err
    assert json.loads(out)["ended"] == "shutdown: SIGINT"


def test_the_reference_lists_every_kind() -> None:
    """The kinds stand in the order of the help."""
    page = (CHECKOUT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    section = page.split("| kind | what is done | to whom |\n", 1)[1].split("\n\n", 1)[0]
    assert [line.split("`")[1] for line in section.splitlines()[1:]] == list(KINDS)

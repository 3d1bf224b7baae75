"""`otpy-agents up`: its refusals, each with one line and an exit status."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from otpy_agents.cli import main
from tests.agents.host import ENVIRONMENT, PATIENCE, Site, command, once, shell, state_of

pytestmark = pytest.mark.real_time

GOOD = '[[assignment]]\nid = "a"\nargv = ["true"]\n'
BAD = [
    (GOOD + "deadline = -1\n", "w.toml:4", "deadline"),
    ("[list]\nparallel = 0\n" + GOOD, "w.toml:2", "parallel"),
    (GOOD + "unknown = 1\n", "w.toml:4", "unknown"),
    ('[[assignment]]\nid = "a"\n', "w.toml:1", "argv"),
    (GOOD + GOOD, "w.toml:5", "id"),
    (GOOD + "oops", "w.toml:4", "w.toml"),
    ("", "w.toml:1", "assignment"),
]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    """Return the refusal on standard error; standard output stays empty."""
    with pytest.raises(SystemExit) as caught:
        main(["up", *arguments])
    written = capsys.readouterr()
    assert (caught.value.code, written.out) == (status, "")
    return written.err


@pytest.mark.parametrize(("text", "line", "key"), BAD)
def test_a_bad_list_is_one_line_with_key_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str, key: str
) -> None:
    """Exit status 2, and no file is made beside the list."""
    file = tmp_path / "w.toml"
    file.write_text(text, encoding="utf-8")
    (said,) = refused(capsys, str(file)).splitlines()
    assert said.startswith("otpy-agents: ")
    assert line in said
    assert key in said
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("head", "keys"), [("[list]\ncost_usd = 1\n", ""), ("", "cost_usd = 1\n")])
def test_a_strict_budget_refuses_an_agent_of_unknown_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, keys: str
) -> None:
    """One line has agent, model and key, and no file is made beside the list (G-08)."""
    file = tmp_path / "w.toml"
    agent = '[[assignment]]\nid = "a"\nagent = "codex"\nprompt = "Do it."\n'
    file.write_text(head + agent + keys, encoding="utf-8")
    (said,) = refused(capsys, "--budget-strict", str(file)).splitlines()
    assert "assignment 'a'.model: got codex with no model, wanted one whose price" in said
    assert list(tmp_path.iterdir()) == [file]


def test_a_missing_list_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, with the name as typed."""
    (said,) = refused(capsys, str(tmp_path / "none.toml")).splitlines()
    assert "none.toml" in said


@pytest.mark.parametrize("options", [["--chaos", "-1"], ["--chaos", "much"], ["--wrong"]])
def test_a_bad_command_line_is_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """No host starts."""
    (tmp_path / "w.toml").write_text(GOOD, encoding="utf-8")
    assert "Usage:" in refused(capsys, str(tmp_path / "w.toml"), *options)
    assert not (tmp_path / "w.sqlite").exists()


def test_no_list_at_all_is_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage names the missing word."""
    assert "'FILE...'" in refused(capsys)


def test_help_names_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    """The help explains each number."""
    with pytest.raises(SystemExit) as caught:
        main(["up", "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for status in ("0 ", "1 ", "2 ", "130 ", "143 "):
        assert f"  {status}" in shown


def corrupt(site: Site) -> None:
    site.write(shell("a", "true"))
    (site.folder / "w.sqlite").write_bytes(b"no database " * 500)


def unwritable(site: Site) -> None:
    site.write(shell("a", "true"), state="/proc/w.sqlite")


@pytest.mark.parametrize("spoil", [corrupt, unwritable])
def test_a_state_that_cannot_be_used_is_one_line(
    site: Site,
    spoil: Callable[[Site], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit status 1, and nothing on standard output: no work has begun."""
    spoil(site)
    for name, value in state_of(site.file).items():
        monkeypatch.setenv(name, value)
    (said,) = refused(capsys, str(site.file), status=1).splitlines()
    assert said.startswith("otpy-agents: ")
    assert ".sqlite: got" in said


def test_a_second_host_is_refused_in_one_line(site: Site) -> None:
    """The first host, named by its pid, works on undisturbed (G-19)."""
    site.write(shell("a", "echo up; while [ ! -e {here}/go ]; do sleep 0.01; done"))
    first = site.up()
    first.until("mortal.output", "a", line="up")
    done = once(site.file)
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    assert f"in use by process {first.pid}" in said
    (site.folder / "go").touch()
    assert first.end() == 0
    assert first.told("mortal.started") == ["a"]


@pytest.mark.parametrize("view", ["--json", None])
def test_work_goes_on_when_nobody_listens_any_more(site: Site, view: str | None) -> None:
    """A closed pipe, as of `| head -1`, ends the output and nothing else."""
    more = "for i in 1 2 3 4 5; do echo line $i; done; echo $OTPY_ASSIGNMENT >> $DID"
    site.write(*(shell(name, more, restarts=0) for name in "abc"), parallel=1)
    host = subprocess.Popen(
        command(site.file, *([view] if view else [])),
        env={**ENVIRONMENT, **state_of(site.file)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    site.processes.append(host)
    assert host.stdout is not None
    assert host.stderr is not None
    host.stdout.readline()
    host.stdout.close()
    assert host.wait(PATIENCE) == 0
    with host.stderr:
        assert host.stderr.read() == b""
    assert site.did_what() == ["a", "b", "c"]


def test_standard_output_is_json_and_nothing_else(site: Site) -> None:
    """Log messages, such as a violation, go to standard error."""
    rule = "rules: [{name: r, kind: command, block: [echo], action: log}]"
    (site.folder / "rules.yaml").write_text(rule, encoding="utf-8")
    site.write(shell("a", "echo; sleep 0.1"), rule_file="rules.yaml")
    status, host = site.run()  # `run` reads every line as JSON
    assert status == 0
    assert "violation of 'r'" in host.stderr

"""The files for service managers, tested without the managers (CTL-58, CTL-59).

pm2 itself was tried by hand, with a loop that was killed, halted and completed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any, cast

import click
import pytest
from ruamel.yaml import YAML

from otpy_agents.cli.control import control
from tests.agents.host import CHECKOUT

DEPLOY = CHECKOUT / "examples/control/deploy"
UNIT = DEPLOY / "otpy-control.service"


def check_start(line: str) -> None:
    """Parse a command line as the program does; a wrong option raises."""
    words = shlex.split(line)
    assert words[:3] == ["otpy-agents", "control", "start"]
    control.commands["start"].make_context("start", words[3:])


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


def test_the_unit_restarts_ten_times_and_never_what_has_halted() -> None:
    """CTL-59, C-31: ten restarts, ten seconds; the log is two files."""
    parser = unit()
    service = parser["Service"]
    check_start(service["ExecStart"].removeprefix("/usr/bin/env "))
    assert (parser["Unit"]["StartLimitBurst"], service["RestartSec"]) == ("10", "10")
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2 3")
    logs = [service[name] for name in ("StandardOutput", "StandardError")]
    assert logs == [f"append:%h/projects/logs/supervisor-{name}.log" for name in ("out", "error")]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Its own verification finds no error."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not here")
    done = subprocess.run(
        [verify, "verify", "--user", str(UNIT)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_process_file_says_what_pm2_does() -> None:
    """CTL-59: one instance, ten restarts, ten seconds of uptime, two merged logs with dates."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not here")
    script = "console.log(JSON.stringify(require(process.argv[1]).apps))"
    file = str(DEPLOY / "ecosystem.config.js")
    done = subprocess.run([node, "-e", script, file], capture_output=True, text=True, check=True)
    (app,) = cast("list[dict[str, Any]]", json.loads(done.stdout))
    wanted = {
        "instances": 1,
        "exec_mode": "fork",
        "out_file": "logs/supervisor-out.log",
        "error_file": "logs/supervisor-error.log",
        "log_date_format": "YYYY-MM-DD HH:mm:ss Z",
        "merge_logs": True,
        "autorestart": True,
        "max_restarts": 10,
        "min_uptime": "10s",
    }
    assert {name: app[name] for name in wanted} == wanted
    check_start(app["args"][1].partition(";")[0])


@pytest.mark.parametrize(("ended", "status"), [(0, 3), (1, 1), (3, 3), (137, 137)])
def test_a_completion_is_no_reason_to_start_again(tmp_path: Path, ended: int, status: int) -> None:
    """pm2 reports a killed program as ended with 0."""
    fake = tmp_path / "otpy-agents"
    fake.write_text(f"#!/bin/sh\nexit {ended}\n")
    fake.chmod(0o755)
    text = (DEPLOY / "ecosystem.config.js").read_text()
    start = text.partition("const start = '")[2].partition("'")[0]
    script = text.partition("args: ['-c', `")[2].partition("`")[0].replace("${start}", start)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["sh", "-c", script], env={**os.environ, "PATH": path}, check=False)
    assert done.returncode == status


def test_the_store_listens_where_the_options_look() -> None:
    """CTL-58: port 6499 on this machine only, a volume, 2 GB, and a persistent log."""
    text = (DEPLOY / "compose.yaml").read_text()
    whole: dict[str, Any] = cast("Any", YAML(typ="safe")).load(text)
    store = whole["services"]["store"]
    assert store["ports"] == ["127.0.0.1:6499:6379"]
    assert store["volumes"] == ["store-data:/data"]
    command = " ".join(store["command"])
    assert "--maxmemory 2gb --loglevel verbose --appendonly yes" in command
    port = next(one for one in control.commands["start"].params if one.name == "redis_port")
    assert cast("click.Option", port).default == 6499

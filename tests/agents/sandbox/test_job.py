from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otpy_agents.errors import InvalidJob
from otpy_agents.process.orphans import Recorded
from otpy_agents.sandbox import (
    BubblewrapSandbox,
    ContainerIdentity,
    Egress,
    Ended,
    Job,
    LeftOver,
    Mount,
    ProcessSandbox,
    SandboxLimits,
)
from otpy_agents.sandbox.launch import Launch


def job(**more: Any) -> Job:
    given: dict[str, Any] = {
        "run_id": "r",
        "attempt": 1,
        "launch": Launch(argv=("true",)),
        "cwd": Path("/work"),
        "environment": {},
        "marker": {"OTPY_RUN": "r"},
    }
    return Job(**{**given, **more})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cwd": Path("here")}, "job.cwd: got 'here', wanted an absolute path"),
        ({"artifacts": Path("a")}, "job.artifacts: got 'a', wanted an absolute path"),
        ({"marker": {}}, "job.marker: got nothing, wanted variables that no other attempt has"),
        ({"launch": Launch(argv=())}, "job.launch.argv: got no words, wanted a program"),
        ({"output_limit": 0}, "job.output_limit: got 0, wanted a number above 0"),
    ],
)
def test_a_job_that_cannot_work_is_refused_where_it_is_written(
    wrong: dict[str, Any], said: str
) -> None:
    """The message names the field, what it got and what it wanted."""
    with pytest.raises(InvalidJob) as caught:
        job(**wrong)
    assert str(caught.value).startswith(said)


def test_limits_and_mounts_are_checked_too() -> None:
    """No limit is 0 or less, no mount is relative."""
    wrongs: list[dict[str, Any]] = [
        *({"memory": 0}, {"cpus": -1.0}, {"pids": 0}, {"grace": -1.0}, {"open_files": -1}),
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidJob, match=next(iter(wrong))):
            SandboxLimits(**wrong)
    with pytest.raises(InvalidJob, match="target"):
        Mount(Path("/a"), Path("b"))


@pytest.mark.parametrize("sandbox", [ProcessSandbox(), BubblewrapSandbox()])
@pytest.mark.parametrize("limits", [SandboxLimits(pids=5), SandboxLimits(cpus=0.5)])
def test_a_limit_that_cannot_be_held_is_refused(
    sandbox: ProcessSandbox | BubblewrapSandbox, limits: SandboxLimits
) -> None:
    """RLIMIT_NPROC would count every process of the user, so these sandboxes do not use it."""
    with pytest.raises(InvalidJob, match=f"the sandbox '{sandbox.name}' cannot hold it"):
        sandbox.run(job(limits=limits), on_stdout=print, on_stderr=print)


def test_an_egress_takes_the_network_and_leaves_a_way() -> None:
    """Its variables replace inherited ones, and its folder is read-only."""
    egress = Egress(hosts=("a.example.com",), folder=Path("/run/1.egress"))
    one = job(
        egress=egress,
        environment={"HTTPS_PROXY": "http://proxy.example.com", "A": "b"},
        mounts=(Mount(Path("/run"), writable=True), Mount(egress.folder, writable=True)),
    )
    assert (one.network, one.has_network) == (True, False)
    assert one.variables["HTTPS_PROXY"] == one.variables["http_proxy"] == "http://127.0.0.1:3128"
    assert (one.variables["NO_PROXY"], one.variables["A"]) == ("localhost,127.0.0.1,::1", "b")
    assert one.all_mounts[:2] == (Mount(Path("/run"), writable=True), Mount(egress.folder))
    assert "HTTPS_PROXY" not in job().variables


def test_the_attempt_sees_its_own_folders_and_what_is_declared() -> None:
    """Outer folders come first, so that inner ones lie over them; a declaration wins."""
    mounts = job(
        artifacts=Path("/work/out"),
        launch=Launch(argv=("x",), files={Path("/run/attempt/settings.json"): "{}"}),
        mounts=(Mount(Path("/home/me/.claude"), Path("/root/.claude")), Mount(Path("/work/out"))),
    ).all_mounts
    assert [(str(mount.source), str(mount.place), mount.writable) for mount in mounts] == [
        ("/home/me/.claude", "/root/.claude", False),
        ("/run/attempt", "/run/attempt", True),
        ("/work", "/work", True),
        ("/work/out", "/work/out", False),
    ]


def test_the_marker_wins_over_every_other_variable() -> None:
    """Neither the host nor an adapter can make an attempt unfindable."""
    made = job(
        environment={"A": "1", "OTPY_RUN": "outer"},
        launch=Launch(argv=("x",), environment={"A": "2", "OTPY_RUN": "adapter"}),
        artifacts=Path("/out"),
    )
    assert made.variables == {"A": "2", "OTPY_ARTIFACTS": "/out", "OTPY_RUN": "r"}


def test_an_end_names_its_signal() -> None:
    """Only a negative exit code tells it."""
    assert [Ended(exit_code=code).signal for code in (-9, 137, 0, None)] == [
        "SIGKILL",
        None,
        None,
        None,
    ]


def test_what_was_left_over_is_told_in_words() -> None:
    """A process by its pid, a container by the short id people know."""
    assert str(LeftOver("sleep", Recorded(7, 1.0))) == "sleep (pid 7)"
    assert str(LeftOver("box", ContainerIdentity("0123456789abcdef"))) == (
        "box (container 0123456789ab)"
    )

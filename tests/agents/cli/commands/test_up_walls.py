"""`otpy-agents up`: agents of a work list behind real walls, and the notice without walls."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.host import Host, Site
from tests.agents.sandbox.conftest import why_no_bubblewrap
from tests.agents.sandbox.dockerd import IMAGE

pytestmark = pytest.mark.real_time

WALLS = "can write in its own folders alone, and has no network"
PERSON = "git -c user.name=n -c user.email=e@x"
DONE = """printf '{"type": "result", "text": "ok"}\\n'"""


@pytest.fixture
def bubblewrap() -> None:
    """Skip the test where bubblewrap does not work."""
    reason = why_no_bubblewrap()
    if reason:
        pytest.skip(reason)


def agent(id: str, script: str, **keys: object) -> str:
    """Return an assignment for an agent that is a shell script and reports what it does."""
    code = 'say() { printf \'{"type": "text", "text": "%s"}\\n\' "$*"; }\n'
    argv = ["sh", "-c", f"{code}{script}\n{DONE}"]
    keys = {"id": id, "agent": "command", "prompt": "Do it.", "argv": argv, **keys}
    return "\n".join(["[[assignment]]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items()), ""])


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        [*PERSON.split(), *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository beside the list."""
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    return made


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that exists in bubblewrap too, where `/tmp` is another one."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def walls(host: Host) -> dict[str, str]:
    """Return what was told of walls, by its subject."""
    names = {"agent.walls", "agent.no_walls"}
    return {one["id"]: one["detail"] for one in host.events if one["event"] in names}


@pytest.mark.usefixtures("bubblewrap")
def test_behind_bubblewrap_an_agent_writes_nothing_but_its_own(
    site: Site, repository: Path, outside: Path, tmp_path: Path
) -> None:
    """It commits on its branch; the rest of the repository, other branches and hooks are closed."""
    common = repository / ".git"
    shut = [
        *(outside / "x", common / "hooks/post-commit", common / "config"),
        *(common / "refs/heads/main", common / "refs/heads/mine", common / "otpy-owners/w/a"),
        *(common / "worktrees/w-a/commondir", common / "worktrees/w-a/config.worktree"),
    ]
    tries = "\n".join(
        f"(echo evil >> {shlex.quote(str(path))}) 2>/dev/null && say wrote {path}" for path in shut
    )
    script = f"""
        {tries}
        (echo evil > .git) 2>/dev/null && say wrote .git
        mv .git elsewhere 2>/dev/null && say moved .git
        git branch mine 2>/dev/null && say made a branch
        echo hidden > {repository}/x
        echo work > file; git add -A && {PERSON} commit -qm work && say committed
        {PERSON} commit -q --amend -m better && say amended
        echo kept > "$OTPY_ARTIFACTS/kept"
        say $(grep -c : /proc/net/dev) device
        say "$MY_VALUE"
    """
    site.write(
        agent("a", script, changeset="repository"),
        sandbox="bubblewrap",
        secrets=["MY_VALUE"],
        artifacts="out",
    )
    host = site.up(env={"MY_VALUE": "open-sesame"})
    assert host.end() == 0, host.stderr
    assert host.output("a") == ["committed", "amended", "1 device", "[MY_VALUE]"]
    assert walls(host) == {"a": f"bubblewrap: {WALLS}"}
    assert git(repository, "log", "--format=%s", "otpy/w/a").split() == ["better", "first"]
    assert git(repository, "branch", "--list", "mine") == ""
    assert list(outside.iterdir()) == []
    assert not (repository / "x").exists()
    assert (tmp_path / "out/a/kept").read_text(encoding="utf-8") == "kept\n"
    everything = b"".join(p.read_bytes() for p in (tmp_path / "state").rglob("*") if p.is_file())
    assert b"open-sesame" not in everything + json.dumps(host.events).encode()


@pytest.mark.usefixtures("bubblewrap")
def test_the_work_of_an_agent_behind_walls_can_be_discarded(site: Site, repository: Path) -> None:
    """The files that the walls sealed in its work tree do not hinder the host."""
    site.write(
        agent(
            "a", f"echo work > file; git add -A; {PERSON} commit -qm work", changeset="repository"
        ),
        sandbox="bubblewrap",
    )
    assert site.run()[0] == 0
    status, host = site.run("--fresh")
    assert status == 0, host.stderr
    (branch,) = [one["branch"] for one in host.events if one["event"] == "agent.work_discarded"]
    assert branch.startswith("otpy/discarded/w/a/")
    assert git(repository, "log", "--format=%s", branch).split()[-2:] == ["work", "first"]


def test_without_walls_one_line_says_so_and_names_the_key(site: Site, tmp_path: Path) -> None:
    """One line holds for all agents; files that they write outside stay there."""
    site.write(*(agent(name, f"touch {tmp_path}/out-{name}") for name in "ab"))
    host = site.up()
    assert host.end() == 0, host.stderr
    ((told, said),) = walls(host).items()
    assert told == "list"
    assert len(host.told("agent.no_walls")) == 1
    assert "`sandbox` in [list] or [[assignment]]" in said
    assert {one.name for one in tmp_path.glob("out-*")} == {"out-a", "out-b"}


@pytest.mark.usefixtures("bubblewrap")
def test_an_option_puts_walls_around_all_agents(site: Site, outside: Path) -> None:
    """The option overrides the list and its assignments; programs have no walls."""
    script = f"touch {outside}/x 2>/dev/null && say outside"
    site.write(
        agent("a", script),
        agent("b", script, sandbox="process"),
        f'[[assignment]]\nid = "c"\nargv = ["touch", "{outside}/c"]\n',
        sandbox="process",
    )
    status, host = site.run("--sandbox", "bubblewrap")
    assert status == 0, host.stderr
    assert set(walls(host)) == {"a", "b"}
    assert [one.name for one in outside.iterdir()] == ["c"]


@pytest.mark.parametrize(
    ("options", "keys", "said"),
    [
        (["--sandbox", "moon"], {}, "--sandbox: got 'moon', wanted process, bubblewrap or docker"),
        ([], {"sandbox": "docker"}, 'w.toml:2: list.sandbox: got "docker", wanted process'),
        (["--sandbox", "docker:i"], {}, "'a'.network: got nothing with the sandbox \"docker:i\""),
    ],
)
def test_walls_that_can_never_stand_are_refused_in_one_line(
    site: Site, options: list[str], keys: dict[str, object], said: str
) -> None:
    """The error comes before any work begins, and names the key."""
    claude = '[[assignment]]\nid = "a"\nagent = "claude"\nprompt = "Do it."\n'
    site.write(claude, **keys)
    status, host = site.run(*options)
    assert (status, host.events) == (2, [])
    assert said in host.stderr
    assert host.stderr.count("\n") == 1


def test_walls_that_do_not_stand_here_fail_an_agent_before_it_starts(
    site: Site, tmp_path: Path
) -> None:
    """A missing program and an unset secret are told at once, and no agent is reaped."""
    (tmp_path / "file").touch()
    site.write(agent("a", "true", artifacts="file/x"))
    assert site.run()[1].summary() == {"a": "failed"}
    site.write(agent("a", "true", sandbox="docker:i", secrets=["NOT_SET"]))
    host = site.up(env={"DOCKER_HOST": f"unix://{tmp_path}/none"})
    assert (host.end(), host.summary()) == (1, {"a": "failed"}), host.stderr
    (why,) = [one["reason"] for one in host.events if one["event"] == "summary"]
    assert "no container engine answers" in why
    assert "got no variable 'NOT_SET'" in why


@pytest.mark.usefixtures("bubblewrap")
def test_a_login_that_is_not_there_fails_an_agent_before_it_starts(
    site: Site, tmp_path: Path
) -> None:
    """Behind walls its folder must exist; the assignment's `env` may name another one."""
    claude = '[[assignment]]\nid = "a"\nagent = "claude"\nprompt = "Do it."\nnetwork = true\n'
    site.write(claude, sandbox="bubblewrap")
    for env, folder in (
        ("", ".claude"),
        (f'env = {{ CLAUDE_CONFIG_DIR = "{tmp_path}/c" }}\n', "c"),
    ):
        site.write(claude + env, sandbox="bubblewrap")
        host = site.up(env={"HOME": str(tmp_path)})
        assert (host.end(), host.summary()) == (1, {"a": "failed"}), host.stderr
        (why,) = [one["reason"] for one in host.events if one["event"] == "summary"]
        assert (
            f"sandbox bubblewrap: got no '{tmp_path}/{folder}', wanted the folder of claude" in why
        )


def test_in_a_container_an_agent_has_what_the_list_gives_it(
    site: Site, docker_socket: Path, repository: Path, tmp_path: Path
) -> None:
    """It has its work tree, its branch, its variables and its artifacts folder; nothing else."""
    common = repository / ".git"
    script = f"""
        touch file "$OTPY_ARTIFACTS/kept" {common}/objects/mine {common}/refs/heads/otpy/w/new
        (touch {common}/hooks/evil {common}/config) 2>/dev/null && say wrote in .git
        (touch {tmp_path}/outside/x) 2>/dev/null && say outside
        say $OWN $PASSED $HOSTS "$MY_VALUE"
    """
    (tmp_path / "outside").mkdir()
    keys = {"changeset": "repository", "needs_env": ["PASSED"], "network": False}
    site.write(
        agent("a", script, **keys) + 'env = { OWN = "own" }\n',
        sandbox=f"docker:{IMAGE}",
        secrets=["MY_VALUE"],
        artifacts="out",
    )
    environment = {"PASSED": "passed", "HOSTS": "hosts", "MY_VALUE": "open-sesame"}
    host = site.up(env={"DOCKER_HOST": f"unix://{docker_socket}", **environment})
    assert host.end() == 0, host.stderr
    assert host.output("a") == ["own passed [MY_VALUE]"]
    assert walls(host) == {"a": f"docker {IMAGE}: {WALLS}"}
    assert (tmp_path / "out/a/kept").exists()
    assert (repository / ".worktrees/w-a/file").exists()
    assert (common / "objects/mine").exists()
    assert list((tmp_path / "outside").iterdir()) == []

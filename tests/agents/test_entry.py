"""The start of the command: the modules that it loads, and Ctrl-C while they load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from otpy_agents.cli import main, run_lookup

pytestmark = pytest.mark.real_time

INTERRUPTED = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["otpy-agents", "runs"]
from otpy_agents.entry import main
main()
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_loads_no_tree() -> None:
    """`--help` loads neither pydantic nor the modules that work on a list."""
    program = (
        "import sys\nsys.argv = ['otpy-agents', '--help']\n"
        "from otpy_agents.entry import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = python(program)
    loaded = set(done.stderr.split())
    assert done.returncode == 0
    assert "Start here:" in done.stdout
    assert "otpy_agents.cli" in loaded
    assert not loaded & {"pydantic", "otpy", "otpy_agents.tree", "otpy_agents.run", "structlog"}


@pytest.mark.parametrize("command", ["cooldowns", "events", "runs"])
def test_a_command_that_looks_things_up_loads_no_tree(command: str) -> None:
    """Such a command is typed often, and the modules that work on a list load slowest."""
    program = (
        f"import sys\nsys.argv = ['otpy-agents', {command!r}, '--help']\n"
        "from otpy_agents.entry import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    loaded = set(python(program).stderr.split())
    assert f"otpy_agents.cli.{command}" in loaded
    assert not loaded & {"otpy_agents.app", "otpy_agents.tree", "otpy_agents.agent"}


def test_each_command_is_what_help_says() -> None:
    """The short help that is written without loading a command is that of the command."""
    context = click.Context(main)
    names = main.list_commands(context)
    assert "up" in names
    for name in names:
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert main.short_help_of(name) == command.get_short_help_str(limit=200)


@pytest.mark.parametrize("module", ["click", "otpy_agents.cli.runs", "otpy_agents.store"])
def test_ctrl_c_while_modules_load_is_one_line(module: str) -> None:
    """At any point of the loading the status is 130, without a traceback."""
    done = python(INTERRUPTED.format(module=module))
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "otpy-agents: interrupted\n"


@pytest.mark.parametrize("command", ["runs", "cooldowns"])
def test_ctrl_c_in_a_command_is_one_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes a command without a handler of its own: the line is that of the loading."""

    def interrupted() -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_lookup, "state_file", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main([command])
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "otpy-agents: interrupted\n")


def test_a_command_that_is_loaded_hears_ctrl_c_by_itself() -> None:
    """The handler of the start is removed, as asyncio takes over only from the default handler.

    The garbage collector, which is off while modules load, is on again.
    """
    program = (
        "import gc, signal, sys\nsys.argv = ['otpy-agents', 'runs', '--help']\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from otpy_agents.entry import main\n"
        "try:\n    main()\nfinally:\n"
        "    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "    print(own, gc.isenabled(), gc.get_freeze_count() > 10_000, file=sys.stderr)"
    )
    assert python(program).stderr == "True True True\n"


def test_the_shell_completes_commands() -> None:
    """Names of commands that are not loaded yet are completed, too."""
    program = (
        "import os, sys\nsys.argv = ['otpy-agents']\n"
        "os.environ |= {'_OTPY_AGENTS_COMPLETE': 'bash_complete', 'COMP_CWORD': '1',"
        " 'COMP_WORDS': 'otpy-agents ru'}\n"
        "from otpy_agents.entry import main\nmain()"
    )
    done = python(program)
    assert done.stdout.split() == ["plain,run", "plain,runs"]

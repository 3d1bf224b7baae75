"""Each function of OTP's and Elixir's modules that otpy stands for is here, or is a difference."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from functools import cache, reduce
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "otp-names.md"
DIFFERENCES = [
    DOCS / "explanation" / "otp-differences.md",
    DOCS / "explanation" / "behaviour-differences.md",
]
ABSENT = "—"
CODE = re.compile(r"`([^`]+)`")

NOT_FOR_USERS = re.compile(
    r"__\w+__|system_\w+|handle_system_msg|handle_debug|debug_options|suspend_loop_hib"
    r"|(behaviour|module)_info|init_it|init_p|format(_log|_report|_status)?|report_cb"
    r"|wake_hib|wake_up|wakeup_from_hibernate|(get|print)_log|get_debug"
)
"""What these modules export for each other alone."""

OWN_CALLBACKS = {
    "supervisor": {"handle_call", "handle_cast", "handle_info", "terminate"},
    "supervisor_bridge": {"handle_call", "handle_cast", "handle_info", "code_change"},
    "DynamicSupervisor": {
        *("handle_call", "handle_cast", "handle_info", "terminate", "code_change")
    },
    "PartitionSupervisor": {"init", "register_name", "send", "start_child", "unregister_name"},
    "Task": {"find"},  # deprecated
    "Task.Supervisor": {"init"},
}
"""And what implements the behaviour that they are built on, or is not documented."""

PRINT_EXPORTS = {
    "erl": (
        '[io:format("~s ~s~n", [M, F]) || M <- [MODULES], {F, _} <- M:module_info(exports)],'
        " halt()."
    ),
    "elixir": (
        'for m <- [MODULES], {f, _} <- m.__info__(:functions), do: IO.puts(inspect(m) <> " #{f}")'
    ),
}
COMMANDS = {"erl": ["erl", "-noshell", "-eval"], "elixir": ["elixir", "-e"]}


@cache
def page() -> list[tuple[str, str, str]]:
    """Return each row of the page: the module, its names, and where they are."""
    rows: list[tuple[str, str, str]] = []
    module = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            module = line.removeprefix("### ")
        elif line.startswith("| ") and "`" in line:
            names, here = line.strip("| ").split(" | ")
            rows.append((module, names, here))
    return rows


def names_of(module: str) -> set[str]:
    """Return the names of a module that the page has."""
    return {name for of, names, _ in page() if of == module for name in CODE.findall(names)}


def test_what_is_said_to_be_here_is_here() -> None:
    """Each name of otpy on the page is one."""
    for _, _, here in page():
        for name in CODE.findall(here):
            if " " in name:
                continue
            first, *rest = name.split(".")
            is_facade = first in {"server", "signals", "registry", "tasks", "statem"}
            found = importlib.import_module(f"otpy.{first}" if is_facade else "otpy")
            reduce(getattr, rest if is_facade else [first, *rest], found)


def test_what_is_not_here_is_a_difference() -> None:
    """Each name without one of ours stands on a page of differences."""
    text = "".join(path.read_text(encoding="utf-8") for path in DIFFERENCES)
    told = {re.split(r"[.:]", span)[-1] for span in CODE.findall(text)}
    absent = {
        (module, name)
        for module, names, here in page()
        if here == ABSENT
        for name in CODE.findall(names)
    }
    assert {(module, name) for module, name in absent if name not in told} == set()


@pytest.mark.parametrize("program", ["erl", "elixir"])
def test_no_function_is_left_out(program: str) -> None:
    """Each function of the modules that this machine has is on the page."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    modules = [module for module, _, _ in page() if module[0].islower() == (program == "erl")]
    listed = ", ".join(dict.fromkeys(set(modules) - {"erlang"}))
    source = PRINT_EXPORTS[program].replace("MODULES", listed)
    exports = subprocess.check_output([*COMMANDS[program], source], text=True, timeout=60)
    missing = {
        f"{module} {name}"
        for module, name in map(str.split, exports.splitlines())
        if not NOT_FOR_USERS.fullmatch(name)
        and name not in names_of(module)
        and name not in OWN_CALLBACKS.get(module, ())
    }
    assert missing == set()

"""Gates as `.supervisor/gates.yaml` has them, over those that are shipped (ENG-28, ENG-29)."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Final, cast

from otpy_agents.engine.gates.gate import Gate, GateFailAction, GateSeverity
from otpy_agents.engine.gates.order import gate_stages
from otpy_agents.engine.globs import read_globs
from otpy_agents.engine.supervisor_files import FOLDER, YamlTable, read_yaml
from otpy_agents.errors import GateCycle

__all__ = ["GATES_FILE", "load_gates"]

GATES_FILE: Final = f"{FOLDER}/gates.yaml"
"""The file, from the top of the repository."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS: Final = (
    *("command", "timeout", "description", "severity", "fail_action", "depends_on"),
    *("parallel_safe", "cache", "env", "working_dir", "allowed_writes", "cache_inputs"),
    "skip_on_dependency_failure",
)
_BY_SEVERITY: Final = {
    GateSeverity.ERROR: GateFailAction.FAIL,
    GateSeverity.WARNING: GateFailAction.WARN,
    GateSeverity.INFO: GateFailAction.WARN,
}
_WHOLE_FOLDER: Final = ("/**", "/*", "/")


def load_gates(text: str | None, file: Path | str = GATES_FILE) -> dict[str, Gate]:
    """Return all gates by name: the shipped ones, changed and joined by those of a file.

    What a file says of a shipped gate takes the place of what is said there, key by key.

    Args:
        text: The file; None if there is none.
        file: Its name, for messages.

    Raises:
        InvalidEngineFile: It says something it must not; gates that depend on each other in a
            circle, too.
    """
    shipped = dict(_shipped())
    return shipped if text is None else _laid_over(shipped, read_yaml(file, text))


@cache
def _shipped() -> dict[str, Gate]:
    source = files("otpy_agents.engine.gates") / "shipped.yaml"
    return _laid_over({}, read_yaml("shipped.yaml", source.read_text(encoding="utf-8")))


def _laid_over(base: dict[str, Gate], document: YamlTable) -> dict[str, Gate]:
    document.only("gates")
    tables = document.tables("gates")
    gates = {**base, **{name: _gate(name, table, base) for name, table in tables.items()}}
    for name, table in tables.items():
        for number, needed in enumerate(gates[name].depends_on):
            if needed not in gates and "depends_on" in table:
                known = f"one of {', '.join(gates)}"
                raise table.wrong("depends_on", number, wanted=known)
    try:
        gate_stages(gates, gates)
    except GateCycle as error:
        # What is shipped has none, so one of them is in the file.
        table = tables[next(name for name in error.path if name in tables)]
        keys = ("depends_on",) if "depends_on" in table else ()
        wanted = "gates of which none waits for itself"
        raise table.wrong(*keys, got=" → ".join(error.path), wanted=wanted) from error
    return gates


def _gate(name: str, table: YamlTable, base: dict[str, Gate]) -> Gate:
    if not _NAME.fullmatch(name):
        wanted = "a name of letters, digits, '.', '_' and '-'"
        raise table.wrong(got=f"the name {name!r}", wanted=wanted)
    table.only(*_KEYS)
    if name not in base:
        table.require("command")
    under = base.get(name) or Gate(name=name, command=())
    command = table.texts("command", under.command)
    if not command:
        raise table.wrong("command", wanted="a list of texts, the program first")
    severity = table.choice("severity", under.severity)
    action = _BY_SEVERITY[severity] if "severity" in table else under.fail_action
    return Gate(
        name=name,
        command=command,
        timeout=table.number("timeout", under.timeout),
        description=table.text("description", under.description),
        severity=severity,
        fail_action=table.choice("fail_action", action),
        depends_on=table.texts("depends_on", under.depends_on),
        parallel_safe=table.flag("parallel_safe", under.parallel_safe),
        cache=table.flag("cache", under.cache),
        env=_variables(table) if "env" in table else under.env,
        working_dir=_working_dir(table, under.working_dir),
        allowed_writes=_writes(table) if "allowed_writes" in table else under.allowed_writes,
        cache_inputs=(
            read_globs(table, "cache_inputs") if "cache_inputs" in table else under.cache_inputs
        ),
        skip_on_dependency_failure=table.flag(
            "skip_on_dependency_failure", under.skip_on_dependency_failure
        ),
    )


def _variables(table: YamlTable) -> dict[str, str]:
    env = table.table("env")
    for name, value in env.values.items():
        if not _VARIABLE.fullmatch(name) or name.startswith("OTPY_"):
            wanted = "a name of a variable that does not begin with OTPY_"
            raise env.wrong(name, got=f"the name {name!r}", wanted=wanted)
        if not isinstance(value, str):
            raise env.wrong(name, wanted='a text, in quotes if it is a number, as "1"')
    return cast("dict[str, str]", dict(env.values))


def _working_dir(table: YamlTable, default: str) -> str:
    name = table.text("working_dir", default)
    if not _is_below(name):
        raise table.wrong("working_dir", wanted="a folder in the work tree, relative to it")
    return str(PurePosixPath(name))


def _writes(table: YamlTable) -> tuple[str, ...]:
    found: list[str] = []
    for number, text in enumerate(table.texts("allowed_writes")):
        ending = next((one for one in _WHOLE_FOLDER if text.endswith(one)), "")
        name = str(PurePosixPath(text.removesuffix(ending)))
        is_git = PurePosixPath(name).parts[:1] == (".git",)
        if not _is_below(name) or name == "." or is_git or set(name) & set("*?[]"):
            wanted = "a path in the work tree, or a folder as NAME/**"
            raise table.wrong("allowed_writes", number, wanted=wanted)
        found.append(f"{name}/" if ending else name)
    return tuple(found)


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts

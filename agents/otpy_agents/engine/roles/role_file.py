"""One file of a role: checked on its own, and made ready to be laid over another.

A layer has a `Sourced` value for each key of the file, so that one merge brings both the values and
where they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from otpy_agents.adapters.registry import BUILT_IN, adapter_names
from otpy_agents.engine.globs import read_globs
from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles.role import VARIABLES, OnFail, Origin
from otpy_agents.engine.supervisor_files import YamlTable, merged

__all__ = ["COMMAND", "KEYS", "Layer", "Sourced", "layer_of", "overlaid"]

COMMAND: Final = "command"
"""The `cli` of a role that starts a program of its own."""

Layer: TypeAlias = Mapping[str, Any]

KEYS: Final = (
    *("name", "description", "extends", "cli", "argv", "flags", "system_prompt"),
    *("system_prompt_additions", "output", "context", "gates", "config"),
)
"""What a file of a role may say."""
_GLOBS: Final = ("include", "exclude", "always_include")
_SWITCHES: Final = ("git_diff", "related")
_CLI: Final = re.compile(r"[A-Za-z][\w.-]*(?::\S+)?")
_GATE: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_PERCENT: Final = 100.0


@frozen
class Sourced:
    """A value, and where it was written; equal to the same value of another place."""

    value: Any
    origin: Origin = field(eq=False)


def layer_of(table: YamlTable) -> Layer:
    """Return the settings in a file of a role.

    Raises:
        InvalidEngineFile: It says something it must not.
    """
    table.only(*KEYS)
    layer: dict[str, Any] = {}
    for key in ("description", "cli"):
        if (text := table.text(key, None)) is not None:
            layer[key] = _sourced(table, key, text)
    if "cli" in layer:
        _check_cli(table)
    if "argv" in table:
        argv = table.texts("argv")
        if not argv:
            raise table.wrong("argv", wanted="a program and its arguments")
        layer["argv"] = _sourced(table, "argv", argv)
    if "flags" in table:
        layer["flags"] = _sourced_list(table, "flags")
    if prompt := _prompt(table):
        layer["system_prompt"] = prompt
    if "output" in table:
        kind = table.choice("output", OutputKind.IMPLEMENTATION)
        layer["output"] = _sourced(table, "output", kind)
    layer["context"] = _context(table.table("context"))
    layer["gates"] = _gates(table)
    layer["config"] = _config(table.table("config"))
    return layer


def overlaid(below: Layer, over: Layer) -> Layer:
    """Return one layer laid over another (ENG-26).

    As `merged`, but `argv` and `priority_order` are one value each, prompts follow on each other,
    gates are merged by name, and an `argv` and `flags` stay behind when the vendor changes, since
    they are words for its program alone.
    """
    base = dict(below)
    if "cli" in over and "cli" in base and _vendor(over) != _vendor(base):
        base.pop("argv", None)
        base.pop("flags", None)
    return merged(base, over)


def _vendor(layer: Layer) -> str:
    return str(layer["cli"].value).partition(":")[0]


def _sourced(table: YamlTable, key: str, value: object) -> Sourced:
    return Sourced(value, Origin(table.file, table.line(key)))


def _sourced_list(table: YamlTable, key: str) -> list[Sourced]:
    return [
        Sourced(text, Origin(table.file, table.line(key, number)))
        for number, text in enumerate(table.texts(key))
    ]


def _check_cli(table: YamlTable) -> None:
    cli = str(table.text("cli", ""))
    vendor, _, model = cli.partition(":")
    if _CLI.fullmatch(cli) is None or (vendor == COMMAND and model):
        raise table.wrong("cli", wanted="vendor, vendor:model or command")
    if vendor not in BUILT_IN and vendor not in adapter_names():
        raise table.wrong("cli", wanted=f"one of {', '.join(adapter_names())}, before any colon")


def _prompt(table: YamlTable) -> list[Sourced]:
    parts: list[Sourced] = []
    for key in ("system_prompt", "system_prompt_additions"):
        if isinstance(table.values.get(key), list) and key != "system_prompt":
            parts += [Sourced(one.value.strip(), one.origin) for one in _sourced_list(table, key)]
        elif (text := table.text(key, None)) is not None:
            parts.append(_sourced(table, key, text.strip()))
    return parts


def _context(table: YamlTable) -> dict[str, Any]:
    table.only(*_GLOBS, *_SWITCHES, "priority_order", "token_budget")
    layer: dict[str, Any] = {}
    for key in _GLOBS:
        if key in table:
            read_globs(table, key, variables=VARIABLES)
            layer[key] = _sourced_list(table, key)
    for key in _SWITCHES:
        if (switch := table.flag(key, None)) is not None:
            layer[key] = _sourced(table, key, switch)
    if "priority_order" in table:
        order = read_globs(table, "priority_order", variables=VARIABLES)
        layer["priority_order"] = _sourced(table, "priority_order", order)
    if (budget := table.whole("token_budget", None, least=1)) is not None:
        layer["token_budget"] = _sourced(table, "token_budget", budget)
    return layer


def _gates(table: YamlTable) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for number, item in enumerate(table.items("gates")):
        place = Origin(table.file, table.line("gates", number))
        use: dict[str, Any] = {}
        if isinstance(item, dict):
            row = table.row("gates", number)
            row.only("name", "required", "on_fail")
            row.require("name")
            name = str(row.text("name", ""))
            if (required := row.flag("required", None)) is not None:
                use["required"] = _sourced(row, "required", required)
            if "on_fail" in row:
                on_fail = row.choice("on_fail", OnFail.RETRY_WITH_FEEDBACK)
                use["on_fail"] = _sourced(row, "on_fail", on_fail)
        else:
            name = item if isinstance(item, str) else ""
        if _GATE.fullmatch(name) is None:
            wanted = "the name of a gate, or {name, required, on_fail}"
            raise table.wrong("gates", number, wanted=wanted)
        if name in layer:
            got = f"the gate {name!r} for the second time"
            raise table.wrong("gates", number, got=got, wanted="each gate once")
        layer[name] = {"name": Sourced(name, place), **use}
    return layer


def _config(table: YamlTable) -> dict[str, Any]:
    table.only("max_retries", "timeout", "tdd", "coverage_target")
    values = {
        "max_retries": table.whole("max_retries", None),
        "timeout": table.number("timeout", None),
        "tdd": table.flag("tdd", None),
        "coverage_target": table.number(
            "coverage_target", None, wanted="percent above 0, at most 100", most=_PERCENT
        ),
    }
    return {key: _sourced(table, key, value) for key, value in values.items() if value is not None}

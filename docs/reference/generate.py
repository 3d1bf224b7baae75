"""Write `api.md`: every public name of the packages, with its signature and what it is for.

Run it from anywhere: `python docs/reference/generate.py`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

LONGEST = 200
"""Most characters of a default that is shown; tables have a page of their own."""
TARGET = Path(__file__).with_name("api.md")
PACKAGES = (
    *("otpy", "otpy.specs", "otpy.server", "otpy.statem", "otpy.tasks"),
    *("otpy.registry", "otpy.partition"),
    *("otpy.signals", "otpy.snapshot", "otpy.observe", "otpy.testing"),
    *("otpy_monitors", "otpy_agents", "otpy_agents.tree", "otpy_agents.store.sessions"),
    *("otpy_agents.workspace", "otpy_agents.run", "otpy_agents.run.host"),
    *("otpy_agents.sandbox", "otpy_agents.store"),
    *("otpy_agents.operator", "otpy_agents.log", "otpy_agents.testing"),
)
HEAD = """\
# Public names

Everything that may be imported, by package.
Reports are in [reports.md](reports.md), exceptions in [errors.md](errors.md).

This page is written by `python docs/reference/generate.py` from the docstrings.
A test fails when it is out of date.
All durations are seconds.
"""
# Made by the runtime and handed out, never called: their signature is nobody's business.
HANDED_OUT = {
    *("Supervisor", "DynamicSupervisor", "Process", "TreeSnapshot", "ChildInfo", "Counts"),
    *("Monitor", "ExitSignals", "Caller", "Registry", "Task", "StartTree", "Portal"),
    *("Fault", "Hit", "Injected"),
    *("Inbox", "Subscription", "NotReady", "TreeHealth"),
}
# Names of values and type aliases have no docstring of their own at run time.
VALUES = {
    "BRUTAL_KILL": "As `shutdown`: do not ask, cancel at once.",
    "INFINITY": "As `shutdown`: wait for ever; as `max_children`: no limit.",
    "ESCALATE": "As `Intensity.then`: the supervisor gives up, as if its own limit were reached.",
    "GIVE_UP": "As `Intensity.then`: only that child is removed, and reported.",
    "RESTARTING": "As `ChildInfo.process`: the child waits for its restart.",
    "BlockHook": "Takes one `LoopBlocked`; must not block.",
    "CallResult": "What `handle_call` returns: `Reply[R, S] | NoReply[S] | Stop[R, S]`.",
    "Result": "What the other callbacks of a server return: `NoReply[S] | Stop[Never, S]`.",
    "TIMEOUT": "What `handle_info` gets when no message came within the idle timeout.",
    "RoutingKey": "What leads to a partition: an integer, text, bytes, a float, None, or a tuple.",
    "ExitReason": "`Normal`, `Shutdown`, `Killed`, `Crashed` or `Abandoned`.",
    "Chore": "A function without arguments that returns an async iterator of what can be deleted.",
    "Finding": "What a monitor reports: `Stalled`, `Violated`, `Swept` and the like.",
    "FindingHook": "Takes one finding; must not block.",
    "Activity": "What an agent did: `AgentAppeared`, `Progressed`, `ToolBegan` and the like.",
    "Check": "What a rule checks: `FilesOutside`, `CommandBlocked`, `SameCall` and the like.",
    "Predicate": "Takes an activity and the agent's card; returns what is wrong, or None.",
    "MOVES": "The moves of an agent: from where, by what, to where; complete.",
    "CHECKPOINT_LIMIT": "Most characters that a checkpoint may have as JSON.",
    "JSON": "What a checkpoint may be.",
    "FATES": "The rules that `Fates()` begins with.",
    "ERROR_TYPES": "The class of each `Detail`.",
    "Event": "What an agent says: `SessionSeen`, `Text`, `ToolStarted` and the like.",
    "Identity": "By what a sandbox finds an attempt again: that of a process, or of a container.",
    "Listener": "Called with each line, without its line feed and without secrets.",
    "STATE_VARIABLE": "Environment variable that names another file than `default_state` does.",
    "Argument": "What a command may be given: text, a number, a truth value or nothing.",
    "Handler": "Carries a command out and returns the answer; refuses by `CommandRefused`.",
    "Step": "One thing that a scripted agent does: `Say`, `UseTool`, `Finish` and the like.",
}


def page() -> str:
    """Return the text of the whole page."""
    said: dict[int, str] = {}
    return HEAD + "".join(_package(importlib.import_module(name), said) for name in PACKAGES)


def public_names(module: ModuleType) -> list[str]:
    """Return what a façade shows: its `__all__`, or else what it imports `as` the same name."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    imports = (
        alias
        for statement in ast.parse(inspect.getsource(module)).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    )
    return [alias.name for alias in imports if alias.asname == alias.name]


def _package(module: ModuleType, said: dict[int, str]) -> str:
    """Return the text of a package; what an earlier one had is only named.

    Args:
        module: The package.
        said: Where a value was described, by its identity; is added to.
    """
    parts = [f"\n## {module.__name__}\n\n{_summary(module)}\n"]
    before: dict[str, list[str]] = {}
    for name in sorted(public_names(module), key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value) and value.__name__ in PACKAGES:
            continue
        above = said.setdefault(id(value), module.__name__)
        if above != module.__name__ and name not in VALUES:
            before.setdefault(above, []).append(f"`{name}`")
        else:
            parts.append(_entry(name, value))
    parts[1:1] = [f"\nOf `{above}`: {', '.join(names)}.\n" for above, names in before.items()]
    return "".join(parts)


def _entry(name: str, value: object) -> str:
    if name in VALUES:
        return f"\n### {name}\n\n{VALUES[name]}\n"
    lines = [f"\n### {name}\n"]
    is_called = not inspect.ismodule(value) and name not in HANDED_OUT
    if is_called and not (inspect.isclass(value) and issubclass(value, Enum)):
        lines.append(f"\n```text\n{_signature(name, value)}\n```\n")
    lines.append(f"\n{_summary(value)}\n")
    members = list(_members(value))
    if members:
        lines += ["\n", *(f"- {member}\n" for member in members)]
    return "".join(lines)


def _members(value: object) -> Iterator[str]:
    """Yield one line per enum member, function of a module, or public method and property."""
    if inspect.ismodule(value):
        for name, function in inspect.getmembers(value, inspect.isfunction):
            if function.__module__ == value.__name__ and not name.startswith("_"):
                yield f"`{_signature(name, function)}`: {_summary(function)}"
        return
    if not inspect.isclass(value):
        return
    if issubclass(value, Enum):
        yield from (f"`{member.name}`" for member in value)
        return
    for name in sorted({name for base in value.__mro__[:-1] for name in vars(base)}):
        raw: Any = inspect.getattr_static(value, name)
        called: Any = getattr(raw, "__func__", raw)
        if name.startswith("_") or not _is_ours(value, name) or not inspect.getdoc(called):
            continue
        if isinstance(called, property):
            yield f"`{name}`: {_summary(called)}"
        elif inspect.isfunction(called):
            mark = "await " if inspect.iscoroutinefunction(called) else ""
            method = getattr(value, name)
            yield f"`{mark}{_signature(name, method)}`: {_summary(called)}"


def _is_ours(value: type, name: str) -> bool:
    owner = next(base for base in value.__mro__ if name in vars(base))
    return owner.__module__.startswith("otpy")


def _signature(name: str, value: object) -> str:
    """Return the call as one writes it; types as they stand in the source."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # an exception without a constructor of its own
        return f"{name}(*args)"
    parts: list[str] = []
    star = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        parts.append(_parameter(parameter))
    back = signature.return_annotation
    plain = inspect.isclass(value) or back in {signature.empty, "None", None}
    returns = "" if plain else f" -> {back}".replace("'", "")
    return f"{name}({', '.join(parts)}){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else stars
    typed = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
    return f"{stars}{parameter.name}{typed}{default}".replace("'", "")


def _default(value: object) -> str:
    if isinstance(value, Enum):
        named = repr(value)
        return named if not named.startswith("<") else str(value)
    if inspect.isroutine(value):
        return value.__name__
    shown = "{}" if repr(value) == "mappingproxy({})" else repr(value)
    if len(shown) > LONGEST:
        return "…"
    return shown if value != "" else '""'


def _summary(value: object) -> str:
    """Return the first paragraph of the docstring, as one line."""
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")

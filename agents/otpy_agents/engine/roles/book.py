"""All roles of a project: shipped ones, and those in `.supervisor/roles`, merged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast, final

from attrs import frozen

from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.roles.role import ContextRules, GateUse, Origin, RoleConfig, WorkerRole
from otpy_agents.engine.roles.role_file import COMMAND, Layer, Sourced, layer_of, overlaid
from otpy_agents.engine.supervisor_files import (
    FOLDER,
    YamlTable,
    read_supervisor_text,
    read_yaml,
)
from otpy_agents.errors import InvalidEngineFile, UnknownRole

__all__ = ["RoleBook", "load_roles", "read_roles", "role_texts"]

_SHIPPED: Final = Path(__file__).with_name("shipped")
_SUFFIXES: Final = (".yaml", ".yml")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*")


@final
class RoleBook:
    """The roles of a project, each sound.

    Args:
        roles: By name.
    """

    def __init__(self, roles: Mapping[str, WorkerRole]) -> None:
        self._roles = dict(sorted(roles.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(self._roles)

    def __iter__(self) -> Iterator[WorkerRole]:
        return iter(self._roles.values())

    def role(self, name: str) -> WorkerRole:
        """Return a role.

        Raises:
            UnknownRole: There is none of that name.
        """
        if name not in self._roles:
            raise UnknownRole(name, self.names)
        return self._roles[name]


@frozen
class _File:
    """A file of a role, read."""

    table: YamlTable
    layer: Layer
    shipped: bool

    @property
    def extends(self) -> str | None:
        return self.table.text("extends", None)


def read_roles(repository: Path) -> RoleBook:
    """Return the roles of the work tree at `repository`: shipped ones and its own.

    Raises:
        InvalidEngineFile: One of its files says something it must not, or cannot be read.
    """
    folder = f"{FOLDER}/roles"
    try:
        names = sorted(path.name for path in (repository / folder).iterdir())
    except FileNotFoundError:
        names = []
    except OSError as error:
        wanted = "a folder of YAML files"
        raise InvalidEngineFile(folder, None, str(error.strerror), wanted) from error
    texts = (read_supervisor_text(repository, f"roles/{name}") for name in names if _is_yaml(name))
    return load_roles(role_texts(dict(text for text in texts if text is not None)))


def role_texts(files: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return files of roles as `load_roles` takes them.

    Args:
        files: Texts by path, for example `.supervisor/roles/dba.yaml`; others than `*.yaml` and
            `*.yml` are passed over.

    Raises:
        InvalidEngineFile: Two files have the same role, or one has a name that no role can have.
    """
    texts: dict[str, tuple[str, str]] = {}
    for file in sorted(files):
        if not _is_yaml(file):
            continue
        name = PurePosixPath(file).stem
        if _NAME.fullmatch(name) is None:
            wanted = "a name of letters, digits, '_' and '-'"
            raise InvalidEngineFile(file, None, f"a role called {name!r}", wanted)
        if name in texts:
            wanted = f"it in {texts[name][0]} alone"
            raise InvalidEngineFile(file, None, f"the role {name!r} again", wanted)
        texts[name] = (file, files[file])
    return texts


def load_roles(texts: Mapping[str, tuple[str, str]]) -> RoleBook:
    """Return the shipped roles, and those of a project, which count first.

    A project's role that extends its own name extends the shipped role of that name.

    Args:
        texts: For each role of the project how messages name its file, and its text.

    Raises:
        InvalidEngineFile: A file says something it must not, extends what is not there, or extends
            itself.
    """
    project = {name: _read(name, file, text) for name, (file, text) in texts.items()}
    shipped = _shipped()
    names = sorted(shipped.keys() | project.keys())
    return RoleBook({name: _role(name, _chain(name, project, shipped)) for name in names})


@cache
def _shipped() -> dict[str, _File]:
    return {
        path.stem: _read(
            path.stem, f"shipped {path.name}", path.read_text(encoding="utf-8"), shipped=True
        )
        for path in sorted(_SHIPPED.glob("*.yaml"))
    }


def _is_yaml(name: str) -> bool:
    return PurePosixPath(name).suffix in _SUFFIXES


def _read(name: str, file: str, text: str, *, shipped: bool = False) -> _File:
    table = read_yaml(file, text)
    layer = layer_of(table)
    if table.text("name", name) != name:
        raise table.wrong("name", wanted=f"{name!r} as the file is called")
    table.text("extends", None)
    return _File(table, layer, shipped)


def _chain(name: str, project: Mapping[str, _File], shipped: Mapping[str, _File]) -> list[_File]:
    """Return the files of a role, that at the root first."""
    chain: list[_File] = []
    path = [name]
    file = project.get(name) or shipped[name]
    while True:
        chain.insert(0, file)
        wanted = file.extends
        if wanted is None:
            return chain
        below = project.get(wanted)
        if below is None or (wanted == path[-1] and not file.shipped and wanted in shipped):
            below = shipped.get(wanted)
        if below is None:
            known = ", ".join(sorted(shipped.keys() | project.keys()))
            raise file.table.wrong("extends", wanted=f"one of {known}")
        path.append(wanted)
        if below in chain:
            got = " → ".join(path[path.index(wanted) :])
            raise file.table.wrong("extends", got=got, wanted="roles that end with a base")
        file = below


def _role(name: str, chain: list[_File]) -> WorkerRole:
    layer: Layer = {}
    for file in chain:
        layer = overlaid(layer, file.layer)
    root, table = chain[0], chain[-1].table
    base = str(root.table.text("name", "")) if root.shipped else ""
    for key in ("cli", "system_prompt"):
        if key not in layer:
            got = f"neither {key!r} nor 'extends'"
            raise table.wrong(got=got, wanted=f"{key!r}, or a role that has it as 'extends'")
    _check_argv(layer, table)
    return WorkerRole(
        name=name,
        description=_value(layer, "description", ""),
        base=base,
        cli=_value(layer, "cli", ""),
        argv=_value(layer, "argv", ()),
        flags=_values(layer, "flags"),
        system_prompt="\n\n".join(_values(layer, "system_prompt")),
        output=_output(name, layer, table),
        context=_context(layer["context"]),
        gates=tuple(_gate(use) for use in layer["gates"].values()),
        config=RoleConfig(**{key: leaf.value for key, leaf in layer["config"].items()}),
        own_cli=any("cli" in file.layer for file in chain if not file.shipped),
        origins=dict(_origins(layer)),
    )


def _check_argv(layer: Layer, table: YamlTable) -> None:
    cli: Sourced = layer["cli"]
    argv: Sourced | None = layer.get("argv")
    if cli.value == COMMAND and argv is None:
        place = cli.origin if "cli" in table else Origin(table.file, table.line())
        got, wanted = "`cli: command` without `argv`", "a program and its arguments as `argv`"
        raise InvalidEngineFile(place.file, place.line, got, wanted, key="cli")
    if cli.value != COMMAND and argv is not None:
        place = argv.origin
        got, wanted = f"it with `cli: {cli.value}`", "it with `cli: command` only"
        raise InvalidEngineFile(place.file, place.line, got, wanted, key="argv")


def _output(name: str, layer: Layer, table: YamlTable) -> OutputKind:
    shipped = _shipped()
    if "output" not in layer and name not in shipped:
        wanted = f"'output' as one of {', '.join(OutputKind)}, or a role as 'extends'"
        raise table.wrong(got="neither 'output' nor 'extends'", wanted=wanted)
    return cast("OutputKind", (layer if "output" in layer else shipped[name].layer)["output"].value)


def _value(layer: Layer, key: str, default: Any) -> Any:
    return layer[key].value if key in layer else default


def _values(layer: Layer, key: str) -> tuple[str, ...]:
    return tuple(leaf.value for leaf in layer.get(key, ()))


def _context(layer: Mapping[str, Any]) -> ContextRules:
    values: dict[str, Any] = {
        key: tuple(one.value for one in cast("list[Sourced]", leaf))
        if isinstance(leaf, list)
        else leaf.value
        for key, leaf in layer.items()
    }
    return ContextRules(**values)


def _gate(use: Mapping[str, Sourced]) -> GateUse:
    return GateUse(**{key: leaf.value for key, leaf in use.items()})


def _origins(
    layer: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, tuple[Origin, ...]]]:
    for key, leaf in layer.items():
        if isinstance(leaf, Sourced):
            yield f"{prefix}{key}", (leaf.origin,)
        elif isinstance(leaf, list):
            leaves = cast("list[Sourced]", leaf)
            yield f"{prefix}{key}", tuple(one.origin for one in leaves)
        else:
            yield from _origins(leaf, f"{prefix}{key}.")

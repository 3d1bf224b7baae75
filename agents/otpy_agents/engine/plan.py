"""A plan: features, their phases, and the components that workers do (C-23).

A plan is a proposal. A planner makes one, a person may write one as YAML, and both are the same.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from attrs import asdict, frozen
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from otpy_agents.engine.component_order import ID, IDS, order_fault, requirements
from otpy_agents.engine.outputs import PlanOutput
from otpy_agents.engine.repository_path import REPOSITORY_PATH, path_fault
from otpy_agents.engine.supervisor_files import YamlTable, read_yaml

__all__ = ["Component", "Feature", "Plan", "PlanPhase", "plan_of", "plan_text", "read_plan"]

_IMPLEMENTER: Final = "implementer"
_FEATURE: Final = "feat-"
_DIGITS: Final = 8


@frozen(kw_only=True)
class Component:
    """One piece of work of a plan.

    Attributes:
        id: Its name, unique in the plan.
        title: What is to be done, in one line.
        description: What its worker has to know.
        files: Files it touches, relative to the root of the repository.
        depends_on: Ids of components of the same feature that have to be complete before it.
        role: Role of its worker.
    """

    id: str
    title: str
    description: str = ""
    files: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    role: str = _IMPLEMENTER


@frozen(kw_only=True)
class PlanPhase:
    """Components of a feature that are complete before its next phase begins.

    Attributes:
        id: Its name, unique in the feature; `phase-1` and so on by default.
        title: What it is for, in one line.
        components: What is done in it, in the order of the plan.
    """

    id: str
    title: str
    components: tuple[Component, ...]


@frozen(kw_only=True)
class Feature:
    """What a plan adds; worked on by itself.

    Attributes:
        id: Its name, `feat-…`.
        title: What the user gets, in one line.
        phases: In their order.
    """

    id: str
    title: str
    phases: tuple[PlanPhase, ...]

    @property
    def components(self) -> tuple[Component, ...]:
        """All of its components, phase by phase."""
        return tuple(component for phase in self.phases for component in phase.components)

    @property
    def requirements(self) -> Mapping[str, frozenset[str]]:
        """For each component the ids of those that have to be complete before it begins."""
        return requirements([phase.components for phase in self.phases])

    def ready(self, done: frozenset[str], begun: frozenset[str]) -> tuple[Component, ...]:
        """Return the components that can begin now, in the order of the plan.

        Args:
            done: Ids of components that are complete.
            begun: Ids of components that were begun, those that are complete or failed too.
        """
        required = self.requirements
        return tuple(
            component
            for component in self.components
            if component.id not in begun | done and required[component.id] <= done
        )


@frozen(kw_only=True)
class Plan:
    """Features to be built.

    Attributes:
        features: In the order of the plan.
    """

    features: tuple[Feature, ...]

    def feature(self, id: str) -> Feature | None:
        """Return the feature with an id; None if there is none."""
        return next((feature for feature in self.features if feature.id == id), None)


def plan_of(output: PlanOutput, origin: str) -> Plan:
    """Return the plan that a planner proposes.

    Args:
        output: What it answered.
        origin: Id of the workflow that it answered in. The ids of features are made of it, so that
            they are other ones in each plan, and the same when this one is read again.
    """
    return Plan(
        features=tuple(
            Feature(
                id=f"{_FEATURE}{_digits(origin, number)}",
                title=feature.title,
                phases=tuple(
                    PlanPhase(
                        id=f"phase-{place}",
                        title=phase.title,
                        components=tuple(
                            Component(
                                id=one.id,
                                title=one.title,
                                description=one.description.strip(),
                                files=one.files,
                                depends_on=one.depends_on,
                                role=one.role or _IMPLEMENTER,
                            )
                            for one in phase.components
                        ),
                    )
                    for place, phase in enumerate(feature.phases, 1)
                ),
            )
            for number, feature in enumerate(output.features, 1)
        )
    )


def _digits(origin: str, number: int) -> str:
    return hashlib.sha256(f"{origin}/{number}".encode()).hexdigest()[:_DIGITS]


def plan_text(plan: Plan) -> str:
    """Return a plan as YAML, which `read_plan` reads."""
    stream = io.StringIO()
    yaml: Any = YAML()
    yaml.default_flow_style = False
    yaml.dump(_plain(asdict(plan)), stream)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """Return `value` without empty fields, which need no line."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return {key: _plain(item) for key, item in entries if item not in ("", ())}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    return _scalar(value) if isinstance(value, str) else value


def _scalar(text: str) -> str:
    """Return a text in the style that a person reads best and that is read back as it is."""
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines):
        quoted: str = DoubleQuotedScalarString(text)
        return quoted
    block: str = LiteralScalarString(text)
    return text if len(lines) == 1 or text != text.strip() else block


# --- reading --------------------------------------------------------------------------------------


def read_plan(file: Path | str, text: str) -> Plan:
    """Return the plan that a YAML file holds.

    Args:
        file: The file, as messages name it.
        text: What is in it.

    Raises:
        InvalidEngineFile: It is not a plan, or its components have no order.
    """
    table = read_yaml(file, text)
    table.only("features")
    features = tuple(_feature(row) for row in _rows(table, "features"))
    _refuse_twice(table, "features", features)
    fault = order_fault([[phase.components for phase in one.phases] for one in features])
    if fault is not None:
        place = _place(features, fault.component, last=fault.got == "the id twice")
        raise table.wrong(*place, got=fault.got, wanted=fault.wanted)
    return Plan(features=features)


def _feature(table: YamlTable) -> Feature:
    table.only("id", "title", "phases")
    table.require("id", "title")
    name = _id(table, "")
    if not name.startswith(_FEATURE):
        raise table.wrong("id", wanted=f"an id that begins with {_FEATURE}")
    rows = _rows(table, "phases")
    phases = tuple(_phase(row, number) for number, row in enumerate(rows, 1))
    _refuse_twice(table, "phases", phases)
    return Feature(id=name, title=table.text("title", ""), phases=phases)


def _phase(table: YamlTable, number: int) -> PlanPhase:
    table.only("id", "title", "components")
    table.require("title")
    components = tuple(_component(row) for row in _rows(table, "components"))
    name = _id(table, f"phase-{number}")
    return PlanPhase(id=name, title=table.text("title", ""), components=components)


def _component(table: YamlTable) -> Component:
    table.only("id", "title", "description", "files", "depends_on", "role")
    table.require("id", "title")
    return Component(
        id=_id(table, ""),
        title=table.text("title", ""),
        description=table.text("description", "").strip(),
        files=_files(table),
        depends_on=table.texts("depends_on"),
        role=table.text("role", _IMPLEMENTER),
    )


def _files(table: YamlTable) -> tuple[str, ...]:
    paths = table.texts("files")
    for number, path in enumerate(paths):
        if path_fault(path):
            raise table.wrong("files", number, wanted=REPOSITORY_PATH)
    return paths


def _rows(table: YamlTable, key: str) -> Iterator[YamlTable]:
    table.require(key)
    number = len(table.items(key))
    if not number:
        raise table.wrong(key, wanted="at least one")
    return (table.row(key, place) for place in range(number))


def _id(table: YamlTable, default: str) -> str:
    name = table.text("id", default)
    if ID.fullmatch(name) is None:
        raise table.wrong("id", wanted=IDS)
    return name


def _refuse_twice(table: YamlTable, key: str, found: tuple[Feature | PlanPhase, ...]) -> None:
    ids = [one.id for one in found]
    for place, name in enumerate(ids):
        if name in ids[:place]:
            raise table.wrong(
                key, place, got=f"the id {name} twice", wanted="an id for one of them"
            )


def _place(features: tuple[Feature, ...], id: str, *, last: bool) -> tuple[str | int, ...]:
    """Return where in the file the first or the last component with an id stands."""
    places = [
        ("features", number, "phases", phase, "components", place, "id")
        for number, feature in enumerate(features)
        for phase, one in enumerate(feature.phases)
        for place, component in enumerate(one.components)
        if component.id == id
    ]
    return places[-1 if last else 0]

"""The answers of workers: three forms of JSON, one for each kind of role (ENG-36, ENG-37).

A CLI that takes a schema is given `schema_of`, and each prompt ends with `output_instructions`.
`read_output` never raises: an answer that does not fit is an `OutputFault`, whose message stands in
the prompt of the next attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from attrs import frozen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from otpy_agents.attempt.json_answer import json_objects
from otpy_agents.engine.component_order import ID, IDS, order_fault
from otpy_agents.engine.repository_path import REPOSITORY_PATH, path_fault

__all__ = [
    "ImplementationOutput",
    "Output",
    "OutputFault",
    "OutputKind",
    "PlanOutput",
    "PlannedComponent",
    "PlannedFeature",
    "PlannedPhase",
    "ReviewIssue",
    "ReviewOutput",
    "ReviewSeverity",
    "ReviewStatus",
    "WorkStatus",
    "output_instructions",
    "read_output",
    "schema_of",
]

_Item = TypeVar("_Item")

_COMPLAINTS: Final = 5
_CUT: Final = 80
_WANTED: Final = {"tuple_type": "a list", "string_type": "text", "model_type": "an object"}


class OutputKind(StrEnum):
    """Which form the answer of a role has."""

    PLAN = "plan"
    """Features, phases and components."""
    IMPLEMENTATION = "implementation"
    """The changes to files."""
    REVIEW = "review"
    """A judgement, with what is wrong."""


class WorkStatus(StrEnum):
    """A worker's claims about its own work; the gates verify them (C-25)."""

    COMPLETED = "completed"
    """It did what it was asked for; `success` is read as this (C-28)."""
    FAILED = "failed"
    """It could not."""


class ReviewStatus(StrEnum):
    """What a reviewer says."""

    APPROVED = "approved"
    """It may stay as it is."""
    CHANGES_REQUESTED = "changes_requested"
    """Something has to be mended."""


class ReviewSeverity(StrEnum):
    """How bad a reviewer's finding is."""

    ERROR = "error"
    """It has to be mended."""
    WARNING = "warning"
    """It should be mended."""
    INFO = "info"
    """It is good to know."""


def _some(text: str) -> str:
    if not text.strip():
        raise ValueError("some text")
    return text.strip()


def _file(path: str) -> str:
    if path_fault(path):
        raise ValueError(REPOSITORY_PATH)
    return path


def _id(text: str) -> str:
    if ID.fullmatch(text) is None:
        raise ValueError(IDS)
    return text


def _as_text(item: object) -> object:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _any(items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    if not items:
        raise ValueError("at least one")
    return items


def _canonical(status: object) -> object:
    return WorkStatus.COMPLETED if status == "success" else status


_Some = Annotated[str, AfterValidator(_some)]
# Not `min_length`: OpenAI takes no schema that has it.
_Several = Annotated[tuple[_Item, ...], AfterValidator(_any)]
_File = Annotated[_Some, AfterValidator(_file)]
_Id = Annotated[str, AfterValidator(_id)]
_Line = Annotated[str, BeforeValidator(_as_text)]


class _Form(BaseModel):
    """A form. What it does not know is left out: a model likes to say more than it was asked."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)


class PlannedComponent(_Form):
    """One piece of work of a plan."""

    id: _Id = Field(description="a short name, unique in the plan, such as login-form")
    title: _Some = Field(description="what is to be done, in one line")
    description: str = Field("", description="what its worker has to know")
    files: tuple[_File, ...] = Field((), description="files it touches, relative to the root")
    depends_on: tuple[_Some, ...] = Field(
        (), description="ids of components of the same feature that have to be complete before it"
    )
    role: _Some | None = Field(None, description="role of its worker; null for implementer")


class PlannedPhase(_Form):
    """Components of a plan that are complete before the next phase begins."""

    title: _Some = Field(description="what the phase is for, in one line")
    components: _Several[PlannedComponent] = Field(description="at least one")


class PlannedFeature(_Form):
    """A feature that a plan adds, in phases."""

    title: _Some = Field(description="what the user gets, in one line")
    phases: _Several[PlannedPhase] = Field(description="in their order; at least one")


class PlanOutput(_Form):
    """The proposal of a planner (C-23)."""

    features: _Several[PlannedFeature] = Field(description="at least one")

    @model_validator(mode="after")
    def _sound(self) -> PlanOutput:
        features = [[phase.components for phase in feature.phases] for feature in self.features]
        fault = order_fault(features)
        if fault is not None:
            raise ValueError(f"component {fault.component}: got {fault.got}, wanted {fault.wanted}")
        return self


class ImplementationOutput(_Form):
    """What an implementer says it has done (ENG-36)."""

    status: Annotated[WorkStatus, BeforeValidator(_canonical)] = Field(
        description="completed, or failed if it could not be done"
    )
    files_modified: tuple[str, ...] = Field(description="files made, changed or removed")
    changes: tuple[_Line, ...] = Field((), description="what was changed, a line each")
    next_steps: tuple[_Line, ...] = Field((), description="what is left to do; or why it failed")


class ReviewIssue(_Form):
    """Something that a reviewer found."""

    severity: ReviewSeverity
    file: str = Field("", description="relative to the root; empty for no file")
    line: int | None = Field(None, description="from 1; null for no line")
    message: _Some = Field(description="what is wrong")


class ReviewOutput(_Form):
    """What a reviewer says."""

    status: ReviewStatus
    issues: tuple[ReviewIssue, ...] = Field((), description="what is wrong, most severe first")
    summary: str = Field("", description="the judgement in a few words")


Output: TypeAlias = PlanOutput | ImplementationOutput | ReviewOutput
"""What `read_output` finds."""

_FORMS: Final[Mapping[OutputKind, type[Output]]] = MappingProxyType(
    {
        OutputKind.PLAN: PlanOutput,
        OutputKind.IMPLEMENTATION: ImplementationOutput,
        OutputKind.REVIEW: ReviewOutput,
    }
)


@frozen
class OutputFault:
    """An answer that is not an output of its kind: a classified failure, not a crash (ENG-37).

    Attributes:
        message: One line that says what does not fit, for people and for the next prompt.
    """

    message: str


def schema_of(kind: OutputKind) -> dict[str, Any]:
    """Return the JSON Schema of a kind of output.

    It is strict, as OpenAI wants it: each object has all of its fields and no other, and where a
    value may be left out it may be null or empty instead.
    """
    return cast("dict[str, Any]", json.loads(_schema_text(kind)))


@cache
def _schema_text(kind: OutputKind) -> str:
    return json.dumps(_strict(_FORMS[kind].model_json_schema()))


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in cast("Iterable[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    entries = cast("dict[str, Any]", schema)
    if "$ref" in entries:  # nothing may stand beside a reference
        return {"$ref": entries["$ref"]}
    # Names of fields are not keywords: a field may be called `title`.
    strict = {
        key: {name: _strict(one) for name, one in item.items()}
        if key in {"properties", "$defs"}
        else _strict(item)
        for key, item in entries.items()
        if key not in {"title", "default"}
    }
    # The docstring of a class is for readers of the code.
    if strict.get("type") == "object":
        strict.pop("description", None)
        strict |= {"additionalProperties": False, "required": [*strict["properties"]]}
    elif "enum" in strict:
        strict.pop("description", None)
    return strict


def output_instructions(kind: OutputKind) -> str:
    """Return the instructions of a prompt on the form of the answer."""
    return (
        "End your last message with one JSON object in a ```json block, and write nothing after"
        " it; if you have a tool for structured output, use that instead. The object has to fit"
        f" this JSON Schema:\n\n{_schema_text(kind)}"
    )


def read_output(kind: OutputKind, answer: str) -> Output | OutputFault:
    """Return the output in the final answer of a worker.

    That is the JSON object which is the whole answer, or stands in its last fenced block, or at its
    end, or else the last one with words around it; one with none of the fields of its kind does not
    count. Only that one is read: an earlier one may be an example.
    """
    form = _FORMS[kind]
    for found in json_objects(answer):
        if found.keys() & form.model_fields.keys():
            try:
                return form.model_validate(found)
            except ValidationError as error:
                return OutputFault(_told(error))
    fields = ", ".join(form.model_fields)
    got = "an empty answer" if not answer.strip() else "an answer without one"
    return OutputFault(f"{kind} output: got {got}, wanted a JSON object with {fields}")


def _told(error: ValidationError) -> str:
    """Return what does not fit, in one line."""
    found = error.errors(include_url=False, include_context=False)
    lines = [_line(one["loc"], one["type"], one["msg"], one["input"]) for one in found]
    more = f" and {len(lines) - _COMPLAINTS} more" if len(lines) > _COMPLAINTS else ""
    return "; ".join(lines[:_COMPLAINTS]) + more


def _line(loc: tuple[int | str, ...], kind: str, message: str, given: object) -> str:
    place = ""
    for part in loc:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    if kind == "missing":
        return f"{place}: got nothing, wanted it"
    wanted = _WANTED.get(kind) or message.removeprefix("Value error, ").removeprefix(
        "Input should be "
    )
    if wanted.startswith("component "):  # it says itself where, and what it got
        return wanted
    return f"{place or 'the object'}: got {_short(given)}, wanted {wanted}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _CUT else f"{text[:_CUT]}…"

"""The answers of workers, and the handling of answers that do not fit (ENG-36, ENG-37)."""

from __future__ import annotations

import json
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.engine.outputs import (
    ImplementationOutput,
    OutputFault,
    OutputKind,
    PlanOutput,
    ReviewOutput,
    WorkStatus,
    output_instructions,
    read_output,
    schema_of,
)

DONE: dict[str, Any] = {
    "status": "completed",
    "files_modified": ["src/login.py"],
    "changes": ["adds a login"],
    "next_steps": [],
}
REVIEW: dict[str, Any] = {
    "status": "changes_requested",
    "issues": [{"severity": "error", "file": "a.py", "line": 3, "message": "divides by zero"}],
    "summary": "not yet",
}


def component(id: str, *depends_on: str) -> dict[str, Any]:
    return {"id": id, "title": f"do {id}", "depends_on": [*depends_on]}


def plan(*phases: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"title": "a phase", "components": components} for components in phases]
    return {"features": [{"title": "a feature", "phases": listed}]}


TEXT = json.dumps(DONE)
ANSWERS = {
    "bare": TEXT,
    "a fence": f"I am done.\n\n```json\n{TEXT}\n```\n",
    "a fence and words": f"```json\n{TEXT}\n```\nTell me if more is wanted.",
    "the last of two fences": f'```json\n{{"status": "failed"}}\n```\nor\n```json\n{TEXT}\n```',
    "the end": f"Here it is:\n{json.dumps(DONE, indent=2)}\n",
    "words around it": f"So {TEXT} is what I say.",
    "code before it": f"def f(): {{ return {{1: 2}} }}\nfn main() {{}} then {TEXT}.",
    "another object behind it": f'{TEXT}\nThe tool said {{"ok": true}}.',
}


@pytest.mark.parametrize("form", ANSWERS)
def test_an_output_is_found_in_whatever_form_it_is_answered(form: str) -> None:
    """The JSON counts, even if the model talks before or after it."""
    found = read_output(OutputKind.IMPLEMENTATION, ANSWERS[form])
    assert isinstance(found, ImplementationOutput)
    assert (found.status, found.files_modified) == (WorkStatus.COMPLETED, ("src/login.py",))


def test_success_means_completed() -> None:
    """The word of the examples is the state of the events (C-28)."""
    found = read_output(OutputKind.IMPLEMENTATION, json.dumps({**DONE, "status": "success"}))
    assert isinstance(found, ImplementationOutput)
    assert found.status is WorkStatus.COMPLETED


def test_changes_may_be_objects() -> None:
    """The form of a change is free; each becomes a line."""
    told = {**DONE, "changes": [{"file": "a.py", "change": "new"}], "more": 1}
    found = read_output(OutputKind.IMPLEMENTATION, json.dumps(told))
    assert isinstance(found, ImplementationOutput)
    assert found.changes == ('{"file": "a.py", "change": "new"}',)


@pytest.mark.parametrize(
    ("kind", "answer", "message"),
    [
        (
            OutputKind.IMPLEMENTATION,
            " ",
            (
                "implementation output: got an empty answer, wanted a JSON object with status,"
                " files_modified, changes, next_steps"
            ),
        ),
        (
            OutputKind.REVIEW,
            'All is well, {"ok": true}.',
            (
                "review output: got an answer without one, wanted a JSON object with status,"
                " issues, summary"
            ),
        ),
        (
            OutputKind.IMPLEMENTATION,
            '{"status": "done", "changes": "all"}',
            (
                "status: got \"done\", wanted 'completed' or 'failed';"
                ' files_modified: got nothing, wanted it; changes: got "all", wanted a list'
            ),
        ),
        (
            OutputKind.REVIEW,
            json.dumps({**REVIEW, "issues": [{"severity": "bad", "message": ""}]}),
            (
                "issues[0].severity: got \"bad\", wanted 'error', 'warning' or 'info';"
                ' issues[0].message: got "", wanted some text'
            ),
        ),
        (OutputKind.PLAN, '{"features": []}', "features: got [], wanted at least one"),
        (
            OutputKind.PLAN,
            json.dumps(plan([component("log in")])),
            (
                'features[0].phases[0].components[0].id: got "log in", wanted an id of letters,'
                " digits, '.', '_' and '-', at most 80"
            ),
        ),
        (
            OutputKind.PLAN,
            json.dumps(plan([{**component("a"), "files": ["a.py", "../../etc/passwd"]}])),
            (
                'features[0].phases[0].components[0].files[1]: got "../../etc/passwd", wanted'
                " a file of the repository, relative to its root and without '..'"
            ),
        ),
        (
            OutputKind.PLAN,
            json.dumps(plan([component("a", "b"), component("b", "a")])),
            (
                "component a: got the circle a -> b -> a, wanted no circle; a component depends on"
                " none of a later phase"
            ),
        ),
        (
            OutputKind.PLAN,
            json.dumps(plan([component("a", "b")], [component("b")])),
            (
                "component a: got the circle a -> b -> a, wanted no circle; a component depends on"
                " none of a later phase"
            ),
        ),
        (
            OutputKind.PLAN,
            json.dumps(plan([component("a")], [component("a")])),
            "component a: got the id twice, wanted an id for one component",
        ),
        (
            OutputKind.PLAN,
            json.dumps(plan([component("a", "z")])),
            "component a: got depends_on 'z', wanted ids of components of the same feature",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(kind: OutputKind, answer: str, message: str) -> None:
    """The next attempt is told what to correct, and where."""
    assert read_output(kind, answer) == OutputFault(message)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["completed", "a", 1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "files_modified", "features", "phases", "components", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
PIECES = st.text() | JSON.map(json.dumps) | st.sampled_from(["```json\n", "\n```\n", '{"a":' * 40])


@given(st.sampled_from(OutputKind), st.lists(PIECES, max_size=4).map("".join))
def test_no_answer_raises(kind: OutputKind, answer: str) -> None:
    """Any answer of a model is an output or an error of one line (ENG-37)."""
    found = read_output(kind, answer)
    if isinstance(found, OutputFault):
        assert found.message
        assert len(found.message.splitlines()) == 1


@pytest.mark.parametrize("kind", OutputKind)
def test_schemas_are_strict_and_admit_what_is_read(kind: OutputKind) -> None:
    """A vendor that holds a model to a schema wants every field required and no other."""
    schema = schema_of(kind)

    def look(part: Any) -> None:
        if isinstance(part, dict):
            entries = cast("dict[str, Any]", part)
            if entries.get("type") == "object":
                assert entries["additionalProperties"] is False
                assert entries["required"] == [*entries["properties"]]
            for inner in entries.values():
                look(inner)

    look(schema)
    whole: dict[str, Any] = {"description": "", "files": [], "role": None}
    answers: dict[OutputKind, tuple[type, Any]] = {
        OutputKind.PLAN: (PlanOutput, plan([component("a") | whole])),
        OutputKind.IMPLEMENTATION: (ImplementationOutput, DONE),
        OutputKind.REVIEW: (ReviewOutput, REVIEW),
    }
    form, answer = answers[kind]
    jsonschema.validate(answer, schema)
    assert isinstance(read_output(kind, json.dumps(answer)), form)
    assert json.dumps(schema) in output_instructions(kind)

"""Plans: from a planner, from a file, and the order of their components."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.engine.outputs import OutputKind, PlanOutput, read_output
from otpy_agents.engine.plan import (
    Component,
    Feature,
    Plan,
    PlanPhase,
    plan_of,
    plan_text,
    read_plan,
)
from otpy_agents.engine.repository_path import path_fault
from otpy_agents.errors import InvalidEngineFile

FILE = """\
features:
  - id: feat-login
    title: Users can log in
    phases:
      - title: The store
        components:
          - id: users
            title: A table of users
            files: [src/users.py]
          - id: passwords
            title: Hashed passwords
            depends_on: [users]
            role: security_implementer
            x-note: mine
      - title: The form
        components:
          - {id: form, title: A form}
"""

TEXTS = (
    (st.text(min_size=1, max_size=9) | st.text("a: #'\"-|\n\x85\U0001f600", min_size=1, max_size=9))
    .map(str.strip)
    .filter(bool)
)
FILES = TEXTS.filter(lambda text: not path_fault(text))
IDS = st.integers(0, 999).map("c-{}.x".format)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A sound plan: components depend on earlier ones of their feature."""
    ids = iter(draw(st.lists(IDS, min_size=12, max_size=12, unique=True)))
    features: list[Feature] = []
    for number in range(draw(st.integers(1, 2))):
        phases: list[PlanPhase] = []
        earlier: list[str] = []
        for place in range(draw(st.integers(1, 2))):
            components: list[Component] = []
            for _ in range(draw(st.integers(1, 3))):
                some = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
                one = Component(
                    id=next(ids),
                    title=draw(TEXTS),
                    description=draw(st.just("") | TEXTS),
                    files=tuple(draw(st.lists(FILES, max_size=2))),
                    depends_on=tuple(some),
                    role=draw(IDS),
                )
                components.append(one)
                earlier.append(one.id)
            title = draw(TEXTS)
            phases.append(PlanPhase(id=f"p{place}", title=title, components=tuple(components)))
        features.append(Feature(id=f"feat-{number}", title=draw(TEXTS), phases=tuple(phases)))
    return Plan(features=tuple(features))


@settings(max_examples=25)
@given(plans())
def test_a_plan_reads_as_it_was_written(plan: Plan) -> None:
    """`plan --output FILE` and `workflow FILE` mean the same plan."""
    assert read_plan("plan.yaml", plan_text(plan)) == plan


@settings(max_examples=25)
@given(plans())
def test_components_wait_for_their_phase_and_for_what_they_name(plan: Plan) -> None:
    """Each component begins once, after all of the phase before and all that it depends on."""
    for feature in plan.features:
        phase_of = {one.id: n for n, phase in enumerate(feature.phases) for one in phase.components}
        done: frozenset[str] = frozenset()
        while ready := feature.ready(done, frozenset()):
            assert len({phase_of[one.id] for one in ready}) == 1
            assert all(done >= {*one.depends_on} for one in ready)
            assert feature.ready(done, frozenset(one.id for one in ready)) == ()
            done |= {ready[0].id}
        assert done == phase_of.keys()


def test_a_plan_of_a_person_needs_no_more_than_it_says() -> None:
    """Omitted keys have defaults, a role may be named, and the user's own keys are ignored."""
    plan = read_plan("plan.yaml", FILE)
    feature = plan.feature("feat-login")
    assert feature is not None
    assert plan.feature("feat-other") is None
    assert [phase.id for phase in feature.phases] == ["phase-1", "phase-2"]
    assert [one.role for one in feature.components] == [
        "implementer",
        "security_implementer",
        "implementer",
    ]
    assert feature.requirements == {
        "users": frozenset(),
        "passwords": {"users"},
        "form": {"users", "passwords"},
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("feat-login", "login", 'plan.yaml:2: features[0].id: got "login", wanted an id that'),
        ("id: users", "id: my users", ':7: features[0].phases[0].components[0].id: got "my users"'),
        (
            "id: users",
            "di: users",
            ":7: features[0].phases[0].components[0].di: got the unknown key",
        ),
        ("id: form", "id: users", ":17: features[0].phases[1].components[0].id: got the id twice"),
        ("[users]", "[form]", ".id: got the circle passwords -> form -> passwords, wanted no"),
        ("[users]", "[x]", ":10: features[0].phases[0].components[1].id: got depends_on 'x'"),
        (
            "[src/users.py]",
            "[a.py, /etc/passwd]",
            ':9: features[0].phases[0].components[0].files[1]: got "/etc/passwd", wanted a file',
        ),
        ("[src/users.py]", "[src/../../a]", '.files[0]: got "src/../../a", wanted a file of the'),
        ("[src/users.py]", "[sub/.GIT/config]", '.files[0]: got "sub/.GIT/config", wanted a file'),
        (FILE, "", "plan.yaml:1: got nothing for 'features', wanted the key 'features'"),
        (FILE, "features: []", "plan.yaml:1: features: got [], wanted at least one"),
        ("- title: The form", "- id: phase-1\n        title: x", ":15: features[0].phases[1]: got"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    """A person finds at once what to correct."""
    with pytest.raises(InvalidEngineFile) as refused:
        read_plan("plan.yaml", FILE.replace(old, new))
    assert message in str(refused.value)


def test_features_of_a_planner_have_ids_of_their_own() -> None:
    """Another plan has other ids, and the same one read again has the same (C-23)."""
    one = {"id": "a", "title": "do a", "role": None, "files": ["a.py"]}
    feature = {"title": "F", "phases": [{"title": "P", "components": [one]}]}
    second = {"title": "F", "phases": [{"title": "P", "components": [{**one, "id": "b"}]}]}
    output = read_output(OutputKind.PLAN, json.dumps({"features": [feature, second]}))
    assert isinstance(output, PlanOutput)
    plan = plan_of(output, "wf-1")
    assert plan == plan_of(output, "wf-1")
    ids = [one.id for one in (*plan.features, *plan_of(output, "wf-2").features)]
    assert len({*ids}) == 4
    assert all(one.startswith("feat-") for one in ids)
    assert plan.features[0].components == (Component(id="a", title="do a", files=("a.py",)),)

"""A run in its stored form, and the part that is read without the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.errors import InvalidRunSetting, RunStateCorrupt, RunStateTooNew
from otpy_agents.run.decide.chain import AgentInstance, build_chain
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.stored_form import StoredForm, order_to_json

SECRET = "hunter2-hunter2"


def form(sandbox: str = "docker") -> StoredForm:
    order = RunOrder(
        prompt=f"the key is {SECRET}",
        cwd=Path("/"),
        use="command",
        argv=("agent",),
        sandbox=SandboxChoice(name=sandbox),
    )
    chain, _ = build_chain(order.selection, AgentInstance(agent_id="a", agent_cli="command"), 0)
    return StoredForm(order=order, state=order.first_state(chain))


def clean(text: str) -> str:
    return text.replace(SECRET, "[KEY]")


def test_an_order_that_is_written_once_is_the_same_each_time() -> None:
    """A caller that stores many states writes the order once, and no secret is in it."""
    one = form()
    text = one.to_json(clean, order_to_json(one.order, clean))
    assert text == one.to_json(clean)
    assert SECRET not in text
    assert StoredForm.from_json(text).state == one.state


def test_the_sandbox_is_read_without_the_rest() -> None:
    """The remains of a run can be found even if its state cannot be read."""
    fields = json.loads(form().to_json(clean))
    assert StoredForm.sandbox_in(json.dumps({**fields, "state": {}})) == form().order.sandbox


def test_an_order_without_hosts_is_read_as_it_was() -> None:
    """Before there were lists of hosts, an attempt had the whole network or none."""
    fields = json.loads(form().to_json(clean))
    assert fields["order"]["sandbox"].pop("hosts") is None
    older = json.dumps({**fields, "version": 2})
    assert StoredForm.sandbox_in(older) == form().order.sandbox
    assert StoredForm.from_json(older).order.sandbox.hosts is None
    with pytest.raises(RunStateCorrupt, match="hosts"):
        StoredForm.sandbox_in(json.dumps(fields))


def test_an_order_of_an_older_version_is_read() -> None:
    """An older version has neither a schema nor jitter."""
    fields = json.loads(form().to_json(clean))
    assert fields["order"].pop("schema") == ""
    for policy in (fields["order"]["policy"], fields["state"]["policy"]):
        assert policy.pop("jitter") == 0
    fields["state"]["version"] = 2
    older = StoredForm.from_json(json.dumps({**fields, "version": 3}))
    assert order_to_json(older.order, str) == order_to_json(form().order, clean)
    assert older.state == form().state


def test_a_schema_is_stored_with_its_order() -> None:
    """The host that resumes the run asks for the same form of answer."""
    one = evolve(form(), order=evolve(form().order, schema='{"type": "object"}'))
    assert StoredForm.from_json(one.to_json(clean)).order.schema == '{"type": "object"}'
    with pytest.raises(InvalidRunSetting, match=r"order.schema: got 'no', wanted a JSON object"):
        evolve(form().order, schema="no")


def test_hosts_are_stored_with_their_order() -> None:
    """The host that resumes the run lets its attempts reach the same hosts."""
    hosts = ("api.example.com", "10.0.0.5:8080")
    one = form()
    one = evolve(one, order=evolve(one.order, sandbox=SandboxChoice(name="docker", hosts=hosts)))
    assert StoredForm.from_json(one.to_json(clean)).order.sandbox.hosts == hosts


@pytest.mark.parametrize("broken", ["{}", "no json", '{"version": 1, "order": 7, "state": {}}'])
def test_what_is_no_order_has_no_sandbox(broken: str) -> None:
    """It is refused, and so is what a newer version wrote."""
    with pytest.raises(RunStateCorrupt):
        StoredForm.sandbox_in(broken)
    with pytest.raises(RunStateTooNew):
        StoredForm.sandbox_in('{"version": 5, "order": {}, "state": {}}')

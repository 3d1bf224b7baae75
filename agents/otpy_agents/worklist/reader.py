"""Reading a work list: TOML in, frozen values out, or one line that says what to mend."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from otpy_agents.adapters.adapter import Access
from otpy_agents.errors import InvalidWorkList
from otpy_agents.run.host.walls import SANDBOXES, WAY_OUT, NetworkWish, is_sandbox, is_way_out
from otpy_agents.sandbox.marker import RESERVED
from otpy_agents.store.sessions import RestartContext
from otpy_agents.worklist.assignment import (
    LONG_TOOLS,
    NAME,
    AgentWork,
    Assignment,
    Expectation,
    Role,
    WorkList,
    is_name,
)
from otpy_agents.worklist.diagnosis import ListProblem, earliest, explain, not_toml
from otpy_agents.worklist.gang import Gang, GangAction
from otpy_agents.worklist.rules import contradictions
from otpy_agents.worklist.start_rate import StartRate
from otpy_monitors import OnExceed

__all__ = ["parse", "read"]

_RESTARTS: Final = {Role.MORTAL: 3, Role.DRONE: 1}
_VERIFY: Final = 300.0
_WARN: Final = 0.8
"""Part of the time to a stall after which it is warned of."""
_WITHIN: Final = {Role.MORTAL: 300.0, Role.DRONE: 60.0}


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


def _plain(text: str) -> str:
    # The kernel ends strings at a NUL, so starting such a worker could only fail.
    if "\0" in text:
        raise ValueError
    return text


def _variable(text: str) -> str:
    if not text or "=" in text or text.startswith(RESERVED):
        raise ValueError
    return _plain(text)


def _on_exceed(text: str) -> str:
    OnExceed.parse(text)  # what it raises is a ValueError too
    return text


def _sandbox(text: str) -> str:
    if not is_sandbox(text):
        raise ValueError
    return text


def _network(value: object) -> NetworkWish:
    if value is None or isinstance(value, bool):
        return value
    hosts = cast("list[object]", value) if isinstance(value, list) else [None]
    if not hosts or not all(isinstance(host, str) and is_way_out(host) for host in hosts):
        raise ValueError
    return tuple(map(str, hosts))


def _limit(value: object) -> int | None:
    if value == "unlimited":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


_SECONDS: Final = "seconds as a number above 0"
_DELAY: Final = "seconds as a number from 0"
_BYTES: Final = "bytes as a whole number above 0"
_TOKENS: Final = "a whole number of tokens above 0"
_MONEY: Final = "US dollars as a number above 0"
_LIMITS: Final = "a table of seconds above 0 under names of tools"
_NAMES: Final = f"a list of names that do not begin with {RESERVED}"
_NETWORK: Final = f"true, false, or a list of hosts: {WAY_OUT}"
_FOLDER: Final = "the path of a folder"

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Delay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Bytes = Annotated[int, Field(gt=0)]
_Tokens = Annotated[int, Field(gt=0)]
_Money = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Id = Annotated[str, AfterValidator(_name)]
_Text = Annotated[str, AfterValidator(_plain)]
_Path = Annotated[str, Field(min_length=1), AfterValidator(_plain)]
_OnExceed = Annotated[str, AfterValidator(_on_exceed)]
_Limit = Annotated[int | None, PlainValidator(_limit)]
_Network = Annotated[bool | tuple[str, ...] | None, PlainValidator(_network)]
_Sandbox = Annotated[str, AfterValidator(_sandbox)]
_Variable = Annotated[str, AfterValidator(_variable)]


class _Table(BaseModel):
    """A table of the file. A field's description is the wanted value in its error message."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)


class _StartRateTable(_Table):
    starts: int = Field(20, ge=1, description="a whole number from 1")
    seconds: _Seconds = Field(10.0, description=_SECONDS)


class _ListTable(_Table):
    name: _Text | None = Field(None, description="text")
    parallel: int = Field(4, ge=1, description="a whole number from 1")
    start_rate: _StartRateTable = Field(
        default_factory=lambda: _StartRateTable(starts=20, seconds=10.0),
        description="starts from 1, seconds above 0, as { starts = 20, seconds = 10 }",
    )
    wall_seconds: _Seconds | None = Field(None, description=_SECONDS)
    output_bytes: _Bytes | None = Field(None, description=_BYTES)
    tokens: _Tokens | None = Field(None, description=_TOKENS)
    cost_usd: _Money | None = Field(None, description=_MONEY)
    rule_file: _Path | None = Field(None, description="the path of a file")
    sandbox: _Sandbox | None = Field(None, description=SANDBOXES)
    network: _Network = Field(None, description=_NETWORK)
    secrets: list[_Variable] = Field(default_factory=list[str], description=_NAMES)
    artifacts: _Path | None = Field(None, description=_FOLDER)
    long_tools: dict[str, _Seconds] = Field(default_factory=dict[str, float], description=_LIMITS)
    jake_restarts: _Limit = Field(10, description='a whole number from 0, or "unlimited"')
    logs: _Path | None = Field(None, description=_FOLDER)
    state: _Path | None = Field(None, description="the path of a file")


class _AssignmentTable(_Table):
    id: _Id = Field(description=NAME)
    argv: list[_Text] | None = Field(
        None, min_length=1, description="a list of texts, the program first"
    )
    agent: _Id | None = Field(None, description='the name of an agent CLI, such as "claude"')
    prompt: _Text | None = Field(None, min_length=1, description="the task for the agent")
    fallback: list[_Id] | None = Field(None, description="a list of names of agent CLIs")
    model: _Text | None = Field(None, min_length=1, description="a model by the CLI's own name")
    access: Access | None = Field(None, strict=False, description='"read", "edit" or "full"')
    context: RestartContext | None = Field(
        None, strict=False, description='"fresh", "resume" or "resume_with_note"'
    )
    changeset: _Path | None = Field(None, description="the path of a git repository")
    tokens: _Tokens | None = Field(None, description=_TOKENS)
    cost_usd: _Money | None = Field(None, description=_MONEY)
    stall_warn: _Seconds | None = Field(None, description=_SECONDS)
    long_tools: dict[str, _Seconds] = Field(default_factory=dict[str, float], description=_LIMITS)
    on_exceed: _OnExceed | None = Field(
        None, description='"escalate", "restart(fresh=N)", "warn" or "reap"'
    )
    verify: list[_Text] | None = Field(
        None, min_length=1, description="a list of texts, the program first"
    )
    verify_deadline: _Seconds | None = Field(None, description=_SECONDS)
    sandbox: _Sandbox | None = Field(None, description=SANDBOXES)
    network: _Network = Field(None, description=_NETWORK)
    secrets: list[_Variable] = Field(default_factory=list[str], description=_NAMES)
    artifacts: _Path | None = Field(None, description=_FOLDER)
    gang: _Id | None = Field(None, description="the name of a [[gang]]")
    role: Role = Field(Role.MORTAL, strict=False, description='"mortal" or "drone"')
    cwd: _Path | None = Field(None, description=_FOLDER)
    env: dict[_Variable, _Text] = Field(
        default_factory=dict,
        description=f"a table of texts under names that do not begin with {RESERVED}",
    )
    needs_env: list[_Variable] = Field(default_factory=list[str], description=_NAMES)
    deadline: _Seconds | None = Field(None, description=_SECONDS)
    stall: _Seconds | None = Field(None, description=_SECONDS)
    grace: _Delay = Field(5.0, description=_DELAY)
    expect: Expectation = Field(Expectation.DONE, strict=False, description='"done" or "reaped"')
    wall_seconds: _Seconds | None = Field(None, description=_SECONDS)
    output_bytes: _Bytes | None = Field(None, description=_BYTES)
    restarts: int | None = Field(None, ge=0, description="a whole number from 0")
    within: float | None = Field(
        None, ge=1, multiple_of=1, allow_inf_nan=False, description="whole seconds from 1"
    )
    backoff: list[_Delay] | None = Field(None, description="a list of seconds, numbers from 0")


class _GangTable(_Table):
    name: _Id = Field(description=NAME)
    failures: int = Field(2, ge=2, description="a whole number from 2")
    within: _Seconds = Field(300.0, description=_SECONDS)
    action: GangAction = Field(GangAction.ASK, strict=False, description='"restart" or "ask"')


class _Document(_Table):
    whole: _ListTable = Field(
        default_factory=lambda: _ListTable.model_validate({}),
        alias="list",
        description="one [list] table",
    )
    assignment: list[_AssignmentTable] = Field(
        min_length=1, description="at least one [[assignment]] table"
    )
    gang: list[_GangTable] = Field(default_factory=list[_GangTable], description="[[gang]] tables")


_GONE: Final = {"rule": 'a rule of the kind "command" in the file that `rule_file` in [list] names'}
"""What an older version read, and what takes its place."""

_TABLES: Final[dict[str, type[BaseModel]]] = {
    "": _Document,
    "list": _ListTable,
    "assignment": _AssignmentTable,
    "gang": _GangTable,
}


def read(file: Path, *, sandbox: str | None = None) -> WorkList:
    """Read and check a work list.

    Args:
        file: The TOML file; its path is used in messages as it is given here.
        sandbox: Where all its agents work, whatever it says; None for where it says.

    Raises:
        InvalidWorkList: If it is missing, cannot be read, is not TOML, or says something it must
            not; the first such place in the file is named.
    """
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidWorkList(file, line, "", "bytes that are not UTF-8", "a text") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidWorkList(file, None, "", reason, "a work list in TOML") from error
    return parse(text, file, sandbox=sandbox)


def parse(text: str, file: Path, *, sandbox: str | None = None) -> WorkList:
    """Check the text of a work list and turn it into values.

    Touches no file; `file` only names the list and says what relative paths start from. `sandbox`
    is as for `read`.

    Raises:
        InvalidWorkList: As `read`.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise not_toml(error, text, file) from error
    old = [ListProblem((key,), "it", wanted) for key, wanted in _GONE.items() if key in raw]
    if old:
        raise earliest(old, text, raw, file)
    try:
        document = _Document.model_validate(raw)
    except ValidationError as error:
        problems = [explain(details, _TABLES) for details in error.errors(include_url=False)]
        raise earliest(problems, text, raw, file) from error
    wrong = [*_repeated(document), *contradictions(raw, sandbox)]
    if wrong:
        raise earliest(wrong, text, raw, file)
    return _values(document, raw, file, sandbox)


def _repeated(document: _Document) -> list[ListProblem]:
    """Return the assignments and groups whose name was taken by an earlier one."""
    problems: list[ListProblem] = []
    for table, key, names in (
        ("assignment", "id", [entry.id for entry in document.assignment]),
        ("gang", "name", [entry.name for entry in document.gang]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                path = (table, number, key)
                problems.append(ListProblem(path, f'"{name}" for the second time', "a unique name"))
    return problems


def _values(document: _Document, raw: dict[str, Any], file: Path, sandbox: str | None) -> WorkList:
    """Fill in every default and resolve every path."""
    here = file.absolute().parent
    whole = document.whole
    if sandbox is not None:
        whole = whole.model_copy(update={"sandbox": sandbox})
    return WorkList(
        file=file,
        here=here,
        name=whole.name or file.stem,
        parallel=whole.parallel,
        start_rate=StartRate(starts=whole.start_rate.starts, seconds=whole.start_rate.seconds),
        wall_seconds=whole.wall_seconds,
        output_bytes=whole.output_bytes,
        state=here / (whole.state or f"{file.stem}.sqlite"),
        assignments=tuple(
            _assignment(
                table if sandbox is None else table.model_copy(update={"sandbox": None}),
                whole,
                written,
                here,
            )
            for table, written in zip(document.assignment, raw["assignment"], strict=True)
        ),
        gangs=tuple(
            Gang(
                name=table.name,
                failures=table.failures,
                within=table.within,
                action=table.action,
            )
            for table in document.gang
        ),
        tokens=whole.tokens,
        cost_usd=whole.cost_usd,
        rule_file=None if whole.rule_file is None else here / whole.rule_file,
        jake_restarts=whole.jake_restarts,
        logs=None if whole.logs is None else here / whole.logs,
    )


def _assignment(
    table: _AssignmentTable, whole: _ListTable, written: dict[str, Any], here: Path
) -> Assignment:
    drone_backoff = () if table.role is Role.DRONE else None
    argv = _argv(table.argv, here)
    return Assignment(
        id=table.id,
        digest=_digest(written),
        argv=() if table.agent is not None else argv,
        role=table.role,
        cwd=here / table.cwd if table.cwd is not None else None,
        env=table.env,
        needs_env=tuple(table.needs_env),
        deadline=table.deadline,
        stall=table.stall,
        grace=table.grace,
        expect=table.expect,
        wall_seconds=table.wall_seconds,
        output_bytes=table.output_bytes,
        restarts=_RESTARTS[table.role] if table.restarts is None else table.restarts,
        within=_WITHIN[table.role] if table.within is None else table.within,
        backoff=drone_backoff if table.backoff is None else tuple(table.backoff),
        agent=None if table.agent is None else _agent(table, whole, table.agent, argv, here),
        gang=table.gang or "",
    )


def _argv(written: list[str] | None, here: Path) -> tuple[str, ...]:
    return tuple(
        item.replace("{python}", sys.executable).replace("{here}", str(here))
        for item in written or ()
    )


def _agent(
    table: _AssignmentTable, whole: _ListTable, cli: str, argv: tuple[str, ...], here: Path
) -> AgentWork:
    warn = None if table.stall is None else _WARN * table.stall
    artifacts = None if whole.artifacts is None else here / whole.artifacts / table.id
    return AgentWork(
        cli=cli,
        prompt=table.prompt or "",
        fallback=tuple(table.fallback or ()),
        model=table.model,
        access=table.access or Access.EDIT,
        context=table.context or RestartContext.RESUME_WITH_NOTE,
        changeset=here / table.changeset if table.changeset is not None else None,
        tokens=table.tokens,
        cost_usd=table.cost_usd,
        stall_warn=warn if table.stall_warn is None else table.stall_warn,
        long_tools={**LONG_TOOLS, **whole.long_tools, **table.long_tools},
        on_exceed=OnExceed() if table.on_exceed is None else OnExceed.parse(table.on_exceed),
        argv=argv,
        verify=_argv(table.verify, here),
        verify_deadline=_VERIFY if table.verify_deadline is None else table.verify_deadline,
        sandbox=table.sandbox or whole.sandbox or "",
        network=whole.network if table.network is None else table.network,
        secrets=tuple(dict.fromkeys((*whole.secrets, *table.secrets))),
        artifacts=artifacts if table.artifacts is None else here / table.artifacts,
    )


def _digest(written: dict[str, Any]) -> str:
    """Fingerprint a definition as it is written, so that moving the checkout redoes nothing."""
    canonical = json.dumps(written, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]

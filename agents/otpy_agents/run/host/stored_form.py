"""The stored form of a run and of its attempts, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, cast

from attrs import evolve, frozen

from otpy_agents.attrs_json import from_plain, to_plain
from otpy_agents.errors import RunStateCorrupt, RunStateTooNew
from otpy_agents.process.orphans import Recorded
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.result import AttemptRecord
from otpy_agents.run.decide.state import VERSION as STATE_VERSION
from otpy_agents.run.decide.state import RunState, with_all
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox.behaviour import ContainerIdentity, Identity
from otpy_agents.store.run_records import AttemptBegun, AttemptEnded, CooldownRecord

__all__ = [
    "VERSION",
    "AttemptOutcome",
    "StoredForm",
    "cleaned_order",
    "cooldown_table",
    "identity_from_json",
    "identity_to_json",
    "order_to_json",
    "rows_between",
    "same_but_for_signs",
]

VERSION: Final = 4
"""Version of the stored form of an order, raised with every change of it."""

_WITH_HOSTS: Final = 3  # the first version whose sandboxes may have a list of hosts
_WITH_SCHEMA: Final = 4  # the first version whose orders have a schema, and policies jitter
_ANSWER: Final = 200_000  # characters of an answer that are kept

# What people and agents write. Names, numbers and paths are needed as they are to go on.
_TEXTS: Final = frozenset({"prompt", "argv", "environment", "cli_flags", "message", "answer"})

Cleaner: TypeAlias = Callable[[str], str]
"""Takes secrets out of a text."""


@frozen(kw_only=True)
class StoredForm:
    """A run as it is stored: all that is needed to go on with it.

    Attributes:
        order: Its order.
        state: Its state.
    """

    order: RunOrder
    state: RunState

    def to_json(self, clean: Cleaner, order: str = "") -> str:
        """Return it as one line of JSON.

        Args:
            clean: Applied to what people and agents wrote (G-04).
            order: What `order_to_json` made of the order, which never changes; empty to do it here.
        """
        state = _dumps({"version": STATE_VERSION, **to_plain(self.state)}, clean)
        order = order or order_to_json(self.order, clean)
        return f'{{"version":{VERSION},"order":{order},"state":{state}}}'

    @classmethod
    def from_json(cls, text: str) -> StoredForm:
        """Return what `to_json` made into `text`.

        Raises:
            RunStateTooNew: A newer version wrote it.
            RunStateCorrupt: It is none.
        """
        fields = _form(text)
        order = fields["order"]
        if isinstance(order, dict) and cast("int", fields["version"]) < _WITH_SCHEMA:
            stored = cast("dict[str, object]", order)
            stored.setdefault("schema", "")
            with_all(stored.get("policy"))
        state = RunState.from_json(json.dumps(fields["state"]))
        return cls(order=from_plain(RunOrder, fields["order"], "order"), state=state)

    @staticmethod
    def sandbox_in(text: str) -> SandboxChoice:
        """Return the sandbox of what `to_json` made into `text`, without reading the rest.

        Raises:
            RunStateTooNew: A newer version wrote it.
            RunStateCorrupt: It is none.
        """
        order = _form(text)["order"]
        if not isinstance(order, dict) or "sandbox" not in order:
            raise RunStateCorrupt("order", f"{order!r:.100}", "an order with a sandbox")
        return from_plain(SandboxChoice, cast("dict[str, object]", order)["sandbox"], "sandbox")

    @property
    def version(self) -> int:
        """What to store beside it: one number that grows with either version."""
        return VERSION * 1000 + STATE_VERSION


@frozen(kw_only=True)
class AttemptOutcome:
    """The stored form of a finished attempt.

    Attributes:
        record: How it ended.
        answer: The agent's answer, as far as it came.
        cut: Bytes of output that were not kept.
        left_over: Processes that it had started and left running; ended since.
    """

    record: AttemptRecord
    answer: str = ""
    cut: int = 0
    left_over: tuple[str, ...] = ()

    def to_json(self, clean: Cleaner) -> str:
        """Return it as one line of JSON; for `clean` see `StoredForm.to_json`."""
        return json.dumps(_cleaned(to_plain(self), clean))

    @classmethod
    def from_json(cls, text: str) -> AttemptOutcome:
        """Return what `to_json` made into `text`.

        Raises:
            RunStateCorrupt: It is none.
        """
        return from_plain(cls, _object(text), "outcome")


def cooldown_table(records: Iterable[CooldownRecord]) -> CooldownTable:
    """Return the table of stored cooldowns."""
    return CooldownTable(
        tuple(
            Cooldown(VendorAccount(one.agent_cli, one.credential), one.until, one.told, one.reason)
            for one in records
        )
    )


def order_to_json(order: RunOrder, clean: Cleaner) -> str:
    """Return an order as one line of JSON; for `clean` see `StoredForm.to_json`."""
    return _dumps(to_plain(order), clean)


def cleaned_order(order: RunOrder, clean: Cleaner) -> RunOrder:
    """Return an order as it is stored; for `clean` see `StoredForm.to_json`."""
    return from_plain(RunOrder, _cleaned(to_plain(order), clean), "order")


def identity_to_json(identity: Identity) -> str:
    """Return the identity of an attempt as JSON."""
    return json.dumps(to_plain(identity))


def identity_from_json(text: str) -> Identity:
    """Return what `identity_to_json` made into `text`.

    Raises:
        RunStateCorrupt: It is none.
    """
    fields = _object(text)
    if "id" in fields:
        return from_plain(ContainerIdentity, fields, "identity")
    return from_plain(Recorded, fields, "identity")


def rows_between(
    before: RunState, after: RunState, flight: Flight | None, clean: Cleaner
) -> tuple[AttemptBegun | AttemptEnded, ...]:
    """Return the rows of attempts to store when `after` follows `before`.

    Args:
        before: The state so far.
        after: The new state.
        flight: The attempt that was made; None if it was not watched.
        clean: As for `StoredForm.to_json`.
    """
    rows: list[AttemptBegun | AttemptEnded] = []
    for record in after.attempts[len(before.attempts) :]:
        outcome = AttemptOutcome(record=record)
        if flight is not None and flight.number == record.number:
            outcome = AttemptOutcome(
                record=record,
                answer=flight.answer[:_ANSWER],
                cut=flight.cut,
                left_over=flight.left_over,
            )
        rows.append(AttemptEnded(number=record.number, outcome=outcome.to_json(clean)))
    number = None if before.attempt is None else before.attempt.number
    if after.attempt is not None and after.attempt.number != number:
        rows.append(AttemptBegun(number=after.attempt.number, agent=after.agent.agent_id))
    return tuple(rows)


def same_but_for_signs(one: RunState, other: RunState) -> bool:
    """Whether two states differ at most in when the attempt last showed signs of life.

    Those signs only set the next look at the clock, and a restart resets them, so a state in which
    only they changed is not worth a write.
    """
    return _without_signs(one) == _without_signs(other)


def _without_signs(state: RunState) -> RunState:
    if state.attempt is None:
        return state
    return evolve(state, attempt=evolve(state.attempt, progress=0.0, output=0.0, shown_quiet=False))


def _dumps(plain: object, clean: Cleaner) -> str:
    return json.dumps(_cleaned(plain, clean), separators=(",", ":"))


def _cleaned(plain: object, clean: Cleaner, *, text: bool = False) -> object:
    """Return `plain` with its texts cleaned."""
    if isinstance(plain, str):
        return clean(plain) if text else plain
    if isinstance(plain, list):
        return [_cleaned(item, clean, text=text) for item in cast("list[object]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, object]", plain).items()
        return {key: _cleaned(item, clean, text=text or key in _TEXTS) for key, item in items}
    return plain


def _form(text: str) -> dict[str, object]:
    """Return the parts of a `StoredForm`, if it is of this version."""
    fields = _object(text)
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise RunStateCorrupt("version", repr(version), "a whole number of at least 1")
    if version > VERSION:
        raise RunStateTooNew(version, VERSION)
    if fields.keys() != {"version", "order", "state"}:
        raise RunStateCorrupt("text", f"{sorted(fields)}", "version, order and state")
    if version < _WITH_HOSTS:
        _add_hosts(fields["order"])
    return fields


def _add_hosts(order: object) -> None:
    """Add the list of hosts that an older stored order lacks."""
    sandbox = cast("dict[str, object]", order).get("sandbox") if isinstance(order, dict) else None
    if isinstance(sandbox, dict):
        cast("dict[str, object]", sandbox).setdefault("hosts", None)


def _object(text: str) -> dict[str, object]:
    try:
        plain: object = json.loads(text)
    except ValueError as error:
        raise RunStateCorrupt("text", f"{error}", "one JSON object") from None
    if not isinstance(plain, dict):
        raise RunStateCorrupt("text", type(plain).__name__, "one JSON object")
    return cast("dict[str, object]", plain)

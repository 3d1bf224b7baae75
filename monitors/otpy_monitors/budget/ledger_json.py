"""A ledger as JSON, and back: strict, with a version, and with a way from older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from otpy import InvalidSpec
from otpy_monitors.budget.account import Account, Pot, apply
from otpy_monitors.budget.amount import Kind, OnExceed
from otpy_monitors.budget.errors import BudgetCorrupt, BudgetTooNew
from otpy_monitors.budget.ledger import BudgetLedger, Thread
from otpy_monitors.budget.readings import Reading

if TYPE_CHECKING:
    from otpy_monitors.budget.prices import Prices

__all__ = ["LedgerStore", "Plain", "from_plain", "load_ledger", "to_plain"]

Plain: TypeAlias = dict[str, Any]
"""What `json.dumps` takes and `json.loads` returns."""

VERSION: Final = 2
"""Version of what `to_plain` returns."""

_POT: Final = ("limit", "first", "reserved", "own", "carried", "warned")


def _with_output(plain: Plain) -> Plain:
    """Return a ledger of version 1, which did not count output, as version 2."""
    accounts: list[Plain] = []
    for entry in _list(plain.get("accounts"), "accounts"):
        account = _table(entry, "accounts")
        pots = {**_table(account.get("pots"), "pots"), Kind.OUTPUT_BYTES.value: _pot(Pot())}
        accounts.append({**account, "pots": pots})
    return {**plain, "version": 2, "accounts": accounts}


UPCASTERS: Final[dict[int, Callable[[Plain], Plain]]] = {1: _with_output}
"""For each older version, what makes the next one of it."""


class LedgerStore(Protocol):
    """Where a ledger is kept. The owner of the tree supplies it."""

    async def load(self) -> Plain | None:
        """Return the value saved last; None if there is none."""
        ...

    async def save(self, plain: Plain) -> None:
        """Save `plain` in place of the saved value, wholly or not at all.

        It belongs to the store from here on, which may turn it into text in another thread.
        """
        ...


async def load_ledger(store: LedgerStore, prices: Prices | None = None) -> BudgetLedger:
    """Return the ledger a store keeps, or an empty one if it keeps none.

    Args:
        store: Where it is.
        prices: What tokens cost from now on; None for the table that ships with the package.

    Raises:
        BudgetCorrupt: The stored value is not a ledger. Nothing is charged then, and nothing
            overwritten: a person must look.
        BudgetTooNew: A newer version wrote it.
    """
    plain = await store.load()
    return BudgetLedger(prices) if plain is None else from_plain(plain, prices)


def to_plain(ledger: BudgetLedger) -> Plain:
    """Return all of a ledger as JSON. Amounts are tokens, nano-dollars, microseconds and bytes."""
    return {
        "version": VERSION,
        "accounts": [_account(account) for account in ledger.accounts.values()],
        "threads": {
            session: {"account": thread.account, "reading": _reading(thread.reading)}
            for session, thread in ledger.threads.items()
        },
        "unpriced_models": dict(ledger.unpriced_models),
    }


def _account(account: Account) -> Plain:
    return {
        "name": account.name,
        "parent": "" if account.parent is None else account.parent.name,
        "on_exceed": str(account.on_exceed),
        "fresh_had": account.fresh_had,
        "unpriced": account.unpriced,
        "runs": {run: _reading(reading) for run, reading in account.runs.items()},
        "pots": {kind.value: _pot(pot) for kind, pot in account.pots.items()},
    }


def _pot(pot: Pot) -> Plain:
    return {name: getattr(pot, name) for name in _POT}


def _reading(reading: Reading) -> list[int | None]:
    return [reading.input, reading.output, reading.cached, reading.cost]


def from_plain(plain: object, prices: Prices | None = None) -> BudgetLedger:
    """Return the ledger that `to_plain`, of this version or an older one, made into `plain`.

    Raises:
        BudgetCorrupt: It is none.
        BudgetTooNew: A newer version made it.
    """
    found = _table(plain, "it")
    version = _whole(found.get("version"), "version")
    if version > VERSION:
        raise BudgetTooNew(version, VERSION)
    while version < VERSION:
        if version not in UPCASTERS:
            raise BudgetCorrupt("version", version, f"a version up to {VERSION}")
        found = UPCASTERS[version](found)
        version += 1
    ledger = BudgetLedger(prices)
    _fields(found, "it", {"version", "accounts", "threads", "unpriced_models"})
    for number, entry in enumerate(_list(found["accounts"], "accounts")):
        _read_account(ledger, entry, f"accounts[{number}]")
    for session, entry in _table(found["threads"], "threads").items():
        place = f"threads.{session}"
        thread = _fields(_table(entry, place), place, {"account", "reading"})
        if thread["account"] not in ledger:
            raise BudgetCorrupt(f"{place}.account", thread["account"], "an open account")
        reading = _read_reading(thread["reading"], f"{place}.reading")
        ledger.threads[session] = Thread(thread["account"], reading)
    for model, told in _table(found["unpriced_models"], "unpriced_models").items():
        ledger.unpriced_models[model] = _flag(told, f"unpriced_models.{model}")
    return ledger


def _read_account(ledger: BudgetLedger, entry: object, place: str) -> None:
    names = {"name", "parent", "on_exceed", "fresh_had", "unpriced", "runs", "pots"}
    fields = _fields(_table(entry, place), place, names)
    name, parent = _text(fields["name"], place), _text(fields["parent"], place)
    try:
        on_exceed = OnExceed.parse(_text(fields["on_exceed"], place))
    except InvalidSpec as error:
        raise BudgetCorrupt(place, fields["on_exceed"], str(error)) from error
    if name in ledger or not name:
        raise BudgetCorrupt(place, name, "a name of its own")
    if parent and parent not in ledger:
        raise BudgetCorrupt(place, parent, "a parent that comes before it")
    ledger.open(name, parent, on_exceed=on_exceed)
    account = ledger.accounts[name]
    account.fresh_had = _whole(fields["fresh_had"], f"{place}.fresh_had")
    account.unpriced = _whole(fields["unpriced"], f"{place}.unpriced")
    for run, reading in _table(fields["runs"], f"{place}.runs").items():
        account.note_run(run, _read_reading(reading, f"{place}.runs.{run}"))
    pots = _fields(_table(fields["pots"], place), f"{place}.pots", {kind.value for kind in Kind})
    for kind in Kind:
        at = f"{place}.pots.{kind.value}"
        values = _read_pot(_fields(_table(pots[kind.value], at), at, set(_POT)), at)
        apply(account, kind, partial(_fill, values=values))


def _read_pot(values: Plain, place: str) -> Plain:
    for name in ("limit", "first"):
        if values[name] is not None:
            _whole(values[name], f"{place}.{name}")
    for name in ("own", "carried"):
        _whole(values[name], f"{place}.{name}")
    for name in ("reserved", "warned"):
        _flag(values[name], f"{place}.{name}")
    return values


def _fill(pot: Pot, values: Plain) -> None:
    for name in _POT:
        setattr(pot, name, values[name])


def _read_reading(value: object, place: str) -> Reading:
    numbers = _list(value, place)
    if len(numbers) != len(_reading(Reading())):
        raise BudgetCorrupt(place, numbers, "four numbers")
    tokens = [_whole(number, place) for number in numbers[:3]]
    cost = None if numbers[3] is None else _whole(numbers[3], place)
    return Reading(tokens[0], tokens[1], tokens[2], cost)


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise BudgetCorrupt(place, value, "a list")
    return cast("list[object]", value)


def _table(value: object, place: str) -> Plain:
    if not isinstance(value, Mapping):
        raise BudgetCorrupt(place, value, "an object")
    return dict(cast("Mapping[str, Any]", value))


def _fields(table: Plain, place: str, names: set[str]) -> Plain:
    if table.keys() != names:
        raise BudgetCorrupt(place, sorted(table), f"exactly {', '.join(sorted(names))}")
    return table


def _whole(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BudgetCorrupt(place, value, "a whole number of at least 0")
    return value


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise BudgetCorrupt(place, value, "true or false")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise BudgetCorrupt(place, value, "text")
    return value

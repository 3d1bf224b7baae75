"""Stored ledgers can be read: by this version, and those of older versions by newer ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otpy_monitors import (
    BudgetCorrupt,
    BudgetLedger,
    BudgetTooNew,
    Kind,
    Limits,
    OnExceed,
    OutputSeen,
    load_ledger,
)
from otpy_monitors.budget import ledger_json
from otpy_monitors.budget.ledger_json import from_plain, to_plain
from tests.monitors.budget.usage import PRICES, used

VERSION_1 = Path(__file__).with_name("ledger-1.json")
VERSION_2 = Path(__file__).with_name("ledger-2.json")


def a_ledger() -> BudgetLedger:
    """Return a ledger with a value for everything that is stored."""
    ledger = BudgetLedger(PRICES)
    ledger.open("site", limits=Limits(tokens=1000, cost_usd=2.5, seconds=60))
    ledger.delegate("lead", "site", Limits(tokens=200), OnExceed.parse("restart(fresh=2)"))
    ledger.open("lead/drone", "lead", on_exceed=OnExceed.parse("warn"))
    ledger.charge(used("lead", "session", 100, output=20, cached=5, cumulative=True))
    ledger.charge(used("lead/drone", "run 1", 7, cost=0.25))
    ledger.charge(used("lead/drone", "run 2", 9, model="unheard of"))
    ledger.charge_seconds("lead/drone", 1.5)
    ledger.open("gone", "site")
    ledger.charge(used("gone", "run 3", 40))
    ledger.close("gone")
    ledger.charge(used("lead", "run 4", 60))
    ledger.renew("lead")
    ledger.note_warned("site", Kind.TOKENS)
    return ledger


def test_a_ledger_comes_back_as_it_was() -> None:
    """It survives JSON, with every balance, counter and record of what was told."""
    ledger = a_ledger()
    again = from_plain(json.loads(json.dumps(to_plain(ledger))), PRICES)
    assert to_plain(again) == to_plain(ledger)
    for name in ledger.accounts:
        for kind in Kind:
            assert again.balance(name, kind) == ledger.balance(name, kind)
    for one in (ledger, again):
        one.charge(used("lead", "session", 150, output=20, cached=5, cumulative=True))
    assert again.balance("site", Kind.TOKENS) == ledger.balance("site", Kind.TOKENS)


def test_what_version_1_stored_is_read_for_ever() -> None:
    """G-15: version 1 wrote the file once; the file never changes."""
    ledger = from_plain(json.loads(VERSION_1.read_text(encoding="utf-8")), PRICES)
    wanted = to_plain(a_ledger())
    # The file was written before ledgers kept the amount that the table had charged for a run.
    (lead,) = [account for account in wanted["accounts"] if account["name"] == "lead"]
    lead["runs"]["run 4"][3] = None
    assert to_plain(ledger) == wanted


def test_an_older_version_is_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each upcaster makes the next version of it; the last one is read as our own."""
    ours = to_plain(a_ledger())
    old: dict[str, Any] = {**ours, "accounts": [], "people": ours["accounts"]}

    def second(plain: dict[str, Any]) -> dict[str, Any]:
        return {**{key: plain[key] for key in plain if key != "people"}, "new": plain["people"]}

    def third(plain: dict[str, Any]) -> dict[str, Any]:
        kept = {key: plain[key] for key in ("threads", "unpriced_models")}
        return {"version": 4, "accounts": plain["new"], **kept}

    monkeypatch.setattr(ledger_json, "VERSION", 4)
    monkeypatch.setattr(ledger_json, "UPCASTERS", {2: second, 3: third})
    assert to_plain(from_plain(old, PRICES)) == {**ours, "version": 4}


def test_what_version_2_stored_is_read_for_ever() -> None:
    """Version 2 is the first with output; the file was written once, and never changes."""
    ledger = from_plain(json.loads(VERSION_2.read_text(encoding="utf-8")), PRICES)
    ours = a_ledger()
    ours.charge(OutputSeen("lead/drone", 0.0, 700))
    assert to_plain(ledger) == to_plain(ours)
    assert ledger.balance("site", Kind.OUTPUT_BYTES).known == 700


def test_what_a_newer_version_stored_is_left_alone() -> None:
    """A half-understood ledger would be charged wrongly, and overwritten."""
    with pytest.raises(BudgetTooNew, match="version is 9, wanted at most 2"):
        from_plain({**to_plain(a_ledger()), "version": 9})
    with pytest.raises(BudgetCorrupt, match="a version up to"):
        from_plain({**to_plain(a_ledger()), "version": 0})


BROKEN: dict[str, Any] = {
    "it": None,
    "version": {"version": "1"},
    "exactly": {"more": 1},
    "accounts": {"accounts": {}},
    "accounts[0]": {"accounts": [3]},
    "threads": {"threads": []},
    "threads.s.account": {"threads": {"s": {"account": "nobody", "reading": [1, 1, 1, None]}}},
    "threads.s.reading": {"threads": {"s": {"account": "site", "reading": [1, 1]}}},
    "unpriced_models.m": {"unpriced_models": {"m": 1}},
}


@pytest.mark.parametrize(("place", "change"), BROKEN.items())
def test_what_is_no_ledger_is_refused_with_its_place(place: str, change: Any) -> None:
    """Nothing of it is guessed."""
    broken = None if change is None else {**to_plain(a_ledger()), **change}
    with pytest.raises(BudgetCorrupt) as caught:
        from_plain(broken)
    assert place in str(caught.value)


ACCOUNT: dict[str, Any] = {
    "name": ["", 3],
    "parent": ["nobody", "lead", None],
    "on_exceed": ["explode", None],
    "fresh_had": [-1, True, 0.5],
    "unpriced": ["1"],
    "runs": [[], {"r": [1, 2, 3]}, {"r": [1, 2, -3, None]}],
    "pots": [{}, {"tokens": {}}, 5],
}


@pytest.mark.parametrize(("name", "bad"), [(n, bad) for n, all_ in ACCOUNT.items() for bad in all_])
def test_an_account_that_is_none_is_refused(name: str, bad: object) -> None:
    """A wrong value in any field, and a parent that comes later or never."""
    plain = to_plain(a_ledger())
    plain["accounts"][0][name] = bad
    with pytest.raises(BudgetCorrupt, match=r"accounts\[0\]"):
        from_plain(plain)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("limit", -1),
        ("first", "1"),
        ("own", 0.5),
        ("carried", None),
        ("reserved", 1),
        ("warned", 0),
    ],
)
def test_a_pot_that_is_none_is_refused(name: str, bad: object) -> None:
    """Numbers are whole and not below 0, flags are flags."""
    plain = to_plain(a_ledger())
    plain["accounts"][1]["pots"]["tokens"][name] = bad
    with pytest.raises(BudgetCorrupt, match=rf"accounts\[1\]\.pots\.tokens\.{name}"):
        from_plain(plain)


def test_a_name_stands_once() -> None:
    """Two accounts of one name would be charged as one."""
    plain = to_plain(a_ledger())
    plain["accounts"].append(plain["accounts"][0])
    with pytest.raises(BudgetCorrupt, match="a name of its own"):
        from_plain(plain)


async def test_a_store_that_has_nothing_gives_an_empty_ledger() -> None:
    """The first start of a project."""

    class Empty:
        async def load(self) -> None:
            return None

        async def save(self, plain: dict[str, Any]) -> None:
            raise AssertionError

    assert dict((await load_ledger(Empty(), PRICES)).accounts) == {}

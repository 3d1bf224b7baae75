"""Prices are data: a shipped table, and the user's own before it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from otpy_monitors import InvalidPrices, Price, Prices

TABLE = """\
date = 2026-01-31

[[price]]
models = ["Mine-*", "mine"]
input = 0
output = 1.5
"""


def test_the_shipped_table_can_be_read_and_has_a_date() -> None:
    """Each pattern leads to its own entry, and output is dearer than input."""
    shipped = Prices.shipped()
    assert shipped.date is not None
    assert shipped.date >= date(2026, 1, 1)
    for price in shipped.entries:
        assert 0 < (price.cached or price.input) <= price.input < price.output
        for pattern in price.models:
            assert shipped.of(pattern.replace("*", "0")) is price


@pytest.mark.parametrize(
    ("model", "input_"),
    [
        ("claude-opus-4-5-20251101", 5.0),
        ("claude-opus-4-1-20250805", 15.0),
        ("claude-opus-4-20250514", 15.0),
        ("claude-sonnet-4-5", 3.0),
        ("gpt-5-codex", 1.25),
        ("GPT-5-2025-08-07", 1.25),
        ("gpt-5-mini", 0.25),
        ("gemini-2.5-flash-lite", 0.1),
    ],
)
def test_names_with_and_without_a_day_have_the_price_of_their_model(
    model: str, input_: float
) -> None:
    """Vendors add the day of a release to the name of a model."""
    price = Prices.shipped().of(model)
    assert price is not None
    assert price.input == input_


@pytest.mark.parametrize(
    "model", ["", "gpt-5-pro", "gpt-6", "claude-opus-5", "claude-opus-4-99", "x"]
)
def test_what_is_not_listed_has_no_price(model: str) -> None:
    """A wider pattern would be a guess."""
    assert Prices.shipped().of(model) is None


def test_own_entries_count_before_those_that_ship(tmp_path: Path) -> None:
    """A file adds models, and changes the price of listed ones."""
    path = tmp_path / "prices.toml"
    path.write_text(TABLE + '[[price]]\nmodels = ["gpt-5"]\ninput = 9\noutput = 9\ncached = 3\n')
    prices = Prices.load(path).before(Prices.shipped())
    assert prices.date == date(2026, 1, 31)
    free, changed, same = prices.of("mine-7B"), prices.of("gpt-5"), prices.of("gpt-5-mini")
    assert free is not None
    assert (free.input, free.output, free.cached) == (0, 1.5, None)
    assert changed is not None
    assert changed.cached == 3
    assert same == Prices.shipped().of("gpt-5-mini")


def test_tokens_from_a_cache_cost_as_much_as_others_unless_said() -> None:
    """Nothing is free by omission."""
    price = Price(models=("m",), input=2.0, output=3.0)
    assert price.cost(input=10, output=0, cached=0) == price.cost(input=0, output=0, cached=10)


BROKEN = {
    "date is None": "",
    "wanted the day": "date = 2026-01-31T00:00:00Z",
    "wanted only date and price": TABLE + "[prices]\n",
    "price is": "date = 2026-01-31\nprice = 3",
    "price 1: lacks": "date = 2026-01-31\n[[price]]\nmodels = []",
    "too many": TABLE + "per_request = 3\n",
    "models is": TABLE.replace('["Mine-*", "mine"]', '"mine"'),
    "a list of patterns": TABLE.replace('"mine"', '""'),
    "input is -1": TABLE.replace("input = 0", "input = -1"),
    "output is nan": TABLE.replace("output = 1.5", "output = nan"),
    "cached is True": TABLE + "cached = true\n",
    "line 1": "date = = 3",
}


@pytest.mark.parametrize(("words", "text"), BROKEN.items())
def test_a_broken_table_is_refused_with_its_file_and_place(
    tmp_path: Path, words: str, text: str
) -> None:
    """A wrong price that is taken for a right one costs money."""
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(InvalidPrices) as caught:
        Prices.load(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The error is that of a table with nonsense in it."""
    with pytest.raises(InvalidPrices, match="No such file"):
        Prices.load(tmp_path / "none.toml")

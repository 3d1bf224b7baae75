"""What tokens cost, as data: a table that ships with the package, and the user's own before it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Self, cast, final

from attrs import field, frozen

from otpy_monitors.budget.amount import Kind
from otpy_monitors.budget.errors import InvalidPrices

__all__ = ["Price", "Prices"]

_PER = 1_000_000


@final
@frozen(kw_only=True)
class Price:
    """Prices of some models, in US dollars per million tokens.

    Attributes:
        models: Patterns of their names, as in a shell: `*`, `?`, `[0-9]`. Case does not matter.
        input: Of tokens read.
        output: Of tokens written.
        cached: Of tokens read from a cache; None if they cost as much as others.
    """

    models: tuple[str, ...]
    input: float
    output: float
    cached: float | None = None

    def fits(self, model: str) -> bool:
        """Return whether one of the patterns fits the name of a model."""
        return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.models)

    def cost(self, *, input: int, output: int, cached: int) -> int:
        """Return what tokens cost, in nano-dollars; `input` is without those in `cached`."""
        from_cache = self.input if self.cached is None else self.cached
        dollars = (input * self.input + cached * from_cache + output * self.output) / _PER
        return Kind.COST_USD.whole(dollars)


@final
@frozen
class Prices:
    """A price table. The first entry that fits a model counts.

    Attributes:
        date: Day on which the prices held; None for a table without any.
        entries: In order.
    """

    date: date | None = None
    entries: tuple[Price, ...] = field(default=(), converter=tuple[Price, ...])

    @classmethod
    def shipped(cls) -> Self:
        """Return the table that ships with the package."""
        file = resources.files("otpy_monitors.budget").joinpath("prices.toml")
        return cls._parse(file.read_text(encoding="utf-8"), "prices.toml")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the table in a TOML file of the same form as the one in the package.

        Raises:
            InvalidPrices: It cannot be read, or says something it must not.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidPrices(f"{path}: {error}") from error
        return cls._parse(text, str(path))

    def before(self, other: Prices) -> Prices:
        """Return both tables as one; entries of this one take precedence."""
        return Prices(self.date or other.date, (*self.entries, *other.entries))

    def of(self, model: str) -> Price | None:
        """Return the price of a model; None if it is not known, which is not the same as free."""
        return next((price for price in self.entries if price.fits(model)), None)

    @classmethod
    def _parse(cls, text: str, place: str) -> Self:
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidPrices(f"{place}: {error}") from error
        unknown = sorted(table.keys() - {"date", "price"})
        if unknown:
            raise InvalidPrices(f"{place}: got {unknown}, wanted only date and price")
        day = table.get("date")
        if not isinstance(day, date) or isinstance(day, datetime):
            raise InvalidPrices(f"{place}: date is {day!r}, wanted the day the prices held")
        entries: object = table.get("price", [])
        if not isinstance(entries, list):
            raise InvalidPrices(f"{place}: price is {entries!r:.100}, wanted [[price]] tables")
        listed = cast("list[object]", entries)
        return cls(day, [_price(entry, f"{place}: price {n}") for n, entry in enumerate(listed, 1)])


def _price(entry: object, place: str) -> Price:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, Mapping) else {}
    missing = {"models", "input", "output"} - fields.keys()
    unknown = fields.keys() - {"models", "input", "output", "cached"}
    if missing or unknown:
        raise InvalidPrices(
            f"{place}: lacks {sorted(missing)} and has {sorted(unknown)} too many, "
            f"wanted models, input, output and perhaps cached"
        )
    models = fields["models"]
    if not isinstance(models, list) or not all(
        isinstance(one, str) and one for one in cast("list[object]", models)
    ):
        raise InvalidPrices(f"{place}: models is {models!r:.100}, wanted a list of patterns")
    for name in ("input", "output", "cached"):
        amount = fields.get(name, 0.0)
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not (0 <= amount < math.inf):
            wanted = "dollars per million tokens, at least 0"
            raise InvalidPrices(f"{place}: {name} is {amount!r:.100}, wanted {wanted}")
    return Price(
        models=tuple(cast("list[str]", models)),
        input=fields["input"],
        output=fields["output"],
        cached=fields.get("cached"),
    )

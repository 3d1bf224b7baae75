"""Projections: pure folds over events, each kept in a table of its own (ENG-07).

A table is changed in the transaction of the events it comes from. It can be thrown away at any
time: what is in it is what a fold over the log gives.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from attrs import field, frozen

from otpy_agents.errors import InvalidProjection
from otpy_agents.log.chain import canonical

if TYPE_CHECKING:
    from otpy_agents.log.event import Stored

__all__ = ["Difference", "Projection", "Row", "Rows"]

Row: TypeAlias = Mapping[str, Any]
"""One row of a projection: its columns, the key left out."""
Rows: TypeAlias = dict[str, Row]
"""All rows of a projection by their keys."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_KINDS: Final = frozenset({"TEXT", "INTEGER", "REAL"})
_OURS: Final = frozenset({"events", "archived", "projections"})


@final
@frozen(kw_only=True)
class Projection:
    """A table folded from the events of a log.

    Attributes:
        name: Of it, and of its table.
        columns: Those of the table, without `id`, its key: name to `TEXT`, `INTEGER` or `REAL`.
        key: Returns the key of the row that an event concerns; None if it concerns none.
        fold: Returns the row after an event, given the one before it; None stands for no row. It
            must be pure: the same events give the same rows.
        version: Of `columns`, `key` and `fold`; a table of another version is rebuilt.

    Raises:
        InvalidProjection: It can never have a table.
    """

    name: str
    columns: Mapping[str, str]
    key: Callable[[Stored], str | None]
    fold: Callable[[Row | None, Stored], Row | None]
    version: int = field(default=1)

    def __attrs_post_init__(self) -> None:
        """Refuse what can never have a table."""
        if not _NAME.fullmatch(self.name) or self.name in _OURS:
            raise InvalidProjection(
                self.name, "its name", f"small letters, none of {sorted(_OURS)}"
            )
        if not self.columns:
            raise InvalidProjection(self.name, "no columns", "at least one")
        for column, kind in self.columns.items():
            if not _NAME.fullmatch(column) or column == "id" or kind not in _KINDS:
                got = f"the column {column!r} of {kind!r}"
                raise InvalidProjection(self.name, got, f"small letters, of {sorted(_KINDS)}")

    def after(self, rows: Rows, events: Iterable[Stored]) -> Rows:
        """Return the rows after events, given those before them."""
        folded = dict(rows)
        for event in events:
            key = self.key(event)
            if key is None:
                continue
            row = self.fold(folded.get(key), event)
            if row is None:
                folded.pop(key, None)
            else:
                folded[key] = self._whole(row)
        return folded

    def _whole(self, row: Row) -> Row:
        if [*row] == [*self.columns]:
            return row
        if unknown := row.keys() - self.columns.keys():
            got = f"the columns {sorted(unknown)}"
            raise InvalidProjection(self.name, got, f"some of {sorted(self.columns)}")
        return {name: row.get(name) for name in self.columns}

    # --- its table --------------------------------------------------------------------------------

    def make(self, database: sqlite3.Connection) -> None:
        """Recreate its table, empty."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        database.execute(f"DROP TABLE IF EXISTS {self.name}")
        database.execute(f"CREATE TABLE {self.name} (id TEXT PRIMARY KEY, {columns}) WITHOUT ROWID")

    def fits(self, database: sqlite3.Connection) -> bool:
        """Return whether the table of its name is its own; another program may have one."""
        found = database.execute("SELECT name FROM pragma_table_info(?)", (self.name,)).fetchall()
        return [row["name"] for row in found] == ["id", *self.columns]

    def read(self, database: sqlite3.Connection, keys: Iterable[str] | None = None) -> Rows:
        """Return its rows, or those of some keys."""
        query = f"SELECT * FROM {self.name}"  # noqa: S608 - a checked name
        if keys is None:
            found = database.execute(query).fetchall()
        else:
            wanted = canonical(sorted(set(keys)))
            some = f"{query} WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
            found = database.execute(some, (wanted,)).fetchall()
        return {row["id"]: {name: row[name] for name in self.columns} for row in found}

    def take(self, database: sqlite3.Connection, events: Iterable[Stored]) -> None:
        """Change its table as events say, in the transaction that is open."""
        told = [(key, event) for event in events if (key := self.key(event)) is not None]
        if not told:
            return
        before = self.read(database, (key for key, _ in told))
        self.write(database, before, self.after(before, (event for _, event in told)))

    def write(self, database: sqlite3.Connection, before: Rows, after: Rows) -> None:
        """Write the changed rows of its table."""
        gone = [(key,) for key in before.keys() - after.keys()]
        if gone:
            database.executemany(f"DELETE FROM {self.name} WHERE id = ?", gone)  # noqa: S608
        changed = [(key, *row.values()) for key, row in after.items() if before.get(key) != row]
        if changed:
            marks = ", ".join("?" * (len(self.columns) + 1))
            database.executemany(f"REPLACE INTO {self.name} VALUES ({marks})", changed)  # noqa: S608


@final
@frozen
class Difference:
    """A row of a table that differs from the log.

    Attributes:
        projection: Whose table.
        key: Of the row.
        stored: The stored row; None if there is none.
        folded: What should stand there; None if there should be none.
    """

    projection: str
    key: str
    stored: Row | None
    folded: Row | None

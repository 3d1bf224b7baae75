"""The report on a shaken tree, for people and for programs."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, final

from attrs import asdict, frozen

from otpy.testing.chaos_log import milliseconds

if TYPE_CHECKING:
    from otpy.testing.chaos_log import ChaosLog


@final
@frozen
class PathRow:
    """What happened at one path.

    Attributes:
        path: The path, of a worker or a supervisor.
        strikes: How often it was struck.
        restarts: How often it was started again, for whatever reason.
        median: Seconds from a strike until it was ready again; None if it never was.
        max: The longest of these.
    """

    path: str
    strikes: int
    restarts: int
    median: float | None
    max: float | None


@final
@frozen(kw_only=True)
class ChaosReport:
    """The report on a shaken tree.

    Attributes:
        seed: The seed of the strikes.
        seconds: How long it was shaken.
        strikes: One for each strike: time, path, kind, outcome and, if it was restarted, seconds.
        paths: What happened at each path that was struck or restarted, sorted.
        down: Paths that should run and do not, at the end.
        gave_up: Paths of supervisors, and children, that gave up.
        abandoned: Paths of children that refused to end.
        ended: Why the tree ended too early; None if it did not.
        survived: Whether it was shaken to the end, and then all ran that should.
    """

    seed: int
    seconds: float
    strikes: list[dict[str, Any]]
    paths: list[PathRow]
    down: list[str]
    gave_up: list[str]
    abandoned: list[str]
    ended: str | None
    survived: bool

    @classmethod
    def of(cls, log: ChaosLog, seed: int, seconds: float) -> ChaosReport:
        """Sum `log` up."""
        return cls(
            seed=seed,
            seconds=round(seconds, 3),
            strikes=[
                {
                    "time": round(strike.time, 3),
                    "path": strike.process.path,
                    "kind": strike.kind,
                    "outcome": strike.outcome.value,
                    "seconds": None if strike.seconds is None else round(strike.seconds, 6),
                }
                for strike in log.strikes
            ],
            paths=_rows(log),
            down=list(log.down),
            gave_up=log.gave_up,
            abandoned=log.abandoned,
            ended=log.why_ended(),
            survived=log.finished and not log.down,
        )

    @property
    def passed(self) -> bool:
        """Whether it survived, and was struck at least once."""
        return self.survived and bool(self.strikes)

    def as_json(self) -> str:
        """Return one line of JSON: the attributes, by their names."""
        return json.dumps(asdict(self))

    def render(self) -> str:
        """Return a table, and the verdict below."""
        head = ("path", "strikes", "restarts", "median", "max")
        table = [head, *(_cells(row) for row in self.paths)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (table if self.paths else ())
        ]
        for title, paths in (("gave up", self.gave_up), ("abandoned", self.abandoned)):
            if paths:
                lines.append(f"{title}: {', '.join(paths)}")
        return "\n".join([*lines, f"{self._verdict()} (--seed {self.seed})"])

    def _verdict(self) -> str:
        count = len(self.strikes)
        what = f"{count} {'strike' if count == 1 else 'strikes'} in {self.seconds:.1f} s"
        if self.ended is not None:
            return f"{what}: the tree ended too early: {self.ended}"
        if self.down:
            return f"{what}: down at the end: {', '.join(self.down)}"
        if not self.strikes:
            return f"{what}: there was nobody to strike, so this shows nothing"
        return f"{what}: survived, and everything runs that should"


def _rows(log: ChaosLog) -> list[PathRow]:
    struck = [strike.process.path for strike in log.strikes]
    restarted = [path for path, count in log.starts.items() if count]
    rows: list[PathRow] = []
    for path in sorted({*struck, *restarted}):
        times = [
            round(strike.seconds, 6)
            for strike in log.strikes
            if strike.process.path == path and strike.seconds is not None
        ]
        longest = max(times, default=None)
        middle = round(median(times), 6) if times else None
        rows.append(PathRow(path, struck.count(path), log.starts[path], middle, longest))
    return rows


def _cells(row: PathRow) -> tuple[str, ...]:
    times = ["-" if time is None else milliseconds(time) for time in (row.median, row.max)]
    return (row.path, str(row.strikes), str(row.restarts), *times)

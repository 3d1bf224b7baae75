"""The violation daemon: rules on what workers run, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otpy_monitors.findings import FindingHook, Rule, Subject, Violated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy_monitors.board import Board, Vitals

_AGAIN: Final = 60.0  # nothing to do until the board changes; this only bounds the wait


async def violation_monitor(board: Board, report: FindingHook, *, rules: Sequence[Rule]) -> None:
    """Report each rule that a worker breaks, once per life of the worker (TREE-47).

    It is woken when a worker appears, and does not poll. Runs until it is cancelled.

    Args:
        board: Where to look.
        report: Gets `Violated`; the action of the rule is for its owner to carry out (TREE-48).
        rules: Checked in order.
    """
    judged: set[tuple[str, int, int]] = set()
    while True:
        workers = board.vitals()
        judged &= {worker.life for worker in workers}
        for worker in workers:
            if worker.life not in judged:
                judged.add(worker.life)
                for finding in violations(worker, rules):
                    report(finding)
        await board.change(_AGAIN)


def violations(worker: Vitals, rules: Sequence[Rule]) -> list[Violated]:
    """Return the rules that `worker` breaks, in the order of `rules`."""
    broken: list[Violated] = []
    for rule in rules:
        text = " ".join(worker.argv) if rule.on is Subject.COMMAND else worker.cwd
        found = rule.pattern.search(text)
        if found is not None:
            broken.append(Violated(worker.path, worker.incarnation, rule, found.group()))
    return broken

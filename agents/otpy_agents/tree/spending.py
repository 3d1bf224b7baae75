"""What follows when a budget is spent, as its owner has declared it (C-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from otpy import Crashed
from otpy_agents.agent.budgets import budget_pause
from otpy_agents.errors import BudgetRenewed
from otpy_monitors import BudgetSpent, Exceeding

if TYPE_CHECKING:
    from otpy import Process
    from otpy_agents.agent.budgets import Budgets
    from otpy_agents.agent.post import Post
    from otpy_agents.tree.pool import MortalPool

__all__ = ["on_spent"]


def on_spent(
    finding: BudgetSpent, budgets: Budgets, pool: MortalPool, tell: Callable[..., None]
) -> None:
    """Do what is declared for a budget that is spent (C-12).

    A program has no turn at whose end it could rest: it is reaped, whoever's budget it is.

    An agent that has told its final answer is neither stopped nor restarted: it has nothing left to
    spend, and its work is paid for. Its pause counts only if it goes on all the same, as after a
    verification that failed.
    """
    mine = {post.key: post for post in pool.posts.values() if post.key in finding.stopped}
    for key, post in list(mine.items()):
        if finding.then == Exceeding.REAP or post.assignment.agent is None:
            del mine[key]
            name, why = post.assignment.id, budgets.spent(key)
            if why and pool.courses.outcome(name) is None:  # else it was granted more
                _settled([post], partial(pool.reap, name, why))
    if finding.then == Exceeding.RESTART:
        if budgets.ledger.may_renew(finding.account):
            budgets.ledger.renew(finding.account)
        for post in mine.values():
            _settled([post], partial(_restart, pool.process(post.assignment.id), str(finding)))
    elif finding.then == Exceeding.ESCALATE:
        for post in mine.values():
            pause = budget_pause(post.key, finding.account, finding.kind, str(finding))
            pool.pause_for(post.assignment.id, pause)
        notify = partial(tell, "operator.notified", finding.account, detail=str(finding))
        _settled(list(mine.values()), notify)


def _settled(posts: Sequence[Post], action: Callable[[], object]) -> None:
    """Perform an action if any of these has no answer when that can be known."""
    loop = asyncio.get_running_loop()

    def act() -> None:
        if not all(post.answered for post in posts):
            action()

    settles = max((post.settles for post in posts), default=0.0)
    if settles > loop.time():  # the line that says that it is done may be right behind
        loop.call_at(settles, act)
    else:
        act()


def _restart(process: Process | None, why: str) -> None:
    if process is not None:
        process.exit(Crashed(BudgetRenewed(why)))

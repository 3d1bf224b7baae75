"""What follows from the findings of monitors, and from failures of a group.

Monitors only report (TREE-48). Whatever is done about a mortal is done here, by its owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, final

import structlog

from otpy import Crashed, console_logger
from otpy_agents.agent.budgets import budget_pause
from otpy_agents.agent.pause import RULE, AgentPause
from otpy_agents.errors import BudgetRenewed, GangFailed, WorkerStalled
from otpy_agents.worklist.gang import GangAction, GangWatch
from otpy_monitors import (
    Action,
    BudgetNearlySpent,
    BudgetSpent,
    Exceeding,
    Finding,
    LoopLag,
    LoopStalled,
    RuleBroken,
    Stalled,
    StallWarned,
    Sweeping,
    Swept,
    Violated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy import Process
    from otpy_agents.agent.budgets import Budgets
    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.post import Post
    from otpy_agents.tree.pool import MortalPool
    from otpy_agents.worklist.gang import Gang

__all__ = ["Consequences"]


@final
class Consequences:
    """Acts on findings, for one project; never blocks, and bears to hear a finding twice.

    Args:
        desk: What its mortals work with.
        pool: Who decides about them.
        gangs: Its groups.
    """

    def __init__(self, desk: Desk, pool: MortalPool, gangs: Iterable[Gang]) -> None:
        self._desk = desk
        self._pool = pool
        self._gangs = {gang.name: GangWatch(gang) for gang in gangs}
        configured = structlog.is_configured()  # else its own default would write to stdout
        self._log = structlog.get_logger("otpy_agents") if configured else console_logger()

    def concerns(self, finding: Finding) -> bool:
        """Whether a finding is about this project, or a mortal of it."""
        key, account = self._desk.key, str(getattr(finding, "account", ""))
        if account:
            return account == key or account.startswith(f"{key}/")
        path = str(getattr(finding, "path", ""))
        return self._pool.path != "" and path.startswith(f"{self._pool.path}/")

    def on_finding(self, finding: Finding) -> None:
        """Take a finding of a monitor and act on it."""
        tell = self._desk.tell
        match finding:
            case StallWarned():
                tell("monitor.stall_warning", _id(finding.path), detail=str(finding))
            case Stalled():
                tell("monitor.stalled", _id(finding.path), detail=str(finding))
                self._stalled(finding)
            case BudgetNearlySpent():
                self._if_mine(finding.account, "monitor.budget_warning", str(finding))
            case BudgetSpent():
                self._if_mine(finding.account, "monitor.budget_spent", str(finding))
                _on_spent(finding, self._desk.workplace.budgets, self._pool, tell)
            case Violated():
                tell("monitor.violated", _id(finding.path), detail=str(finding))
                self._violated(finding)
            case RuleBroken():
                tell("monitor.rule_broken", _id(finding.path), detail=str(finding))
                self._rule_broken(finding)
            case LoopLag():
                tell("monitor.loop_lag", "loop", detail=str(finding))
            case LoopStalled():
                tell("monitor.loop_blocked", finding.path or "loop", detail=str(finding))
            case Sweeping():
                tell("monitor.sweeping", finding.chore, detail=str(finding))
            case Swept():
                tell("monitor.swept", finding.chore, detail=str(finding))
            case _:
                tell("monitor.finding", "monitors", detail=str(finding))

    def _if_mine(self, account: str, event: str, detail: str) -> None:
        """Tell of an account, if it is that of this project, or of one of its agents."""
        key = self._desk.key
        if account == key:
            self._desk.tell(event, "list", detail=detail)
        elif account.startswith(f"{key}/"):
            self._desk.tell(event, account.removeprefix(f"{key}/"), detail=detail)

    def _stalled(self, finding: Stalled) -> None:
        """Restart it by its policy."""
        process = self._pool.process(_id(finding.path))
        if process is not None and process.incarnation == finding.incarnation:
            process.exit(Crashed(WorkerStalled(str(finding))))

    def _violated(self, finding: Violated) -> None:
        """Perform the action of the rule (TREE-47)."""
        desk, name = self._desk, _id(finding.path)
        match finding.rule.action:
            case Action.LOG:
                self._log.warning("violation", assignment=name, detail=str(finding))
            case Action.NOTIFY:
                desk.tell("operator.notified", name, detail=str(finding))
                self._tell_parent(name, finding)
            case Action.PAUSE:
                self._pause(name, f"{RULE}{finding.rule.name}", str(finding))
            case Action.WARN:
                self._warn(name, str(finding))
            case Action.REAP:
                self._pool.reap(name, str(finding))

    def _rule_broken(self, finding: RuleBroken) -> None:
        """Treat a rule that cannot be judged as broken (it fails closed)."""
        desk, name = self._desk, _id(finding.path)
        if finding.action is Action.REAP:
            is_new = name not in self._pool.courses.ending
            self._pool.reap(name, str(finding))
        else:
            is_new = self._pause(name, f"{RULE}{finding.rule.name}", str(finding))
        if is_new:  # it is tried again with whatever the agent does until it rests
            desk.tell("operator.notified", name, detail=str(finding))

    def _tell_parent(self, name: str, finding: Violated) -> None:
        """Tell the giver of the work: another agent, or else Jake."""
        desk = self._desk
        parent = finding.parent.removeprefix(f"{desk.key}/")
        post = self._pool.posts.get(parent)
        if post is not None and not post.agent.state.final:
            self._warn(parent, f"{name}: {finding}")
        else:
            desk.tell("jake.notified", "Jake", about=name, detail=str(finding))

    def _pause(self, name: str, by: str, why: str) -> bool:
        """Pause a mortal; return whether it was not paused for that already."""
        pause = AgentPause(by=by, why=why)
        return name in self._pool.posts and self._pool.pause_for(name, pause)

    def _warn(self, name: str, message: str) -> None:
        desk = self._desk
        try:
            desk.warn(name, message)
        except OSError as error:  # what a worker does to its notes is not a monitor's crash
            desk.tell("mortal.warning_failed", name, reason=str(error))
        else:
            desk.tell("mortal.warned", name, detail=message)

    # --- groups -----------------------------------------------------------------------------------

    def on_failure(self, name: str, error: BaseException | None) -> None:
        """Take the news that a mortal has failed, and judge its group (TREE-31)."""
        post = self._pool.posts.get(name)
        if post is None or post.assignment.gang not in self._gangs or isinstance(error, GangFailed):
            return
        group, now = post.assignment.gang, asyncio.get_running_loop().time()
        self._gangs[group], together = self._gangs[group].fail(name, now)
        if not together:
            return
        gang = self._gangs[group].gang
        why = f"{', '.join(together)} of the group {group!r} failed within {gang.within:g} s"
        self._desk.tell("gang.failed", group, detail=why, action=str(gang.action))
        members = self._at_work(group)
        if gang.action is GangAction.ASK:
            self._desk.tell("operator.notified", group, detail=why)
            for member in members:
                self._pause(member, f"gang:{group}", why)
            return
        for member in members:
            process = self._pool.process(member)
            if process is not None and member not in together:
                process.exit(Crashed(GangFailed(why)))

    def _at_work(self, group: str) -> list[str]:
        """Return the members of a group that have not come out, and are not being given up."""
        pool = self._pool
        return [
            name
            for name, one in pool.posts.items()
            if one.assignment.gang == group
            and not one.agent.state.final
            and name not in pool.courses.ending
            and pool.courses.outcome(name) is None
        ]


def _on_spent(
    finding: BudgetSpent, budgets: Budgets, pool: MortalPool, tell: Callable[..., None]
) -> None:
    """Do what is declared for a budget that is spent (C-12).

    A program has no turns, so it cannot pause at the end of one: it is reaped, whether the budget
    is its own or another's.

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


def _id(path: str) -> str:
    return path.rpartition("/")[2]

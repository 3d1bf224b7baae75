"""What the monitors of many agents cost: while nothing happens, and while everybody works.

The branch runs over a feed with a card and an account for each agent, and one rule of each kind.
CPU time is that of the whole process, in seconds of real time:

    python -m benchmarks.monitors --agents 1000 --seconds 10
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import otpy
from otpy_monitors import (
    Action,
    AgentAppeared,
    AgentCard,
    Bookkeeper,
    BudgetLedger,
    Check,
    CommandBlocked,
    CommandRun,
    Custom,
    Deletion,
    Feed,
    FilesOutside,
    FilesTouched,
    Finding,
    Limits,
    NetworkForbidden,
    OutputSeen,
    Progressed,
    RuleBook,
    SameCall,
    TokenSpeed,
    ToolCallBegan,
    ToolCallEnded,
    TooManyChildren,
    UsageSeen,
    ViolationRule,
    monitor_supervisor,
)

if TYPE_CHECKING:
    from otpy_monitors import Activity

WORK = Path("/tmp/work")  # noqa: S108 - nothing is written there

CHECKS: dict[str, Check] = {
    "files": FilesOutside(),
    "commands": CommandBlocked((re.compile(r"rm\s+-rf"), re.compile("sudo"))),
    "network": NetworkForbidden(("*.npmjs.org",)),
    "children": TooManyChildren(5),
    "speed": TokenSpeed(10**9, 60.0),
    "row": SameCall(50),
    "often": SameCall(10**6, 600.0),
    "own": Custom(lambda _activity, _card: None),
}
RULES = RuleBook(ViolationRule(name, check, Action.LOG) for name, check in CHECKS.items())


def step(agent: str, number: int, at: float) -> list[Activity]:
    """Return what an agent does in one step of its work: ten activities."""
    call = f"c{number}"
    return [
        Progressed(agent, at, "message"),
        ToolCallBegan(agent, at, call, "Bash", {"command": f"make part-{number}"}),
        CommandRun(agent, at, f"make part-{number}"),
        *(OutputSeen(agent, at, 4096) for _ in range(4)),
        FilesTouched(agent, at, (f"src/part-{number}.py",)),
        ToolCallEnded(agent, at, call),
        UsageSeen(agent, at, "", "gpt-5", 4000, 500, 90_000),
    ]


def card(number: int) -> AgentCard:
    """Return the card of an agent that may be silent for ten minutes."""
    name = f"site/{number}"
    return AgentCard(
        agent=name,
        path=f"app/pool/{number}",
        parent="site",
        stall=600.0,
        warn_stall_at=480.0,
        long_tools={"Bash": 3600.0},
        directories=(WORK / str(number),),
        cwd=WORK / str(number),
    )


async def _nothing() -> AsyncIterator[Deletion]:
    found: list[Deletion] = []
    for deletion in found:
        yield deletion


class _Nowhere:
    """A store that takes no time: what is measured is what the event loop waits for."""

    async def load(self) -> None:
        return None

    async def save(self, plain: dict[str, Any]) -> None:
        pass


def _ignore(_finding: Finding) -> None:
    pass


async def _measure(agents: int, seconds: float, each: float) -> None:
    feed, ledger = Feed(), BudgetLedger()
    ledger.open("site", limits=Limits(tokens=10**15, cost_usd=1e6, seconds=1e9))
    spec = monitor_supervisor(
        feed,
        _ignore,
        rules=RULES,
        chores={"chore": _nothing},
        bookkeeper=Bookkeeper(feed, ledger),
        ledger_store=_Nowhere(),
    )
    loop = asyncio.get_running_loop()
    async with otpy.start(spec, hooks=()):
        cards = [card(number) for number in range(agents)]
        began = time.process_time()
        for one in cards:
            feed.tell(AgentAppeared(loop.time(), one))
        await asyncio.sleep(0.5)
        print(f"appearing: {(time.process_time() - began) / agents * 1e6:.0f} us for each agent")
        print(f"idle: {await _share(seconds, lambda _: 0.0):.3%} of a core")
        told = 0

        def work(passed: float) -> float:
            nonlocal told
            while told < passed * agents / each:
                agent = cards[told % agents].agent
                for activity in step(agent, told, loop.time()):
                    feed.tell(activity)
                told += 1
            return 0.02

        busy = await _share(seconds, work)
        print(f"busy: {busy:.3%} of a core, a step of ten activities of each agent in {each:g} s")
        print(f"  {busy * seconds / told / 10 * 1e6:.1f} us for each of {told * 10} activities")


async def _share(seconds: float, work: Callable[[float], float]) -> float:
    """Return the CPU time of `seconds` as a share; `work` returns seconds until its next call."""
    cpu, began = time.process_time(), time.perf_counter()
    passed = 0.0
    while passed < seconds:
        await asyncio.sleep(work(passed) or seconds - passed)
        passed = time.perf_counter() - began
    return (time.process_time() - cpu) / seconds


@click.command()
@click.option("--agents", default=1000, show_default=True, help="Agents in the feed.")
@click.option("--seconds", default=10.0, show_default=True, help="Length of each measurement.")
@click.option("--each", default=10.0, show_default=True, help="Seconds between steps of an agent.")
def main(agents: int, seconds: float, each: float) -> None:
    """Measure the branch of monitors while nothing happens, and while everybody works.

    Prints the CPU time as a share of a core, and that of each activity. Nothing is written.
    """
    print(f"{agents} agents, {len(RULES.rules)} rules")
    asyncio.run(_measure(agents, seconds, each))


if __name__ == "__main__":
    main()

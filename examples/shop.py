"""A small shop: three workers that depend on each other, and a pool for its customers.

    otpy tree examples/shop.py:tree
    otpy run examples/shop.py:tree

The till crashes now and then. The price list it asks is started before it, and survives.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Restart, Strategy, SupervisorSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from anyio.abc import TaskStatus

PRICES = {"apple": 0.40, "bread": 2.10, "candle": 3.50}


@asynccontextmanager
async def price_list() -> AsyncGenerator[dict[str, float]]:
    """Hold the prices open, and close them when the shop closes."""
    print("price list open")
    yield PRICES
    print("price list closed")


async def till(*, task_status: TaskStatus[float]) -> None:
    """Sell until the drawer jams; a new till begins with an empty drawer."""
    me = otpy.current()
    if me.last_exit is not None:
        print(f"till {me.incarnation}: the last one {me.last_exit}")
    await asyncio.sleep(0.1)  # boot
    drawer = 0.0
    task_status.started(drawer)
    while True:
        await asyncio.sleep(0.2)
        drawer += random.choice(list(PRICES.values()))
        if drawer > 10:
            raise RuntimeError(f"the drawer is jammed at {drawer:.2f}")


async def closing_time(seconds: float = 5.0) -> None:
    """Return when the shop closes; the shop ends with it."""
    await asyncio.sleep(seconds)


def tree() -> SupervisorSpec:
    """Return the whole shop."""
    return SupervisorSpec(
        "shop",
        [
            SupervisorSpec(
                "counter",
                [
                    ChildSpec("prices", price_list),
                    ChildSpec("till", till, backoff=Backoff.exponential(0.1, max=1.0)),
                ],
                strategy=Strategy.REST_FOR_ONE,
                intensity=10,
                period=60,
            ),
            DynamicSupervisor.spec("customers", max_children=20),
            ChildSpec("closing-time", closing_time, restart=Restart.TRANSIENT, significant=True),
        ],
        auto_shutdown=otpy.AutoShutdown.ANY_SIGNIFICANT,
    )


if __name__ == "__main__":
    otpy.run(tree())

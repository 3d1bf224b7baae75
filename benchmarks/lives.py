"""Whether anything of a very great many lives stays behind: of restarts, and of dynamic children.

The tree runs as it does by default, with its log, which goes to nowhere. What stays behind is what
the process holds after all lives, beyond what it held after a tenth of them.

    python -m benchmarks.lives --lives 1000000 --subject restarts --subject children
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import click
import structlog

import otpy
from benchmarks.meter import resident
from otpy import ChildSpec, DynamicSupervisor, Restart, SupervisorSpec

MOST = 2.0  # MB more after all lives than after a tenth of them


async def _restarts(lives: int, look: Callable[[], None]) -> None:
    """Let one child crash again and again, under a limit that is out of reach."""
    over = asyncio.Event()

    async def child() -> None:
        life = otpy.current().incarnation
        if life in {lives // 10, lives}:
            look()
        if life == lives:
            over.set()
            await asyncio.get_running_loop().create_future()
        if life % 100 == 0:
            await asyncio.sleep(0)
        raise ConnectionError(f"lost in life {life}")

    spec = SupervisorSpec("app", [ChildSpec("child", child)], intensity=10**9, period=3600)
    async with otpy.start(spec):
        await over.wait()


async def _children(lives: int, look: Callable[[], None]) -> None:
    """Start children that return, that crash and that are ended, and wait for each."""

    async def child(life: int) -> None:
        await asyncio.sleep(0)
        if life % 3 == 0:
            raise ConnectionError(f"lost in life {life}")
        if life % 3 == 1:
            await asyncio.get_running_loop().create_future()

    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        for life in range(1, lives + 1):
            spec = ChildSpec("child", child, (life,), restart=Restart.TEMPORARY)
            process = await pool.start_child(spec)
            assert process is not None  # noqa: S101 - a coroutine function cannot decline to start
            if life % 3 == 1:
                await pool.terminate_child(process)
            else:
                await process.wait()
            if life in {lives // 10, lives}:
                look()


SUBJECTS: dict[str, Callable[[int, Callable[[], None]], Awaitable[None]]] = {
    "restarts": _restarts,
    "children": _children,
}


def _held() -> float:
    gc.collect()
    return resident() / 1e6


async def _measure(subject: str, lives: int) -> float:
    """Return how many MB more the process holds in the end than after a tenth of the lives."""
    held: list[float] = []
    began = time.perf_counter()
    await SUBJECTS[subject](lives, lambda: held.append(_held()))
    seconds = time.perf_counter() - began
    print(f"{subject}, {lives:,} lives in {seconds:.0f} s, {seconds / lives * 1e6:.1f} us each")
    print(f"  resident     {held[0]:.2f} MB after a tenth, {held[1]:.2f} MB after all")
    return held[1] - held[0]


@click.command()
@click.option("--lives", default=1_000_000, show_default=True, help="Lives of each subject.")
@click.option(
    "--subject",
    "names",
    multiple=True,
    type=click.Choice(list(SUBJECTS)),
    help="Only this subject; may be given several times.",
)
def main(lives: int, names: tuple[str, ...]) -> None:
    """Measure whether anything stays in memory of very many lives: of restarts, and of children.

    Prints what the process holds after a tenth of the lives and after all. Without --subject it
    measures both. Ends with status 1 if memory has grown.
    """
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for name in names or SUBJECTS:
        more = asyncio.run(_measure(name, lives))
        if more > MOST:
            raise click.ClickException(f"{name}: {more:.1f} MB stay behind, at most {MOST:g} may")


if __name__ == "__main__":
    main()

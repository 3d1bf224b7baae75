"""The option `--loop`: which event loop a tree runs on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from otpy.cli.extras import MissingExtra

if TYPE_CHECKING:
    import argparse

    from otpy._runtime.run import LoopFactory


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--loop",
        choices=("auto", "asyncio", "uvloop"),
        default="auto",
        help="the event loop; auto, the default, is uvloop where it is installed",
    )


def loop_factory(name: str) -> LoopFactory | None:
    """Return what makes the loop called `name`; None stands for asyncio's own.

    Raises:
        MissingExtra: If it is to be uvloop, which is not installed.
    """
    if name == "asyncio":
        return None
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ModuleNotFoundError as error:
        if error.name != "uvloop":
            raise  # it is installed, and something that it imports is not
        if name == "auto":
            return None
        msg = "--loop uvloop needs uvloop, which is not installed: pip install 'otpy-tree[uvloop]'"
        raise MissingExtra(msg) from error
    factory: LoopFactory = uvloop.new_event_loop
    return factory

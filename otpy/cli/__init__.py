"""The command `otpy`: run a tree, shake it, or look at it.

It is written with `argparse`, because plain otpy has no dependency to spare for a command line.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import otpy
from otpy.cli import chaos, loops
from otpy.cli.extras import MissingExtra
from otpy.cli.target import BadTarget, load

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  otpy run shop.app:tree           run the tree `tree` of the module shop.app
  otpy run examples/shop.py:tree   the same, of a file
  otpy tree shop.app:tree          print it and start nothing
  otpy chaos shop.app:tree         run it, and break its workers at random
"""

_RUN = """\
Run a tree as a program. The first Ctrl-C (or SIGTERM, or SIGHUP) stops it in reverse order, the
second kills it, the third leaves at once. Exit status: 0 when it ended by itself in good order, 1
when its root gave up or could not start, 2 for a bad target, 129, 130 or 143 after a signal.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line `argv` (default: the program's own) and leave with its status."""
    arguments = _parser().parse_args(argv)
    try:
        spec = load(arguments.target)
        if arguments.command == "tree":
            print(spec.render())
            return
        loop_factory = loops.loop_factory(arguments.loop)
        if arguments.command == "chaos":
            go = chaos.prepared(spec, arguments, loop_factory)
        else:
            hooks = [chaos.log_all()] if arguments.verbose else None
            go = partial(otpy.run, spec, hooks=hooks, loop_factory=loop_factory)
    except (BadTarget, MissingExtra, otpy.InvalidSpec) as error:
        _fail(str(error))
    go()


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="otpy",
        description="Supervision trees for asyncio.",
        epilog=_EXAMPLES,
        formatter_class=plain,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a tree until it ends", description=_RUN)
    tree = commands.add_parser(
        "tree",
        help="print a tree without starting it",
        description="Print a tree without starting it: ids, restart types and strategies.",
    )
    run.add_argument("-v", "--verbose", action="store_true", help="log every start and stop too")
    shake = commands.add_parser(
        "chaos", help="run a tree and break its workers at random", description=chaos.DESCRIPTION
    )
    chaos.add_options(shake)
    for command in (run, shake):
        loops.add_option(command)
    for command, epilog in ((run, _EXAMPLES), (tree, _EXAMPLES), (shake, chaos.EPILOG)):
        command.formatter_class = plain
        command.epilog = epilog
        command.add_argument(
            "target",
            metavar="TARGET",
            help="MODULE:NAME or FILE.py:NAME; a spec, or a function that returns one",
        )
    return parser


def _fail(message: str) -> NoReturn:
    print(f"otpy: {message}", file=sys.stderr)
    raise SystemExit(2)

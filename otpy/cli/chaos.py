"""The command `otpy chaos`: run a tree and shake it.

The shaking itself is part of `otpy.testing`, which needs more than plain otpy, and so is imported
only when the command is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import otpy
from otpy._runtime.run import conclude, run_status
from otpy.cli.extras import MissingExtra

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from otpy import SupervisorSpec
    from otpy._runtime.run import LoopFactory
    from otpy.reports import Report, ReportHook
    from otpy.specs import DynamicSpec

# The last is of the root too: then the log sums up what it has not written.
_OTHERS: Final = {
    "hook.failed",
    "child.mailbox_grown",
    "child.message_unhandled",
    "supervisor.stopped",
}

DESCRIPTION = """\
Run a tree as a program and break its workers at random, to see what it survives.

For --seconds, about --rate times a second, one live worker is picked, children started at run time
included, and struck: see the kinds below. Then the tree has --settle seconds until everything runs
that should, and is stopped. Each strike and what came of it is a line on stderr, the report is on
stdout. Errors that no strike raised are logged with their tracebacks, as by `otpy run`.

Restart limits hold as ever: a supervisor that allows 3 restarts in 5 s gives up at a rate of 1. To
see single failures mended, choose a rate below the limits; to see what a storm does, one above.
"""

EPILOG = """\
kinds of strikes:
  crash                raise out of what the worker waits for
  cancel               cancel its task, as a stranger
  return               let it return before its time
  crash-start          crash it, and its next start too
  slow-start           crash it, and hold its next start back, for 1 s at most
  hang-start           crash it, and let its next start hang; if it has a `start_timeout`
  crash-cleanup        tell it to end, and let its clean-up raise
  hang                 tell it to end, and let its clean-up hang until its `shutdown` is over
  ignore-cancellation  tell it to end, and keep its cancellations from it: it is abandoned
  kill-process         SIGKILL to the processes it has started, if it has
A worker with `shutdown=INFINITY` is never told to end: it would be waited for without limit.

exit status: 0 when it survived and everything runs that should, 1 when not (also when there was
nobody to strike, or the tree ended by itself), 2 for a bad target or option, 129, 130 or 143
after a signal, which ends the shaking early; the report is printed all the same.

examples:
  otpy chaos examples/shop.py:tree --except shop/closing-time --seconds 4 --rate 2
  otpy chaos shop.app:tree --only 'shop/counter/**' --kinds crash,hang --rate 0.2 --seconds 300
  otpy chaos shop.app:tree --seed 1234 --json    the strikes of an earlier run, for a program
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, but for the target."""
    parser.add_argument("--rate", type=float, help="strikes in a second (default: 1)")
    parser.add_argument("--seconds", type=float, help="how long to strike (default: 30)")
    parser.add_argument("--settle", type=float, help="seconds to recover in after (default: 10)")
    parser.add_argument("--seed", type=int, help="draw the strikes of the run that printed it")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="strike these paths only; repeatable"
    )
    parser.add_argument(
        "--except",
        action="append",
        metavar="PATTERN",
        dest="without",
        help="leave these paths alone; repeatable. * is any text within an id, ** any ids",
    )
    parser.add_argument(
        "--kinds",
        type=lambda text: text.split(","),
        metavar="KIND,…",
        help="kinds of strikes (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as a line of JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every report too")


def prepared(
    spec: SupervisorSpec | DynamicSpec,
    arguments: argparse.Namespace,
    loop_factory: LoopFactory | None,
) -> Callable[[], None]:
    """Return a function that shakes the tree and leaves the program with its status.

    Raises:
        InvalidSpec: If an option can never work.
        MissingExtra: If `otpy.testing` cannot be imported.
    """
    try:
        from otpy.testing.chaos import Chaos, ChaosSettings  # noqa: PLC0415 - see above
        from otpy.testing.strikes import is_struck_error  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("otpy."):
            raise
        msg = f"chaos needs {error.name}, which is not installed: pip install 'otpy-tree[test]'"
        raise MissingExtra(msg) from error

    names = ("rate", "seconds", "settle", "seed", "only", "without", "kinds")
    given = {name: getattr(arguments, name) for name in names}
    settings = ChaosSettings(**{name: value for name, value in given.items() if value is not None})
    hook = log_all() if arguments.verbose else _log_others(is_struck_error)
    chaos = Chaos(spec, settings, hooks=[hook], say=_say)

    def go() -> None:
        how = f"for {settings.seconds:g} s at rate {settings.rate:g}, --seed {settings.seed}"
        print(f"otpy: shaking {spec.id} {how}", file=sys.stderr, flush=True)
        status, clean = run_status(chaos.tree, None, loop_factory)
        report = chaos.report()
        if report is not None:
            print(report.as_json() if arguments.json else report.render(), flush=True)
        conclude(status or int(report is None or not report.passed), clean=clean)

    return go


def _say(time: float, line: str) -> None:
    print(f"{time:6.1f} s  {line}", file=sys.stderr, flush=True)


def log_all() -> ReportHook:
    """Return a hook that writes every report to stderr, however the target logs."""
    return otpy.log_reports(otpy.console_logger(verbose=True), limit=None)


def _log_others(is_ours: Callable[[BaseException | None], bool]) -> ReportHook:
    """Return a hook that logs the errors that the lines about strikes do not tell."""
    log = otpy.log_reports()

    def hook(report: Report) -> None:
        reason: Any = getattr(report, "reason", None)
        strange = isinstance(reason, otpy.Crashed) and not is_ours(reason.error)
        if strange or report.event in _OTHERS:
            log(report)

    return hook

"""CPython's own tests of asyncio, on the mock clock's loop.

    python -m tests.testing.cpython_suite [MODULE...]

A module with a failure is run again on asyncio's loop. A failure on both loops says nothing about
otpy's; any other one counts, is shown, and ends the program with status 1.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from otpy.testing import VirtualLoop

_LONGEST = 600
"""Real seconds for one module."""


class _Loop(VirtualLoop):
    """A virtual loop where a test asks for one of asyncio's, with whichever selector."""

    def __init__(self, selector: object = None) -> None:
        super().__init__()
        if selector is not None:
            selector.close()  # type: ignore[attr-defined]


def _on_our_loop() -> None:
    unix: Any = asyncio.unix_events
    for name in ("SelectorEventLoop", "EventLoop"):
        for place in (asyncio, unix):
            if hasattr(place, name):
                setattr(place, name, _Loop)
    for name in ("_UnixDefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
        if hasattr(unix, name):
            getattr(unix, name)._loop_factory = _Loop


def _play(module: str) -> list[str]:
    """Run all tests of a module in this process, and return the names of those that fail."""
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.test_asyncio.{module}")
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(suite)
    print(f"{module}: {result.testsRun} tests", file=sys.stderr)
    failed = [test for test, _ in result.failures + result.errors]
    return sorted({getattr(test, "test_case", test).id() for test in failed})


def _failures(module: str, loop: str) -> set[str]:
    command = [sys.executable, "-m", __spec__.name, "--play", loop, module]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST)  # noqa: PLW1510
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode().splitlines()
        return {f"{module} takes more than {_LONGEST} s, at {said[-1:]}"}
    if ended.returncode:
        return {f"{module} ended with status {ended.returncode}: {ended.stderr[-2000:]}"}
    return set(json.loads(ended.stdout.splitlines()[-1]))


def _modules() -> list[str]:
    try:
        package: Any = importlib.import_module("test.test_asyncio")
    except ModuleNotFoundError:
        sys.exit("this Python comes without its tests")
    found = Path(package.__file__).parent.glob("test_*.py")
    return sorted(path.stem for path in found if "windows" not in path.stem)


def main(arguments: list[str]) -> int:
    """Run all modules, or some, and return the status of the process."""
    if arguments[:1] == ["--play"]:
        _, loop, module = arguments
        if loop == "ours":
            _on_our_loop()
        print(json.dumps(_play(module)))
        return 0
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell does for what is behind `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    only_ours: list[str] = []
    for module in arguments or _modules():
        failed = _failures(module, "ours")
        if failed:
            failed -= _failures(module, "asyncio")
        only_ours += failed
        print(f"{module}: {f'{len(failed)} fail only here' if failed else 'ok'}", flush=True)
    for test in only_ours:
        print(f"fails only on our loop: {test}")
    return 1 if only_ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Virtual time, and a check for leftovers, for every async test.

A test that is marked `real_time` has the wall clock, and is checked all the same.

With OTPY_TEST_LOOP=uvloop in the environment, tests run on uvloop and have the wall clock. They are
the tests marked `real_time`, and the async tests of trees and behaviours without virtual time; a
test of virtual time requests `clock`, if only by `usefixtures`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shlex
import signal
import warnings
from collections.abc import Generator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy.testing import MockClock
from tests import examples

examples.register()

pytest_plugins = ["otpy.testing.plugin", "pytester"]

SLOW = (
    "agents/cli/commands/*",
    "agents/docker/*",
    "agents/e2e/*",
    "agents/engine/server/*",
    "agents/engine/gates/test_docker_gates.py",
    "agents/engine/gates/test_real_gates.py",
    "agents/engine/test_circuit_processes.py",
    "agents/engine/test_contexts_of_work_trees.py",
    "agents/engine/test_engine_example.py",
    "agents/engine/test_engine_walls.py",
    "agents/hygiene/test_leftovers.py",
    "agents/hygiene/test_old_runs.py",
    "agents/log/test_histories.py",
    "agents/process/test_guardian.py",
    "agents/process/test_orphans.py",
    "agents/run/test_killed_hosts.py",
    "agents/run/test_long_histories.py",
    "agents/run/test_real_attempts.py",
    "agents/sandbox/*",
    "agents/soak/*",
    "agents/store/sessions/*",
    "agents/store/test_run_store_processes.py",
    "agents/test_entry.py",
    "agents/test_workshop.py",
    "agents/workspace/*",
    "benchmarks/*",
    "cli/test_chaos_command.py",
    "cli/test_otpy_command.py",
    "conformance/test_against_*",
    "conformance/test_page.py",
    "docs/test_names.py",
    "docs/test_served.py",
    "docs/test_use_threads.py",
    "runtime/test_deep_trees.py",
    "runtime/test_growth.py",
    "runtime/test_host_cancelled_everywhere.py",
    "runtime/test_leftovers_cost.py",
    "runtime/test_log_programs.py",
    "runtime/test_run.py",
    "runtime/test_users_stack.py",
    "servers/test_beside_servers.py",
    "servers/test_frameworks.py",
    "servers/test_real_servers.py",
    "testing/test_plugin_leaks.py",
    "testing/test_plugin_trees.py",
    "testing/test_simulated_test.py",
)
"""Files whose tests start whole programs, or try every step and ten thousand of a thing.

They take longer than all others together.
"""

TESTS = Path(__file__).parent

QUICK = "not slow"
"""The choice of marks in pyproject.toml, which counts unless another is given."""

ON_UVLOOP = os.environ.get("OTPY_TEST_LOOP") == "uvloop"


def pytest_configure() -> None:
    """Make asyncio give out the loops of uvloop, if the environment asks for that.

    Let SIGINT and SIGHUP end the programs that tests start, too, even if the tests run in the
    background of a script, where a shell has the first ignored, or under `nohup`, which has the
    second ignored. A program ignores a signal at its start only if it is ignored here: a handler
    that does nothing keeps us alive without that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    if ON_UVLOOP:
        import uvloop  # noqa: PLC0415 - nobody else needs it

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # since 3.14
            policy = uvloop.EventLoopPolicy()
            asyncio.set_event_loop_policy(policy)  # pyright: ignore[reportDeprecated] - see above
        asyncio.new_event_loop().close()  # the first opens a pipe for all, which no test leaves


def _runs_on_uvloop(function: pytest.Function) -> bool:
    if function.get_closest_marker("real_time"):
        return True
    test = getattr(getattr(function.obj, "hypothesis", None), "inner_test", function.obj)
    return (
        function.path.parent.name in {"runtime", "behaviours"}
        and inspect.iscoroutinefunction(test)
        and {"clock", "mock_clock"}.isdisjoint(function.fixturenames)
    )


def _is_slow(path: Path) -> bool:
    return any(fnmatchcase(str(path), f"{TESTS}/{pattern}") for pattern in SLOW)


def _paths(config: pytest.Config) -> list[Path]:
    """Return the folders and files that pytest is asked for, without the names of tests."""
    return [config.invocation_params.dir / text.partition("::")[0] for text in config.args]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare each worker the import of a slow file whose tests it would leave out.

    A file that is named is imported: pytest then says that its tests are left out.
    """
    quick = config.option.markexpr == QUICK and collection_path.is_file()
    return (quick and _is_slow(collection_path) and collection_path not in _paths(config)) or None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the command that runs what a quick run leaves out."""
    if config.option.markexpr != QUICK:
        return
    if any(path.is_dir() or _is_slow(path) for path in _paths(config)):
        asked = [] if config.args_source is config.ArgsSource.TESTPATHS else config.args
        command = shlex.join(["pytest", "-m", "slow", *asked])
        terminalreporter.write_line(f"The slow tests run by: {command}")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow, and leave out what does not run on uvloop, if that is asked for."""
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)
    if not ON_UVLOOP:
        return
    chosen = [f for f in items if isinstance(f, pytest.Function) and _runs_on_uvloop(f)]
    left_out = set(items).difference(chosen)
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = chosen


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before otpy's plugin looks at the marker
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """Translate `real_time` into the marker of otpy's plugin."""
    function = metafunc.definition
    if function.get_closest_marker("real_time") or (ON_UVLOOP and _runs_on_uvloop(function)):
        function.add_marker(pytest.mark.otpy(clock="real"))
    return (yield)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the objects that last as long as the run, such as modules.

    Tests of memory collect again and again, and each time would look at a million objects.
    """
    _draw_once()
    gc.collect()
    gc.freeze()


@settings(max_examples=1, database=None)
@given(st.none())
def _draw_once(_nothing: None) -> None:
    """Let Hypothesis make its generator of chance before the objects that keep it are frozen.

    It asks the collector which objects keep it; that finds none then, and Hypothesis would warn.
    """


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    """The clock of the running test; an error in a test that is marked `real_time`."""
    return mock_clock

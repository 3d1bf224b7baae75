"""Trees of ten thousand levels: no code that walks a tree recurses for each level."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Awaitable, Callable

import pytest

import otpy
from otpy import (
    ChildSpec,
    Shutdown,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._core.reason import FailedToStart
from otpy.testing import assert_tree, settled
from tests.runtime.children import Boom, crash, forever

LEVELS = 10_000
BEYOND = 2_000
"""More than Python's limit of calls, where a test has no need of more."""


def tree(levels: int, leaf: Callable[..., Awaitable[object]] = forever) -> SupervisorSpec:
    """Return supervisors one below the other, with a worker below the last."""
    below: ChildSpec | SupervisorSpec = ChildSpec("leaf", leaf)
    for _ in range(levels - 1):
        below = SupervisorSpec("s", [below], intensity=0)
    return SupervisorSpec("s", [below], intensity=0)


async def unready(*, task_status: object) -> None:
    """Crash instead of reporting ready."""
    raise Boom(task_status)


def test_a_spec_of_ten_thousand_levels_is_a_value_like_any_other() -> None:
    """It is compared, hashed, shown, drawn, copied and pickled."""
    spec, same, other = tree(LEVELS), tree(LEVELS), tree(LEVELS, crash)
    assert spec == same
    assert spec != other
    assert hash(spec) == hash(same) != hash(other)
    assert repr(spec).startswith("SupervisorSpec(id='s', children=('s',), strategy=")
    assert copy.copy(spec) == copy.deepcopy(spec) == spec
    for protocol in (0, pickle.HIGHEST_PROTOCOL):
        assert pickle.loads(pickle.dumps(spec, protocol)) == spec  # noqa: S301 - our own


def test_a_drawing_grows_with_the_tree_and_not_with_its_square() -> None:
    """Beyond a hundred levels, a number replaces the indentation."""
    lines = tree(LEVELS).render().splitlines()
    assert len(lines) == LEVELS + 1
    assert lines[100] == "   " * 99 + "└─ s  (one_for_one, 0 in 5 s)"
    assert lines[101] == "   " * 100 + "└─ [101] s  (one_for_one, 0 in 5 s)"
    assert lines[-1] == "   " * 100 + f"└─ [{LEVELS}] leaf  permanent"


async def test_a_tree_of_ten_thousand_levels_starts_and_stops() -> None:
    """Meanwhile it is inspected, searched and counted like any other."""
    async with otpy.start(tree(LEVELS), hooks=()) as root:
        seen = root.snapshot()
        assert seen == root.snapshot()
        assert hash(seen) == hash(root.snapshot())
        assert repr(seen).endswith("children=('s',))")
        assert seen.render().count("running") == LEVELS + 1
        leaf = root.whereis("/".join(["s"] * LEVELS + ["leaf"]))
        assert leaf.id == "leaf"
        assert (await root.count_children()).active == 1
    assert isinstance(leaf.exit_reason, Shutdown)


async def test_a_failure_climbs_all_levels() -> None:
    """The error has a text and can be pickled; the crash at the bottom is its cause."""
    for leaf in (crash, unready):
        with pytest.raises(SupervisorFailed) as caught:
            async with otpy.start(tree(BEYOND, leaf), hooks=()) as root:
                await root.wait()
        error = caught.value
        assert isinstance(error.__cause__, Boom)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        assert str(again) == str(error)
        assert error.path == "/".join(["s"] * BEYOND + ["leaf"])


async def test_the_test_kit_walks_a_deep_tree() -> None:
    """It waits until the tree has settled, and compares it with its drawing."""
    async with otpy.start(tree(BEYOND), hooks=()) as root:
        await settled(root)
        drawing = root.snapshot().render()
        assert_tree(root, drawing)
        with pytest.raises(AssertionError, match="not as drawn"):
            assert_tree(root, "s running")


def nested(levels: int, innermost: otpy.ExitReason) -> Shutdown:
    """Return the reason of a supervisor whose child did not start, nested so many levels deep."""
    reason = Shutdown(FailedToStart("leaf", innermost))
    for _ in range(levels):
        reason = Shutdown(FailedToStart("s", reason))
    return reason


def test_a_start_that_failed_many_levels_below_is_a_reason_like_any_other() -> None:
    """It is compared, hashed, shown, copied and pickled."""
    reason, same = nested(LEVELS, otpy.Killed()), nested(LEVELS, otpy.Killed())
    assert reason == same != nested(LEVELS, otpy.Normal())
    assert hash(reason) == hash(same)
    assert str(reason).endswith(
        ": shutdown: failed to start 's': shutdown: failed to start 'leaf': killed"
    )
    assert copy.deepcopy(reason) == pickle.loads(pickle.dumps(reason)) == reason  # noqa: S301


def test_a_reason_of_few_levels_shows_them() -> None:
    """The repr shows them in full."""
    reason = nested(1, otpy.Killed())
    inner = "Shutdown(detail=FailedToStart(child_id='leaf', reason=Killed()))"
    assert repr(reason) == f"Shutdown(detail=FailedToStart(child_id='s', reason={inner}))"
    assert str(reason) == "shutdown: failed to start 's': shutdown: failed to start 'leaf': killed"
    assert reason.detail != "s"

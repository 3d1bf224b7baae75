from __future__ import annotations

import asyncio
import gc
import textwrap
import weakref
from typing import Any

import pytest

import otpy
from otpy import Backoff, ChildSpec, Intensity, SupervisorSpec
from otpy.reports import (
    ChildAbandoned,
    ChildRestarting,
    ChildStarted,
    HookFailed,
    MailboxGrown,
    MessageUnhandled,
    Report,
    SupervisorStopped,
)
from otpy.specs import GIVE_UP
from otpy.testing import MockClock, Recording, assert_reports, settled
from tests.testing.life import fail_when, forever

STORY = """
    0 s app/db #1 started
    0 s app/in/api #1 started
    0 s app/in #1 started
    2.5 s app/db #1 exited: crashed: OSError: no contact
    2.5 s app/db #1 restarting in 5 s: crashed: OSError: no contact
    7.5 s app/db #2 started
    7.5 s app/in/api #1 stopped: shutdown
    7.5 s app/in stopped: shutdown
    7.5 s app/in #1 stopped: shutdown
    7.5 s app/db #2 stopped: shutdown
    7.5 s app stopped: normal
"""


@pytest.fixture
async def recorded(clock: MockClock) -> Recording:
    """The story of a tree one of whose children crashed."""
    told, recording = asyncio.Event(), Recording()
    db = ChildSpec("db", fail_when, (told,), backoff=Backoff.sequence(5))
    tree = SupervisorSpec("app", [db, SupervisorSpec("in", [ChildSpec("api", forever)])])
    async with otpy.start(tree, hooks=[recording]) as root:
        await clock.advance(2.5)
        told.set()
        await clock.advance(5)
        await settled(root)
    return recording


async def test_a_recording_reads_like_a_story(recorded: Recording) -> None:
    """Each line has the time, the path, the incarnation, the event and its reason."""
    assert recorded.render() == textwrap.dedent(STORY).strip()
    assert [report.path for report in recorded][:3] == ["app/db", "app/in/api", "app/in"]
    assert len(recorded) == 11
    assert_reports(recorded, STORY)
    assert_reports(recorded, recorded.render())


async def test_reports_can_be_picked_by_kind(recorded: Recording) -> None:
    """`of` returns all of a kind, `one` the only one, at all paths or some; else `one` fails."""
    assert [report.path for report in recorded.of(SupervisorStopped)] == ["app/in", "app"]
    assert [report.path for report in recorded.of(ChildStarted, "app/in/**")] == [
        "app/in/api",
        "app/in",
    ]
    assert recorded.of(ChildAbandoned) == ()
    assert recorded.one(ChildRestarting).delay == 5
    assert recorded.one(SupervisorStopped, "app/in").time == 7.5
    with pytest.raises(AssertionError) as none:
        recorded.one(ChildAbandoned, "app/in")
    assert str(none.value) == (
        "0 reports about 'app/in' are ChildAbandoned, not one:\n" + recorded.render("app/in")
    )
    with pytest.raises(AssertionError, match=r"^2 reports about '\*\*' are SupervisorStopped"):
        recorded.one(SupervisorStopped)


async def test_reports_can_be_picked_by_path(recorded: Recording) -> None:
    """A path, or a pattern that covers several."""
    assert_reports(
        recorded.about("app/db"),
        """
        app/db started
        app/db #1 exited: crashed
        2.5 s app/db restarting: crashed: OSError
        app/db #2 started
        app/db #2 stopped: shutdown
        """,
    )
    assert_reports(
        recorded.about("app/in/**"),
        """app/in/api started
           app/in started

           app/in/api stopped
           app/in stopped
           app/in #1 stopped""",
    )
    assert_reports(recorded.about("app"), "app stopped")
    assert {report.path for report in recorded.about("app/*")} == {"app/db", "app/in"}
    assert recorded.about("**") == tuple(recorded)
    assert recorded.render("app") == "7.5 s app stopped: normal"


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("2.5 s app/db #1 exited", "2 s app/db #1 exited"),
        ("db #2 started", "db #3 started"),
        ("in 5 s", "in 4 s"),
        ("exited: crashed: OSError: no contact", "exited: crashed: ValueError"),
        ("app/db #1 exited", "app/db #1 stopped"),
        ("app/in stopped: shutdown\n    7.5 s app/in #1", "app/in #1"),
        ("app/db #2 stopped", "app/db #2 stopped\n    app/db #2 stopped"),
    ],
)
async def test_whatever_a_line_says_is_compared(recorded: Recording, here: str, there: str) -> None:
    """Any piece that differs fails."""
    assert here in STORY
    with pytest.raises(AssertionError, match=r"- expected, \+ really"):
        assert_reports(recorded, STORY.replace(here, there))


async def test_the_message_marks_what_differs(recorded: Recording) -> None:
    """The message has the expected line, the real line, and a few lines around them."""
    with pytest.raises(AssertionError) as caught:
        assert_reports(recorded, STORY.replace("    7.5 s app/db #2 started", "    app/db gave up"))
    assert str(caught.value) == textwrap.dedent("""\
        the reports are not as expected (- expected, + really):
            …
            0 s app/in #1 started
            2.5 s app/db #1 exited: crashed: OSError: no contact
            2.5 s app/db #1 restarting in 5 s: crashed: OSError: no contact
          - app/db gave up
          + 7.5 s app/db #2 started
            7.5 s app/in/api #1 stopped: shutdown
            7.5 s app/in stopped: shutdown
            7.5 s app/in #1 stopped: shutdown
            …""")


async def test_every_kind_of_report_has_a_line() -> None:
    """Reports with more than a reason have one line too, even for values with line breaks."""
    recording = Recording()
    life: dict[str, Any] = {"path": "app/db", "time": 86_400.0, "incarnation": 2}
    reports: list[Report] = [
        ChildAbandoned(**life, what="task", stack=("a.py:1 in f",)),
        MailboxGrown(**life, waiting=1000, dropped=3),
        MessageUnhandled(**life, message="{'two':\n 'lines'}"),
        HookFailed(path="app/db", time=0.0004, hook="<hook>", error=ValueError("so what")),
    ]
    for report in reports:
        recording(report)
    assert recording.render() == textwrap.dedent("""\
        86400 s app/db #2 abandoned: task
        86400 s app/db #2 mailbox grown: waiting=1000 dropped=3
        86400 s app/db #2 message unhandled: {'two': 'lines'}
        0 s app/db hook failed: ValueError: so what""")
    assert_reports(recording, recording.render())


async def test_a_limit_that_was_reached_has_a_line(clock: MockClock) -> None:
    """The child that gave up has a line, and so does the supervisor that did."""
    recording, told = Recording(), asyncio.Event()
    own = Intensity(max_restarts=0, within=5, then=GIVE_UP)
    children = [
        ChildSpec("cache", fail_when, (told,), intensity=own),
        ChildSpec("db", asyncio.sleep, (1,)),
    ]
    with pytest.raises(otpy.SupervisorFailed):
        async with otpy.start(SupervisorSpec("app", children, intensity=0), hooks=[recording]) as r:
            told.set()
            await r.wait()
    assert_reports(
        recording,
        """
        app/cache started
        app/db started
        0 s app/cache exited: crashed: OSError
        0 s app/cache gave up: crashed: OSError
        1 s app/db exited: normal
        1 s app gave up: app/db: normal
        1 s app stopped: shutdown
        """,
    )


def test_a_recording_keeps_no_loop_alive() -> None:
    """Neither the recording nor the recorded loop outlives the test."""

    async def scenario() -> weakref.ref[asyncio.AbstractEventLoop]:
        async with otpy.start(SupervisorSpec("app"), hooks=[Recording()]):
            pass
        return weakref.ref(asyncio.get_running_loop())

    loop = MockClock().run(scenario())
    gc.collect()
    assert loop() is None

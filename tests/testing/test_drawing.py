from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Callable

import pytest
from anyio.abc import TaskStatus
from hypothesis import given, settings
from hypothesis import strategies as st

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Ignore, Strategy, SupervisorSpec
from otpy.testing import MockClock, assert_tree, settled
from tests.examples import examples
from tests.testing.life import fail_when, forever, slow

CRASHED = """
    app running
    ├─ db backing off for 5.0 s last exit: crashed: OSError: no contact
    ├─ cache running restarts=1 last exit: killed
    └─ workers running
       ├─ first running
       └─ second running
"""


async def crashed() -> otpy.snapshot.TreeSnapshot:
    """Return what a tree looks like after two of its children ended."""
    told = asyncio.Event()
    children: list[ChildSpec | SupervisorSpec] = [
        ChildSpec("db", fail_when, (told,), backoff=Backoff.sequence(5)),
        ChildSpec("cache", forever),
        SupervisorSpec("workers", [ChildSpec(name, forever) for name in ("first", "second")]),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=()) as root:
        told.set()
        root.child("cache").kill()
        await settled(root)
        return root.snapshot()


@pytest.mark.parametrize(
    "drawing",
    [
        CRASHED,
        textwrap.dedent(CRASHED).strip(),
        CRASHED.replace("\n", "  \n"),
        CRASHED.replace("\n", "\n\n\n").replace("├─", "\t├─"),
        """app
           ├─ db
           ├─ cache restarts=1
           └─ workers
              ├─ first restarts=0
              └─ second running""",
        """
        app
        |- db backing off last exit: crashed: OSError
        |- cache last exit
        `- workers
           |- first
           \\- second
        """,
        """
        app
        ├── db for 5.0 s last exit: crashed
        ├── cache running last exit: killed
        └── workers
            ├── first
            +── second
        """,
        "app\n db\n cache\n workers\n  first\n  second",
    ],
)
async def test_a_drawing_may_be_as_full_or_as_plain_as_one_likes(drawing: str) -> None:
    """Indentation, the style of the branches and omitted details don't matter."""
    assert_tree(await crashed(), drawing)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("backing off for", "running for"),
        ("for 5.0 s", "for 4.0 s"),
        ("restarts=1", "restarts=0"),
        ("restarts=1", "restarts=2"),
        ("no contact", "contact"),
        ("OSError: no contact", "OSErr"),
        ("killed", "normal"),
        ("cache", "cash"),
        ("       └─ second running\n", ""),
        ("       ├─ first running\n", ""),
        ("└─ second running", "└─ second running\n       └─ third"),
        ("       ├─ first", "    ├─ first"),
        ("app running", "app stopping"),
    ],
)
async def test_whatever_a_drawing_says_is_compared(here: str, there: str) -> None:
    """Each piece that differs fails, and the message marks the wrong line."""
    snapshot = await crashed()
    assert here in CRASHED
    with pytest.raises(AssertionError) as caught:
        assert_tree(snapshot, CRASHED.replace(here, there))
    marked = [line for line in str(caught.value).splitlines()[1:] if line[2] in "-+"]
    assert 1 <= len(marked) <= 4


async def test_the_message_shows_both_drawings() -> None:
    """The expected and the real drawing stand in one text, with the lines that agree."""
    with pytest.raises(AssertionError) as caught:
        assert_tree(await crashed(), CRASHED.replace("db backing off", "db running"))
    assert str(caught.value) == textwrap.dedent("""\
        app is not as drawn (- drawn, + really):
            app running
          - ├─ db running for 5.0 s last exit: crashed: OSError: no contact
          + ├─ db backing off for 5.0 s last exit: crashed: OSError: no contact
            ├─ cache running restarts=1 last exit: killed
            └─ workers running
               ├─ first running
            …""")


async def test_a_subtree_and_an_ended_tree_can_be_compared() -> None:
    """Any supervisor can be compared, a dynamic one too."""
    tree = SupervisorSpec("app", [DynamicSupervisor.spec("pool")])
    async with otpy.start(tree, hooks=()) as root:
        pool = root.child("pool").supervisor
        assert isinstance(pool, DynamicSupervisor)
        for _ in range(2):
            await pool.start_child(ChildSpec("w", forever))
        assert_tree(pool, "pool running\n├─ w\n└─ w#2")
    assert_tree(root, "app ended\n└─ pool undefined")


async def ignored(*, task_status: TaskStatus[None]) -> None:
    raise Ignore


async def failing() -> None:
    await asyncio.sleep(0.7)
    raise otpy.Exit(otpy.Shutdown("with: details"))


PLAIN = st.sampled_from(["a", "b-", "app", "two words", "running", "restarts=1", "#2", "-x"])
STRANGE = st.text("ab-|─└ #:=", min_size=1, max_size=4)


@st.composite
def trees(draw: st.DrawFn, ids: st.SearchStrategy[str], depth: int = 2) -> SupervisorSpec:
    """Return a tree of children that run, back off, start slowly, end or decline to run."""
    leaves = st.builds(
        ChildSpec,
        ids,
        st.sampled_from([forever, ignored, failing]),
        backoff=st.none() | st.builds(Backoff.sequence, st.floats(0.5, 9)),
        restart=st.sampled_from(otpy.Restart),
    )
    below = leaves | trees(ids, depth - 1) if depth else leaves
    return SupervisorSpec(
        draw(ids),
        draw(st.lists(below, max_size=4, unique_by=lambda spec: spec.id)),
        strategy=draw(st.sampled_from(Strategy)),
        intensity=100,
    )


def drawn_and_compared(
    tree: SupervisorSpec, check: Callable[[otpy.snapshot.TreeSnapshot], None]
) -> None:
    clock = MockClock()

    async def scenario() -> None:
        async with otpy.start(tree, hooks=()) as root:
            for seconds in (0, 0.5, 0.7, 1.3):
                await clock.advance(seconds)
                check(root.snapshot())

    clock.run(scenario())


@settings(max_examples=examples(25))
@given(trees(STRANGE))
def test_what_was_rendered_is_what_stands_there(tree: SupervisorSpec) -> None:
    """Every snapshot agrees with its own drawing, for any ids."""
    drawn_and_compared(tree, lambda snapshot: assert_tree(snapshot, snapshot.render()))


@settings(max_examples=examples(25))
@given(trees(PLAIN))
def test_a_drawing_may_be_moved_and_redrawn(tree: SupervisorSpec) -> None:
    """Indented, in ASCII, without details: it is still the drawing of the same tree."""

    def check(snapshot: otpy.snapshot.TreeSnapshot) -> None:
        drawing = textwrap.indent(snapshot.render(), "    ")
        assert_tree(snapshot, drawing.replace("├─", "|-").replace("└─", "`-").replace("│", "|"))
        assert_tree(snapshot, re.sub(r"(?<=\S)  \w.*", "", drawing))

    drawn_and_compared(tree, check)


@given(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("abc"), max_size=4))
def test_only_the_tree_itself_agrees(drawn: list[str], there: list[str]) -> None:
    """Missing children, extra children and another order are always noticed."""

    def node(*ids: str) -> otpy.snapshot.TreeSnapshot:
        below = [
            otpy.snapshot.TreeSnapshot(
                id=name, path=name, type=otpy.ChildType.WORKER, state="running"
            )
            for name in ids
        ]
        return otpy.snapshot.TreeSnapshot(
            id="app",
            path="app",
            type=otpy.ChildType.SUPERVISOR,
            state="running",
            children=(*below,),
        )

    drawing = node(*drawn).render()
    if drawn == there:
        assert_tree(node(*there), drawing)
    else:
        with pytest.raises(AssertionError):
            assert_tree(node(*there), drawing)


async def test_a_slow_start_is_drawn_as_such(clock: MockClock) -> None:
    """A tree can be compared during an operation too."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("a", slow, (2,))]), hooks=()) as root:
        root.child("a").kill()
        await clock.advance(1.5)
        assert_tree(root, "app running\n└─ a starting restarts=1 last exit: killed")

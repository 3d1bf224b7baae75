"""Specs: anything that can never work is refused where it is written, in OTP's order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from attrs import frozen
from attrs.exceptions import FrozenInstanceError

from otpy import InvalidSpec, OtpyError
from otpy._core.backoff import Backoff
from otpy._core.reason import Restart
from otpy._core.spec import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    ChildType,
    DynamicSpec,
    Intensity,
    Strategy,
    SupervisorSpec,
    Then,
    check_child,
)
from tests.core.world import swift, work

PERMANENT, TRANSIENT = Restart.PERMANENT, Restart.TRANSIENT
SPECS: list[Callable[..., Any]] = [SupervisorSpec, DynamicSpec]


def worker(id: Any = "x", start: Any = work, **fields: Any) -> ChildSpec:
    """Return a child, with fields of any type."""
    return ChildSpec(id, start, **fields)


def refused(make: Callable[[], object], message: str) -> None:
    """Check that `make` is refused, and that the message begins exactly so."""
    with pytest.raises(InvalidSpec) as caught:
        make()
    assert str(caught.value).startswith(message), caught.value
    assert ", wanted " in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, OtpyError)


def made() -> list[ChildSpec]:
    """Return children."""
    return [worker("made")]


async def streamed() -> AsyncIterator[ChildSpec]:
    """Return children too late."""
    yield worker()


class TestDefaults:
    def test_a_child(self) -> None:
        """These are OTP's: permanent, five seconds, not significant (SUP-205, SUP-206, SUP-209)."""
        x = worker()
        assert (x.restart, x.shutdown, x.significant) == (PERMANENT, 5.0, False)
        assert (x.start_timeout, x.backoff, x.intensity, x.max_step) == (None, None, None, None)
        assert (x.args, dict(x.kwargs), x.type) == ((), {}, ChildType.WORKER)

    def test_a_supervisor(self) -> None:
        """These are Elixir's (SUP-102): three in five seconds; a child has no limit (ESU-02)."""
        top = SupervisorSpec("top")
        assert (top.strategy, top.intensity, top.period) == (Strategy.ONE_FOR_ONE, 3, 5.0)
        assert (top.auto_shutdown, top.shutdown) == (AutoShutdown.NEVER, INFINITY)
        assert (top.restart, top.significant, top.type) == (PERMANENT, False, ChildType.SUPERVISOR)

    def test_a_dynamic_supervisor(self) -> None:
        """These are Elixir's: no limit of children, three restarts in five seconds (DYN-01)."""
        pool = DynamicSpec("pool")
        assert (pool.max_children, pool.intensity, pool.period) == (INFINITY, 3, 5.0)
        assert (pool.shutdown, pool.type) == (INFINITY, ChildType.SUPERVISOR)
        assert pool.auto_shutdown is AutoShutdown.NEVER
        words: Any = "all_significant"
        assert DynamicSpec("p", auto_shutdown=words).auto_shutdown is AutoShutdown.ALL_SIGNIFICANT
        junk: Any = "sometimes"
        message = "DynamicSupervisor 'p': auto_shutdown is 'sometimes', wanted one of 'never'"
        refused(lambda: DynamicSpec("p", auto_shutdown=junk), message)


class TestChild:
    @pytest.mark.parametrize("id", [None, 1, "", "a/b", b"x", []])
    def test_an_id_is_text_without_a_slash(self, id: Any) -> None:
        """An id becomes part of a path, which OTP does not have (SUP-203)."""
        refused(lambda: worker(id), f"ChildSpec: id is {id!r}, ")

    @pytest.mark.parametrize(
        "id", ["a\nchild.exited b", "\x1b[31mred", "\x7f", "\x9b1m", "a\u2028b"]
    )
    @pytest.mark.parametrize("make", [worker, *SPECS])
    def test_an_id_has_no_control_characters(self, make: Callable[..., Any], id: str) -> None:
        """Paths stand in logs and on terminals, where no id may forge a line or a colour."""
        with pytest.raises(InvalidSpec, match=r": id is .*, wanted text without control") as caught:
            make(id)
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("id", ["a\u202eb", "\u2067x", "\u200f", "\ud800", "a\x00"])
    def test_an_id_reads_in_one_direction_and_can_be_written(self, id: str) -> None:
        """A character that changes the direction of writing would disguise the id."""
        refused(lambda: worker(id), "ChildSpec: id is '")

    @pytest.mark.parametrize(
        "id", ["a b", "größe", "数据库", "قاعدة", "a\xa0b", "👩\u200d👧", "#2", ".."]
    )
    def test_an_id_may_be_in_any_writing(self, id: str) -> None:
        """An id may use letters of all languages, and signs made of several characters."""
        assert worker(id).id == id

    @pytest.mark.parametrize("start", [None, "work", 5])
    def test_start_can_be_called(self, start: Any) -> None:
        """The spec does not try whether it works (SUP-204)."""
        refused(lambda: worker(start=start), f"ChildSpec 'x': start is {start!r}, ")

    def test_start_is_not_its_result(self) -> None:
        """The user passed the result of a call instead of the function."""
        coroutine = swift()
        refused(lambda: worker(start=coroutine), "ChildSpec 'x': start is <coroutine object ")
        coroutine.close()

    @pytest.mark.parametrize("restart", [None, "always", "PERMANENT", True])
    @pytest.mark.parametrize("make", [worker, *SPECS])
    def test_restart_is_one_of_three(self, make: Callable[..., Any], restart: Any) -> None:
        """The message lists them (SUP-205)."""
        wanted = "one of 'permanent', 'transient', 'temporary', or a member of Restart"
        with pytest.raises(InvalidSpec) as caught:
            make("x", restart=restart)
        assert str(caught.value).endswith(f" 'x': restart is {restart!r}, wanted {wanted}")

    @pytest.mark.parametrize("make", [worker, *SPECS])
    @pytest.mark.parametrize("restart", Restart)
    def test_a_word_stands_for_each_restart(
        self, make: Callable[..., Any], restart: Restart
    ) -> None:
        """`restart="transient"` becomes `Restart.TRANSIENT`."""
        spec = make("x", restart=restart.value)
        assert spec.restart is restart
        assert spec == make("x", restart=restart)

    @pytest.mark.parametrize("significant", [None, 1, "yes"])
    def test_significant_is_true_or_false(self, significant: Any) -> None:
        """No other value is accepted (SUP-206)."""
        message = f"ChildSpec 'x': significant is {significant!r}, wanted True or False"
        refused(lambda: worker(significant=significant), message)

    @pytest.mark.parametrize("fields", [{}, {"restart": PERMANENT}])
    def test_a_permanent_child_cannot_be_significant(self, fields: Any) -> None:
        """This holds for the default too, and under any supervisor (SUP-207, SUP-215)."""
        message = "ChildSpec 'x': significant is True, wanted False while restart is PERMANENT"
        refused(lambda: worker(significant=True, **fields), message)

    @pytest.mark.parametrize(
        "shutdown", [-1, -0.1, inf, nan, None, "5", True, Then.GIVE_UP, 10**400]
    )
    def test_shutdown_is_seconds_or_one_of_two_words(self, shutdown: Any) -> None:
        """It is never negative, and an endless limit has a name (SUP-209)."""
        message = f"ChildSpec 'x': shutdown is {shutdown!r}, wanted seconds of at least 0"
        refused(lambda: worker(shutdown=shutdown), message)

    @pytest.mark.parametrize("shutdown", [0, 0.0, 1, 2.5, BRUTAL_KILL, INFINITY])
    def test_any_other_shutdown_is_fine(self, shutdown: Any) -> None:
        """This holds for workers and supervisors alike (SUP-209)."""
        assert worker(shutdown=shutdown).shutdown == shutdown
        assert SupervisorSpec("s", shutdown=shutdown).shutdown == shutdown
        assert DynamicSpec("d", shutdown=shutdown).shutdown == shutdown

    @pytest.mark.parametrize("seconds", [0, -1, nan, "5"])
    def test_a_start_timeout_is_seconds(self, seconds: Any) -> None:
        """It is above 0."""
        message = f"ChildSpec 'x': start_timeout is {seconds!r}, wanted seconds above 0"
        refused(lambda: worker(start_timeout=seconds), message)

    @pytest.mark.parametrize("seconds", [0, -1, nan, inf, "5", True])
    def test_a_longest_step_is_seconds(self, seconds: Any) -> None:
        """It is above 0 and finite; None means no limit."""
        message = f"ChildSpec 'x': max_step is {seconds!r}, wanted finite seconds above 0"
        refused(lambda: worker(max_step=seconds), message)

    def test_who_may_be_interrupted_says_itself_that_it_is_ready(self) -> None:
        """It does not start where it cannot be interrupted, so its start can fail."""

        async def child() -> None: ...

        assert ChildSpec("x", child).ready_at_once
        assert not ChildSpec("x", child, max_step=1).ready_at_once

    @pytest.mark.parametrize(("name", "value"), [("args", 5), ("kwargs", 5), ("kwargs", ["a"])])
    def test_arguments_are_what_a_call_takes(self, name: str, value: Any) -> None:
        """They are a sequence and a mapping (SUP-204); a wrong value, maybe a secret, is hidden."""
        message = f"ChildSpec 'x': {name} is of type {type(value).__name__}, wanted a "
        refused(lambda: worker(**{name: value}), message)

    @pytest.mark.parametrize("make", [worker, SupervisorSpec, DynamicSpec])
    def test_a_backoff_is_a_backoff(self, make: Callable[..., object]) -> None:
        """This holds for every kind of child."""
        with pytest.raises(InvalidSpec, match=r" 'x': backoff is 5, wanted Backoff, or None$"):
            make("x", backoff=5)

    def test_an_own_window_is_an_intensity(self) -> None:
        """A number alone does not say within which time."""
        message = "ChildSpec 'x': intensity is 3, wanted Intensity, or None"
        refused(lambda: worker(intensity=3), message)

    def test_the_first_failure_wins(self) -> None:
        """The order is OTP's: id, start, restart, significant, shutdown (SUP-212)."""
        bad: dict[str, Any] = {"id": "", "start": None, "restart": 0}
        bad |= {"significant": 0, "shutdown": -1, "start_timeout": 0}
        good: dict[str, Any] = {"id": "x", "start": work, "restart": TRANSIENT}
        good |= {"significant": True, "shutdown": 1, "start_timeout": None}
        for name in list(bad):
            with pytest.raises(InvalidSpec, match=f": {name} is "):
                worker(**bad)
            bad[name] = good[name]
        worker(**bad)

    def test_combinations_come_before_shutdown(self) -> None:
        """The conflict of significant and permanent is found first (SUP-212)."""
        refused(lambda: worker(significant=True, shutdown=-1), "ChildSpec 'x': significant is")

    @pytest.mark.parametrize("fields", [{}, {"id": "x"}, {"start": work}])
    def test_an_id_and_a_start_are_wanted(self, fields: dict[str, Any]) -> None:
        """SUP-202: the message names the missing one."""
        missing = [name for name in ("id", "start") if name not in fields]
        with pytest.raises(TypeError, match=" and ".join(f"'{name}'" for name in missing)):
            ChildSpec(**fields)

    @pytest.mark.parametrize("make", [worker, *SPECS])
    def test_unknown_arguments_are_an_error(self, make: Callable[..., Any]) -> None:
        """SUP-103, SUP-211 differ: OTP ignores them, Python names them."""
        with pytest.raises(TypeError, match="'colour'"):
            make("x", colour="red")

    def test_it_shows_no_arguments(self) -> None:
        """Arguments may be secrets: the repr shows only their number and the function."""

        async def log_in(*_: str, **__: object) -> None: ...

        x = worker(start=log_in, args=["hunter2"], kwargs={"password": "hunter2", "port": 1})
        name = f"{log_in.__module__}.{log_in.__qualname__}"
        shown = f"ChildSpec(id='x', start=<{name}>, args=<1 not shown>, "
        assert repr(x).startswith(f"{shown}kwargs=<2 not shown>, restart=")
        assert "args=(), kwargs={}, " in repr(worker())
        assert "hunter2" not in repr(SupervisorSpec("top", [x]))

    def test_it_shows_nothing_of_what_start_is_bound_to(self) -> None:
        """A partial has arguments too, and a method shows the repr of its object."""

        @frozen
        class Client:
            password: str

            async def run(self) -> None: ...

            async def __call__(self) -> None: ...

        client = Client("hunter2")
        shown = [
            repr(worker(start=start))
            for start in (client.run, client, partial(print, "hunter2"), partial(client))
        ]
        assert "hunter2" not in "".join(shown)
        assert "start=<partial of " in shown[3]
        assert f".{Client.__qualname__} object>" in shown[1]

    def test_it_cannot_be_changed(self) -> None:
        """A spec can only be copied, and the copy is checked; its arguments are copied too."""

        async def add(_: int, __: int, *, a: int) -> None: ...

        kwargs = {"a": 1}
        x = worker(start=add, args=[1, 2], kwargs=kwargs)
        kwargs["a"] = 2
        assert (x.args, dict(x.kwargs)) == ((1, 2), {"a": 1})
        with pytest.raises(FrozenInstanceError):
            x.id = "y"  # type: ignore[misc]
        with pytest.raises(TypeError):
            x.kwargs["a"] = 3  # type: ignore[index]
        assert x.replace(shutdown=1).shutdown == 1
        refused(lambda: x.replace(shutdown=-1), "ChildSpec 'x': shutdown is -1")
        assert hash(x) == hash(x.replace())


class TestFlags:
    @pytest.mark.parametrize("intensity", [-1, 1.0, inf, None, "3", True])
    @pytest.mark.parametrize("make", SPECS)
    def test_intensity_is_a_whole_number(self, make: Callable[..., Any], intensity: Any) -> None:
        """It is at least 0 (SUP-105)."""
        who = make("x").__class__.__name__.replace("DynamicSpec", "DynamicSupervisor")
        message = f"{who} 'x': intensity is {intensity!r}, wanted a whole number of at least 0"
        refused(lambda: make("x", intensity=intensity), message)

    @pytest.mark.parametrize("limit", [0, 1, 10**30, INFINITY])
    @pytest.mark.parametrize("make", SPECS)
    def test_any_number_of_restarts_has_a_name(self, make: Callable[..., Any], limit: Any) -> None:
        """`INFINITY` means no limit, for a supervisor and for one child."""
        assert make("x", intensity=limit).intensity is limit
        assert Intensity(limit, 5).max_restarts is limit

    @pytest.mark.parametrize("make", SPECS)
    def test_no_limit_is_drawn_as_such(self, make: Callable[..., Any]) -> None:
        """The period then means nothing."""
        assert make("x", intensity=INFINITY).render().endswith(", any number of restarts)")

    @pytest.mark.parametrize("period", [0, -1, 0.5, 1.5, inf, nan, None, "5", True, 10**400])
    @pytest.mark.parametrize("make", SPECS)
    def test_period_is_whole_seconds(self, make: Callable[..., Any], period: Any) -> None:
        """It is at least one second, and never endless (SUP-106)."""
        with pytest.raises(InvalidSpec, match=r" 'x': period is .*, wanted whole seconds of at"):
            make("x", period=period)

    @pytest.mark.parametrize("period", [1, 1.0, 5.0, 3600])
    @pytest.mark.parametrize("make", SPECS)
    def test_whole_seconds_may_be_written_as_floats(
        self, make: Callable[..., Any], period: float
    ) -> None:
        """Durations are floats everywhere in otpy."""
        assert make("x", period=period, intensity=0).period == period

    @pytest.mark.parametrize(
        ("name", "enum"), [("strategy", Strategy), ("auto_shutdown", AutoShutdown)]
    )
    @pytest.mark.parametrize("got", [None, "ONE_FOR_ONE", "simple_one_for_one", 1])
    def test_choices_are_members_of_their_enum(self, name: str, enum: Any, got: Any) -> None:
        """Their words are accepted too, and the message lists them (SUP-104, SUP-107)."""
        choices = ", ".join(repr(member.value) for member in enum)
        message = f"SupervisorSpec 'top': {name} is {got!r}, wanted one of {choices}, or "
        refused(lambda: SupervisorSpec("top", **{name: got}), message)

    @pytest.mark.parametrize(
        ("name", "chosen"), [*(("strategy", s) for s in Strategy), ("auto_shutdown", "never")]
    )
    def test_a_word_stands_for_a_choice(self, name: str, chosen: Any) -> None:
        """`strategy="one_for_all"` becomes `Strategy.ONE_FOR_ALL`."""
        word = getattr(chosen, "value", chosen)
        found = getattr(SupervisorSpec("top", **{name: word}), name)
        assert found is type(found)(word)

    def test_the_first_failure_wins(self) -> None:
        """In order: strategy, intensity, period, auto_shutdown, children (SUP-111, SUP-112)."""
        bad: dict[str, Any] = {"strategy": 0, "intensity": -1, "period": 0, "auto_shutdown": 0}
        bad |= {"restart": 0, "children": [None]}
        good: dict[str, Any] = {"strategy": Strategy.ONE_FOR_ALL, "intensity": 1, "period": 1}
        good |= {"auto_shutdown": AutoShutdown.NEVER, "restart": PERMANENT, "children": []}
        for name in list(bad):
            with pytest.raises(InvalidSpec, match=f": {name.replace('ren', '')} is "):
                SupervisorSpec("top", **bad)
            bad[name] = good[name]
        SupervisorSpec("top", **bad)

    @pytest.mark.parametrize("make", SPECS)
    def test_its_role_as_a_child_is_checked_too(self, make: Callable[..., Any]) -> None:
        """Id, restart, significance and shutdown follow the rules of any child."""
        for fields in (
            {"restart": "always"},
            {"significant": 1},
            {"significant": True},
            {"shutdown": -1},
        ):
            with pytest.raises(InvalidSpec, match=" 'x': "):
                make("x", **fields)
        with pytest.raises(InvalidSpec, match=": id is "):
            make("a/b")

    @pytest.mark.parametrize("most", [-1, 1.0, None, True, "5", BRUTAL_KILL])
    def test_max_children_is_a_whole_number(self, most: Any) -> None:
        """`INFINITY` is accepted too, and so is 0 (DYN-02)."""
        message = f"DynamicSupervisor 'x': max_children is {most!r}, wanted a whole number"
        refused(lambda: DynamicSpec("x", max_children=most), message)
        assert DynamicSpec("x", max_children=0).max_children == 0

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"max_restarts": -1}, "Intensity: max_restarts is -1, wanted a whole"),
            ({"max_restarts": 1.5}, "Intensity: max_restarts is 1.5, wanted a whole"),
            ({"within": 0}, "Intensity: within is 0, wanted whole seconds"),
            ({"within": 1.5}, "Intensity: within is 1.5, wanted whole seconds"),
            ({"then": "give up"}, "Intensity: then is 'give up', wanted Then."),
        ],
    )
    def test_an_own_window_follows_the_same_rules(self, fields: Any, message: str) -> None:
        """They are the rules of the supervisor's window (SUP-105, SUP-106)."""
        good: dict[str, Any] = {"max_restarts": 1, "within": 1}
        refused(lambda: Intensity(**good | fields), message)


class TestChildren:
    @pytest.mark.parametrize("junk", [None, "x", work, 5])
    def test_a_child_is_a_spec(self, junk: Any) -> None:
        """The message names the supervisor (SUP-201)."""
        message = f"SupervisorSpec 'top': child is {junk!r}, wanted a ChildSpec"
        refused(lambda: SupervisorSpec("top", [junk]), message)

    @pytest.mark.parametrize("junk", [("x", work, ("hunter2",)), {"id": "x", "args": ["hunter2"]}])
    def test_a_child_as_otp_writes_it_is_refused_unseen(self, junk: Any) -> None:
        """Such a value contains arguments."""
        message = f"SupervisorSpec 'top': child is of type {type(junk).__name__}, wanted a ChildSp"
        refused(lambda: SupervisorSpec("top", [junk]), message)

    def test_children_are_a_collection(self) -> None:
        """Neither a single child nor None is a collection (SUP-116)."""
        for junk in (5, None):
            broken: Any = junk
            with pytest.raises(InvalidSpec, match=" 'top': children is "):
                SupervisorSpec("top", broken)

    def test_an_id_occurs_once(self) -> None:
        """The second child with that id is refused (SUP-213)."""
        children = [worker("a"), worker("b"), worker("a")]
        message = "SupervisorSpec 'top': child id is 'a', wanted an id that no sibling has"
        refused(lambda: SupervisorSpec("top", children), message)

    @pytest.mark.parametrize(
        ("children", "message"),
        [
            ([None, worker("a"), worker("a")], ": child is None"),
            ([worker("a"), worker("a"), None], ": child id is 'a'"),
        ],
    )
    def test_children_are_checked_from_left_to_right(self, children: Any, message: str) -> None:
        """The first mistake is refused (SUP-213)."""
        refused(lambda: SupervisorSpec("top", children), f"SupervisorSpec 'top'{message}")

    def test_significant_children_need_auto_shutdown(self) -> None:
        """The message names the child; the other modes take it (SUP-207)."""
        x = worker(significant=True, restart=TRANSIENT)
        message = "SupervisorSpec 'top': child 'x': significant is True, wanted False while auto"
        refused(lambda: SupervisorSpec("top", [x]), message)
        refused(lambda: check_child("top", x, AutoShutdown.NEVER), "top: child 'x': significant")
        for auto in (AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT):
            assert SupervisorSpec("top", [x], auto_shutdown=auto).children == (x,)

    def test_specs_are_checked_without_starting_anything(self) -> None:
        """SUP-215, SUP-216: a child alone, or under an `auto_shutdown`, which is checked first."""
        child = worker(restart=TRANSIENT, significant=True)
        any_of_them = AutoShutdown.ANY_SIGNIFICANT
        assert SupervisorSpec("s", [child], auto_shutdown=any_of_them).children == (child,)
        refused(
            lambda: SupervisorSpec("s", [child]),
            "SupervisorSpec 's': child 'x': significant is True, wanted False while auto_shutdown",
        )
        junk: Any = "sometimes"
        refused(
            lambda: SupervisorSpec("s", [child, junk], auto_shutdown=junk),
            "SupervisorSpec 's': auto_shutdown is 'sometimes'",
        )

    def test_supervisors_are_children_like_any_other(self) -> None:
        """A tree is one value, and is drawn as one."""
        pool = DynamicSpec("pool", intensity=1)
        sub = SupervisorSpec("sub", [worker("a"), pool], strategy=Strategy.REST_FOR_ONE)
        top = SupervisorSpec("top", [sub, worker("z", restart=TRANSIENT)], period=60)
        assert top == SupervisorSpec("top", (sub, worker("z", restart=TRANSIENT)), period=60)
        assert hash(top) == hash(top.replace())
        assert top.render().splitlines() == [
            "top  (one_for_one, 3 in 60 s)",
            "├─ sub  (rest_for_one, 3 in 5 s)",
            "│  ├─ a  permanent",
            "│  └─ pool  (dynamic, 1 in 5 s)",
            "└─ z  transient",
        ]
        assert pool.render() == "pool  (dynamic, 1 in 5 s)"

    def test_a_function_may_make_the_children(self) -> None:
        """The tree is still a value, which names the function, and can be compared and copied."""
        name = f"{__name__}.made"
        sub = SupervisorSpec("sub", made, strategy=Strategy.REST_FOR_ONE)
        assert (sub.children, sub.children_by) == ((), made)
        top = SupervisorSpec("top", [worker("a"), sub])
        assert top.render().splitlines() == [
            "top  (one_for_one, 3 in 5 s)",
            "├─ a  permanent",
            f"└─ sub  (rest_for_one, 3 in 5 s)  (children by {name})",
        ]
        assert f"children_by=<{name}>" in repr(sub)
        assert sub == sub.replace() == deepcopy(top).children[1]
        assert hash(sub) == hash(sub.replace())
        assert sub != sub.replace(children=())
        assert sub.replace(children=[worker("b")]).children_by is None
        partial_of = SupervisorSpec("s", partial(made)).render()
        assert partial_of.endswith(f"(children by partial of <{name}>)")

    @pytest.mark.parametrize("function", [swift, streamed, check_child])
    def test_a_function_that_can_make_no_children_is_refused(self, function: Any) -> None:
        """A coroutine function is refused where it is written, and one with arguments too."""
        refused(lambda: SupervisorSpec("top", function), "SupervisorSpec 'top': children is ")

    def test_a_backoff_suits_every_kind_of_child(self) -> None:
        """This holds for workers and supervisors."""
        backoff = Backoff.exponential(1)
        kinds: list[Any] = [worker(backoff=backoff), SupervisorSpec("s", backoff=backoff)]
        assert SupervisorSpec("top", [*kinds, DynamicSpec("d", backoff=backoff)]).children

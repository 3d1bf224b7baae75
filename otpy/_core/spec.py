"""Specs: a whole tree as one frozen value. Everything invalid is refused here, where it is written.

Validation follows OTP's order (SUP-111, SUP-212, SUP-213): first failure wins.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NoReturn,
    TypeAlias,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    final,
    overload,
)

from attrs import evolve, field, fields, frozen

from otpy._core.backoff import Backoff
from otpy._core.checks import (
    check_kind,
    check_member,
    check_number,
    check_optional,
    check_whole_seconds,
    check_word,
    is_number,
    member,
    refuse,
    refuse_unseen,
)
from otpy._core.enum_cache import cache_members
from otpy._core.name import check_name
from otpy._core.nesting import Nested, draw, ids
from otpy._core.reason import Restart
from otpy._core.start import look_at

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager

    from typing_extensions import TypeVar as TypeVarWithDefault

    from otpy._core.name import Name
    from otpy._core.start import (
        Announcing,
        Announcing1,
        Announcing2,
        Announcing3,
        Living,
    )

    ValueT_co = TypeVarWithDefault("ValueT_co", covariant=True, default=object)
else:  # a default is for type checkers, and known to Python since 3.13
    ValueT_co = TypeVar("ValueT_co", covariant=True)
"""The value that a child hands out when it is ready."""
_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_Ts = TypeVarTuple("_Ts")


class Strategy(Enum):
    """The children to restart when one fails (SUP-602 to SUP-604)."""

    ONE_FOR_ONE = "one_for_one"
    """Only the child that failed."""
    ONE_FOR_ALL = "one_for_all"
    """All children: the others are stopped in reverse, then all are started in order."""
    REST_FOR_ONE = "rest_for_one"
    """The child that failed and those started after it."""


class AutoShutdown(Enum):
    """Whether a supervisor ends with its significant children (section 9 of OTP's rules)."""

    NEVER = "never"
    """It does not."""
    ANY_SIGNIFICANT = "any_significant"
    """It ends when the first of them ends by itself for good."""
    ALL_SIGNIFICANT = "all_significant"
    """It ends when the last of them has ended by itself for good."""


class ChildType(Enum):
    """The type of a child; used for counting (SUP-208)."""

    WORKER = "worker"
    """It does work."""
    SUPERVISOR = "supervisor"
    """It supervises."""


class Then(Enum):
    """What happens when a child has used up its own `Intensity`."""

    ESCALATE = "escalate"
    """The supervisor gives up, as if its own limit were reached."""
    GIVE_UP = "give up"
    """Only that child is removed, and reported; its siblings run on."""


cache_members(Strategy, AutoShutdown, ChildType, Then)


class _Limit(Enum):
    """The two shutdown limits that are not a number."""

    BRUTAL_KILL = "brutal_kill"
    INFINITY = "infinity"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


BRUTAL_KILL: Final = _Limit.BRUTAL_KILL
"""As `shutdown`: do not ask, cancel at once (SUP-701)."""
INFINITY: Final = _Limit.INFINITY
"""As `shutdown`: ask and wait for ever (SUP-703); as a number of restarts or children: no limit."""

ShutdownLimit: TypeAlias = float | _Limit
Count: TypeAlias = int | Literal[_Limit.INFINITY]
"""A number of restarts or of children that is allowed."""


@final
@frozen
class Intensity:
    """A restart window of one child's own, so that it cannot use up its siblings' (extension).

    Restarts of such a child are counted here and not by its supervisor. The arithmetic is that
    of the supervisor's window (SUP-503).

    Attributes:
        max_restarts: Restarts allowed within the window; 0 allows none, `INFINITY` any number.
        within: Length of the window, in whole seconds, at least 1.
        then: What happens when there were more.
    """

    max_restarts: Count
    within: float
    then: Then = Then.ESCALATE

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        _check_count("Intensity", "max_restarts", self.max_restarts)
        check_whole_seconds("Intensity", "within", self.within)
        check_member("Intensity", "then", self.then, Then)


GIVE_UP: Final = Then.GIVE_UP
ESCALATE: Final = Then.ESCALATE


RestartWord: TypeAlias = Literal["permanent", "transient", "temporary"]
"""A `Restart` as text."""
StrategyWord: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""A `Strategy` as text."""
AutoShutdownWord: TypeAlias = Literal["never", "any_significant", "all_significant"]
"""An `AutoShutdown` as text."""


def _restart(given: Restart | RestartWord) -> Restart:
    """Return the member that a word stands for; the spec refuses any other value by name."""
    return cast("Restart", member(given, Restart))


def _strategy(given: Strategy | StrategyWord) -> Strategy:
    return cast("Strategy", member(given, Strategy))


def _auto_shutdown(given: AutoShutdown | AutoShutdownWord) -> AutoShutdown:
    return cast("AutoShutdown", member(given, AutoShutdown))


def _check_count(who: str, what: str, got: object) -> None:
    """SUP-105, DYN-02: a number of restarts or children."""
    if got is not INFINITY and (isinstance(got, bool) or not isinstance(got, int) or got < 0):
        refuse(who, what, got, "a whole number of at least 0, or INFINITY")


_FOR_EVER: Final = float("inf")


def _check_shutdown(who: str, got: object) -> None:
    """SUP-209; a number is in seconds, where OTP has milliseconds."""
    if isinstance(got, _Limit):
        return
    if not is_number(got) or not 0 <= got < _FOR_EVER:
        refuse(who, "shutdown", got, "seconds of at least 0, BRUTAL_KILL or INFINITY")


_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"  # end a line, move the cursor, change the colour
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # turn the direction of writing
    r"|[\ud800-\udfff]"  # half of a character: cannot be written
)


def _check_id(kind: str, got: object) -> None:
    """Ids become parts of paths: they are text, and hold no slash (OTP takes any term, SUP-203).

    Paths stand in logs and on terminals, so nothing in them can forge a line or a colour.
    """
    if not isinstance(got, str) or not got or "/" in got:
        refuse(kind, "id", got, "non-empty text without '/'")
    if not got.isprintable() and _CONTROL.search(got):
        refuse(kind, "id", got, "text without control characters")


def _check_significant(who: str, significant: object, restart: object) -> None:
    """SUP-206 and the second half of SUP-207."""
    if not isinstance(significant, bool):
        refuse(who, "significant", significant, "True or False")
    if significant and restart is Restart.PERMANENT:
        refuse(who, "significant", True, "False while restart is PERMANENT: it never ends for good")


def _frozen_sequence(items: Iterable[Any]) -> tuple[Any, ...]:
    """Copy a collection; return another value as it is, for the spec to refuse by name."""
    kind: object = type(items)
    usual = kind is tuple  # which `tuple` below returns as it is
    if not usual and (isinstance(items, str) or not isinstance(items, Iterable)):
        return cast("tuple[Any, ...]", items)
    return tuple(items)


def _frozen_children(children: Iterable[AnySpec] | MakesChildren) -> tuple[AnySpec, ...]:
    """Copy a collection; a function is left for the spec to put where it belongs."""
    return _frozen_sequence(cast("Iterable[Any]", children))


def _frozen_mapping(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Copy a mapping; return another value as it is, for the spec to refuse by name."""
    if kwargs.__class__ is not dict and not isinstance(kwargs, Mapping):
        return kwargs
    return MappingProxyType(dict(kwargs)) if kwargs else _NO_KWARGS


_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})


def _how_many(arguments: Collection[object]) -> str:
    """Return what `repr` shows of arguments, which may be secrets: that there are some."""
    if arguments:
        return f"<{len(arguments)} not shown>"
    return "{}" if isinstance(arguments, Mapping) else "()"


def _shown_start(start: object) -> str:
    """Return a function's form in `repr`: its name, without the object it is bound to."""
    if isinstance(start, partial):
        return f"<partial of {_shown_start(cast('partial[object]', start).func)}>"
    name = getattr(start, "__qualname__", None) or f"{type(start).__qualname__} object"
    return f"<{getattr(start, '__module__', None)}.{name}>"


class _Options(TypedDict, total=False):
    """The keyword arguments of a child; `ChildSpec` explains each."""

    restart: Restart | RestartWord
    shutdown: ShutdownLimit
    significant: bool
    start_timeout: float | None
    backoff: Backoff | None
    intensity: Intensity | None
    max_step: float | None
    register: Name | None


@final
@frozen(init=False, weakref_slot=False)  # there may be as many as children
class ChildSpec(Generic[ValueT_co]):
    """How to start, restart and stop one worker (SUP-201).

    Attributes:
        id: Its name among its siblings; part of its path.
        start: What to run: a coroutine function (ready as soon as its task exists, or, if it
            takes a `task_status` keyword, when it calls `task_status.started(value)`), or a
            factory of an async context manager (ready when entered; left when it is asked to
            stop). It is called again for each incarnation: state does not survive a restart.
        args: Positional arguments for `start`: a tuple, for type checkers, which then look at each.
            Beside `task_status` they know three; give more as `kwargs`, which they do not look at.
        kwargs: Keyword arguments for `start`.
        restart: When it is started again after it ended by itself; the word will do
            (`"transient"`), here and for every choice of this kind.
        shutdown: Seconds it has to end once asked; `BRUTAL_KILL` does not ask; `INFINITY` waits
            for ever. Over, it is cancelled again, and given up (`Abandoned`) if it refuses.
        significant: Whether its end can end the supervisor (`auto_shutdown`).
        start_timeout: Seconds it may take to become ready; None waits for ever, as OTP does
            (SUP-303). Extension.
        backoff: Delay before each restart; None restarts at once, as OTP does. Extension.
        intensity: A restart window of its own; None counts with its supervisor's. Extension.
        max_step: Seconds for which its code may keep the event loop before it is interrupted by
            `StepOverran`, raised inside it; None never interrupts. It is then ready when its
            first step begins, and does not start where it could not be interrupted. Extension.
        register: The name that each of its lives holds in a `Registry` of its tree, a `Via`: from
            before its code runs, and before anybody hears that it is ready, until it ends. It is
            then ready when its first step begins. Its start fails, with `AlreadyRegistered`, if
            another process holds the name, and with `NotRunning`, `NotFound` or `NotRegistered` if
            the registry is not there. Elixir's `name: {:via, Registry, {registry, key}}` (SUP-319,
            REG-10).
        ready_at_once: Whether it is ready as soon as its task exists, which follows from `start`;
            asked here, once, and not at each of its starts.
    """

    id: str
    start: Callable[..., Any] = field(repr=_shown_start)
    args: tuple[Any, ...] = field(repr=_how_many)
    kwargs: Mapping[str, Any] = field(hash=False, repr=_how_many)
    restart: Restart
    shutdown: ShutdownLimit
    significant: bool
    start_timeout: float | None
    backoff: Backoff | None
    intensity: Intensity | None
    max_step: float | None
    register: Name | None
    ready_at_once: bool = field(init=False, eq=False, repr=False)

    @overload
    def __init__(
        self: ChildSpec[None],
        id: str,
        start: Callable[[], Awaitable[object]],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec[None],
        id: str,
        start: Callable[[*_Ts], Awaitable[object]],
        args: tuple[*_Ts],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec[_T],
        id: str,
        start: Callable[[], AbstractAsyncContextManager[_T]],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec[_T],
        id: str,
        start: Callable[[*_Ts], AbstractAsyncContextManager[_T]],
        args: tuple[*_Ts],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self, id: str, start: Announcing[ValueT_co], **options: Unpack[_Options]
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        start: Announcing1[_A, ValueT_co],
        args: tuple[_A],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        start: Announcing2[_A, _B, ValueT_co],
        args: tuple[_A, _B],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        start: Announcing3[_A, _B, _C, ValueT_co],
        args: tuple[_A, _B, _C],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec[None],
        id: str,
        start: Living,
        args: Iterable[Any] = ...,
        kwargs: Mapping[str, Any] = ...,
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec,
        id: str,
        start: Callable[..., Awaitable[object] | AbstractAsyncContextManager[object]],
        args: Iterable[Any] = ...,
        *,
        kwargs: Mapping[str, Any],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: ChildSpec,
        id: str,
        start: Callable[..., Awaitable[object] | AbstractAsyncContextManager[object]],
        args: Iterable[Any],
        kwargs: Mapping[str, Any],
        **options: Unpack[_Options],
    ) -> None: ...
    def __init__(
        self,
        id: str,
        start: Any,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] = _NO_KWARGS,
        *,
        restart: Restart | RestartWord = Restart.PERMANENT,
        shutdown: ShutdownLimit = 5.0,
        significant: bool = False,
        start_timeout: float | None = None,
        backoff: Backoff | None = None,
        intensity: Intensity | None = None,
        max_step: float | None = None,
        register: Name | None = None,
    ) -> None:
        """Refuse what can never work, in OTP's order (SUP-212).

        Raises:
            InvalidSpec: If a value can never work; if `start` does not take these arguments; if
                it is a plain function that returns nothing, which would keep the loop.
        """
        _check_id("ChildSpec", id)
        if not callable(start):
            refuse(_who(id), "start", start, "something to call, not its result")
        given = cast("tuple[Any, ...]", args)
        if given.__class__ is not tuple:
            given = _frozen_sequence(args)
            if not isinstance(given, tuple):
                refuse_unseen(_who(id), "args", given, "a sequence of positional arguments")
        if kwargs is not _NO_KWARGS:
            kwargs = _frozen_mapping(kwargs)
            if kwargs.__class__ is not MappingProxyType:
                refuse_unseen(_who(id), "kwargs", kwargs, "a mapping of keyword arguments")
        ready_at_once = look_at(id, start, given, kwargs)
        if restart.__class__ is not Restart:
            restart = _restart(restart)
            check_word(_who(id), "restart", restart, Restart)
        if significant is not False:
            _check_significant(_who(id), significant, restart)
        if not (isinstance(shutdown, float) and 0 <= shutdown < _FOR_EVER):
            _check_shutdown(_who(id), shutdown)
        if start_timeout is not None:
            wanted = "seconds above 0, or None"
            check_number(_who(id), "start_timeout", start_timeout, wanted, least=0, above=True)
        if backoff is not None:
            check_optional(_who(id), "backoff", backoff, Backoff)
        if intensity is not None:
            check_optional(_who(id), "intensity", intensity, Intensity)
        if max_step is not None:
            wanted = "finite seconds above 0, or None"
            check_number(_who(id), "max_step", max_step, wanted, least=0, above=True)
            if max_step == _FOR_EVER:
                refuse(_who(id), "max_step", max_step, wanted)
            ready_at_once = False
        if register is not None:
            check_name(_who(id), register)
            ready_at_once = False  # its start may fail
        # As a class that can be written to: through `object.__setattr__` it takes twice as long.
        spec: Any = self
        _set(spec, "__class__", _Draft)
        spec.id = id
        spec.start = start
        spec.args = given
        spec.kwargs = kwargs
        spec.restart = restart
        spec.shutdown = shutdown
        spec.significant = significant
        spec.start_timeout = start_timeout
        spec.backoff = backoff
        spec.intensity = intensity
        spec.max_step = max_step
        spec.register = register
        spec.ready_at_once = ready_at_once
        spec.__class__ = ChildSpec

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the call that makes it, if `start` and the arguments can be."""
        return _child_with, (self._given() | {"kwargs": dict(self.kwargs)},)

    def _given(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(ChildSpec) if one.init}

    @property
    def type(self) -> ChildType:
        """Always `WORKER`."""
        return ChildType.WORKER

    def replace(self, **changes: Any) -> ChildSpec[ValueT_co]:
        """Return a copy with some fields changed, and validate it."""
        return _child_with(self._given() | changes)


class _Draft(Generic[_T]):
    """A `ChildSpec` while it is made."""

    __slots__ = tuple(one.name for one in fields(ChildSpec))


_set: Final = object.__setattr__


def _who(id: str) -> str:
    return f"ChildSpec {id!r}"


def _child_with(given: dict[str, Any]) -> ChildSpec[Any]:
    return ChildSpec(**given)


def _check_makes_children(who: str, function: Callable[..., object]) -> None:
    """Refuse a function that can make no specs when it is called without arguments."""
    wanted = "a collection of child specs, or a plain function without arguments that returns one"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        refuse(who, "children", function, wanted)
    try:
        inspect.signature(function).bind()
    except TypeError:
        refuse(who, "children", function, wanted)
    except ValueError:  # written in C, without a signature: the call will tell
        pass


def _shown_maker(function: MakesChildren | None) -> str:
    return "None" if function is None else _shown_start(function)


@final
@frozen(eq=False)
class SupervisorSpec(Nested):
    """A supervisor and its children: a whole tree is one such value (SUP-101).

    Attributes:
        id: Its name; first part of the path of everything below it.
        children: Specs of its children, in start order; they stop in reverse. Or, to make it with,
            a plain function without arguments that returns them: OTP's `init/1`. It is called at
            each start of the supervisor, by the event loop, which waits for it. It may raise
            `Ignore`, and the supervisor's start is ignored as a child's is; any other exception
            fails the start (SUP-114, SUP-115). The tree is a value up to there, and `children` is
            empty.
        strategy: Who is restarted when a child fails, as a `Strategy` or its word.
        intensity: Restarts allowed within `period`; one more and the supervisor gives up. The
            default is Elixir's 3, OTP's own is 1; with `INFINITY` it never gives up.
        period: Length of the restart window, in whole seconds.
        auto_shutdown: Whether it ends with its significant children.
        restart: As a child: when it is started again.
        shutdown: As a child: seconds it has to stop everything below it. The default
            waits for ever, because each child is bounded by its own limit (SUP-715).
        significant: As a child: whether its end can end its supervisor.
        backoff: As a child: delay before each restart. Extension.
        children_by: The function that makes its children; None if the children are listed.
    """

    id: str
    children: tuple[AnySpec, ...] = field(default=(), converter=_frozen_children, repr=ids)
    strategy: Strategy = field(default=Strategy.ONE_FOR_ONE, converter=_strategy, kw_only=True)
    intensity: Count = field(default=3, kw_only=True)
    period: float = field(default=5.0, kw_only=True)
    auto_shutdown: AutoShutdown = field(
        default=AutoShutdown.NEVER, converter=_auto_shutdown, kw_only=True
    )
    restart: Restart = field(default=Restart.PERMANENT, converter=_restart, kw_only=True)
    shutdown: ShutdownLimit = field(default=INFINITY, kw_only=True)
    significant: bool = field(default=False, kw_only=True)
    backoff: Backoff | None = field(default=None, kw_only=True)
    children_by: MakesChildren | None = field(default=None, init=False, repr=_shown_maker)
    ready_at_once: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work: flags first, then children left to right (SUP-112)."""
        _check_id("SupervisorSpec", self.id)
        who = f"SupervisorSpec {self.id!r}"
        check_word(who, "strategy", self.strategy, Strategy)
        _check_count(who, "intensity", self.intensity)
        check_whole_seconds(who, "period", self.period)
        check_word(who, "auto_shutdown", self.auto_shutdown, AutoShutdown)
        check_word(who, "restart", self.restart, Restart)
        _check_significant(who, self.significant, self.restart)
        _check_shutdown(who, self.shutdown)
        check_optional(who, "backoff", self.backoff, Backoff)
        given: object = self.children
        if callable(given):
            _check_makes_children(who, given)
            _set(self, "children_by", given)
            _set(self, "children", ())
        else:
            check_children(who, given, self.auto_shutdown)

    @property
    def type(self) -> ChildType:
        """Always `SUPERVISOR`."""
        return ChildType.SUPERVISOR

    def replace(self, **changes: Any) -> SupervisorSpec:
        """Return a copy with some fields changed, and validate it."""
        if self.children_by is not None:
            changes = {"children": self.children_by} | changes
        return evolve(self, **changes)

    def render(self) -> str:
        """Return the tree as text, one line per supervisor and child, in start order.

        Where a function makes the children its name stands in their place.
        """
        return "\n".join(draw(self, _label))


@final
@frozen
class DynamicSpec:
    """A supervisor whose children are started one by one at run time; see `DynamicSupervisor`.

    Attributes:
        id: Its name.
        max_children: How many children it may hold, those that wait for a restart included, or
            `INFINITY`.
        intensity: Restarts allowed within `period` over all children that have no window of
            their own, or `INFINITY`.
        period: Length of the restart window, in whole seconds.
        auto_shutdown: Whether it ends with its significant children.
        restart: As a child: when it is started again. Its children are not.
        shutdown: As a child: seconds it has to stop its children.
        significant: As a child: whether its end can end its supervisor.
        backoff: As a child: delay before each restart. Extension.
    """

    id: str
    max_children: Count = field(default=INFINITY, kw_only=True)
    intensity: Count = field(default=3, kw_only=True)
    period: float = field(default=5.0, kw_only=True)
    auto_shutdown: AutoShutdown = field(
        default=AutoShutdown.NEVER, converter=_auto_shutdown, kw_only=True
    )
    restart: Restart = field(default=Restart.PERMANENT, converter=_restart, kw_only=True)
    shutdown: ShutdownLimit = field(default=INFINITY, kw_only=True)
    significant: bool = field(default=False, kw_only=True)
    backoff: Backoff | None = field(default=None, kw_only=True)
    ready_at_once: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        _check_id("DynamicSupervisor", self.id)
        who = f"DynamicSupervisor {self.id!r}"
        _check_count(who, "intensity", self.intensity)
        check_whole_seconds(who, "period", self.period)
        check_word(who, "auto_shutdown", self.auto_shutdown, AutoShutdown)
        _check_count(who, "max_children", self.max_children)
        check_word(who, "restart", self.restart, Restart)
        _check_significant(who, self.significant, self.restart)
        _check_shutdown(who, self.shutdown)
        check_optional(who, "backoff", self.backoff, Backoff)

    @property
    def type(self) -> ChildType:
        """Always `SUPERVISOR`."""
        return ChildType.SUPERVISOR

    def render(self) -> str:
        """Return it as one line of text."""
        return _label(self)


AnySpec: TypeAlias = ChildSpec | SupervisorSpec | DynamicSpec
MakesChildren: TypeAlias = Callable[[], Iterable[AnySpec]]
"""Makes the children of a supervisor, at each start of it: OTP's `init/1`."""
_SPECS: Final = (ChildSpec, SupervisorSpec, DynamicSpec)  # asked by a tuple in half of the time


def refuse_child(who: str, got: object) -> NoReturn:
    """Refuse a value that is not a spec at all."""
    wanted = "a ChildSpec, a SupervisorSpec or DynamicSupervisor.spec(…)"
    if isinstance(got, tuple | list | Mapping):  # as OTP writes specs, with arguments in it
        refuse_unseen(who, "child", cast("object", got), wanted)
    refuse(who, "child", got, wanted)


def check_child(who: str, spec: object, auto: AutoShutdown) -> None:
    """Refuse a child that cannot stand under a supervisor with this `auto_shutdown` (SUP-207)."""
    if not isinstance(spec, _SPECS):
        refuse_child(who, spec)
    elif spec.significant and auto is AutoShutdown.NEVER:
        refuse(
            f"{who}: child {spec.id!r}", "significant", True, "False while auto_shutdown is NEVER"
        )


def check_children(who: str, specs: object, auto: AutoShutdown) -> tuple[AnySpec, ...]:
    """Return a collection of specs as a tuple; refuse any other value.

    Refuses a value of another kind, then the first bad child or repeated id (SUP-213).
    """
    frozen_specs = _frozen_sequence(cast("Iterable[Any]", specs))
    check_kind(who, "children", frozen_specs, tuple, "a collection of child specs")
    seen: Counter[str] = Counter()
    for spec in frozen_specs:
        check_child(who, spec, auto)
        if isinstance(spec, AnySpec):
            seen[spec.id] += 1
            if seen[spec.id] > 1:
                refuse(who, "child id", spec.id, "an id that no sibling has")
    return frozen_specs


def _label(spec: AnySpec) -> str:
    match spec:
        case ChildSpec():
            name = "" if spec.register is None else f", registered as {spec.register}"
            return f"{spec.id}  {spec.restart.value}{name}"
        case SupervisorSpec():
            name = _shown_maker(spec.children_by)[1:-1]
            by = "" if spec.children_by is None else f"  (children by {name})"
            return f"{spec.id}  ({spec.strategy.value}, {_limit(spec)}){by}"
        case DynamicSpec():
            return f"{spec.id}  (dynamic, {_limit(spec)})"


def _limit(spec: SupervisorSpec | DynamicSpec) -> str:
    if spec.intensity is INFINITY:
        return "any number of restarts"
    return f"{spec.intensity} in {spec.period:g} s"

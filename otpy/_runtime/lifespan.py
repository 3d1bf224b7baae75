"""`lifespan`: a tree that runs for as long as a server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final, overload

from otpy._core.checks import check_number, refuse
from otpy._core.spec import DynamicSpec, SupervisorSpec
from otpy._runtime.asgi import WrappedApp
from otpy._runtime.hooks import checked_hooks
from otpy._runtime.root import RunningTree
from otpy._runtime.served_tree import ServedTree
from otpy.errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager

    from otpy._runtime.asgi import ASGIApp
    from otpy._runtime.handles import DynamicSupervisor, Supervisor
    from otpy.reports import ReportHook

R = TypeVar("R", bound="Supervisor | DynamicSupervisor")


@overload
def lifespan(
    spec: SupervisorSpec,
    *,
    hooks: Iterable[ReportHook] | None = None,
    start_timeout: float | None = 20.0,
    stop_timeout: float = 30.0,
) -> Lifespan[Supervisor]: ...
@overload
def lifespan(
    spec: DynamicSpec,
    *,
    hooks: Iterable[ReportHook] | None = None,
    start_timeout: float | None = 20.0,
    stop_timeout: float = 30.0,
) -> Lifespan[DynamicSupervisor]: ...
def lifespan(
    spec: SupervisorSpec | DynamicSpec,
    *,
    hooks: Iterable[ReportHook] | None = None,
    start_timeout: float | None = 20.0,
    stop_timeout: float = 30.0,
) -> Lifespan[Any]:
    """Run a tree for as long as a web server runs an application.

    What it returns is called with the application and gives an async context manager: hand it to
    Starlette, FastAPI or Litestar as `lifespan=`, or append it to aiohttp's `cleanup_ctx`. Its
    `wrap(app)` does the same for any ASGI application, such as one of Quart or Django.

    The tree is ready before the server accepts connections, and is stopped after the requests in
    flight have been answered. When the tree ends before the server, the server ends too:

    - After a root that gave up the process ends with status 1. The server is asked to stop as by
      SIGTERM, answers the requests in flight and leaves the lifespan, with `SupervisorFailed`. A
      line on stderr says why. Of several workers that one ends, and most servers replace it.
    - After a tree that ended by itself in good order (`auto_shutdown`, `stop()`), the server stops
      in order, as `otpy.run` does, with status 0.

    Where neither SIGTERM is handled nor the process is a worker of another, as in a test or a
    notebook, and in a thread, there is no server to end: then the task that runs the lifespan is
    cancelled when the root gives up, and leaves it with `SupervisorFailed`, as `otpy.start` does.

    Args:
        spec: The tree.
        hooks: The receivers of the reports, as for `otpy.start`.
        start_timeout: Seconds in which the tree must be ready; None waits for ever. Servers have
            limits too: gunicorn and its ASGI worker 30 seconds, hypercorn 60.
        stop_timeout: Seconds in which the server must have ended after the tree has, before it. If
            it has not, its event loop is ended, and 5 seconds later the process, with status 1.

    Raises:
        InvalidSpec: If `spec` is not a supervisor's, a hook is unusable, or a number of seconds is
            not positive and finite.
        TreeStartFailed: On entering, if a child did not start, or the tree was not ready in time;
            the text names the child that was starting. The server then does not begin to serve.
        SupervisorFailed: On leaving, if the root gave up.
        SystemExit, KeyboardInterrupt: On leaving, if one came out of a hook or an `on_exit`
            callback. The tree and the server stop in order, and the process ends with its status.
    """
    return Lifespan(spec, hooks, start_timeout, stop_timeout)


@final
class Lifespan(Generic[R]):
    """A tree for an application, as `otpy.lifespan` returns it.

    It may be run again when it has ended, but only once at a time.
    """

    def __init__(
        self,
        spec: SupervisorSpec | DynamicSpec,
        hooks: Iterable[ReportHook] | None,
        start_timeout: float | None,
        stop_timeout: float,
    ) -> None:
        """Describe it; nothing is started yet."""
        who, wanted = "lifespan", "a finite number of seconds above 0"
        if not isinstance(spec, SupervisorSpec | DynamicSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse(who, "spec", spec, "a SupervisorSpec or DynamicSupervisor.spec(…)")
        for what, seconds in {"start_timeout": start_timeout, "stop_timeout": stop_timeout}.items():
            if what == "start_timeout" and seconds is None:
                continue
            check_number(who, what, seconds, wanted, least=0, above=True)
            if seconds == math.inf:
                refuse(who, what, seconds, wanted)
        self._spec: SupervisorSpec | DynamicSpec = spec
        self._hooks = None if hooks is None else checked_hooks(f"{who} {spec.id!r}", hooks)
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._running: ServedTree | None = None

    def __call__(self, app: object) -> AbstractAsyncContextManager[Any]:
        """Return the block around the life of `app`.

        It yields a mapping with the root under `"otpy"`: as lifespan state Starlette and FastAPI
        offer it as `request.state.otpy`. If `app` has a `state`, as that of Litestar, the root
        becomes its attribute `otpy`.
        """
        return self._served(app)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return an ASGI application that runs the tree around `app`, and `app` inside it.

        `app` may support the lifespan protocol or not; its own start and stop take place while the
        tree runs. `scope["state"]["otpy"]` is the root, in each request. While the tree does not
        run, after it gave up for one, every request is answered with 503 and every websocket
        refused.
        """
        return WrappedApp(self._served, app)

    @property
    def root(self) -> R:
        """The root supervisor, for code that does not get it from a framework.

        Raises:
            NotRunning: If the server has not started it, or has ended.
        """
        if self._running is None or self._running.root is None:
            raise NotRunning(self._spec.id)
        return cast("R", self._running.root)

    def _served(self, app: object) -> ServedTree:
        running = RunningTree(self._spec, self._hooks)
        return ServedTree(app, running, self._take_turns, self._start_timeout, self._stop_timeout)

    def _take_turns(self, old: ServedTree | None, new: ServedTree | None) -> None:
        """Let `new` be the block that runs, instead of `old`."""
        if self._running is not old:
            msg = f"{self._spec.id}: this lifespan runs already; make one for each application"
            raise RuntimeError(msg)
        self._running = new

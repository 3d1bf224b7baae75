"""aiotools: its `Supervisor`, a scope whose tasks may fail and are not restarted."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from benchmarks.subject import Subject
from benchmarks.subjects.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from benchmarks.subject import Body

_AIOTOOLS: Final[Any] = import_module("aiotools")  # installed on demand, unknown to type checkers


@final
class _Pool:
    def __init__(self, scope: Any, body: Body) -> None:
        self._scope = scope
        self._body = body

    async def start(self) -> None:
        self._scope.create_task(self._body())


@final
class AiotoolsScope(Subject):
    """`aiotools.Supervisor`."""

    name: ClassVar[str] = "aiotools"

    @asynccontextmanager
    async def group(
        self,
        bodies: Sequence[Body],
        *,
        together: bool = False,
        hooks: int = 0,  # noqa: ARG002 - nobody can hear anything
    ) -> AsyncGenerator[None]:
        """One scope."""
        if together:
            self._no("restart of a group")
        refusal = Refusal(self.name)
        scope = _AIOTOOLS.Supervisor()
        try:
            async with scope:
                for body in bodies:
                    scope.create_task(refusal.run(body))
                yield
                scope.abort("over")
        finally:
            refusal.check()

    @asynccontextmanager
    async def pool(self, body: Body, *, permanent: bool) -> AsyncGenerator[_Pool]:  # noqa: ARG002
        """A scope whose tasks are not restarted, which no workload of a pool but one needs."""
        scope = _AIOTOOLS.Supervisor()
        async with scope:
            yield _Pool(scope, body)
            scope.abort("over")

"""Never run: mypy and pyright check that the types of a call reach the thread that makes it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import assert_type

from otpy import ChildSpec, Process, Supervisor
from otpy.server import ServerRef
from otpy.snapshot import TreeSnapshot
from tests.typing.gen_server_types import Look, Put, Texts


async def double(number: int) -> int:
    return number * 2


def halve(number: int) -> float:
    return number / 2


def use(root: Supervisor, process: Process, spec: ChildSpec) -> None:
    """Use a portal in a thread."""
    portal, texts = root.portal(), Texts.at(process)
    assert_type(texts, ServerRef[Put | Look, str, list[str]])
    assert_type(portal.call(texts, Put()), str)
    assert_type(portal.call(texts, Look(), timeout=None), str)
    assert_type(portal.call(texts, Look(), 1.0), str)
    portal.call(texts, 1)  # type: ignore[misc] # pyright: ignore[reportArgumentType, reportCallIssue]
    portal.cast(texts, Put())
    portal.cast(texts, 1)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    assert_type(portal.call(double, 1), int)
    assert_type(portal.call(halve, 1), float)
    portal.call(double, "1")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType, reportCallIssue]
    assert_type(portal.call(root.snapshot), TreeSnapshot)
    portal.call(root.terminate_child, "a")
    assert_type(portal.start_task_soon(double, 1), Future[int])
    assert_type(portal.start_task_soon(halve, 1, name="halve"), Future[float])
    assert_type(portal.start_child(root, spec), Process | None)
    assert_type(portal.start_child(process, spec), Process | None)

"""Finding the tree that a command is about."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from otpy import OtpyError, SupervisorSpec
from otpy.specs import DynamicSpec

if TYPE_CHECKING:
    from types import ModuleType


class BadTarget(OtpyError, ValueError):
    """The target does not name a tree; the message says why."""


def load(target: str) -> SupervisorSpec | DynamicSpec:
    """Return the spec that `target` names.

    Args:
        target: `package.module:NAME` or `path/to/file.py:NAME`, where NAME is a spec, or a
            function without arguments that returns one.

    Raises:
        BadTarget: If there is no such module, name or spec.
    """
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        msg = f"target is {target!r}, wanted MODULE:NAME or FILE.py:NAME"
        raise BadTarget(msg)
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    try:
        found = getattr(module, name)
    except AttributeError:
        msg = f"{target}: {where} has no {name!r}"
        raise BadTarget(msg) from None
    try:
        spec = found() if callable(found) else found
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # it was called, and something in it went wrong
        msg = f"{target}: cannot be called without arguments: {error}"
        raise BadTarget(msg) from error
    if inspect.iscoroutine(spec):
        spec.close()
    if not isinstance(spec, SupervisorSpec | DynamicSpec):
        msg = f"{target}: is {spec!r}, wanted a SupervisorSpec, or a function that returns one"
        raise BadTarget(msg)
    return spec


def _module(name: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` does: the working directory comes first
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # it was found, and something that it imports was not
        msg = f"there is no module {name!r} in {Path.cwd()} or on the Python path"
        raise BadTarget(msg) from None


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        msg = f"there is no file {str(path)!r}"
        raise BadTarget(msg)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module

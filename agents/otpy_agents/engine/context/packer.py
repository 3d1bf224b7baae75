"""The contexts of a program: packed from work trees, and kept by content."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Final, final

import anyio.to_thread
from attrs import evolve

from otpy_agents.engine.context.prompt import pack
from otpy_agents.engine.context.repomix import Repomix
from otpy_agents.engine.context.values import (
    ContextRequest,
    ContextSource,
    FileText,
    PackedContext,
    PartKind,
)
from otpy_agents.engine.context.work_tree import read_work_tree
from otpy_agents.workspace.git import Git

__all__ = ["ContextPacker"]

KEPT: Final = 64
"""Contexts that are kept, the latest used."""

_OUTLINES: Final = 200
_OUTLINES_KEPT: Final = 4000
_OUTLINED: Final = 4 * 1024 * 1024
_WITH_OUTLINE: Final = (PartKind.TARGET, PartKind.ALWAYS, PartKind.RELATED, PartKind.INCLUDED)


@final
class ContextPacker:
    """Packs contexts, and has those ready that it has packed of the same content before.

    Args:
        git: Runs git; None for one of its own.
        repomix: Shows files by their outlines that do not fit whole; None for no outlines.
    """

    def __init__(self, git: Git | None = None, repomix: Repomix | None = None) -> None:
        self._git = git or Git()
        self._repomix = repomix
        self._packed: OrderedDict[str, PackedContext] = OrderedDict()
        self._outlines: dict[str, str] = {}

    async def pack(self, request: ContextRequest, folder: Path) -> PackedContext:
        """Return the prompt for a worker in a work tree.

        Cancelled, it leaves nothing behind.

        Args:
            request: What is wanted.
            folder: The top of the work tree.

        Raises:
            TargetRefused: A target is outside of the work tree, in git's own folder, or no file.
            NotARepository: The folder is in no repository.
            GitMissing: There is no git.
            GitFailed: It refused.
        """
        source = await read_work_tree(folder, self._git)
        key = await anyio.to_thread.run_sync(_key, request, source)
        packed = self._packed.get(key)
        if packed is None:
            packed = await anyio.to_thread.run_sync(pack, request, source)
            if self._repomix is not None and packed.left_out:
                outlines = await self._outlined(self._repomix, packed, source)
                source = evolve(source, outlines=outlines)
                packed = await anyio.to_thread.run_sync(pack, request, source)
        self._packed[key] = packed
        self._packed.move_to_end(key)
        while len(self._packed) > KEPT:
            self._packed.popitem(last=False)
        return packed

    async def _outlined(
        self, repomix: Repomix, packed: PackedContext, source: ContextSource
    ) -> dict[str, str]:
        """Return outlines of the most important files that were left out for want of room."""
        paths = [part.name for part in packed.left_out if part.kind in _WITH_OUTLINE][:_OUTLINES]
        texts = await anyio.to_thread.run_sync(_texts, paths, source)
        digests = {path: _digest(f"{path}\0{text}") for path, text in texts.items()}
        known = {
            path: self._outlines[one] for path, one in digests.items() if one in self._outlines
        }
        new = {path: text for path, text in texts.items() if path not in known}
        if new:
            found = await repomix.outlines(new)
            if len(self._outlines) > _OUTLINES_KEPT:
                self._outlines.clear()
            # One that has no outline is not asked for again.
            known |= {path: found.get(path, "") for path in new}
            self._outlines |= {digests[path]: known[path] for path in new}
        return {path: outline for path, outline in known.items() if outline}


def _texts(paths: list[str], source: ContextSource) -> dict[str, str]:
    texts: dict[str, str] = {}
    room = _OUTLINED
    for path in paths:
        match source.read(path):
            case FileText(text) if len(text) <= room:
                texts[path] = text
                room -= len(text)
            case _:
                pass
    return texts


def _key(request: ContextRequest, source: ContextSource) -> str:
    """Return a key that is the same only if all inputs of the prompt are."""
    # A target that git ignores is not part of the source's identity.
    targets = [repr(source.read(path)) for path in request.targets]
    return _digest("\0".join((repr(request), source.identity, *targets)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

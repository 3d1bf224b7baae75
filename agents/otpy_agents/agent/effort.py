"""How far each Jake has come with his list, for the others at one workplace."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, final

from attrs import define

from otpy import Crashed
from otpy_agents.errors import JakeGaveUp

if TYPE_CHECKING:
    from otpy import ExitReason

__all__ = ["Effort", "Efforts", "Stage"]


class Stage(StrEnum):
    """What Jake does about a list."""

    AT_WORK = "at work"
    """He works it off."""
    THROUGH = "through"
    """Nothing is left to do, as far as he knows."""
    GIVEN_UP = "given up"
    """He is not started again to work."""


@final
@define(eq=False)
class Effort:
    """How far one Jake has come.

    Attributes:
        stage: His current stage with the list.
        fell: Why he ended last when he should not have; None if he never did.
    """

    stage: Stage = Stage.AT_WORK
    fell: ExitReason | None = None

    @property
    def given_up(self) -> bool:
        """Whether he is not started again to work."""
        return self.stage is Stage.GIVEN_UP

    @property
    def at_rest(self) -> bool:
        """Whether he has nothing left to do, or has given up."""
        return self.stage is not Stage.AT_WORK


@final
class Efforts:
    """The efforts of all Jakes at one workplace, by the keys of their projects."""

    def __init__(self) -> None:
        """Know of none."""
        self._all: dict[str, Effort] = {}
        self._news = asyncio.Event()

    def of(self, key: str) -> Effort:
        """Return the effort of a project; a new one on first use."""
        return self._all.setdefault(key, Effort())

    @property
    def at_rest(self) -> bool:
        """Whether no project has work that its Jake can still do."""
        return all(one.at_rest for one in self._all.values())

    @property
    def gave_up(self) -> JakeGaveUp | None:
        """The failure of a Jake that has given up; None if none has."""
        fell = {key: one.fell for key, one in self._all.items() if one.given_up}
        if not fell:
            return None
        error = JakeGaveUp(fell)
        error.__cause__ = next(
            (one.error for one in fell.values() if isinstance(one, Crashed)), None
        )
        return error

    def news(self) -> None:
        """Wake those who wait for all projects."""
        self._news.set()
        self._news = asyncio.Event()

    async def until_at_rest(self) -> None:
        """Wait until no project has anything left to do."""
        while not self.at_rest:
            await self._news.wait()

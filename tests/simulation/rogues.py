"""Code that a tree calls: hooks, callbacks and listeners that raise, or make requests at once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast, final
from zlib import crc32

from tests.simulation.errors import EXITS, NUMBERS, error
from tests.simulation.places import begin
from tests.simulation.users import User

if TYPE_CHECKING:
    from otpy import Process
    from otpy._runtime.handles import AnySupervisor
    from tests.simulation.ledger import Ledger


@final
class Rogue:
    """A hook, a callback of `on_exit` or a listener of a registry that does harm at some call.

    Attributes:
        exits: Whether it ends the program, and with it the tree.
        failure: The error that it has raised.
        asks: Whether it makes requests to the tree.
    """

    def __init__(self, rng: random.Random, *, exits: bool) -> None:
        """Draw the harm, and the call at which it happens; the caller says whether it may exit."""
        self._seed = rng.random()
        self._nth = rng.choice([1, 2, rng.randint(1, 20)])
        chance = rng.random()
        self.exits = exits and chance < 0.2
        self.asks = chance > 0.6
        self._nameless = rng.random() < 0.3
        self._ledger: Ledger
        self._rng: random.Random
        self._calls = 0
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        if self._nameless:
            raise ValueError("no representation")
        return f"<Rogue {self._nth}>"

    def enter(self, ledger: Ledger) -> None:
        """Begin with a tree."""
        self._ledger, self._rng, self._calls = ledger, random.Random(self._seed), 0
        self.failure = None

    def attend(self, process: Process) -> None:
        """Listen to the ends of some workers."""
        if process.supervisor is None and crc32(process.path.encode()) % 3 == self._nth % 3:
            process.on_exit(self)

    def __call__(self, *_: object) -> None:
        """Handle a call of the tree."""
        ledger = self._ledger
        self._calls += 1
        if self.asks:
            root = ledger.tree.root
            if self._calls % self._nth == 0 and root is not None and len(ledger.errands) < _MOST:
                begin(ledger, User(self._rng.random(), ledger).errand(cast("AnySupervisor", root)))
        elif self._calls == self._nth:
            choice = self._rng.choice
            self.failure = choice(EXITS)() if self.exits else error(choice(NUMBERS))
            ledger.note_raised(self.failure, exits=self.exits)
            raise self.failure


_MOST = 20  # errands of one run: a hook that gets reports of its own requests would ask for ever

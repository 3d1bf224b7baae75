"""State machines: arguments and results of a `GenStateMachine`'s callbacks.

| you want | you use |
|---|---|
| to say how events are handled | `CallbackMode` |
| to know what happened | `MachineEvent`, `EventType` |
| to be in another state, or in the first one | `Next` |
| to stay in it | `Keep`, `SAME` |
| to enter it once more | `Repeat` |
| to end the machine | `End` |
| to reply to a call | `ReplyTo` |
| to handle an event later, or another one now | `Postpone`, `NextEvent` |
| to do something when time has passed | `StateTimeout`, `EventTimeout`, `Timeout` |
| to annotate callbacks | `StateResult`, `Action` |
"""

from __future__ import annotations

from otpy._core.statem import SAME as SAME
from otpy._core.statem import Action as Action
from otpy._core.statem import CallbackMode as CallbackMode
from otpy._core.statem import End as End
from otpy._core.statem import EventTimeout as EventTimeout
from otpy._core.statem import EventType as EventType
from otpy._core.statem import Keep as Keep
from otpy._core.statem import MachineEvent as MachineEvent
from otpy._core.statem import Next as Next
from otpy._core.statem import NextEvent as NextEvent
from otpy._core.statem import Postpone as Postpone
from otpy._core.statem import Repeat as Repeat
from otpy._core.statem import ReplyTo as ReplyTo
from otpy._core.statem import StateResult as StateResult
from otpy._core.statem import StateTimeout as StateTimeout
from otpy._core.statem import Timeout as Timeout
from otpy._facade import be_home as _be_home

_be_home(globals())

"""Servers: arguments and results of a `GenServer`'s callbacks, and how to talk to it.

| you want | you use |
|---|---|
| to begin with a state and something more | `Init` |
| to answer a request | `Reply` |
| to answer it later, or nothing | `NoReply`, `Caller` |
| to end the server | `Stop` |
| to notice that no message came | `TIMEOUT` |
| to name what `send_after` returns | `ServerTimer` |
| to limit how many messages wait, by `mailbox` of the class | `MailboxLimit`, `Overflow` |
| to annotate callbacks | `CallResult`, `Result` |
| to call a server | `ServerRef` |
| to type a request by its own reply | `Request` |
"""

from __future__ import annotations

from otpy._core.request import Request as Request
from otpy._facade import be_home as _be_home
from otpy.behaviours.mailbox import Caller as Caller
from otpy.behaviours.mailbox_limit import MailboxLimit as MailboxLimit
from otpy.behaviours.mailbox_limit import Overflow as Overflow
from otpy.behaviours.results import TIMEOUT as TIMEOUT
from otpy.behaviours.results import CallResult as CallResult
from otpy.behaviours.results import Init as Init
from otpy.behaviours.results import NoReply as NoReply
from otpy.behaviours.results import Reply as Reply
from otpy.behaviours.results import Result as Result
from otpy.behaviours.results import Stop as Stop
from otpy.behaviours.server_ref import ServerRef as ServerRef
from otpy.behaviours.server_timer import ServerTimer as ServerTimer

_be_home(globals())

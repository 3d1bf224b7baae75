"""Every error `otpy_monitors` raises on purpose.

```
OtpyError
└── UnknownAgent    (LookupError)   no agent of that key is there
```
"""

from __future__ import annotations

from typing import final

from otpy.errors import OtpyError


@final
class UnknownAgent(OtpyError, LookupError):
    """No agent of that key is there: it never appeared, or is gone.

    Attributes:
        agent: The key.
    """

    def __init__(self, agent: str) -> None:
        super().__init__(f"no agent {agent!r} is there: it never appeared, or is gone")
        self.agent = agent

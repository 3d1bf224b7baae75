"""Every error `otpy_monitors` raises on purpose.

```
OtpyError
├── InvalidRules    (ValueError)    a rule file that cannot be used
└── UnknownAgent    (LookupError)   no agent of that key is there
```
"""

from __future__ import annotations

from pathlib import Path
from typing import final

from otpy import OtpyError


@final
class InvalidRules(OtpyError, ValueError):
    """A rule file that cannot be used, with the one place to mend first.

    Attributes:
        file: The rule file as it was named by the caller.
        line: Line of the offending key or value, from 1; None if it is the file as a whole.
        key: What is wrong, for example `rule 'no-wiping'.block[0]`; empty for the file as a whole.
        got: The value found, as a person would write it.
        wanted: What would have been accepted.
    """

    def __init__(self, file: Path, line: int | None, key: str, got: str, wanted: str) -> None:
        self.file, self.line, self.key, self.got, self.wanted = file, line, key, got, wanted
        place = f"{file}:{line}" if line is not None else f"{file}"
        subject = f"{key}: " if key else ""
        super().__init__(f"{place}: {subject}got {got}, wanted {wanted}")


@final
class UnknownAgent(OtpyError, LookupError):
    """No agent of that key is there: it never appeared, or is gone.

    Attributes:
        agent: The key.
    """

    def __init__(self, agent: str) -> None:
        super().__init__(f"no agent {agent!r} is there: it never appeared, or is gone")
        self.agent = agent

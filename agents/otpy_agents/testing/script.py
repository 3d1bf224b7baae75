"""The script of an agent: steps, each after some seconds, played in the time of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from attrs import field, frozen

from otpy_agents.attempt.failures import Detail

__all__ = [
    "Ask",
    "Crash",
    "Do",
    "ExitWith",
    "Fail",
    "Succeed",
    "Hang",
    "Say",
    "Script",
    "Spend",
    "Step",
    "UseTool",
    "Write",
]


@final
@frozen(kw_only=True)
class Say:
    """Say something.

    Attributes:
        text: What.
        after: Seconds before it.
    """

    text: str
    after: float = 1.0


@final
@frozen(kw_only=True)
class UseTool:
    """Call a tool, and have its answer.

    Attributes:
        name: Which.
        input: With what.
        lasts: Seconds until it answers.
        ok: Whether it succeeds.
        after: Seconds before it.
    """

    name: str = "Read"
    input: Mapping[str, object] = field(factory=dict[str, object])
    lasts: float = 1.0
    ok: bool = True
    after: float = 1.0


@final
@frozen(kw_only=True)
class Spend:
    """Tell the usage so far in this attempt.

    Attributes:
        input: Tokens read.
        output: Tokens written.
        cost_usd: US dollars; 0 if the agent does not say.
        after: Seconds before it.
    """

    input: int = 0
    output: int = 0
    cost_usd: float = 0.0
    after: float = 0.0


@final
@frozen(kw_only=True)
class Write:
    """Write bytes that are not an event.

    Attributes:
        text: One line.
        stderr: Whether to write it on the error stream.
        after: Seconds before it.
    """

    text: str
    stderr: bool = False
    after: float = 1.0


@final
@frozen(kw_only=True)
class Do:
    """Do something that only the test knows of.

    Attributes:
        action: What; called with the work directory as text.
        after: Seconds before it.
    """

    action: Callable[[str], object]
    after: float = 0.0


@final
@frozen(kw_only=True)
class Fail:
    """End with an error of a class.

    Attributes:
        detail: Which; one of those in `FAILURES`.
        after: Seconds before it.
    """

    detail: Detail = Detail.NETWORK
    after: float = 1.0


@final
@frozen(kw_only=True)
class Crash:
    """Be killed.

    Attributes:
        after: Seconds before it.
    """

    after: float = 1.0


@final
@frozen(kw_only=True)
class ExitWith:
    """End without a word, as any program does.

    Attributes:
        code: Its exit code.
        artifacts: Which files it has left to be kept, relative to their folder.
        cut: How many bytes of its output were not kept.
        after: Seconds before it.
    """

    code: int = 0
    artifacts: tuple[str, ...] = ()
    cut: int = 0
    after: float = 1.0


@final
@frozen
class Hang:
    """Do nothing any more, and do not end."""

    after: float = 0.0


@final
@frozen(kw_only=True)
class Ask:
    """End with a question to a person.

    Attributes:
        question: Which.
        after: Seconds before it.
    """

    question: str
    after: float = 1.0


@final
@frozen(kw_only=True)
class Succeed:
    """End well.

    Attributes:
        answer: Its answer.
        after: Seconds before it.
    """

    answer: str = "done"
    after: float = 1.0


LastStep: TypeAlias = ExitWith | Fail | Crash | Hang | Ask | Succeed
"""The last thing an agent does."""

Step: TypeAlias = Say | UseTool | Spend | Write | Do | LastStep
"""One thing an agent does."""

FAILURES: Final[Mapping[Detail, Mapping[str, object]]] = {
    Detail.NETWORK: {"message": "connection reset by peer"},
    Detail.RATE_LIMIT: {"message": "rate limited", "status": 429},
    Detail.OVERLOADED: {"message": "overloaded", "status": 529},
    Detail.SERVER_ERROR: {"message": "internal server error", "status": 500},
    Detail.AUTH: {"message": "invalid api key", "status": 401},
    Detail.BILLING: {"message": "credit balance is too low", "status": 402},
    Detail.CONTEXT_OVERFLOW: {"message": "prompt is too long", "status": 413},
    Detail.MODEL_UNAVAILABLE: {"message": "model not found", "status": 404},
    Detail.UNKNOWN: {},
}
"""The error message that stands for each failure."""


@final
class Script:
    """What an agent does in one attempt. Without an end of its own it finishes.

    Args:
        steps: In order; what stands behind an end is never reached.
        deaf: Whether it ignores the request to end until its grace is over.
        session: Whether it begins by telling of its session. Who does not writes what its steps
            say, and nothing else: it may be a program that is not an agent, or an agent of any CLI.
        starting: Seconds until it runs, as of an image that has to be fetched first.
    """

    def __init__(
        self, *steps: Step, deaf: bool = False, session: bool = True, starting: float = 0.0
    ) -> None:
        self.steps: tuple[Step, ...] = steps
        self.deaf = deaf
        self.session = session
        self.starting = starting
        if not steps or not isinstance(steps[-1], LastStep):
            self.steps = (*steps, Succeed())


def line_of(**values: object) -> str:
    """Return a line as agents of the CLI `command` write it."""
    return json.dumps(values)

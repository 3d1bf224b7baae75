"""A gate, and its result (ENG-28, ENG-32)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import field, frozen

__all__ = ["Gate", "GateFailAction", "GateResult", "GateSeverity", "GateStatus"]


class GateSeverity(StrEnum):
    """How bad it is if a gate does not pass; it says the fail action if the file does not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class GateFailAction(StrEnum):
    """What becomes of a gate that does not pass."""

    FAIL = "fail"
    """It failed."""
    WARN = "warn"
    """It is told, and holds nothing up."""
    SKIP = "skip"
    """It counts as if it had not been run."""


class GateStatus(StrEnum):
    """The outcome of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    WARNED = "warned"
    SKIPPED = "skipped"


@frozen(kw_only=True)
class Gate:
    """One gate, as `.supervisor/gates.yaml` has it.

    Attributes:
        name: Its name.
        command: Program and arguments; no shell reads them.
        timeout: Seconds that it may take.
        description: What it is for, in a few words.
        severity: How bad it is if it does not pass.
        fail_action: What becomes of it then.
        depends_on: Gates that run before it.
        parallel_safe: Whether others may run at the same time.
        cache: Whether it is not run again while nothing that it reads has changed.
        env: Variables for it.
        working_dir: Folder in the work tree where it runs.
        allowed_writes: What of the work tree it may write, with a slash behind a folder. It writes
            a copy, which the gates of one run share and which is thrown away behind them.
        cache_inputs: Globs of the files it reads; none for all.
        skip_on_dependency_failure: Whether it is skipped if a gate that runs before it fails.
    """

    name: str
    command: tuple[str, ...]
    timeout: float = 300.0
    description: str = ""
    severity: GateSeverity = GateSeverity.ERROR
    fail_action: GateFailAction = GateFailAction.FAIL
    depends_on: tuple[str, ...] = ()
    parallel_safe: bool = False
    cache: bool = True
    env: Mapping[str, str] = field(factory=dict[str, str])
    working_dir: str = "."
    allowed_writes: tuple[str, ...] = ()
    cache_inputs: tuple[str, ...] = ()
    skip_on_dependency_failure: bool = True


@frozen(kw_only=True)
class GateResult:
    """The result of a gate.

    Attributes:
        name: The gate.
        status: Its outcome.
        output: What it wrote, of which 10 MiB are kept, and why it was ended or not run.
        seconds: What it took, also if that was at an earlier time.
        cached: Whether it was not run because it passed with the same inputs before.
        required: Whether a step is only applied if it passes.
        exit_code: None if it has none.
        blocked_by: The failed gate for which it was skipped, if that holds a step up.
        is_started: Whether it ran, now or before. What could not even be started no worker mends.
    """

    name: str
    status: GateStatus
    output: str = ""
    seconds: float = 0.0
    cached: bool = False
    required: bool = True
    exit_code: int | None = None
    blocked_by: str = ""
    is_started: bool = True

    @property
    def is_hold_up(self) -> bool:
        """Whether it holds up the gates that depend on it, and the step."""
        return self.required and (self.status is GateStatus.FAILED or bool(self.blocked_by))

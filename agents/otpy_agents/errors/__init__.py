"""Every error `otpy_agents` raises on purpose, and how they relate.

```
AgentsError
├── InvalidWorkList   (ValueError)     the work list says something it must not
├── PreflightFailed   (RuntimeError)   an assignment cannot be started as things stand
├── SpawnFailed       (RuntimeError)   the operating system refused to start a worker
├── WorkerFailed      (RuntimeError)   a worker ended otherwise than with exit code 0
├── WorkerStalled     (TimeoutError)   a worker made no progress for longer than it may
├── DeadlinePassed    (TimeoutError)   a worker took longer than its deadline
├── JakeGaveUp        (RuntimeError)   Jake crashed more often than he may
├── AlreadyRunning    (RuntimeError)   another host works on the same ledger
├── InvalidJob        (ValueError)     a sandbox cannot run an attempt as it is described
├── SandboxUnavailable (RuntimeError)  attempts cannot run in this sandbox here
├── CannotAdopt       (LookupError)    an attempt of an earlier host is not there to go on with
├── EngineError       (RuntimeError)   a container engine refused, or did not answer
├── UnknownRun        (LookupError)    no run of that id is stored
├── RunExists         (ValueError)     a run of that id is stored already
├── RunHeld           (RuntimeError)   a run that a living host works on
├── RunLost           (RuntimeError)   a run that another host has taken over
├── RunBroken         (RuntimeError)   a run that this host cannot go on with
├── RunFinished       (ValueError)     a run that is over and cannot be resumed
├── CliMissing        (LookupError)    no agent of a run is installed
├── OperatorError
│   ├── SocketUnusable   (OSError)          no operator socket can be made there
│   ├── HostGone         (ConnectionError)  nobody listens on the operator socket
│   └── NoAnswer         (TimeoutError)     a host took the command and did not answer
├── CommandRefused    (ValueError)     a host did not carry a command out
├── InvalidRunSetting (ValueError)     a chain, a policy or a liveness that can never work
├── RunStateError
│   ├── RunStateTooNew    a newer otpy_agents stored this run
│   └── RunStateCorrupt   (ValueError)  what was stored is not the state of a run
└── LedgerError
    ├── LedgerCorrupt    the file is damaged, or is none of ours
    ├── LedgerTooNew     a newer otpy_agents wrote it
    ├── LedgerUnwritable the folder, the disk or the file does not take writes
    └── LedgerClosed  (RuntimeError)   used outside its `async with` block
```

Each message is one line and names the value got and the value wanted, so that a command line can
print `str(error)` and exit.
"""

from __future__ import annotations

from otpy_agents.errors.ancestor import AgentsError as AgentsError
from otpy_agents.errors.attempts import AdapterError as AdapterError
from otpy_agents.errors.attempts import AmbiguousAdapter as AmbiguousAdapter
from otpy_agents.errors.attempts import BrokenAdapter as BrokenAdapter
from otpy_agents.errors.attempts import CannotAdopt as CannotAdopt
from otpy_agents.errors.attempts import EngineError as EngineError
from otpy_agents.errors.attempts import InvalidJob as InvalidJob
from otpy_agents.errors.attempts import InvalidRequest as InvalidRequest
from otpy_agents.errors.attempts import SandboxUnavailable as SandboxUnavailable
from otpy_agents.errors.attempts import UnknownAdapter as UnknownAdapter
from otpy_agents.errors.runs import CliMissing as CliMissing
from otpy_agents.errors.runs import CommandRefused as CommandRefused
from otpy_agents.errors.runs import HostGone as HostGone
from otpy_agents.errors.runs import InvalidRunSetting as InvalidRunSetting
from otpy_agents.errors.runs import NoAnswer as NoAnswer
from otpy_agents.errors.runs import OperatorError as OperatorError
from otpy_agents.errors.runs import RunBroken as RunBroken
from otpy_agents.errors.runs import RunExists as RunExists
from otpy_agents.errors.runs import RunFinished as RunFinished
from otpy_agents.errors.runs import RunHeld as RunHeld
from otpy_agents.errors.runs import RunLost as RunLost
from otpy_agents.errors.runs import RunStateCorrupt as RunStateCorrupt
from otpy_agents.errors.runs import RunStateError as RunStateError
from otpy_agents.errors.runs import RunStateTooNew as RunStateTooNew
from otpy_agents.errors.runs import SocketUnusable as SocketUnusable
from otpy_agents.errors.runs import UnknownRun as UnknownRun
from otpy_agents.errors.work import AlreadyRunning as AlreadyRunning
from otpy_agents.errors.work import DeadlinePassed as DeadlinePassed
from otpy_agents.errors.work import InvalidWorkList as InvalidWorkList
from otpy_agents.errors.work import JakeGaveUp as JakeGaveUp
from otpy_agents.errors.work import LedgerClosed as LedgerClosed
from otpy_agents.errors.work import LedgerCorrupt as LedgerCorrupt
from otpy_agents.errors.work import LedgerError as LedgerError
from otpy_agents.errors.work import LedgerTooNew as LedgerTooNew
from otpy_agents.errors.work import LedgerUnwritable as LedgerUnwritable
from otpy_agents.errors.work import PreflightFailed as PreflightFailed
from otpy_agents.errors.work import SpawnFailed as SpawnFailed
from otpy_agents.errors.work import WorkerFailed as WorkerFailed
from otpy_agents.errors.work import WorkerStalled as WorkerStalled

__all__ = [
    "AdapterError",
    "AgentsError",
    "AlreadyRunning",
    "AmbiguousAdapter",
    "BrokenAdapter",
    "CannotAdopt",
    "CliMissing",
    "CommandRefused",
    "DeadlinePassed",
    "EngineError",
    "HostGone",
    "InvalidJob",
    "InvalidRequest",
    "InvalidRunSetting",
    "InvalidWorkList",
    "JakeGaveUp",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "LedgerUnwritable",
    "NoAnswer",
    "OperatorError",
    "PreflightFailed",
    "RunBroken",
    "RunExists",
    "RunFinished",
    "RunHeld",
    "RunLost",
    "RunStateCorrupt",
    "RunStateError",
    "RunStateTooNew",
    "SandboxUnavailable",
    "SocketUnusable",
    "SpawnFailed",
    "UnknownAdapter",
    "UnknownRun",
    "WorkerFailed",
    "WorkerStalled",
]

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
├── NameAlreadyExists (ValueError)     an agent of that name is in the pool
├── AgentNotFound     (LookupError)    no agent of that name is in the pool
├── AgentRefused      (RuntimeError)   an agent cannot do what it was asked where it stands
├── ForbiddenMove     (RuntimeError)   what cannot happen to an agent where it stands
├── GangFailed        (RuntimeError)   others of its group failed together
├── BudgetRenewed     (RuntimeError)   a budget is spent, and there is a fresh one
├── RunFailed         (RuntimeError)   the run of an agent ended without success
│   └── VerificationFailed             what an agent did does not hold
├── InvalidTreeSetting (ValueError)    a setting of the tree that can never work
│   └── InvalidFailureRow, InvalidGang, InvalidStartRate
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
├── InvalidControlTable (ValueError)   patterns or task types of an operator that cannot be used
├── InvalidReport     (ValueError)     what was stored is not a report of a validation
├── InvalidEngineFile (ValueError)     a file of the engine says something it must not
├── UnknownGate       (LookupError)    no gate of that name is there
├── GateCycle         (ValueError)     gates that depend on each other in a circle
├── TargetRefused     (ValueError)     a file that a task of the engine may not be about
├── UnknownRole       (LookupError)    no role of that name is shipped or in the project
├── RunStateError
│   ├── RunStateTooNew    a newer otpy_agents stored this run
│   └── RunStateCorrupt   (ValueError)  what was stored is not the state of a run
├── SessionError
│   ├── SessionCorrupt    (ValueError)  what was stored is not a sound session; it was set aside
│   └── InvalidSession    (ValueError)  a session that cannot be stored
├── ChangesetError
│   ├── GitMissing        (LookupError)   there is no git
│   ├── NotARepository    (ValueError)    the folder is not a git repository with a commit
│   ├── InvalidChangeset  (ValueError)    a name that is none for a folder and a branch
│   ├── SymlinkInPath     (ValueError)    a work tree behind a symbolic link
│   ├── ChangesetTaken    (RuntimeError)  its path or branch is in use for something else
│   ├── ChangesetDirty    (RuntimeError)  it holds work that nothing else has
│   ├── WorktreeLocked    (RuntimeError)  somebody works on it at this moment
│   ├── GitFailed         (RuntimeError)  git refused for another reason
│   └── StepTreeError     (RuntimeError)
│       ├── StepTreeTaken                 another process works on the step
│       ├── StepTreeUnwritable            the disk is full, or a file cannot be written
│       ├── HeadMoved                     the repository is at another commit by now
│       ├── ApplyBlocked                  something is in the way of a change
│       └── ApplyConflict                 a change does not fit what was committed since
├── AuditUnwritable     (OSError)       a line of an audit cannot be written
├── InvalidStore        (ValueError)    a store of projects that there is not
├── InvalidTask         (ValueError)    a task of the control plane that cannot be taken
├── OrderRefused        (ValueError)    an order that does not fit where a project stands
├── ProjectHeld         (RuntimeError)  another host works on a project
├── FolderTaken         (RuntimeError)  the folder of a project is another project's
├── StoreRefused        (RuntimeError)  the server that keeps a project refuses what is asked
├── StoreUnreachable    (ConnectionError) the server that keeps a project does not answer
├── StateError
│   ├── StateMissing      (LookupError)   a project has no state yet
│   ├── CorruptState      (ValueError)    what was stored is not a state of a project
│   └── MissingStateField (LookupError)   the state of a project lacks a field
├── LogError
│   ├── InvalidEventType  (ValueError)    a type of event that could never be read back
│   ├── InvalidProjection (ValueError)    a projection that can never have a table
│   ├── VersionConflict   (RuntimeError)  somebody else has appended to the stream meanwhile
│   ├── UnknownEvent      (LookupError)   an event of a type that is unknown here
│   ├── EventTooNew       a newer otpy_agents wrote it
│   ├── EventCorrupt      (ValueError)    what was stored is not an event of its type
│   ├── LogTampered       (ValueError)    an event was changed, removed or put elsewhere
│   └── ArchiveMissing    (LookupError)   an archive is not there, or cannot be read
└── LedgerError
    ├── LedgerCorrupt    the file is damaged, or is none of ours
    │   └── LedgerForeign it is a sound database of another program
    ├── LedgerAstray     it was deleted or replaced while it was open
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
from otpy_agents.errors.control import AuditUnwritable as AuditUnwritable
from otpy_agents.errors.control import CorruptState as CorruptState
from otpy_agents.errors.control import FolderTaken as FolderTaken
from otpy_agents.errors.control import InvalidControlTable as InvalidControlTable
from otpy_agents.errors.control import InvalidReport as InvalidReport
from otpy_agents.errors.control import InvalidStore as InvalidStore
from otpy_agents.errors.control import InvalidTask as InvalidTask
from otpy_agents.errors.control import MissingStateField as MissingStateField
from otpy_agents.errors.control import OrderRefused as OrderRefused
from otpy_agents.errors.control import ProjectHeld as ProjectHeld
from otpy_agents.errors.control import StateError as StateError
from otpy_agents.errors.control import StateMissing as StateMissing
from otpy_agents.errors.control import StoreRefused as StoreRefused
from otpy_agents.errors.control import StoreUnreachable as StoreUnreachable
from otpy_agents.errors.engine import GateCycle as GateCycle
from otpy_agents.errors.engine import InvalidEngineFile as InvalidEngineFile
from otpy_agents.errors.engine import TargetRefused as TargetRefused
from otpy_agents.errors.engine import UnknownGate as UnknownGate
from otpy_agents.errors.engine import UnknownRole as UnknownRole
from otpy_agents.errors.logs import ArchiveMissing as ArchiveMissing
from otpy_agents.errors.logs import EventCorrupt as EventCorrupt
from otpy_agents.errors.logs import EventTooNew as EventTooNew
from otpy_agents.errors.logs import InvalidEventType as InvalidEventType
from otpy_agents.errors.logs import InvalidProjection as InvalidProjection
from otpy_agents.errors.logs import LogError as LogError
from otpy_agents.errors.logs import LogTampered as LogTampered
from otpy_agents.errors.logs import UnknownEvent as UnknownEvent
from otpy_agents.errors.logs import VersionConflict as VersionConflict
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
from otpy_agents.errors.steps import ApplyBlocked as ApplyBlocked
from otpy_agents.errors.steps import ApplyConflict as ApplyConflict
from otpy_agents.errors.steps import HeadMoved as HeadMoved
from otpy_agents.errors.steps import StepTreeError as StepTreeError
from otpy_agents.errors.steps import StepTreeTaken as StepTreeTaken
from otpy_agents.errors.steps import StepTreeUnwritable as StepTreeUnwritable
from otpy_agents.errors.stores import ChangesetDirty as ChangesetDirty
from otpy_agents.errors.stores import ChangesetError as ChangesetError
from otpy_agents.errors.stores import ChangesetTaken as ChangesetTaken
from otpy_agents.errors.stores import GitFailed as GitFailed
from otpy_agents.errors.stores import GitMissing as GitMissing
from otpy_agents.errors.stores import InvalidChangeset as InvalidChangeset
from otpy_agents.errors.stores import InvalidSession as InvalidSession
from otpy_agents.errors.stores import NotARepository as NotARepository
from otpy_agents.errors.stores import SessionCorrupt as SessionCorrupt
from otpy_agents.errors.stores import SessionError as SessionError
from otpy_agents.errors.stores import SymlinkInPath as SymlinkInPath
from otpy_agents.errors.stores import WorktreeLocked as WorktreeLocked
from otpy_agents.errors.tree import AgentNotFound as AgentNotFound
from otpy_agents.errors.tree import AgentRefused as AgentRefused
from otpy_agents.errors.tree import BudgetRenewed as BudgetRenewed
from otpy_agents.errors.tree import ForbiddenMove as ForbiddenMove
from otpy_agents.errors.tree import GangFailed as GangFailed
from otpy_agents.errors.tree import InvalidFailureRow as InvalidFailureRow
from otpy_agents.errors.tree import InvalidGang as InvalidGang
from otpy_agents.errors.tree import InvalidStartRate as InvalidStartRate
from otpy_agents.errors.tree import InvalidTreeSetting as InvalidTreeSetting
from otpy_agents.errors.tree import NameAlreadyExists as NameAlreadyExists
from otpy_agents.errors.tree import RunFailed as RunFailed
from otpy_agents.errors.tree import VerificationFailed as VerificationFailed
from otpy_agents.errors.work import AlreadyRunning as AlreadyRunning
from otpy_agents.errors.work import DeadlinePassed as DeadlinePassed
from otpy_agents.errors.work import InvalidWorkList as InvalidWorkList
from otpy_agents.errors.work import JakeGaveUp as JakeGaveUp
from otpy_agents.errors.work import LedgerAstray as LedgerAstray
from otpy_agents.errors.work import LedgerClosed as LedgerClosed
from otpy_agents.errors.work import LedgerCorrupt as LedgerCorrupt
from otpy_agents.errors.work import LedgerError as LedgerError
from otpy_agents.errors.work import LedgerForeign as LedgerForeign
from otpy_agents.errors.work import LedgerTooNew as LedgerTooNew
from otpy_agents.errors.work import LedgerUnwritable as LedgerUnwritable
from otpy_agents.errors.work import PreflightFailed as PreflightFailed
from otpy_agents.errors.work import SpawnFailed as SpawnFailed
from otpy_agents.errors.work import WorkerFailed as WorkerFailed
from otpy_agents.errors.work import WorkerStalled as WorkerStalled

__all__ = [
    "AdapterError",
    "AgentNotFound",
    "AgentRefused",
    "AgentsError",
    "AlreadyRunning",
    "AmbiguousAdapter",
    "ApplyBlocked",
    "ApplyConflict",
    "ArchiveMissing",
    "AuditUnwritable",
    "BrokenAdapter",
    "BudgetRenewed",
    "CannotAdopt",
    "ChangesetDirty",
    "ChangesetError",
    "ChangesetTaken",
    "CliMissing",
    "CommandRefused",
    "CorruptState",
    "DeadlinePassed",
    "EngineError",
    "EventCorrupt",
    "EventTooNew",
    "FolderTaken",
    "ForbiddenMove",
    "GangFailed",
    "GateCycle",
    "GitFailed",
    "GitMissing",
    "HeadMoved",
    "HostGone",
    "InvalidChangeset",
    "InvalidControlTable",
    "InvalidEngineFile",
    "InvalidEventType",
    "InvalidFailureRow",
    "InvalidGang",
    "InvalidJob",
    "InvalidProjection",
    "InvalidReport",
    "InvalidRequest",
    "InvalidRunSetting",
    "InvalidSession",
    "InvalidStartRate",
    "InvalidStore",
    "InvalidTask",
    "InvalidTreeSetting",
    "InvalidWorkList",
    "JakeGaveUp",
    "LedgerAstray",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerForeign",
    "LedgerTooNew",
    "LedgerUnwritable",
    "LogError",
    "LogTampered",
    "MissingStateField",
    "NameAlreadyExists",
    "NoAnswer",
    "NotARepository",
    "OperatorError",
    "OrderRefused",
    "PreflightFailed",
    "ProjectHeld",
    "RunBroken",
    "RunExists",
    "RunFailed",
    "RunFinished",
    "RunHeld",
    "RunLost",
    "RunStateCorrupt",
    "RunStateError",
    "RunStateTooNew",
    "SandboxUnavailable",
    "SessionCorrupt",
    "SessionError",
    "SocketUnusable",
    "SpawnFailed",
    "StateError",
    "StateMissing",
    "StepTreeError",
    "StepTreeTaken",
    "StepTreeUnwritable",
    "StoreRefused",
    "StoreUnreachable",
    "SymlinkInPath",
    "TargetRefused",
    "UnknownAdapter",
    "UnknownEvent",
    "UnknownGate",
    "UnknownRole",
    "UnknownRun",
    "VerificationFailed",
    "VersionConflict",
    "WorkerFailed",
    "WorkerStalled",
    "WorktreeLocked",
]

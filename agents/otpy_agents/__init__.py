"""AI coding agents, and any other workers, on a supervision tree.

| module | what it is for |
|---|---|
| `otpy_agents.app` | a work list at work in your program: `open_app` |
| `otpy_agents.tree` | the tree that works on a work list, its agents and their states |
| `otpy_agents.run` | what a run does about its attempts, and the names of what it stands on |
| `otpy_agents.run.host` | runs in your program |
| `otpy_agents.sandbox` | where attempts are made |
| `otpy_agents.workspace` | work trees of git for agents |
| `otpy_agents.store` | what was done, kept across runs: work lists, and all runs of a user |
| `otpy_agents.store.sessions` | the sessions of agents, kept across restarts |
| `otpy_agents.operator` | commands from a second terminal |
| `otpy_agents.cli` | the command line and what it shows |
| `otpy_agents.testing` | scripted agents, for tests in virtual time |
| `otpy_agents.errors` | every error raised on purpose |

The other packages are its inside.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otpy_agents.app import App as App
    from otpy_agents.app import open_app as open_app
    from otpy_agents.errors import AdapterError as AdapterError
    from otpy_agents.errors import AgentsError as AgentsError
    from otpy_agents.errors import AlreadyRunning as AlreadyRunning
    from otpy_agents.errors import AmbiguousAdapter as AmbiguousAdapter
    from otpy_agents.errors import BrokenAdapter as BrokenAdapter
    from otpy_agents.errors import CannotAdopt as CannotAdopt
    from otpy_agents.errors import ChangesetDirty as ChangesetDirty
    from otpy_agents.errors import ChangesetError as ChangesetError
    from otpy_agents.errors import CommandRefused as CommandRefused
    from otpy_agents.errors import DeadlinePassed as DeadlinePassed
    from otpy_agents.errors import EngineError as EngineError
    from otpy_agents.errors import HostGone as HostGone
    from otpy_agents.errors import InvalidJob as InvalidJob
    from otpy_agents.errors import InvalidRequest as InvalidRequest
    from otpy_agents.errors import InvalidWorkList as InvalidWorkList
    from otpy_agents.errors import JakeGaveUp as JakeGaveUp
    from otpy_agents.errors import LedgerClosed as LedgerClosed
    from otpy_agents.errors import LedgerCorrupt as LedgerCorrupt
    from otpy_agents.errors import LedgerError as LedgerError
    from otpy_agents.errors import LedgerTooNew as LedgerTooNew
    from otpy_agents.errors import LedgerUnwritable as LedgerUnwritable
    from otpy_agents.errors import NoAnswer as NoAnswer
    from otpy_agents.errors import OperatorError as OperatorError
    from otpy_agents.errors import PreflightFailed as PreflightFailed
    from otpy_agents.errors import RunExists as RunExists
    from otpy_agents.errors import RunHeld as RunHeld
    from otpy_agents.errors import RunLost as RunLost
    from otpy_agents.errors import SandboxUnavailable as SandboxUnavailable
    from otpy_agents.errors import SessionCorrupt as SessionCorrupt
    from otpy_agents.errors import SessionError as SessionError
    from otpy_agents.errors import SocketUnusable as SocketUnusable
    from otpy_agents.errors import SpawnFailed as SpawnFailed
    from otpy_agents.errors import UnknownAdapter as UnknownAdapter
    from otpy_agents.errors import UnknownRun as UnknownRun
    from otpy_agents.errors import WorkerFailed as WorkerFailed
    from otpy_agents.errors import WorkerStalled as WorkerStalled
    from otpy_agents.errors import WorktreeLocked as WorktreeLocked
    from otpy_agents.process.process import ExitStatus as ExitStatus
    from otpy_agents.process.process import WorkerProcess as WorkerProcess
    from otpy_agents.process.process import spawn as spawn
    from otpy_agents.store.ledger import Ledger as Ledger
    from otpy_agents.store.records import State as State
    from otpy_agents.store.runs import RunStore as RunStore
    from otpy_agents.store.sessions import FileSessions as FileSessions
    from otpy_agents.store.sessions import RestartContext as RestartContext
    from otpy_agents.store.sessions import SessionStore as SessionStore
    from otpy_agents.store.sessions import SqliteSessions as SqliteSessions
    from otpy_agents.store.sessions import StoredSession as StoredSession
    from otpy_agents.worklist.assignment import Assignment as Assignment
    from otpy_agents.worklist.assignment import WorkList as WorkList
    from otpy_agents.worklist.reader import read as read_work_list
    from otpy_agents.workspace import Changeset as Changeset
    from otpy_agents.workspace import ChangesetOwner as ChangesetOwner
    from otpy_agents.workspace import Changesets as Changesets
    from otpy_agents.workspace import Fate as Fate
    from otpy_agents.workspace import FateRule as FateRule
    from otpy_agents.workspace import Fates as Fates

__all__ = [
    "AdapterError",
    "AgentsError",
    "AlreadyRunning",
    "AmbiguousAdapter",
    "App",
    "Assignment",
    "BrokenAdapter",
    "CannotAdopt",
    "Changeset",
    "ChangesetDirty",
    "ChangesetError",
    "ChangesetOwner",
    "Changesets",
    "CommandRefused",
    "RestartContext",
    "DeadlinePassed",
    "EngineError",
    "ExitStatus",
    "Fate",
    "FateRule",
    "Fates",
    "FileSessions",
    "HostGone",
    "InvalidJob",
    "InvalidRequest",
    "InvalidWorkList",
    "JakeGaveUp",
    "Ledger",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "LedgerUnwritable",
    "NoAnswer",
    "OperatorError",
    "PreflightFailed",
    "RunExists",
    "RunHeld",
    "RunLost",
    "RunStore",
    "SandboxUnavailable",
    "SessionCorrupt",
    "SessionError",
    "SessionStore",
    "SocketUnusable",
    "SpawnFailed",
    "SqliteSessions",
    "State",
    "StoredSession",
    "UnknownAdapter",
    "UnknownRun",
    "WorkList",
    "WorkerFailed",
    "WorkerProcess",
    "WorkerStalled",
    "WorktreeLocked",
    "open_app",
    "read_work_list",
    "spawn",
]

# Loaded when they are asked for: the command line must not wait for a tree to print its help.
_ERRORS: Final = "errors"
_HOMES: Final = {
    "App": "app",
    "open_app": "app",
    "ExitStatus": "process.process",
    "WorkerProcess": "process.process",
    "spawn": "process.process",
    "Ledger": "store.ledger",
    "State": "store.records",
    "RunStore": "store.runs",
    "Assignment": "worklist.assignment",
    "WorkList": "worklist.assignment",
    "Changeset": "workspace",
    "ChangesetOwner": "workspace",
    "Changesets": "workspace",
    "Fate": "workspace",
    "FateRule": "workspace",
    "Fates": "workspace",
    "RestartContext": "store.sessions",
    "FileSessions": "store.sessions",
    "SessionStore": "store.sessions",
    "SqliteSessions": "store.sessions",
    "StoredSession": "store.sessions",
    "read_work_list": "worklist.reader:read",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name from the module that it is defined in."""
        if name not in __all__:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        home, _, original = _HOMES.get(name, _ERRORS).partition(":")
        value = getattr(import_module(f"{__name__}.{home}"), original or name)
        globals()[name] = value
        return value

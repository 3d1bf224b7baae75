"""Tasks: what `TaskSupervisor` hands out, and how tasks come out.

| you want | you use |
|---|---|
| to wait for a task, ask for its result or end it | `Task` |
| to know how it came out | `Ok`, `Exited` |
| to catch the end of a task that you wait for | `TaskFailed` |
| to say what a stream does with a slow function | `OnTimeout` |
| to know, in a task, on whose behalf it runs | `callers` |
"""

from __future__ import annotations

from otpy._facade import be_home as _be_home
from otpy.behaviours.task import Task as Task
from otpy.behaviours.task import callers as callers
from otpy.behaviours.task_result import Exited as Exited
from otpy.behaviours.task_result import Ok as Ok
from otpy.behaviours.task_result import TaskFailed as TaskFailed
from otpy.behaviours.task_stream import OnTimeout as OnTimeout

_be_home(globals())

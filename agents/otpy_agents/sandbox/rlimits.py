"""Limits that the kernel holds for each process by itself.

They are set by a shell that then becomes the program: between `fork` and `exec` of a program with
threads nothing of ours may run, and setting them from outside comes too late.
"""

from __future__ import annotations

import resource
from typing import Final

from otpy_agents.errors import InvalidJob
from otpy_agents.sandbox.behaviour import Job, SandboxLimits

__all__ = ["limited", "require_holdable"]

_KILO: Final = 1024
_CPU_GRACE: Final = 5


def require_holdable(job: Job, sandbox: str) -> None:
    """Refuse limits that need a container.

    RLIMIT_NPROC is no such limit: it counts every process of the user on the whole machine, so that
    attempts would take each other's, and it does not hold for root.

    Raises:
        InvalidJob: The job has one.
    """
    for name, value in (("cpus", job.limits.cpus), ("pids", job.limits.pids)):
        if value is not None:
            wanted = f"None: the sandbox {sandbox!r} cannot hold it, 'docker' can"
            raise InvalidJob(f"limits.{name}", repr(value), wanted)


def limited(argv: tuple[str, ...], limits: SandboxLimits) -> tuple[str, ...]:
    """Return a command that runs `argv` under these limits; `argv` itself if there are none.

    Memory is RLIMIT_DATA: heap and private writable memory. RLIMIT_AS would also count address
    space that is only reserved, of which JavaScript engines take many gigabytes. A limit above what
    this process may have itself becomes that.
    """
    settings: list[str] = []
    if limits.memory is not None:
        memory = _at_most(limits.memory, resource.RLIMIT_DATA)
        settings.append(f"ulimit -d {max(1, memory // _KILO)}")
    if limits.cpu_seconds is not None:
        # SIGXCPU first, which can be told from a kill.
        soft = _at_most(limits.cpu_seconds, resource.RLIMIT_CPU)
        hard = _at_most(limits.cpu_seconds + _CPU_GRACE, resource.RLIMIT_CPU)
        settings.append(f"ulimit -S -t {soft} && ulimit -H -t {hard}")
    if limits.open_files is not None:
        settings.append(f"ulimit -n {_at_most(limits.open_files, resource.RLIMIT_NOFILE)}")
    if not settings:
        return argv
    return ("/bin/sh", "-c", " && ".join([*settings, 'exec "$@"']), "sh", *argv)


def _at_most(wanted: int, kind: int) -> int:
    _, hard = resource.getrlimit(kind)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)

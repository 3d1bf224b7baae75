"""Real gates on a real work tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from otpy_agents.engine.gates import (
    GATES_FILE,
    Gate,
    GateCache,
    GateExecutor,
    GateResult,
    gate_commands,
    load_gates,
)
from otpy_agents.engine.roles import GateUse
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.commands import CommandSandbox

__all__ = ["Repository", "shell_gate"]


def shell_gate(name: str, script: str, **more: object) -> Gate:
    fields: dict[str, object] = {"parallel_safe": True, "timeout": 60.0, **more}
    return Gate(name=name, command=("sh", "-c", script), **fields)  # type: ignore[arg-type]


class Repository:
    """A git repository, with a sandbox and a cache for its gates.

    Attributes:
        tree: Its work tree.
        said: The notes about the sandbox.
    """

    def __init__(self, folder: Path, choice: SandboxChoice | None = None) -> None:
        self.tree = folder / "repository"
        self.tree.mkdir(parents=True)
        self.said: list[str] = []
        self.commands: CommandSandbox = gate_commands(
            choice or SandboxChoice(), os.environ, self.said.append
        )
        self.cache = GateCache(folder / "cache")
        self.git("init", "-q")

    def git(self, *args: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(
            ["git", *who, *args], cwd=self.tree, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self, files: Mapping[str, str]) -> None:
        """Write files and commit them."""
        for name, text in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Begin")

    def files(self) -> set[str]:
        """Return the paths in the work tree."""
        found = (path.relative_to(self.tree) for path in self.tree.rglob("*"))
        return {str(path) for path in found if path.parts[0] != ".git"}

    async def run(self, *gates: Gate, cached: bool = False) -> dict[str, GateResult]:
        """Run these gates."""
        executor = GateExecutor(self.tree, self.commands, cache=self.cache if cached else None)
        known = {gate.name: gate for gate in gates}
        results = await executor.run(known, [GateUse(name=name) for name in known])
        return {one.name: one for one in results}

    def gates_of(self, commit: str) -> dict[str, Gate]:
        """Return the gates that a commit declares."""
        return load_gates(self.git("show", f"{commit}:{GATES_FILE}"), GATES_FILE)

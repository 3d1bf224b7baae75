"""The place of a step's work tree, and its record.

What is written down lies in the git folder of the repository, where no worker can write:

| in `otpy-steps` | what it is |
|---|---|
| `apply.lock` | the lock of who changes the main work tree |
| `git` | the git folder of `SealedGit` |
| `trees/<workflow>-<step>/step.lock` | the lock of who works on a step |
| `…/step.json` | the step, written before its work tree is made and deleted after it |
| `…/base` | the index of its work tree as it was filled |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

from attrs import frozen

from otpy_agents.workspace.place import Admin, Place, checked, entries
from otpy_agents.workspace.sealed_git import SealedGit

__all__ = ["StepPlace", "StepRecord", "StepTree"]

_RECORD: Final = "step.json"


@frozen
class StepTree:
    """The work tree of one step of a workflow.

    Attributes:
        workflow: Id of the workflow.
        step: Id of the step.
        path: The work tree, `.worktrees/<workflow>-<step>` in the repository (ENG-17).
        base: The commit its work began at.
    """

    workflow: str
    step: str
    path: Path
    base: str


@frozen
class StepRecord:
    """What is written down about one step.

    Attributes:
        folder: Where.
    """

    folder: Path

    @property
    def name(self) -> str:
        """`<workflow>-<step>`."""
        return self.folder.name

    @property
    def lock(self) -> Path:
        """What `HostLock` is made of."""
        return self.folder / "step"

    @property
    def base_index(self) -> Path:
        """The index of the work tree as it was filled, which no worker touches."""
        return self.folder / "base"

    @property
    def filled(self) -> bool:
        """Whether its work tree is as it should be, so that a worker may have worked in it."""
        return self.base_index.is_file()

    @property
    def next_index(self) -> Path:
        """What becomes the index of the base at the end of a rebase."""
        return self.folder / "next"

    @property
    def index(self) -> Path:
        """The index that collects changes."""
        return self.folder / "index"

    def read(self) -> StepTree | None:
        """Return the step; None if none was written down."""
        try:
            said = cast("object", json.loads((self.folder / _RECORD).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None
        match said:
            case {"workflow": str(flow), "step": str(step), "path": str(path), "base": str(base)}:
                return StepTree(flow, step, Path(path), base)
            case _:
                return None

    def write(self, tree: StepTree) -> None:
        """Write a step down, in one step."""
        said = {
            "workflow": tree.workflow,
            "step": tree.step,
            "path": str(tree.path),
            "base": tree.base,
        }
        fresh = self.folder / f"{_RECORD}.fresh"
        fresh.write_text(json.dumps(said), encoding="utf-8")
        fresh.replace(self.folder / _RECORD)


@frozen
class StepPlace:
    """Where the steps of one repository lie.

    Attributes:
        root: The work tree of the user, without links in its path.
        common: The git folder of the repository.
        git_dir: The git folder of the user's work tree; `common`, unless that is a linked one.
    """

    root: Path
    common: Path
    git_dir: Path

    @property
    def steps(self) -> Path:
        """Where everything is that we keep beside the work trees."""
        return self.common / "otpy-steps"

    @property
    def sealed(self) -> SealedGit:
        """The git that runs nothing of the repository."""
        return SealedGit(self.steps / "git", self.common)

    def _place(self, workflow: str) -> Place:
        return Place(self.root, self.common, self.root / ".worktrees", workflow)

    def prepare(self) -> None:
        """Make the folder of the work trees, and have git overlook it."""
        self._place("").prepare()

    def tree(self, workflow: str, step: str, base: str) -> StepTree:
        """Return a step whose work tree may be there or not.

        Raises:
            InvalidChangeset: The ids cannot be a part of the name of a folder.
            SymlinkInPath: Its path would lead through a link.
        """
        checked(workflow, self.root)
        return StepTree(workflow, step, self._place(workflow).changeset(step).path, base)

    def record(self, tree: StepTree) -> StepRecord:
        """Return the record of a step, whether it is there or not."""
        return StepRecord(self.steps / "trees" / tree.path.name)

    def records(self) -> tuple[StepRecord, ...]:
        """Return the record of each step, by name."""
        folder = self.steps / "trees"
        return tuple(StepRecord(folder / name) for name in entries(folder) or ())

    def admin(self, path: Path) -> Admin | None:
        """Return what git keeps about the work tree at a path; None if it keeps nothing."""
        return self._place("").admin(path)

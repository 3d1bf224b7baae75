"""Git that reads no configuration of the repository, and so runs none of its programs.

A filter, a diff or a merge driver is named by an attribute, which anybody who can write a file of
the repository can set; but what it runs is said by the configuration alone. So does a monitor, and
a hook lies in the git folder. This git has a git folder of its own, with a configuration of ours,
and shares nothing with that of the repository but the objects. Where files are read or written,
nothing else is asked; what is left to git in the repository proper touches no file of a work tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.workspace.git import Git

__all__ = ["SealedGit", "Settings", "settings_of"]

_OURS: Final = ("core.splitIndex=false", "core.untrackedCache=false")
"""An index that we write is whole: a part of it would stay in our git folder."""

_KEPT: Final = frozenset(
    f"core.{name}"
    for name in (
        *("autocrlf", "eol", "filemode", "symlinks", "ignorecase", "precomposeunicode"),
        *("excludesfile", "attributesfile", "sharedrepository", "checkstat", "trustctime"),
        *("bigfilethreshold", "compression"),
    )
)
"""Settings of the user that say how files look, and run nothing."""


@frozen
class Settings:
    """What the configuration of a repository says that we go by.

    Attributes:
        kept: Settings that say how files look, as `name=value`.
        formats: Extensions of the repository that git has to know, by name.
        drivers: Names of the filters that would change the content of files.
        user: Name and email of the user; empty if he has not said.
    """

    kept: tuple[str, ...]
    formats: Mapping[str, str]
    drivers: frozenset[str]
    user: tuple[str, str]


def settings_of(said: bytes) -> Settings:
    """Return what `git config --list -z` said. Pure."""
    found: dict[str, str] = {}
    drivers: set[str] = set()
    for entry in os.fsdecode(said).split("\0"):
        key, _, value = entry.partition("\n")
        found[key] = value
        if key.startswith("filter."):
            drivers.add(key.removeprefix("filter.").rpartition(".")[0])
    return Settings(
        kept=tuple(f"{key}={value}" for key, value in found.items() if key in _KEPT),
        formats={
            name: found[key]
            for name in ("objectformat", "refstorage")
            if (key := f"extensions.{name}") in found
        },
        drivers=frozenset(drivers),
        user=(found.get("user.name", ""), found.get("user.email", "")),
    )


@frozen
class SealedGit:
    """A git folder of ours beside that of a repository, with its objects.

    Attributes:
        folder: The git folder.
        common: The git folder of the repository.
    """

    folder: Path
    common: Path

    @property
    def config(self) -> Path:
        """The configuration, which says nothing but the format of the repository."""
        return self.folder / "config"

    def prepare(self, settings: Settings) -> None:
        """Make the folder, or mend it; nothing in it is worth keeping."""
        text = "[core]\n\tbare = false\n\trepositoryformatversion = 0\n"
        if algorithm := settings.formats.get("objectformat"):
            text = text.replace("= 0", "= 1") + f"[extensions]\n\tobjectformat = {algorithm}\n"
        for name in ("refs", "objects"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, wanted in (("HEAD", "ref: refs/heads/none\n"), ("config", text)):
            file = self.folder / name
            if not file.is_file() or file.read_text(errors="replace") != wanted:
                fresh = self.folder / f"{name}.{os.getpid()}"
                fresh.write_text(wanted)
                fresh.replace(file)

    def git(
        self,
        settings: Settings,
        *,
        tree: Path | None = None,
        index: Path | None = None,
        keeps: tuple[int, ...] = (),
    ) -> Git:
        """Return a git for a work tree and an index; either may be left out.

        Args:
            settings: Of the repository.
            tree: The work tree; commands are to be run in it.
            index: The index.
            keeps: As of `Git`.
        """
        variables = {
            "GIT_DIR": str(self.folder),
            "GIT_OBJECT_DIRECTORY": str(self.common / "objects"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
        }
        name, email = settings.user
        if name and email:
            variables |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
        if tree is not None:
            variables["GIT_WORK_TREE"] = str(tree)
        if index is not None:
            variables["GIT_INDEX_FILE"] = str(index)
        if (shallow := self.common / "shallow").exists():
            variables["GIT_SHALLOW_FILE"] = str(shallow)
        return Git(settings=(*settings.kept, *_OURS), variables=variables, keeps=keeps)

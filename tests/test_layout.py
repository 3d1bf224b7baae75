"""Rules for the files themselves, whatever is in them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("otpy", "agents/otpy_agents", "monitors/otpy_monitors")
SOURCE_FOLDERS = ("otpy", "agents", "monitors", "tests", "examples", "benchmarks", "docs")

# Names that say nothing about what a module holds.
EMPTY_NAMES = {"base", "common", "core", "helper", "helpers", "misc", "util", "utils"}

# Nouns that look like a gerund or a participle.
NOUNS = {"feed"}

# Text that may import a holding folder; to parse every file as Python takes seconds.
AN_IMPORT = re.compile(r"^\s*(from|import)\b.*\b(agents|monitors)\b", re.MULTILINE)

# Folders that exist only on the machine the project is written on. Put together from parts, so
# that this file does not mention them.
OUTSIDE = ("../" + "shared", "/work/" + "shared", "/work/" + ".library")

# Folders that tools and people leave in a checkout; hidden files are foreign, too, but for these.
FOREIGN_FOLDERS = {"build", "dist", "htmlcov", "node_modules", "venv", "__pycache__"}
HIDDEN_BUT_OURS = {".ci", ".editorconfig", ".gitignore"}


def _python_files() -> list[Path]:
    folders = [ROOT / name for name in SOURCE_FOLDERS]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def _is_ours(path: Path) -> bool:
    hidden = path.name.startswith(".") and path.name not in HIDDEN_BUT_OURS
    return not hidden and path.name not in FOREIGN_FOLDERS


def _own_files() -> list[Path]:
    files: list[Path] = []
    folders = [ROOT]
    while folders:
        for path in filter(_is_ours, folders.pop().iterdir()):
            if path.is_dir():
                folders.append(path)
            elif path.is_file():
                files.append(path)
    return files


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


@pytest.mark.parametrize("folder", ["agents", "monitors"])
def test_holding_folders_are_no_packages(folder: str) -> None:
    """A folder that only holds a package must not hide another package of its name."""
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.slow
def test_holding_folders_are_never_imported() -> None:
    """No module is reached through `agents` or `monitors`, which exist in a checkout only."""
    offenders = [
        _relative(path)
        for path in _python_files()
        if AN_IMPORT.search(path.read_text(encoding="utf-8"))
        if {name.partition(".")[0] for name in _imported_names(path)} & {"agents", "monitors"}
    ]
    assert offenders == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    """A user's type checker reads our annotations."""
    assert (ROOT / package / "py.typed").is_file()


def test_module_names_say_what_is_inside() -> None:
    """No module has a name that would fit any module."""
    modules = {path for path in _python_files() if path.stem in EMPTY_NAMES}
    packages = {
        path.parent
        for path in _python_files()
        if path.name == "__init__.py" and path.parent.name in EMPTY_NAMES
    }
    assert sorted(map(_relative, modules | packages)) == []


def test_modules_of_the_application_are_called_by_nouns() -> None:
    """A module is a thing; what is done with it stands in its functions."""
    modules = [path for folder in ("agents", "monitors") for path in (ROOT / folder).rglob("*.py")]
    verbs = [
        path for path in modules if path.stem.endswith(("ing", "ed")) and path.stem not in NOUNS
    ]
    assert sorted(map(_relative, verbs)) == []


@pytest.mark.slow
def test_every_test_says_which_promise_it_keeps() -> None:
    """Each test has a docstring, so that a failure names a broken promise."""
    silent = [
        f"{_relative(path)}:{node.lineno} {node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_the_project_stands_alone() -> None:
    """No file refers to a folder that only the project's first authors had."""
    offenders = [
        _relative(path)
        for path in _own_files()
        if any(mark.encode() in path.read_bytes() for mark in OUTSIDE)
    ]
    assert offenders == []


@pytest.mark.parametrize("package", ["otpy_monitors", "otpy_agents"])
def test_every_public_name_exists_and_is_explained(package: str) -> None:
    """Each name in `__all__` can be imported, and each class and function has its docstring."""
    facade = importlib.import_module(package)
    names: list[str] = list(facade.__all__)
    assert inspect.getdoc(facade), f"{package} has no docstring"
    assert [name for name in names if not hasattr(facade, name)] == []
    assert len(names) == len(set(names)), "a name is listed twice"
    values = {name: getattr(facade, name) for name in names}
    unexplained = [
        name
        for name, value in values.items()
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        if not value.__doc__
    ]
    assert unexplained == []


def _public_classes(path: Path) -> list[str]:
    return re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_no_public_class_has_the_name_of_another() -> None:
    """A name in an error stands for one class."""
    homes: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in _public_classes(path):
                homes.setdefault(name, []).append(_relative(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}

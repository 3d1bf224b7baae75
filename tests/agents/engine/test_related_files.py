"""Files that go with the target files."""

from __future__ import annotations

import pytest

from otpy_agents.engine.context.relations import related_files

FILES = (
    "app/__init__.py",
    "app/auth.py",
    "app/db/__init__.py",
    "app/db/session.py",
    "app/models.pyi",
    "lib/src/app/models.py",
    "other/models.py",
    "tests/test_auth.py",
    "web/auth.test.ts",
    "web/auth.ts",
    "web/lib/http.ts",
    "web/lib/index.ts",
    "web/style.css",
)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("app/auth.py", "import app.db.session", ["app/db/session.py"]),
        (
            "app/auth.py",
            "from app.db import session, gone",
            ["app/db/session.py", "app/db/__init__.py"],
        ),
        ("app/auth.py", "from . import models", ["app/models.pyi"]),
        ("app/db/session.py", "from ..auth import login", ["app/auth.py"]),
        ("app/db/session.py", "from .... import x\nfrom ...... import y", []),
        ("other/x.py", "import models", ["other/models.py"]),
        (
            "app/auth.py",
            "def f():\n  import os, json\n  from app import models",
            [*("app/models.pyi", "app/__init__.py")],
        ),
        ("app/auth.py", "from app import *", ["app/__init__.py"]),
        ("app/auth.py", "not python (", []),
        ("app/auth.py", "\0", []),
        ("app/auth.py", "(" * 5000, []),
        ("app/auth.py", "'\\d'", []),
        (
            "web/main.ts",
            "import { get } from './lib/http';\nimport '../web/style.css';",
            [*("web/lib/http.ts", "web/style.css")],
        ),
        ("web/main.ts", "import x from './lib'; import y from 'react';", ["web/lib/index.ts"]),
        ("web/main.c", '#include <web/auth.ts>\n#include "../../../etc/passwd"', ["web/auth.ts"]),
    ],
)
def test_imports_are_found(path: str, text: str, expected: list[str]) -> None:
    """They come in the order of the text; only files of the tree count."""
    files = tuple(one for one in FILES if "auth" not in one or one in expected)
    assert list(related_files({path: text}, files)) == expected


def test_namesakes_are_found() -> None:
    """A file, its tests and its translations have one name; the nearest comes first."""
    assert related_files({"web/auth.ts": ""}, FILES) == {
        "web/auth.test.ts": "named as web/auth.ts",
        "app/auth.py": "named as web/auth.ts",
        "tests/test_auth.py": "named as web/auth.ts",
    }


def test_a_target_is_not_its_own_relative() -> None:
    """Files that import each other stay targets, and each relation is named once."""
    targets = {"app/auth.py": "import app.models", "app/models.pyi": "import app.auth, app.db"}
    found = related_files(targets, ("app/auth.py", "app/db/__init__.py", "app/models.pyi"))
    assert found == {"app/db/__init__.py": "imported by app/models.pyi"}

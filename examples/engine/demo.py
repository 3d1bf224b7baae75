"""Plan, implement and review a small program with `otpy-agents engine`. No account is needed.

    python examples/engine/demo.py [FOLDER]

It makes a repository in FOLDER (a new temporary one if none is said). A planner proposes two
components, which are approved and worked off: the first fails its test, is told so, and passes;
then a reviewer reads what was made. The agent is scripted; change one line for a real one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

AGENT = Path(__file__).resolve().with_name("agent.py")

DOES = "cli: command\nargv: [{python}, {agent}, {role}]\n"
# For a real agent: DOES = "cli: claude:sonnet\n"

GATES = """gates:
  lint:
    command: [{python}, -m, tabnanny, .]
  test:
    command: [{python}, -m, unittest, -q]
    depends_on: [lint]
    env: {{PYTHONDONTWRITEBYTECODE: "1"}}
"""


def main() -> None:
    """Make the repository, and let the engine work in it."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="engine-demo-"))
    repository = folder / "calculator"
    make(repository)
    os.environ.setdefault("OTPY_STATE", str(folder / "state" / "runs.sqlite3"))
    os.environ.setdefault("OTPY_ENGINE_SANDBOX", "process")
    planned = engine(repository, "plan", "Write a calculator for reverse Polish notation")
    found = re.search(r"feat-\w+", planned)
    if found is None:
        sys.exit("the planner proposed nothing")
    engine(repository, "approve", found[0])
    engine(repository, "workflow", found[0])
    engine(repository, "run", "reviewer", "Review the calculator", "-t", "calculator.py")
    engine(repository, "status")
    engine(repository, "metrics")
    subprocess.run(["git", "log", "--oneline"], cwd=repository, check=True)
    print(f"Look at {repository}, and ask it: python main.py '2 3 4 * +'")


def make(repository: Path) -> None:
    """Make a repository with roles and gates of its own."""
    values = {"python": sys.executable, "agent": AGENT}
    roles = repository / ".supervisor" / "roles"
    roles.mkdir(parents=True)
    for role in ("planner", "implementer", "reviewer"):
        text = f"extends: {role}\n{DOES}".format(**values, role=role)
        (roles / f"{role}.yaml").write_text(text, encoding="utf-8")
    gates = GATES.format(**values)
    (repository / ".supervisor" / "gates.yaml").write_text(gates, encoding="utf-8")
    (repository / "README.md").write_text("# Calculator\n", encoding="utf-8")
    (repository / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git = ("git", "-c", "user.name=Demo", "-c", "user.email=demo@example.org")
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    subprocess.run([*git, "add", "-A"], cwd=repository, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], cwd=repository, check=True)


def engine(repository: Path, *words: str) -> str:
    """Run a command of the engine, show what it says, and return its standard output."""
    print("$ otpy-agents engine", *words, flush=True)
    command = [sys.executable, "-m", "otpy_agents", "engine", *words]
    done = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    main()

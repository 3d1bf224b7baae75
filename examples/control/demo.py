"""Five tasks on a small repository, worked off by `otpy-agents control`. No account is needed.

    python examples/control/demo.py [FOLDER]

It makes a repository in FOLDER (a new temporary one if none is said), gives a goal and five tasks,
and starts the loop. One task is right at once, one fails its tests and is fixed, one answers with
JSON, one asks a question and is told to decide, and one has a criterion that no rule can tell, so
that the agent is asked about it. Change one line to have a real agent do the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

AGENT = Path(__file__).resolve().with_name("agent.py")

DOES: dict[str, Any] = {
    "tool": "command",
    "command": [sys.executable, str(AGENT)],
}  # or: {"tool": "claude"}

TASKS: list[dict[str, Any]] = [
    {
        "task_id": "greet",
        "intent": "Add a greeting",
        "instructions": "Write greet.py with a function greet(name) that returns 'Hello, NAME!'.",
        "acceptance_criteria": ["greet.py defines the function greet"],
    },
    {
        "task_id": "tests",
        "intent": "Test the greeting",
        "instructions": "Write test_greet.py, with unittest; nobody and somebody are greeted.",
        "acceptance_criteria": [{"file": "test_greet.py", "contains": "unittest"}],
        "test_command": f"{sys.executable} -m unittest -q",
        "tests_required": True,
    },
    {
        "task_id": "survey",
        "intent": "List the public functions",
        "instructions": "Answer with the names of the public functions of greet.py.",
        "acceptance_criteria": [],
        "expected_json_schema": {"functions": "array"},
    },
    {
        "task_id": "command",
        "intent": "Add a command line",
        "instructions": "Let `python greet.py NAME` print the greeting.",
        "acceptance_criteria": [f"`{sys.executable} greet.py Ada` prints 'Hello, Ada!'"],
    },
    {
        "task_id": "readme",
        "intent": "Write the README",
        "instructions": "Say in README.md what the program does and how it is called.",
        "required_artifacts": ["README.md"],
        "acceptance_criteria": ["README.md explains how the greeting is called"],
    },
]


def main() -> None:
    """Make the repository, give the orders, and start the loop."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="control-demo-"))
    project = folder / "sandbox" / "greeter"
    project.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    file = folder / "tasks.json"
    file.write_text(json.dumps([{**task, **DOES} for task in TASKS], indent=2))
    os.environ.setdefault("OTPY_STATE", str(folder / "state" / "runs.sqlite3"))
    goal = ("--description", "A program that greets", "--project-id", "greeter", "--completed")
    for order in (
        ("init-state",),
        ("set-goal", *goal),
        ("enqueue", "--task-file", str(file)),
        ("resume",),
        ("start",),
        ("status",),
        ("audit", "--verify"),
    ):
        print("$ otpy-agents control", *order, flush=True)
        command = [sys.executable, "-m", "otpy_agents", "control", *order]
        done = subprocess.run(command, cwd=folder, check=False)
        if done.returncode:
            sys.exit(done.returncode)
    print(f"Look at {project}: the program, audit.log.jsonl and prompts.log.jsonl")


if __name__ == "__main__":
    main()

"""A scripted agent: it plays the planner, the implementer and the reviewer of `demo.py`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

STACK = '''"""A stack of numbers."""


def evaluate(text):
    """Return what an expression in reverse Polish notation comes to."""
    stack = []
    for word in text.split():
        if word in OPERATIONS:
            right, left = stack.pop(), stack.pop()
            stack.append(OPERATIONS[word](left, right))
        else:
            stack.append(float(word))
    return stack.pop()


OPERATIONS = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}
'''
WRONG = STACK.replace("left - right,", "right - left,")
TEST = """import unittest

from calculator import evaluate


class CalculatorTest(unittest.TestCase):
    def test_the_order_of_a_subtraction_counts(self):
        self.assertEqual(evaluate("5 3 -"), 2)

    def test_operations_nest(self):
        self.assertEqual(evaluate("2 3 4 * +"), 14)
"""
MAIN = """from calculator import evaluate

if __name__ == "__main__":
    import sys

    print(f"{evaluate(sys.argv[1]):g}")
"""


def main() -> None:
    """Do what the role says."""
    prompt = Path(os.environ["OTPY_PROMPT_FILE"]).read_text(encoding="utf-8")
    answer = {"planner": plan, "implementer": implement, "reviewer": review}[sys.argv[1]](prompt)
    print("```json")
    print(json.dumps(answer, indent=2))
    print("```")


def plan(_: str) -> dict[str, Any]:
    """Propose two phases."""
    evaluator = {
        "id": "evaluator",
        "title": "evaluate() computes reverse Polish notation",
        "files": ["calculator.py", "test_calculator.py"],
    }
    command = {
        "id": "command",
        "title": "python main.py 'EXPRESSION' prints the result",
        "files": ["main.py"],
    }
    phases = [
        {"title": "The arithmetic", "components": [evaluator]},
        {"title": "The command", "components": [command]},
    ]
    return {"features": [{"title": "A calculator", "phases": phases}]}


def implement(prompt: str) -> dict[str, Any]:
    """Write a component; the first time with a mistake that its tests find."""
    if "evaluate() computes" in prompt:
        told = "The gate test failed" in prompt
        Path("calculator.py").write_text(STACK if told else WRONG, encoding="utf-8")
        Path("test_calculator.py").write_text(TEST, encoding="utf-8")
        files, change = ["calculator.py", "test_calculator.py"], "evaluate() and its tests"
    else:
        Path("main.py").write_text(MAIN, encoding="utf-8")
        files, change = ["main.py"], "a command that prints what evaluate() returns"
    return {"status": "completed", "files_modified": files, "changes": [change], "next_steps": []}


def review(_: str) -> dict[str, Any]:
    """Read what is there."""
    issues: list[dict[str, Any]] = []
    if '"/"' not in Path("calculator.py").read_text(encoding="utf-8"):
        found = "there is no division"
        issues.append({"severity": "info", "file": "calculator.py", "line": 17, "message": found})
    return {"status": "approved", "issues": issues, "summary": "small, clear and tested"}


if __name__ == "__main__":
    main()

"""A scripted agent: it does the tasks of `demo.py`, as its prompt says, and makes some mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

GREET = """def greet(name):
    return f"Hello, {name}!"
"""
WRONG_TEST = """import unittest

from greet import greet


class GreetTest(unittest.TestCase):
    def test_somebody(self):
        self.assertEqual(greet("Ada"), "Hello Ada")
"""
COMMAND = """

if __name__ == "__main__":
    import sys

    print(greet(sys.argv[1]))
"""


def main() -> None:
    """Do what the prompt says."""
    prompt = os.environ["OTPY_PROMPT"]
    found = re.search(r"## Task (\S+):", prompt)
    if found is None:  # a question about a criterion
        print("Yes, README.md says it in its second line.")
        return
    print(DOES[found[1]](prompt))


def greet(_: str) -> str:
    """Write the greeting."""
    Path("greet.py").write_text(GREET)
    return "greet.py is there."


def tests(prompt: str) -> str:
    """Write a test, which is wrong at first."""
    test = WRONG_TEST
    if "was checked, and this is not fulfilled" in prompt:
        test = test.replace("Hello Ada", "Hello, Ada!")
    Path("test_greet.py").write_text(test)
    return "The greeting is tested."


def survey(_: str) -> str:
    """Answer with JSON."""
    return '{"functions": ["greet"]}'


def command(prompt: str) -> str:
    """Ask at first, though nobody answers."""
    if "It ended with a question" not in prompt:
        return "Should I use argparse or sys.argv?"
    Path("greet.py").write_text(GREET + COMMAND)
    return "I took sys.argv, the simplest."


def readme(_: str) -> str:
    """Write the README."""
    Path("README.md").write_text("# Greeter\n\n`python greet.py NAME` greets NAME.\n")
    return "README.md is there."


DOES = {"greet": greet, "tests": tests, "survey": survey, "command": command, "readme": readme}


if __name__ == "__main__":
    main()

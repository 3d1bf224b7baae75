"""`python -m otpy` is the command `otpy`."""

from __future__ import annotations

from otpy.cli import main

main()

"""Fail every time, so that the limit of restarts is used up."""

from __future__ import annotations

import sys

print("still impossible", flush=True)
sys.exit(7)

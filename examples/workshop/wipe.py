"""Pretend to do what the work list forbids; it does nothing at all."""

from __future__ import annotations

import time

print("pretending", flush=True)
time.sleep(3600)

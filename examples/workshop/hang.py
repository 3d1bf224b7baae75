"""Say one thing and then nothing for an hour."""

from __future__ import annotations

import time

print("thinking", flush=True)
time.sleep(3600)

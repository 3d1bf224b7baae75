"""Talk without end, until the budget of output is used up."""

from __future__ import annotations

import time

while True:
    print("and another thing: " + "bla " * 100, flush=True)
    time.sleep(0.005)

"""Exit with 0 and leave two processes running: one in the group, one in a session of its own."""

from __future__ import annotations

import subprocess
import sys

SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]


def main() -> None:
    """Start both, say who they are, and do not wait."""
    near = subprocess.Popen(SLEEP)
    far = subprocess.Popen(SLEEP, start_new_session=True)
    print(f"left {near.pid} in the group and {far.pid} in a session of its own", flush=True)


if __name__ == "__main__":
    main()
